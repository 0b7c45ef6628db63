import t from 'tap';
import { wireText } from '../../../../lib/policy/bytes.ts';
import { ParameterNames } from '../../../../lib/policy/decide/asked-parameters.ts';
import { foldName, QueryNames } from '../../../../lib/policy/decide/query-readings.ts';
import type { PortPolicy, RequestDecision, RequestFacts } from '../../../../lib/policy/decision.ts';
import { refusalOf } from '../../../../lib/policy/refusals.ts';
import { readLine } from '../../../../lib/records/line.ts';
import { type Answer, answerTo } from '../../../../lib/replay/answer.ts';
import { DecisionRecords } from '../../../../lib/telemetry/decision-records.ts';
import { ip, type Loaded, load, open, plainFacts, route, server } from '../../../support/policy-fixtures.ts';
import fc from '../../../support/properties.ts';

/** What is told of a query: nothing that decisions do not look at, and all that they do. */

const long = 'x'.repeat(8200);
const rows: readonly (readonly [
  names: readonly string[],
  query: string,
  told: string,
  of: readonly string[] | 'whole',
])[] = [
  [['id'], '', '', 'whole'],
  [['id'], 'id=1', 'id=1', 'whole'],
  [['id'], '&id=1&', '&id=1&', 'whole'],
  [['id'], 'id=1&token=s', 'id=1', ['id']],
  [['id'], 'token=s', '', ['id']],
  [['id', 'b'], 'b=2&token=s&id=1&b', 'b=2&id=1&b', ['b', 'id']],
  [['id'], 'ID=1&token=s', 'ID=1', ['id']],
  [['id'], '%69%64=%2&token=s', '%69%64=%2', ['id']],
  [['id'], 'id[]=1&id[x]=2&token[id]=s', 'id[]=1&id[x]=2', ['id']],
  [['id'], '?id=1&+id=2&token=s', '?id=1&+id=2', ['id']],
  [['a.b'], 'a_b=1&a+b=2&ab=3', 'a_b=1&a+b=2', ['a.b']],
  [['id'], 'x=1;id=2&token=s;t', 'x=1;id=2', ['id']],
  [['id'], 'id2=1&xid=2', '', ['id']],
  [['id'], 'id=1#x&token=s', '#', []],
  [[], 'a#', '#', []],
  [['id'], '#', '#', 'whole'],
  [[], 'token=s', '', []],
  [['id'], `id=${long}`, '', []],
  [['id'], 'a&'.repeat(257), '', []],
  [['id'], 'id&'.repeat(33), '', []],
  [['id'], 'id&'.repeat(32), 'id&'.repeat(32), 'whole'],
];
t.test('what is told', async (t) => {
  for (const [names, query, told, of] of rows) {
    const title = `${names} of ${query.slice(0, 40)}`;
    const expected = of === 'whole' ? { kind: 'whole', query: told } : { kind: 'parts', query: told, names: of };
    t.same(new ParameterNames(names).told(query), expected, title);
  }
});

t.test('what somebody who was told some parameters does not know', async (t) => {
  const asked = new ParameterNames(['id', 'a.b']);
  t.equal(asked.beyond(['ID', 'a_b', 'x']), null);
  t.equal(asked.beyond(['id']), 'a.b');
  t.equal(asked.beyond([]), 'a.b');
  t.equal(new ParameterNames([]).beyond([]), null);
});

const client = { ip: ip('10.20.0.5'), tls: { kind: 'none', reason: 'no_tls_from_remote' } } as const;
/** As it is on the wire, a character for each byte; a target whose bytes are no UTF-8 is not decided at all. */
const accented = Buffer.from('é').toString('latin1');
const names = ['id', 'ID', 'a.b', 'a_b', 'x[]', accented, 'b', 'q;r'] as const;
const values = ['1', '2', 'a b', accented, '1;b=2'] as const;
const spelled = [
  'id',
  'Id',
  '%69d',
  '?id',
  'id[0]',
  'a.b',
  'a+b',
  'A%5fb',
  'x',
  'x[]',
  'x%5B%5D',
  '\xc3\xa9',
  '%C3%A9',
  '%c3%89',
];
const strange = ['b', 'q;r', 'q%3br', 'r', 'c', '', '%', '%zz', '%e9', '%ff', '=', '?', '[', 'token'];

/** Routes of one Server; the last match of each is open, refused, redirected or changes the request. */
const policies = fc
  .array(
    fc.record({
      path: fc.constantFrom('/', '/p', '/p/q'),
      params: fc.array(fc.tuple(fc.constantFrom(...names), fc.constantFrom(...values), fc.boolean()), { maxLength: 2 }),
      end: fc.constantFrom('open', 'open', 'shut', 'redirect', 'change'),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((routes) => {
    const texts = routes.map(({ path, params, end }, i) => {
      const given = params.map(([name, value, isPattern]) =>
        JSON.stringify({
          name,
          type: isPattern ? 'RegularExpression' : 'Exact',
          value: isPattern ? `${value}|.+3` : value,
        }),
      );
      const unique = given.filter((_, at) => params.findIndex(([name]) => name === params[at]?.[0]) === at);
      const match = `{path: {value: ${path}}, queryParams: [${unique.join(', ')}]}`;
      return `${route(`r${i}`, match, filters[end])}${end === 'shut' ? '' : open(`r${i}`)}`;
    });
    const loaded = load(`${server()}${texts.join('')}`);
    const fault = loaded.problems.find(({ severity }) => severity === 'error');
    if (fault !== undefined) throw new Error(fault.message);
    return loaded;
  });
const filters = {
  open: '',
  shut: '',
  redirect: ', filters: [{type: RequestRedirect, requestRedirect: {hostname: elsewhere.example}}]',
  change: ', filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: a}]}}]',
} as const;

const parts = fc
  .array(
    fc.tuple(
      fc.constantFrom(...spelled, ...strange),
      fc.constantFrom('=', '=', '=', ''),
      fc.constantFrom('1', '2', 'a+b', 'a%20b', '%31', '\xc3\xa9', '%e9', '3', '1;b=2', '', '#', '%', 'y='),
    ),
    { maxLength: 6 },
  )
  .chain((pairs) =>
    fc
      .array(fc.constantFrom('&', '&', '&', ';', '&&'), { minLength: 6, maxLength: 6 })
      .map((between) => pairs.map((pair, i) => `${i === 0 ? '' : between[i]}${pair.join('')}`).join('')),
  );
const queries = fc
  .tuple(parts, fc.constantFrom(...Array(12).fill(1), 33, 90))
  .map(([text, times]) => Array(times).fill(text).join('&'));

interface Outcome {
  readonly verdict: string;
  readonly status: number | null;
  readonly audit: boolean;
  readonly route: unknown;
  readonly authz: unknown;
  readonly reason: string;
}

function decided(
  { authorizer }: Loaded,
  facts: RequestFacts,
): { policy: PortPolicy; decision: RequestDecision; outcome: Outcome } {
  const policy = authorizer.port(8080);
  const decision = authorizer.request(policy, client, facts);
  const outcome = {
    verdict: decision.kind,
    status: refusalOf(decision)?.http ?? null,
    audit: 'audit' in decision && decision.audit,
    route: 'route' in decision ? decision.route : null,
    authz: 'authz' in decision ? decision.authz : null,
    reason: authorizer.requestReasons(policy, client, facts, decision).reason,
  };
  return { policy, decision, outcome };
}

function outcomeOf(answer: Answer): Outcome | null {
  if (answer.kind === 'unknown') return null;
  const { verdict, status, audit, route, authz } = answer;
  return { verdict, status, audit, route, authz, reason: answer.reasons().reason };
}

function recorded(policy: PortPolicy, decision: RequestDecision, facts: RequestFacts): string {
  const lines: string[] = [];
  const sink = { write: (text: string) => void lines.push(text) };
  const fixed = { which: 'all', intervalMs: Number.POSITIVE_INFINITY, hash: false, asked: null } as const;
  const records = new DecisionRecords({ ...fixed, sink, dropped: () => 0 });
  const { method, path, host } = facts;
  const reasons = () => ({ reason: '', candidates: [] });
  const at = records.of({ client, clientPort: 1, targetIp: '10.1.0.9', targetPort: 8080 });
  records.request(at, policy, decision, { method, path, host, version: 'HTTP/1.1', facts, reasons });
  return lines.join('');
}

/** Parts in which no reading finds a name: they are not to be told. */
function unasked(query: string, folded: ReadonlySet<string>): string[] {
  const decode = (text: string): string =>
    Buffer.from(
      text
        .replace(/\+/g, ' ')
        .replace(/%([0-9a-f]{2})/gi, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16))),
      'latin1',
    ).toString('latin1');
  const isAsked = (pair: string): boolean => folded.has(foldName(decode(pair.split('=')[0] ?? '')));
  return query.split('&').filter((part) => part !== '' && ![part, ...part.split(';')].some(isAsked));
}

t.test('a record is decided like the request, by its own policy and by others', async (t) => {
  const seen = new Map<string, number>();
  const count = (what: string): void => void seen.set(what, (seen.get(what) ?? 0) + 1);
  const property = fc.property(
    policies,
    policies,
    fc.array(fc.tuple(fc.constantFrom('/', '/p', '/P', '/p/', '/p/q;x', '/p//q', '/a#b'), queries), {
      minLength: 20,
      maxLength: 20,
    }),
    (own, other, requests) => {
      const asked = own.authorizer.port(8080).asks.query;
      const folded = new Set(asked.names.map(foldName));
      const isBeyond = other.authorizer.port(8080).asks.query.names.some((name) => !folded.has(foldName(name)));
      for (const [path, query] of requests) {
        const facts = { ...plainFacts, path, query };
        const { policy, decision, outcome } = decided(own, facts);
        const text = recorded(policy, decision, facts);
        const line = readLine(text.trim());
        if (line.kind !== 'recorded') throw new Error(text);
        const isReadable = query.includes('#') || typeof new QueryNames(asked.names).read(query) !== 'string';

        const again = outcomeOf(answerTo(own.authorizer, line.record, () => 8080));
        same(again, isReadable || asked.names.length === 0 ? outcome : null, text);
        count(
          again === null ? 'unreadable' : `${again.verdict}${line.record.parameters.length > 0 ? ', in parts' : ''}`,
        );

        const others = outcomeOf(answerTo(other.authorizer, line.record, () => 8080));
        const isTold = isReadable && (!isBeyond || query.includes('#') || !line.record.omits.includes('query'));
        if (others !== null || isTold) same(others, decided(other, facts).outcome, text);
        count(others === null ? 'unknown to another' : 'known to another');

        const { question } = line.record;
        const toldParts = wireText(question.path ?? '')
          .split('?')
          .slice(1)
          .join('?')
          .split('&');
        if (query.includes('#')) same(toldParts, ['#'], text);
        else
          for (const part of unasked(query, folded))
            if (toldParts.includes(part)) throw new Error(`told ${part}: ${text}`);
      }
    },
  );
  fc.assert(property, { numRuns: 250 });
  t.comment(JSON.stringify(Object.fromEntries(seen)));
  for (const verdict of ['permit', 'deny', 'no-route', 'redirect', 'invalid']) {
    t.ok((seen.get(verdict) ?? 0) > 0, verdict);
    t.ok((seen.get(`${verdict}, in parts`) ?? 0) > 0, `${verdict}, of a query in parts`);
  }
  for (const what of ['unreadable', 'unknown to another', 'known to another']) t.ok((seen.get(what) ?? 0) > 0, what);
});

function same(found: unknown, expected: unknown, text: string): void {
  const [a, b] = [found, expected].map((each) => JSON.stringify(each));
  if (a !== b) throw new Error(`${text}was ${b}, became ${a}`);
}
