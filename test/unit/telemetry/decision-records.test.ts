import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { ParameterNames } from '../../../lib/policy/decide/asked-parameters.ts';
import type { PortPolicy, RequestDecision } from '../../../lib/policy/decision.ts';
import type { ConnectionFacts } from '../../../lib/proxy/connection-facts.ts';
import type { RecordedFacts } from '../../../lib/proxy/recorder.ts';
import { readRecords } from '../../../lib/records/read.ts';
import type { DecisionRecord } from '../../../lib/records/record.ts';
import { DecisionRecords, type DecisionRecordsOptions } from '../../../lib/telemetry/decision-records.ts';
import { Cell } from '../../../lib/telemetry/series.ts';
import * as given from './fixtures.ts';

/** What is written of a decision: by the schema, in ASCII, read again as it was, and bounded. */

const schemaFile = join(resolve(import.meta.dirname, '../../..'), 'lib/records/decision.schema.json');
const schema = z.fromJSONSchema(JSON.parse(readFileSync(schemaFile, 'utf8')));

const { facts, portPolicy, requestLog } = given;

interface Kept {
  readonly records: DecisionRecords;
  readonly lines: string[];
  nowMs: number;
}

function keep(over: Partial<DecisionRecordsOptions> = {}): Kept {
  const lines: string[] = [];
  const sink = { write: (text: string) => void lines.push(text) };
  const fixed = {
    which: 'all',
    intervalMs: Number.POSITIVE_INFINITY,
    hash: false,
    asked: null,
    dropped: () => 0,
  } as const;
  const kept: Kept = {
    records: new DecisionRecords({ ...fixed, sink, nowMs: () => kept.nowMs, ...over }),
    lines,
    nowMs: Date.UTC(2026, 10, 20, 14),
  };
  return kept;
}

function ask(
  { records }: Kept,
  decision: RequestDecision,
  asked: Partial<RecordedFacts> = {},
  over: { readonly policy?: PortPolicy; readonly facts?: ConnectionFacts; readonly version?: string } = {},
): void {
  const log = requestLog();
  const version = over.version ?? 'HTTP/1.1';
  const connection = records.of(over.facts ?? facts());
  const whole = { ...log, version, facts: { ...log.facts, ...asked } };
  records.request(connection, over.policy ?? portPolicy(), decision, whole);
}

async function readBack(lines: readonly string[]): Promise<DecisionRecord[]> {
  const read: DecisionRecord[] = [];
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(lines.join(''), 'latin1');
  }
  await readRecords([{ name: 'log', bytes: bytes() }], {
    record: (record) => void read.push(record),
    bad: ({ message }) => {
      throw new Error(message);
    },
  });
  return read;
}

const asking = portPolicy({
  asks: { headers: ['x-a', 'x-b'], query: new ParameterNames(['a', 'b']), spells: () => false },
});
const headers = new Map([['x-a', ['1', '\xe9\x1b']]]);
const header = (name: string): readonly string[] => headers.get(name) ?? [];
/** `undefined`: the line has no such field. */
const kinds: readonly (readonly [name: string, make: (kept: Kept) => void, line: object])[] = [
  [
    'permit',
    (kept) => ask(kept, given.permit),
    { verdict: 'permit', method: 'GET', path: '/metrics', host: 'web:8080' },
  ],
  ['without TLS', (kept) => ask(kept, given.permit), { tls: undefined, identity: undefined, reason: undefined }],
  [
    'by an identity',
    (kept) => ask(kept, given.permit, {}, { facts: facts({ tls: given.mesh('a.b') }) }),
    { identity: 'a.b', tls: undefined },
  ],
  [
    'TLS alone',
    (kept) => ask(kept, given.permit, {}, { facts: facts({ tls: given.mesh(null) }) }),
    { tls: 'anonymous' },
  ],
  ['audit', (kept) => ask(kept, given.audited), { audit: true, authz: { name: 'audit' } }],
  [
    'deny',
    (kept) => ask(kept, given.deny),
    { verdict: 'deny', status: 403, route: given.route, reason: /^no authorization/ },
  ],
  ['gRPC', (kept) => ask(kept, given.deny, { grpc: true }, { version: 'HTTP/2.0' }), { protocol: 'grpc', status: 200 }],
  ['HTTP/2', (kept) => ask(kept, given.noRoute, {}, { version: 'HTTP/2.0' }), { protocol: 'http2', status: 404 }],
  ['invalid', (kept) => ask(kept, given.invalid()), { status: 400, reason: 'the path reads as /a and as /b' }],
  ['redirect', (kept) => ask(kept, given.redirect), { verdict: 'redirect', status: 302 }],
  ['limit', (kept) => ask(kept, given.limited), { verdict: 'rate-limited', status: 429 }],
  ['content', (kept) => ask(kept, given.permit, { carries: 'body' }), { carries: 'body' }],
  [
    'a query that nobody asks for',
    (kept) => ask(kept, given.permit, { query: 'token=1' }),
    { path: '/metrics', omits: ['query'] },
  ],
  [
    'one with a fragment',
    (kept) => ask(kept, given.invalid(), { query: 'a#b' }),
    { path: '/metrics?#', omits: ['query'], parameters: undefined },
  ],
  [
    'a query of which nobody asks for all',
    (kept) => ask(kept, given.permit, { query: 'x=1&A[]=%61&&token=1&c;b=2' }, { policy: asking }),
    { path: '/metrics?A[]=%61&c;b=2', omits: ['query'], parameters: ['a', 'b'] },
  ],
  [
    'a query that no rule could examine',
    (kept) => ask(kept, given.invalid(), { query: `a=${'x'.repeat(9000)}` }, { policy: asking }),
    { path: '/metrics', omits: ['query'], parameters: undefined },
  ],
  [
    'what routes look at',
    (kept) => ask(kept, given.permit, { query: 'a=b', header }, { policy: asking }),
    {
      path: '/metrics?a=b',
      omits: undefined,
      parameters: undefined,
      headers: { 'x-a': ['1', '\udce9\u001b'], 'x-b': [] },
    },
  ],
  ['odd names', (kept) => ask(kept, given.permit, { oddNames: ['x_a'] }), { names: ['x_a'] }],
  ['UTF-8', (kept) => ask(kept, given.permit, { path: '/\xc3\xa9\u007f' }), { path: '/é\u007f' }],
  ['what is no UTF-8', (kept) => ask(kept, given.permit, { path: '/\xff\xc3\xa9' }), { path: '/\udcff\udcc3\udca9' }],
  [
    'a path without end',
    (kept) => ask(kept, given.permit, { path: `/${'x'.repeat(20_000)}` }),
    { path: undefined, omits: ['path'] },
  ],
  [
    'CONNECT',
    (kept) => ask(kept, given.permit, { method: 'CONNECT', path: '', host: 'a:1', carries: 'upgrade' }),
    { path: 'a:1' },
  ],
  [
    'bytes',
    ({ records }) => records.connection(records.of(facts()), 'tcp', portPolicy({ protocol: 'tls' }), given.tcpAudited),
    { protocol: 'tcp', declared: 'tls', verdict: 'permit', audit: true, method: undefined },
  ],
  [
    'a connection that is refused',
    ({ records }) =>
      records.connection(records.of(facts()), 'tcp', portPolicy(), null, () => ({ reason: 'why', candidates: [] })),
    { verdict: 'deny', reason: 'why', authz: undefined },
  ],
  [
    'at once',
    ({ records }) => {
      const { client, clientPort, targetIp, targetPort } = facts();
      const refusal = {
        clientIp: client.ip,
        clientPort,
        targetIp,
        targetPort,
        policies: [],
        connection: 'new',
      } as const;
      records.networkRefused(portPolicy(), refusal, () => ({ reason: 'why', candidates: [] }));
    },
    { protocol: 'accept', verdict: 'deny', client: '10.1.2.3' },
  ],
];

t.test('a line of each kind', async (t) => {
  for (const [name, make, expected] of kinds) {
    const kept = keep();
    make(kept);
    t.equal(kept.lines.length, 1, name);
    const [line = ''] = kept.lines;
    t.match(
      line,
      /^\{"decision":1,"time":"2026-11-20T14:00:00\.000Z","port":8080,"client":"10\.1\.2\.3"[\x20-\x7e]*\}\n$/,
      name,
    );
    const parsed = schema.parse(JSON.parse(line)) as Record<string, unknown>;
    t.match(
      parsed,
      { decision: 1, ...Object.fromEntries(Object.entries(expected).filter(([, each]) => each !== undefined)) },
      name,
    );
    for (const [field, each] of Object.entries(expected))
      if (each === undefined) t.notOk(field in parsed, `${name}: ${field}`);
    const [read] = await readBack(kept.lines);
    const { path, headers: values } = parsed;
    t.same(read?.question.path, path, name);
    t.same(read?.question.headers, values, name);
  }
});

t.test('refused alone', async (t) => {
  const kept = keep({ which: 'refused' });
  for (const decision of [given.permit, given.audited, given.redirect]) ask(kept, decision);
  kept.records.connection(kept.records.of(facts()), 'tcp', portPolicy(), given.tcpPermit);
  t.same(kept.lines, []);
  for (const decision of [given.deny, given.noRoute, given.limited, given.invalid()]) ask(kept, decision);
  t.equal(kept.lines.length, 4);
});

t.test('the same again on one connection, and what is only nearly the same', async (t) => {
  const kept = keep();
  const connection = kept.records.of(facts());
  const log = requestLog();
  const rows: readonly Partial<RecordedFacts>[] = [
    {},
    {},
    { path: '/b' },
    { method: 'PUT' },
    { host: 'c' },
    { query: 'd#' },
    { carries: 'body' },
    { oddNames: ['a_b'] },
    {},
  ];
  for (const row of rows) {
    const whole = { ...log, facts: { ...log.facts, ...row } };
    kept.records.request(connection, portPolicy(), given.permit, whole);
  }
  const [first, second, ...others] = kept.lines;
  t.equal(first, second);
  t.equal(others.pop(), first);
  t.equal(new Set([first, ...others]).size, others.length + 1);
});

t.test('a connection keeps no long request for the next one', async (t) => {
  const kept = keep();
  const connection = kept.records.of(facts());
  const log = requestLog();
  for (const path of ['/short', `/${'x'.repeat(8000)}`]) {
    kept.records.request(connection, portPolicy(), given.permit, { ...log, facts: { ...log.facts, path } });
    t.equal(connection.last === null, path.length > 4096);
  }
  t.equal(kept.lines.length, 2);
});

t.test('equal decisions of an interval are one line', async (t) => {
  const kept = keep({ intervalMs: 60_000 });
  ask(kept, given.permit);
  kept.nowMs += 1000;
  ask(kept, given.permit);
  ask(kept, given.deny);
  t.same(kept.lines, []);
  kept.records.flush();
  t.match(
    kept.lines.map((line) => schema.parse(JSON.parse(line))),
    [
      { verdict: 'permit', count: 2, first: '2026-11-20T14:00:00.000Z', time: '2026-11-20T14:00:01.000Z' },
      { verdict: 'deny', time: '2026-11-20T14:00:01.000Z' },
    ],
  );
  kept.records.flush();
  t.equal(kept.lines.length, 2, 'nothing is written twice');
});

t.test('too many different ones, and what the sink gives up, are said', async (t) => {
  let dropped = 0;
  const kept = keep({ intervalMs: 60_000, dropped: () => dropped });
  for (let i = 0; i < 1500; i++) ask(kept, given.permit, { path: `/${i}` });
  kept.records.flush();
  t.equal(kept.lines.length, 1001);
  t.match(schema.parse(JSON.parse(kept.lines.at(-1) ?? '')), { lost: 500 });
  const long = keep({ intervalMs: 60_000 });
  for (let i = 0; i < 500; i++) ask(long, given.permit, { path: `/${i}${'x'.repeat(10_000)}` });
  long.records.flush();
  t.ok(long.lines.join('').length < 2 * 1024 * 1024, 'nor do long ones fill the memory');
  const sink = keep({ dropped: () => dropped });
  dropped = 3;
  ask(sink, given.permit);
  ask(sink, given.permit);
  t.match(JSON.parse(sink.lines[0] ?? ''), { lost: 3 });
  t.equal(sink.lines.length, 3);
});

t.test('a flood of refusals is counted rather than written, and what is not counted is said', async (t) => {
  const rows: readonly [what: string, path: (i: number) => string, ip: (i: number) => string, lost: boolean][] = [
    ['the same, of one client', () => '/x', () => '10.1.2.3', false],
    ['the same, of many clients', () => '/x', (i) => `10.1.${i >> 8}.${i & 255}`, true],
    ['long and different, of one client', (i) => `/${i}${'x'.repeat(4000)}`, () => '10.1.2.3', true],
    ['of control bytes', (i) => `/${i}${'\x01'.repeat(16_000)}`, (i) => `10.1.${i >> 8}.${i & 255}`, true],
  ];
  for (const intervalMs of [Number.POSITIVE_INFINITY, 10_000]) {
    for (const [what, path, ip, isLost] of rows) {
      const kept = keep({ intervalMs });
      const each = 20_000;
      for (let i = 0; i < each; i++) {
        ask(kept, given.deny, { path: path(i) }, { facts: facts({ ip: ip(i) }) });
        // A minute in all.
        kept.nowMs += 3;
        if (i % 5000 === 4999) kept.records.flush();
      }
      const written = kept.lines.join('').length;
      t.ok(written < 2_000_000, `${what}: ${written} bytes a minute`);
      const read = kept.lines.map((line) => JSON.parse(line) as { count?: number; lost?: number });
      const lost = read.reduce((sum, { lost = 0 }) => sum + lost, 0);
      const counted = read.reduce((sum, line) => sum + (line.lost === undefined ? (line.count ?? 1) : 0), 0);
      t.equal(counted + lost, each, `${what}: all of them are said`);
      t.equal(lost > 0, isLost, what);
    }
  }
  const allowed = keep();
  for (let i = 0; i < 5000; i++) ask(allowed, given.permit, { path: `/${i}` });
  t.equal(allowed.lines.length, 5000, 'what was let in is written as ever');
});

t.test('of a flood another client has its records one by one', async (t) => {
  const kept = keep();
  for (let i = 0; i < 5000; i++) ask(kept, given.deny, { path: `/${i}` });
  ask(kept, given.deny, {}, { facts: facts({ ip: '10.1.2.4' }) });
  t.match(kept.lines.at(-1), /10\.1\.2\.4/);
  t.match(JSON.parse(kept.lines.at(-2) ?? ''), { lost: /\d+/ }, 'behind what is lost of the flood');
});

t.test('a line that says what is lost may be lost itself', async (t) => {
  const lines: string[] = [];
  let [dropped, isFull] = [0, true];
  const write = (text: string): void => {
    if (isFull) dropped++;
    else lines.push(text);
  };
  const kept = keep({ sink: { write }, dropped: () => dropped });
  const cells = { made: new Cell({}), lost: new Cell({}) };
  kept.records.cells = cells;
  for (let i = 0; i < 3; i++) ask(kept, given.permit);
  isFull = false;
  ask(kept, given.permit);
  t.match(JSON.parse(lines[0] ?? ''), { lost: 3 }, 'and the next says so');
  t.equal(lines.length, 2);
  t.same([cells.made.value, cells.lost.value], [4, 3], 'it counts as no decision');
});

t.test('who asks for the record is not in it for that', async (t) => {
  const kept = keep({ asked: { port: 4191, path: '/decisions' } });
  const rows = [
    [4191, '/decisions', 0],
    [4191, '/metrics', 1],
    [4191, '/decisions/', 1],
    [8080, '/decisions', 1],
  ] as const;
  for (const decision of [given.permit, given.deny]) {
    for (const [targetPort, path, written] of rows) {
      const before = kept.lines.length;
      ask(kept, decision, { path }, { facts: facts({ targetPort }) });
      t.equal(kept.lines.length - before, written, `${decision.kind} ${targetPort} ${path}`);
    }
  }
  t.equal(kept.records.tally().counted.length, 6, 'nor is it counted');
});

t.test('hashed values', async (t) => {
  const kept = keep({ hash: true });
  const policy = portPolicy({ asks: { headers: ['x-a'], query: new ParameterNames([]), spells: () => false } });
  ask(kept, given.permit, { header: () => ['secret'] }, { policy });
  const { headers, salt } = schema.parse(JSON.parse(kept.lines[0] ?? '')) as { headers: object; salt: string };
  t.match(salt, /^[0-9a-f]{32}$/);
  t.same(headers, { 'x-a': [createHmac('sha256', salt).update('secret').digest('hex').slice(0, 32)] });
});
