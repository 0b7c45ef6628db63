import t from 'tap';
import { besideRecorder } from '../../../../lib/app/candidate/beside-recorder.ts';
import { mostDisagreements } from '../../../../lib/app/candidate/disagreements.ts';
import { CandidateWatch } from '../../../../lib/app/candidate/watch.ts';
import { createAuthorizer } from '../../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../../lib/policy/compile/compile.ts';
import type { PolicyIndex } from '../../../../lib/policy/decide/policy-index.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import type { ConnectionFacts } from '../../../../lib/proxy/connection-facts.ts';
import type { ConnectionScope, RecordedFacts, Recorder, RequestLog } from '../../../../lib/proxy/recorder.ts';
import { createLog } from '../../../../lib/telemetry/log.ts';
import { createTelemetry } from '../../../../lib/telemetry/metrics.ts';
import { parseExposition } from '../../../support/metrics.ts';
import { document, ip, plainFacts, route, server, sources, workload } from '../../../support/policy-fixtures.ts';
import { until } from '../../../support/until.ts';

/*
 * What the watch does by itself: what comes again, faults of the candidate, its share of time, bounds. What it says of each
 * verdict is in test/e2e/candidate/, with a real proxy.
 */

function indexOf(text: string): PolicyIndex {
  return compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, workload()).index;
}

const openText = server('accessPolicy: all-unauthenticated');
const shutText = server('accessPolicy: deny');
const limitText = `${openText}---\n${document(
  'HTTPLocalRateLimitPolicy',
  'limit',
  'targetRef: {group: policy.linkerd.io, kind: Server, name: web}\n  total: {requestsPerSecond: 1}',
)}`;

/** Counts how often it is asked. */
function counting(index: PolicyIndex): { readonly index: PolicyIndex; asked(): number } {
  let asked = 0;
  const { isolation } = index;
  const admits: typeof isolation.admits = (port, ip) => {
    asked++;
    return isolation.admits(port, ip);
  };
  return { index: besides(index, admits), asked: () => asked };
}

function besides(index: PolicyIndex, admits: PolicyIndex['isolation']['admits']): PolicyIndex {
  const { isolation } = index;
  const other = { ...isolation, admits, reasons: isolation.reasons.bind(isolation) };
  return { port: (port) => index.port(port), servers: index.servers, isolation: other as PolicyIndex['isolation'] };
}

function stage(candidate: PolicyIndex | null, inForce = indexOf(openText)) {
  const lines: string[] = [];
  const log = createLog({ level: 'warn', format: 'json', destination: { write: (line) => lines.push(line) } });
  let nowMs = 1000;
  const build = { version: '0', gitSha: '', date: '' };
  const telemetry = createTelemetry({ log: log.logger, accessLog: null, build, processStart: 0, now: () => nowMs });
  const enforced = createAuthorizer({ nowMs: () => nowMs });
  enforced.swap(inForce);
  const lastMs = new Float64Array(1);
  const watch = new CandidateWatch({
    ...{ enforced, lastMs, nowMs: () => nowMs },
    ...{ counts: telemetry.candidateCounts(), lines: telemetry.lines },
  });
  if (candidate !== null) watch.swap(candidate, 1);
  const scope = besideRecorder(telemetry.recorder, watch).connection(facts());
  return {
    ...{ watch, scope, enforced, lastMs, lines, telemetry },
    pass(milliseconds: number) {
      nowMs += milliseconds;
    },
    /** As the pipeline does, which keeps what it has decided. */
    ask(request: RecordedFacts, kept = true, version = 'HTTP/1.1') {
      const policy = enforced.port(8080);
      const { client } = facts();
      const known = request as RecordedFacts & { was?: ReturnType<typeof enforced.request> };
      const decision = (kept ? known.was : undefined) ?? enforced.request(policy, client, request);
      known.was = decision;
      scope.requestDecided(policy, decision, { ...logOf(request), version });
    },
    async counted(labels: Record<string, string> = {}) {
      const { body } = await telemetry.exposition();
      return parseExposition(body).sum('sallyport_candidate_decisions_total', labels);
    },
  };
}

function facts(from = '10.1.2.3'): ConnectionFacts {
  const client = { ip: ip(from), tls: { kind: 'none', reason: 'no_tls_from_remote' } } as const;
  return { client, clientPort: 51160, targetIp: '10.1.0.9', targetPort: 8080 };
}

function logOf(asked: RecordedFacts): RequestLog {
  const { method, path, host } = asked;
  return { method, path, host, version: 'HTTP/1.1', facts: asked, reasons: () => ({ reason: '', candidates: [] }) };
}

/** A request that may come again. */
function again(path = '/'): RecordedFacts {
  return { ...plainFacts, path, noted: null };
}

t.test('of a query, which may hold secrets, those parameters are told that a route of either policy looks at', (t) => {
  const routed = (match: string): PolicyIndex => indexOf(`${shutText}${route('r', match)}`);
  const rows = [
    ['path: {value: /orders}', '/a'],
    ['queryParams: [{name: id, value: "1"}]', '/a?id=2'],
  ] as const;
  for (const [match, path] of rows) {
    const { ask, watch, lines } = stage(routed(match));
    ask({ ...again('/a'), query: 'id=2&token=secret' });
    const [met] = watch.compared().disagreements;
    t.equal(met?.example.path, path);
    t.notMatch(lines.join(''), /secret/);
  }
  t.end();
});

t.test('a header is told where a route looks at it, and its value where a document writes it out', (t) => {
  const candidate = indexOf(
    `${shutText}${route('r', 'headers: [{name: x-role, value: admin}, {name: authorization, type: RegularExpression, value: "Bearer .+"}, {name: Host, value: h}]')}`,
  );
  const sent: Readonly<Record<string, readonly string[]>> = {
    'x-role': ['admin'],
    authorization: ['Bearer secret'],
    cookie: ['secret'],
    host: ['h'],
  };
  const rows = [
    [sent, { 'x-role': ['admin'], authorization: ['(withheld)'] }],
    [
      { ...sent, 'x-role': ['secret', 'admin'] },
      { 'x-role': ['(withheld)', 'admin'], authorization: ['(withheld)'] },
    ],
    [{ cookie: ['secret'] }, undefined],
    // Rules see it over HTTP/2 where the app gets HTTP/1.
    [{ host: ['h'] }, { 'l5d-orig-proto': ['HTTP/1.1'] }, 'HTTP/2.0'],
  ] as const;
  for (const [fields, headers, version] of rows) {
    const { ask, watch, lines } = stage(candidate);
    const header = (name: string): readonly string[] => (fields as typeof sent)[name] ?? [];
    ask({ ...again('/a'), header }, true, version);
    const [met] = watch.compared().disagreements;
    t.ok(met, 'they disagree');
    t.same(met?.example.headers, headers);
    t.notMatch(lines.join(''), 'secret');
  }
  t.end();
});

t.test('no candidate is loaded: nothing is counted', async (t) => {
  const { ask, counted, watch } = stage(null);
  ask(again());
  t.equal(await counted(), 0);
  t.same(watch.compared(), { meetings: [], disagreements: [] });
  t.equal(watch.generation, 0);
});

t.test('what comes again', async (t) => {
  for (const { title, text, request, asks } of [
    { title: 'the same object: asked once', text: openText, request: again(), asks: 1 },
    { title: 'a disagreement as well', text: shutText, request: again(), asks: 1 },
    { title: 'a rate limit: each time', text: limitText, request: again(), asks: 10 },
    { title: 'nothing that comes again', text: openText, request: { ...plainFacts }, asks: 10 },
  ]) {
    const { index, asked } = counting(indexOf(text));
    const { ask, counted } = stage(index);
    for (let i = 0; i < 10; i++) ask(request);
    t.equal(asked(), asks, title);
    t.equal(await counted(), 10, `${title}: each is counted`);
  }
});

t.test('ports without a Server, which have their decisions in common, are counted one by one', async (t) => {
  const { watch, scope, enforced, counted } = stage(indexOf(shutText), indexOf(''));
  for (const port of [5001, 5002, 5001, 5002, 5001, 5002]) {
    const policy = enforced.port(port);
    const request = again();
    scope.requestDecided(policy, enforced.request(policy, facts().client, request), logOf(request));
  }
  const { meetings } = watch.compared();
  t.same(
    meetings.map(({ port, enforced, candidate, times }) => `${port} ${enforced} ${candidate} ${times}`),
    ['5001 deny deny 3', '5002 deny deny 3'],
  );
  for (const srv_port of ['5001', '5002']) t.equal(await counted({ srv_port }), 3);
});

t.test('another policy of either side: the same request is asked about again', async (t) => {
  const { ask, watch, enforced, counted } = stage(indexOf(openText));
  enforced.onChange(() => watch.enforcedChanged());
  const request = again();
  ask(request);
  t.equal(await counted({ agreement: 'same' }), 1);
  watch.swap(indexOf(shutText), 1);
  ask(request);
  t.equal(await counted({ candidate: 'deny', agreement: 'differs' }), 1);
  enforced.swap(indexOf(shutText));
  t.same(watch.compared(), { meetings: [], disagreements: [] }, 'it begins anew');
  ask(request, false);
  t.equal(await counted({ enforced: 'deny', candidate: 'deny', agreement: 'same' }), 1);
});

t.test("the candidate's rate limit has tokens of its own", async (t) => {
  const { ask, counted, enforced } = stage(indexOf(limitText), indexOf(limitText));
  const request = again();
  for (let i = 0; i < 2; i++) ask(request, false);
  t.equal(await counted({ enforced: 'permit', candidate: 'permit' }), 1, 'the first has both tokens');
  t.equal(await counted({ enforced: 'rate-limited', candidate: 'rate-limited' }), 1, 'the second has none');
  t.equal(enforced.request(enforced.port(8080), facts().client, request).kind, 'rate-limited');
});

t.test('an exception in the candidate', async (t) => {
  const faulty: readonly (readonly [string, (index: PolicyIndex) => PolicyIndex])[] = [
    ['NetworkPolicies', (index) => besides(index, () => throwing())],
    ['the port', (index) => ({ port: throwing, servers: index.servers, isolation: index.isolation })],
  ];
  for (const [title, make] of faulty) {
    const { ask, scope, counted, lines, enforced, lastMs, telemetry } = stage(make(indexOf(openText)));
    for (let i = 0; i < 100; i++) ask(again(`/${i}`));
    const policy = enforced.port(8080);
    const decision = enforced.connection(policy, facts().client);
    scope.connectionDecided(policy, decision);
    t.equal(await counted({ candidate: 'error', agreement: 'unknown', enforced: 'permit' }), 101, title);
    t.equal(await counted(), 101);
    t.equal(lastMs[0], 1000, 'it is no agreement');
    t.match(
      lines.map((line) => JSON.parse(line)),
      [{ code: 'candidate-failed', level: 'error', error: /out of order/ }],
    );
    const { body } = await telemetry.exposition();
    t.match(body, /inbound_http_authz_allow_total\{.*\} 100\n/, 'the policy in force is counted as ever');
    t.match(body, /inbound_tcp_authz_allow_total\{.*\} 1\n/);
  }
});

function throwing(): never {
  throw new Error('out of order');
}

t.test('a candidate that takes too long', async (t) => {
  let spins = true;
  const index = indexOf(openText);
  const slow = besides(index, (port, ip) => {
    const end = Date.now() + 1100;
    while (spins && Date.now() < end);
    return index.isolation.admits(port, ip);
  });
  const { ask, counted, lines } = stage(slow);
  ask(again());
  t.equal(await counted({ agreement: 'same' }), 1);
  ask(again('/next'));
  t.equal(await counted({ candidate: 'unasked', agreement: 'unknown' }), 1);
  t.match(
    lines.map((line) => JSON.parse(line)),
    [{ code: 'candidate-slow', level: 'warn' }],
  );
  spins = false;
  await until('it to be asked again', async () => {
    ask(again('/later'));
    return (await counted({ agreement: 'same' })) > 1;
  });
});

t.test('one that takes too long each time is found out, whatever came before it', async (t) => {
  let spins = false;
  const index = indexOf(openText);
  const slow = besides(index, (port, ip) => {
    const end = Date.now() + 100;
    while (spins && Date.now() < end);
    return index.isolation.admits(port, ip);
  });
  const { ask, counted } = stage(slow);
  for (let i = 0; i < 100; i++) ask(again(`/${i}`));
  t.equal(await counted({ agreement: 'same' }), 100);
  spins = true;
  // Up to fourteen that are not timed, and eleven of a tenth of a second.
  for (let i = 0; i < 27; i++) ask(again(`/slow/${i}`));
  t.ok((await counted({ candidate: 'unasked' })) > 0);
});

const many = 300;
/** Each route for itself, so that each is a disagreement of its own. */
const manyRoutes = Array.from({ length: many }, (_, i) => route(`r${i}`, `path: {type: Exact, value: /${i}}`)).join(
  '---\n',
);

t.test('disagreements are bounded', async (t) => {
  const inForce = indexOf(`${openText}---\n${manyRoutes}`);
  const { ask, watch, pass, lines, counted } = stage(indexOf(`${shutText}---\n${manyRoutes}`), inForce);
  for (let i = 0; i < many; i++) ask(again(`/${i}`));
  t.equal(watch.compared().disagreements.length, mostDisagreements, 'reasons are looked for a hundred times at once');
  pass(1000);
  for (let i = 0; i < many; i++) ask(again(`/${i}`));
  const afterASecond = watch.compared().disagreements.filter(({ times }) => times === 1).length;
  t.equal(afterASecond, 20, 'and twenty times in a second');
  for (let i = 0; i < many; i++) {
    pass(100);
    ask(again(`/${i}`));
  }
  const { disagreements } = watch.compared();
  t.equal(disagreements.length, mostDisagreements);
  t.ok(
    disagreements.some(({ candidate }) => candidate.route === `policy.linkerd.io/HTTPRoute/r${many - 1}`),
    'the latest are there',
  );
  t.ok(lines.length <= 60, `${lines.length} lines in half a minute`);
  t.equal(await counted({ agreement: 'differs' }), 3 * many, 'and all of them are counted');
});

t.test('one line a minute about the same, with how often it was met', async (t) => {
  const { ask, pass, lines } = stage(indexOf(shutText));
  const request = again();
  for (let i = 0; i < 100; i++) ask(request);
  pass(60_001);
  ask(request);
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { code: 'candidate-differs', enforced: { verdict: 'permit' }, candidate: { verdict: 'deny' } },
      { code: 'candidate-differs', times: 100 },
    ],
  );
  t.equal(lines.length, 2);
});

t.test('clients and their texts are bounded', async (t) => {
  const { watch, telemetry, enforced } = stage(indexOf(shutText));
  const recorder: Recorder = besideRecorder(telemetry.recorder, watch);
  const policy = enforced.port(8080);
  for (let i = 0; i < 50; i++) {
    const known = facts(`10.1.2.${i}`);
    const request = {
      ...plainFacts,
      path: `/${'x'.repeat(10_000)}`,
      host: 'h'.repeat(10_000),
      method: 'M'.repeat(10_000),
    };
    const decision = enforced.request(policy, known.client, request);
    recorder.connection(known).requestDecided(policy, decision, logOf(request));
  }
  const [row] = watch.compared().disagreements;
  t.equal(row?.clients.length, 10);
  t.ok(row?.moreClients);
  t.ok(JSON.stringify(row).length < 8192);
});

t.test('all else is handed on', async (t) => {
  const { watch, enforced, telemetry } = stage(indexOf(openText));
  const policy = enforced.port(8080);
  const said: string[] = [];
  const handed = (name: string) => (): unknown => {
    said.push(name);
    return { closed: () => said.push('closed') };
  };
  const requests = ['requestDecided', 'requestTerminated', 'requestStarted'];
  const names = [...requests, 'connectionDecided', 'connectionTerminated', 'openSource', 'probed'];
  const others = ['detected', 'tcpError', 'brokenProtocol', 'badRequest', 'httpError', 'responseBroken'];
  const inner = Object.fromEntries(
    [...names, ...others].map((name) => [name, handed(name)]),
  ) as unknown as ConnectionScope;
  const scope = besideRecorder({ ...telemetry.recorder, connection: () => inner }, watch).connection(facts());
  const decision = enforced.request(policy, facts().client, plainFacts);
  scope.requestDecided(policy, decision, logOf(plainFacts));
  scope.requestTerminated(policy, { kind: 'no-route', server: policy.server }, logOf(plainFacts));
  scope.connectionDecided(policy, enforced.connection(policy, facts().client));
  scope.openSource(policy, { bytesRead: 0, bytesWritten: 0 }).closed('');
  scope.connectionTerminated(policy);
  scope.probed(policy);
  if (decision.kind === 'permit') scope.requestStarted(policy, decision, false);
  scope.detected(policy, 'http/1', 0);
  scope.tcpError('i/o', null);
  scope.brokenProtocol();
  scope.badRequest(policy, '');
  const failure = { code: 'ERR_SALLYPORT_UNEXPECTED', label: 'i/o', detail: '', met: null } as const;
  scope.httpError(policy, failure, logOf(plainFacts));
  scope.responseBroken(policy, failure, logOf(plainFacts));
  t.same([...said].sort(), [...names, ...others, 'closed'].sort());
});

t.test('open connections are compared again at each change', async (t) => {
  const { watch, scope, enforced, counted } = stage(indexOf(openText));
  enforced.onChange(() => watch.enforcedChanged());
  const policy = enforced.port(8080);
  scope.connectionDecided(policy, enforced.connection(policy, facts().client));
  const transport = scope.openSource(policy, { bytesRead: 0, bytesWritten: 0 });
  watch.swap(indexOf(shutText), 1);
  await until('it to be compared', async () => (await counted({ subject: 'open', candidate: 'deny' })) === 1);
  enforced.swap(indexOf(openText));
  await until('it to be compared again', async () => (await counted({ subject: 'open', candidate: 'deny' })) === 2);
  transport.closed('');
  watch.swap(indexOf(openText), 1);
  await new Promise(setImmediate);
  t.equal(await counted({ subject: 'open' }), 2, 'not once it is closed');
});
