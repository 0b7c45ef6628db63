import t from 'tap';
import type { Client } from '../../../lib/client.ts';
import type { RequestDecision } from '../../../lib/policy/decision.ts';
import * as fx from './fixtures.ts';

const server = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
const route = { group: 'policy.linkerd.io', kind: 'HTTPRoute', name: 'metrics' };
const prometheus = { group: 'policy.linkerd.io', kind: 'authorizationpolicy', name: 'prometheus' };
const audit = { group: '', kind: 'default', name: 'audit' };
const candidates = [
  { authz: prometheus, granted: false, failed: 'identity', detail: 'wanted prometheus.ns, was none' },
];
const client = { ip: '10.1.2.3', port: 51160, id: null };
const noTls = { tls: 'no_identity', no_tls_reason: 'no_tls_from_remote' };

function parsed(lines: readonly string[]): Record<string, unknown>[] {
  return lines.map((line) => JSON.parse(line));
}

t.test('requests', async (t) => {
  const request = { method: 'GET', path: '/metrics', host: 'web:8080', version: 'HTTP/1.1' };
  const rows: [RequestDecision, Record<string, unknown> | null][] = [
    [fx.permit, null],
    [fx.redirect, null],
    [fx.audited, { msg: 'Request allowed', server, route, authz: audit, client, ...noTls, ...request }],
    [
      fx.deny,
      {
        msg: 'Request denied',
        server,
        route,
        client,
        ...noTls,
        ...request,
        reason: 'no authorization of server web matched',
        candidates,
      },
    ],
    [fx.noRoute, { msg: 'Request not routed', server, client, ...request, candidates }],
    [fx.limited, { msg: 'Request rate limited', server, route, authz: prometheus, limit: fx.limit, scope: 'identity' }],
    [fx.invalid(), { msg: 'Request invalid', server, client, ...request, reason: 'the path reads as /a and as /b' }],
  ];
  for (const [decision, want] of rows) {
    const { telemetry, lines } = fx.fixture();
    telemetry.recorder.connection(fx.facts()).requestDecided(fx.portPolicy(), decision, fx.requestLog());
    if (want === null) {
      t.same(lines, [], `${decision.kind} says nothing at info`);
    } else {
      t.equal(lines.length, 1);
      t.match(parsed(lines)[0], { level: 'info', ...want }, String(want.msg));
    }
  }
});

t.test('a permit is shown at debug', async (t) => {
  const { telemetry, lines } = fx.fixture('json', 'debug');
  telemetry.recorder.connection(fx.facts()).requestDecided(fx.portPolicy(), fx.permit, fx.requestLog());
  t.match(parsed(lines)[0], { level: 'debug', msg: 'Request allowed', authz: prometheus });
});

t.test('reasons are computed only for a line that is written', async (t) => {
  const { telemetry, lines } = fx.fixture('json', 'warn');
  const scope = telemetry.recorder.connection(fx.facts());
  const reasons = () => {
    throw new Error('nobody asked');
  };
  scope.requestDecided(fx.portPolicy(), fx.deny, fx.requestLog({ reasons }));
  scope.connectionDecided(fx.portPolicy(), fx.tcpDeny, reasons);
  scope.connectionTerminated(fx.portPolicy(), reasons);
  t.same(lines, []);
});

t.test('connections', async (t) => {
  const reasons = () => ({ reason: 'no authorization matched', candidates });
  const { telemetry, lines } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  const policy = fx.portPolicy({ protocol: 'opaque' });
  scope.connectionDecided(policy, fx.tcpPermit, reasons);
  scope.connectionDecided(policy, fx.tcpAudited, reasons);
  scope.connectionDecided(policy, fx.tcpDeny, reasons);
  scope.connectionTerminated(policy, reasons);
  scope.tcpError('i/o', { app: '127.0.0.1:5432', errno: 'ECONNREFUSED' });
  const [allowed, denied, terminated, failed, ...more] = parsed(lines);
  t.match(allowed, { level: 'info', msg: 'Connection allowed', server, authz: audit, client, ...noTls });
  t.match(denied, {
    level: 'info',
    msg: 'Connection denied',
    server,
    client,
    reason: 'no authorization matched',
    candidates,
  });
  t.match(terminated, { level: 'info', msg: 'Connection terminated due to policy change', server, client, candidates });
  t.match(failed, {
    level: 'warn',
    msg: 'Connection failed',
    code: 'ERR_SALLYPORT_UNREACHABLE',
    error: 'i/o',
    app: '127.0.0.1:5432',
    errno: 'ECONNREFUSED',
    client,
  });
  t.same(more, []);
});

t.test('a request that a later policy ends', (t) => {
  const { telemetry, lines } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  const reasons = () => ({ reason: 'no authorization matched', candidates });
  for (const decision of [fx.deny, fx.noRoute, fx.redirect, fx.invalid()]) {
    scope.requestTerminated(fx.portPolicy(), decision, fx.requestLog({ reasons }));
  }
  const told = parsed(lines);
  t.same(
    told.map(({ msg, level, verdict }) => [msg, level, verdict]),
    ['deny', 'no-route', 'redirect', 'invalid'].map((verdict) => [
      'Request terminated due to policy change',
      'info',
      verdict,
    ]),
  );
  t.match(told[0], { server, client, reason: 'no authorization matched', candidates, ...noTls });
  t.end();
});

t.test('a request that failed', async (t) => {
  const { telemetry, lines } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  const failure = {
    code: 'ERR_SALLYPORT_LOOP',
    label: 'gateway loop',
    detail: 'round and round',
    met: { app: '127.0.0.1:3000', errno: 'ECONNREFUSED' },
  } as const;
  scope.httpError(fx.portPolicy(), failure, fx.requestLog());
  const [failed, ...more] = parsed(lines);
  const wanted = {
    code: 'ERR_SALLYPORT_LOOP',
    error: 'gateway loop',
    detail: 'round and round',
    app: '127.0.0.1:3000',
    errno: 'ECONNREFUSED',
    client,
  };
  t.match(failed, { level: 'warn', msg: 'Request failed', ...wanted });
  t.same(more, []);
  scope.responseBroken(fx.portPolicy(), failure, fx.requestLog());
  t.match(parsed(lines)[1], { level: 'warn', msg: 'Response broken off', ...wanted });
  const counted = fx.find(await fx.scrape(telemetry), 'inbound_http_errors_total');
  t.match(counted, [{ value: 1, labels: { error: 'gateway loop' } }], 'a response that broke off is not counted here');
});

t.test('who called', async (t) => {
  const rows: [Client['tls'], Record<string, unknown>][] = [
    [fx.mesh('a.ns'), { tls: 'true', client: { id: 'a.ns' } }],
    [fx.mesh(null), { tls: 'true', client: { id: null } }],
    [
      { kind: 'passthrough', sni: 'db.example' },
      { tls: 'opaque', sni: 'db.example', client: { id: null } },
    ],
    [
      { kind: 'none', reason: 'port_skipped' },
      { tls: 'no_identity', no_tls_reason: 'port_skipped' },
    ],
  ];
  for (const [tls, want] of rows) {
    const { telemetry, lines } = fx.fixture();
    telemetry.recorder.connection(fx.facts({ tls })).connectionDecided(fx.portPolicy(), fx.tcpDeny);
    t.match(parsed(lines)[0], want, tls.kind);
  }
});

t.test('long texts are cut', async (t) => {
  const { telemetry, lines } = fx.fixture();
  const tls = { kind: 'passthrough', sni: 's'.repeat(9999) } as const;
  const long = fx.requestLog({
    method: 'M'.repeat(9999),
    path: `/${'p'.repeat(99_999)}`,
    host: 'h'.repeat(9999),
    version: 'v'.repeat(9999),
    reasons: () => ({
      reason: 'r'.repeat(99_999),
      candidates: Array.from({ length: 5000 }, () => ({ ...candidates[0], detail: 'd'.repeat(9999) })),
    }),
  });
  telemetry.recorder.connection(fx.facts({ tls })).requestDecided(fx.portPolicy(), fx.deny, long);
  const [line] = parsed(lines) as [Record<string, string>];
  for (const field of ['method', 'path', 'host', 'version', 'sni', 'reason']) {
    t.match(line[field], /^.{16,2048}…\(\+\d+ bytes\)$/, field);
    t.ok(line.cut?.includes(field), field);
  }
  t.equal(line.path?.replace(/.*\+/, ''), `${100_000 - Number(line.path?.indexOf('…'))} bytes)`, 'what is missing');
  t.equal(Number(line.candidates?.length) + Number(line.candidates_omitted), 5000);
  t.ok(Buffer.byteLength(lines[0] as string) <= 4000, 'the whole line has its bound');
});

t.test('a thousand refusals in one turn of the event loop do not look for thousands of candidates', async (t) => {
  const { telemetry, lines } = fx.fixture('json', 'info', 100_000);
  const many = Array.from({ length: 64 }, () => ({ ...candidates[0], detail: 'd'.repeat(20) }));
  const request = fx.requestLog({ reasons: () => ({ reason: 'nobody covers it', candidates: many }) });
  const scope = telemetry.recorder.connection(fx.facts());
  for (let i = 0; i < 1000; i++) scope.requestDecided(fx.portPolicy(), fx.deny, request);
  const all = parsed(lines) as { reason: string; candidates: unknown[]; candidates_omitted: number }[];
  t.equal(all.length, 1000, 'where so many lines are wanted');
  t.ok(all.every(({ reason }) => reason === 'nobody covers it'));
  t.same(
    all.map((line) => line.candidates.length > 0),
    all.map((_, i) => i < 10),
    'the first ones show what kind is missing',
  );
  t.ok(all.every((line) => line.candidates.length + line.candidates_omitted === 64));
  await new Promise((resolve) => setImmediate(resolve));
  scope.requestDecided(fx.portPolicy(), fx.deny, request);
  t.ok((parsed(lines).at(-1) as (typeof all)[number]).candidates.length > 5, 'another turn');
});

t.test('whatever a client sends stays inside one line', async (t) => {
  const hostile = [
    'line\nfeed',
    'carriage\rreturn',
    '\r\n{"level":"info","msg":"forged"}\r\n',
    'quote"backslash\\',
    '","msg":"forged',
    'separator\u2028and\u2029',
    'lone\ud800surrogate',
    'lone\udc00surrogate',
    'nul\0bell\x07escape\x1b[31m',
    'del\x7fnext line\x85csi\x9b31m',
    'override\u202eisolate\u2066',
    // In four parts, of which each is whole in a line with seven of them.
    ...[0, 64, 128, 192].map((from) => Buffer.from(Array.from({ length: 64 }, (_, i) => from + i)).toString('latin1')),
    '=x msg=forged',
    ' ',
    '',
  ];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not occur
  const unsafe = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/u;
  for (const [row, text] of hostile.entries()) {
    for (const format of ['json', 'plain'] as const) {
      const { telemetry, lines } = fx.fixture(format);
      const scope = telemetry.recorder.connection(fx.facts({ tls: { kind: 'passthrough', sni: text } }));
      const request = fx.requestLog({
        method: text,
        path: text,
        host: text,
        version: text,
        reasons: () => ({ reason: text, candidates: [{ ...candidates[0], detail: text }] }),
      });
      scope.requestDecided(fx.portPolicy(), fx.deny, request);
      scope.httpError(
        fx.portPolicy(),
        {
          code: 'ERR_SALLYPORT_UNEXPECTED',
          label: 'unexpected',
          detail: text,
          met: { app: '127.0.0.1:3000', errno: text },
        },
        request,
      );
      scope.responseBroken(
        fx.portPolicy(),
        { code: 'ERR_SALLYPORT_UNREACHABLE', label: 'i/o', detail: text, met: { app: '127.0.0.1:3000', errno: text } },
        request,
      );
      // Not the text itself: TAP has its own idea of lines.
      const what = `${format}, row ${row}`;
      t.equal(lines.length, 3, what);
      for (const line of lines) {
        t.ok(line.endsWith('\n'), `${what} ends its line`);
        t.notMatch(line.slice(0, -1), unsafe, what);
      }
      if (format === 'json') {
        const [denied] = parsed(lines);
        t.equal(denied?.msg, 'Request denied');
        const same = { path: text, host: text, method: text, sni: text, reason: text };
        t.match(denied, same, `${what} comes back whole`);
      } else {
        t.match(lines[0], /^\S+ INFO Request denied server=policy\.linkerd\.io\/server\/web route=/);
        const quoted = / path=("(?:[^"\\]|\\.)*"|[\w.:/@*+-]+) host=/.exec(lines[0] as string)?.[1] ?? '';
        t.equal(quoted.startsWith('"') ? JSON.parse(quoted) : quoted, text, `${what} comes back whole`);
      }
    }
  }
});

t.test('a refusal says what is likely to be wrong, and on our own port how its pages are reached', async (t) => {
  const { telemetry, lines } = fx.fixture();
  const reasons = () => ({ reason: 'nothing is authorized on it', candidates: [], hint: 'Server web does not apply.' });
  const log = fx.requestLog({ reasons });
  telemetry.recorder.connection(fx.facts()).requestDecided(fx.portPolicy(), fx.deny, log);
  telemetry.recorder.connection(fx.facts()).connectionDecided(fx.portPolicy(), fx.tcpDeny, reasons);
  telemetry.recorder.connection(fx.facts({ targetPort: 4191 })).requestDecided(fx.portPolicy(), fx.deny, log);
  const [request, connection, admin] = parsed(lines);
  t.equal(request?.hint, 'Server web does not apply.');
  t.equal(connection?.hint, 'Server web does not apply.');
  t.match(admin?.hint, /own admin port.*linkerd-admin.*SALLYPORT_AUTHORIZE_LOCALHOST.*health port/);
});
