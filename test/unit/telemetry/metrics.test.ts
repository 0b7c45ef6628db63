import t from 'tap';
import type { RequestDecision } from '../../../lib/policy/decision.ts';
import type { Recorder } from '../../../lib/proxy/recorder.ts';
import * as fx from './fixtures.ts';

const target = { target_addr: '10.1.0.9:8080', target_ip: '10.1.0.9', target_port: '8080' };
const srv = { srv_group: 'policy.linkerd.io', srv_kind: 'server', srv_name: 'web', srv_port: '8080' };
const route = { route_group: 'policy.linkerd.io', route_kind: 'HTTPRoute', route_name: 'metrics' };
const authz = { authz_group: 'policy.linkerd.io', authz_kind: 'authorizationpolicy', authz_name: 'prometheus' };
const noTls = { tls: 'no_identity', no_tls_reason: 'no_tls_from_remote' };
const parent = { parent_group: 'policy.linkerd.io', parent_kind: 'server', parent_name: 'web', parent_port: '8080' };

t.test('each HTTP decision moves its own counters and no others', async (t) => {
  const rows: { decision: RequestDecision; counted: { name: string; labels: Record<string, string> }[] }[] = [
    {
      decision: fx.permit,
      counted: [
        { name: 'inbound_http_authz_allow_total', labels: { ...target, ...srv, ...route, ...authz, ...noTls } },
      ],
    },
    {
      decision: fx.deny,
      counted: [{ name: 'inbound_http_authz_deny_total', labels: { ...target, ...srv, ...route, ...noTls } }],
    },
    {
      decision: fx.noRoute,
      counted: [{ name: 'inbound_http_route_not_found_total', labels: { ...target, ...srv, ...noTls } }],
    },
    {
      decision: fx.limited,
      counted: [
        {
          name: 'inbound_http_local_ratelimit_total',
          labels: {
            ...target,
            ...srv,
            ratelimit_group: 'policy.linkerd.io',
            ratelimit_kind: 'HTTPLocalRateLimitPolicy',
            ratelimit_name: 'rl',
            ratelimit_scope: 'identity',
            ...noTls,
          },
        },
        { name: 'inbound_http_errors_total', labels: { error: 'unexpected', ...target, ...srv } },
      ],
    },
    {
      decision: fx.redirect,
      counted: [
        { name: 'inbound_http_authz_allow_total', labels: { ...target, ...srv, ...route, ...authz, ...noTls } },
        { name: 'inbound_http_errors_total', labels: { error: 'unexpected', ...target, ...srv } },
      ],
    },
    {
      decision: fx.invalid(),
      counted: [
        { name: 'sallyport_http_invalid_requests_total', labels: { ...target, ...srv, ...noTls } },
        { name: 'inbound_http_errors_total', labels: { error: 'unexpected', ...target, ...srv } },
      ],
    },
  ];
  for (const { decision, counted } of rows) {
    const { telemetry } = fx.fixture();
    const scope = telemetry.recorder.connection(fx.facts());
    const policy = fx.portPolicy();
    for (let i = 0; i < 3; i++) scope.requestDecided(policy, decision, fx.requestLog());
    const lines = (await fx.scrape(telemetry)).filter((line) =>
      /authz|not_found|ratelimit|errors_total|invalid/.test(line.name),
    );
    const moved = lines
      // Those two are always there, at 0.
      .filter((line) => !/load_errors|internal_errors/.test(line.name))
      .map(({ name, labels, value }) => ({ name, labels, value }));
    t.same(
      moved,
      counted.map((one) => ({ ...one, value: 3 })),
      decision.kind,
    );
  }
});

t.test('for N requests, allowed, denied, not found and limited add up to N', async (t) => {
  const { telemetry } = fx.fixture();
  const policy = fx.portPolicy();
  const decisions = [fx.permit, fx.deny, fx.noRoute, fx.limited, fx.audited, fx.redirect];
  for (let i = 0; i < 300; i++) {
    const scope = telemetry.recorder.connection(fx.facts({ tls: fx.mesh(`c${i % 7}.ns`) }));
    scope.requestDecided(policy, decisions[i % decisions.length] as RequestDecision, fx.requestLog());
  }
  const lines = await fx.scrape(telemetry);
  const sum = (name: string) => fx.find(lines, name).reduce((total, line) => total + line.value, 0);
  const outcomes = [
    'inbound_http_authz_allow_total',
    'inbound_http_authz_deny_total',
    'inbound_http_route_not_found_total',
    'inbound_http_local_ratelimit_total',
  ].map(sum);
  t.same(outcomes, [150, 50, 50, 50]);
});

t.test('TCP decisions', async (t) => {
  const { telemetry } = fx.fixture();
  const policy = fx.portPolicy({ protocol: 'opaque' });
  const scope = telemetry.recorder.connection(fx.facts({ tls: { kind: 'none', reason: 'port_skipped' } }));
  scope.connectionDecided(policy, fx.tcpPermit);
  scope.connectionDecided(policy, fx.tcpDeny);
  scope.connectionTerminated(policy);
  scope.tcpError('tls detection timeout', null);
  const lines = await fx.scrape(telemetry);
  const skipped = { tls: 'no_identity', no_tls_reason: 'port_skipped' };
  const rows: [string, Record<string, string>][] = [
    ['inbound_tcp_authz_allow_total', { ...target, ...srv, ...authz, ...skipped }],
    ['inbound_tcp_authz_deny_total', { ...target, ...srv, ...skipped }],
    ['inbound_tcp_authz_terminate_total', { ...target, ...srv, ...skipped }],
    ['inbound_tcp_errors_total', { error: 'tls detection timeout', ...target }],
  ];
  for (const [name, labels] of rows) t.same(fx.find(lines, name), [{ name, labels, value: 1 }], name);
});

t.test('what a later policy ends counts as that, and not as refused', async (t) => {
  const { telemetry } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  for (const decision of [fx.deny, fx.noRoute, fx.redirect, fx.invalid()]) {
    scope.requestTerminated(fx.portPolicy(), decision, fx.requestLog());
  }
  const moved = (await fx.scrape(telemetry)).filter(
    ({ name, value }) => /^(inbound|sallyport_http)/.test(name) && value > 0,
  );
  t.same(moved, [{ name: 'sallyport_http_authz_terminate_total', labels: { ...target, ...srv, ...noTls }, value: 4 }]);
});

t.test('malformed messages count as 400s and as nothing else', async (t) => {
  const { telemetry, lines: log } = fx.fixture('json', 'debug');
  telemetry.recorder.connection(fx.facts()).badRequest(fx.portPolicy(), 'two\ncontent-lengths');
  const lines = await fx.scrape(telemetry);
  const moved = lines.filter((line) => /^(inbound|sallyport_http|request|response)/.test(line.name));
  t.same(moved, [{ name: 'sallyport_http_invalid_requests_total', labels: { ...target, ...srv, ...noTls }, value: 1 }]);
  t.match(JSON.parse(log[0] ?? ''), { level: 'info', msg: 'Request malformed', reason: 'two\ncontent-lengths' });
});

t.test('of malformed messages each client has a line a minute, and the rest at debug', (t) => {
  for (const [level, wanted] of [
    ['info', ['info', 'info', 'info 3']],
    // None is left out there, so that none is counted either.
    ['debug', ['info', 'debug', 'debug', 'info', 'info']],
    ['warn', []],
  ] as const) {
    const { telemetry, lines, advance } = fx.fixture('json', level);
    const bad = (ip: string): void => telemetry.recorder.connection(fx.facts({ ip })).badRequest(fx.portPolicy(), 'no');
    for (const ip of ['10.0.0.1', '10.0.0.1', '10.0.0.1', '10.0.0.2']) bad(ip);
    advance(60_000);
    bad('10.0.0.1');
    const seen = lines.map((line) => JSON.parse(line)).map(({ level, times }) => [level, times].join(' ').trim());
    t.same(seen, wanted, level);
  }
  t.end();
});

t.test('a connection that NetworkPolicies do not admit', async (t) => {
  const { telemetry, lines: log } = fx.fixture();
  const policies = ['allow-a', 'deny-all'].map((name) => ({ group: 'networking.k8s.io', kind: 'NetworkPolicy', name }));
  const { client, clientPort, targetIp, targetPort } = fx.facts();
  const refusal = { clientIp: client.ip, clientPort, targetIp, targetPort, policies };
  const reasons = () => ({ reason: 'no rule admits it', candidates: [] });
  for (const connection of ['new', 'new', 'open'] as const) {
    telemetry.recorder.networkRefused(fx.portPolicy(), { ...refusal, connection }, reasons);
  }
  const lines = await fx.scrape(telemetry);
  const moved = lines.filter((line) => /^(inbound|sallyport_network|request|response|tcp_open_total)/.test(line.name));
  const first = {
    network_policy_group: 'networking.k8s.io',
    network_policy_kind: 'NetworkPolicy',
    network_policy_name: 'allow-a',
  };
  const name = 'sallyport_network_policy_refused_total';
  t.same(moved, [
    { name, labels: { ...target, ...first, connection: 'new' }, value: 2 },
    { name, labels: { ...target, ...first, connection: 'open' }, value: 1 },
  ]);
  const line = {
    policies,
    client: { ip: '10.1.2.3', port: 51160, id: null },
    target: { port: 8080 },
    reason: /no rule/,
  };
  t.match(
    log.map((text) => JSON.parse(text)),
    [
      { level: 'info', msg: 'Connection refused', ...line },
      { level: 'info', msg: 'Connection refused', ...line },
      { level: 'info', msg: 'Connection terminated due to policy change', ...line },
    ],
  );
});

t.test('TLS states', async (t) => {
  const rows: [string, Parameters<typeof fx.facts>[0], Record<string, string>][] = [
    ['identity', { tls: fx.mesh('a.ns') }, { tls: 'true', client_id: 'a.ns' }],
    ['no identity', { tls: fx.mesh(null) }, { tls: 'true', client_id: '' }],
    ['foreign SNI', { tls: { kind: 'passthrough', sni: 'db.example' } }, { tls: 'opaque', sni: 'db.example' }],
    ['no TLS', {}, noTls],
  ];
  for (const [what, over, tls] of rows) {
    const { telemetry } = fx.fixture();
    telemetry.recorder.connection(fx.facts(over)).connectionDecided(fx.portPolicy(), fx.tcpDeny);
    const [line] = fx.find(await fx.scrape(telemetry), 'inbound_tcp_authz_deny_total');
    t.same(line?.labels, { ...target, ...srv, ...tls }, what);
  }
});

t.test('classification of responses', async (t) => {
  const rows: [boolean, number, string | null, string, Record<string, string>][] = [
    [false, 200, null, '', { status_code: '200', classification: 'success', grpc_status: '', error: '' }],
    [false, 404, null, '', { status_code: '404', classification: 'success', grpc_status: '', error: '' }],
    [false, 500, null, '', { status_code: '500', classification: 'failure', grpc_status: '', error: '' }],
    [false, 599, null, '', { status_code: '599', classification: 'failure', grpc_status: '', error: '' }],
    [false, 200, '13', '', { status_code: '200', classification: 'success', grpc_status: '', error: '' }],
    [
      false,
      200,
      null,
      'h2(CANCEL)',
      { status_code: '200', classification: 'failure', grpc_status: '', error: 'h2(CANCEL)' },
    ],
    [
      false,
      200,
      null,
      'made up',
      { status_code: '200', classification: 'failure', grpc_status: '', error: 'unclassified' },
    ],
    [
      false,
      0,
      null,
      'unclassified',
      { status_code: '', classification: 'failure', grpc_status: '', error: 'unclassified' },
    ],
    [false, 1234, null, '', { status_code: 'other', classification: 'success', grpc_status: '', error: '' }],
    [true, 200, '0', '', { status_code: '200', classification: 'success', grpc_status: '0', error: '' }],
    [true, 200, '5', '', { status_code: '200', classification: 'success', grpc_status: '5', error: '' }],
    ...[2, 4, 7, 13, 14, 15].map((code): [boolean, number, string, string, Record<string, string>] => [
      true,
      200,
      String(code),
      '',
      { status_code: '200', classification: 'failure', grpc_status: String(code), error: '' },
    ]),
    // Linkerd: a stream that ends without a status is a success that says 2.
    [true, 200, null, '', { status_code: '200', classification: 'success', grpc_status: '2', error: '' }],
    [true, 200, '99', '', { status_code: '200', classification: 'failure', grpc_status: 'other', error: '' }],
    [true, 200, 'constructor', '', { status_code: '200', classification: 'failure', grpc_status: 'other', error: '' }],
  ];
  for (const [grpc, status, grpcStatus, error, want] of rows) {
    const { telemetry } = fx.fixture();
    one(telemetry.recorder, { grpc, status, grpcStatus, error });
    const [line, ...more] = fx.find(await fx.scrape(telemetry), 'response_total');
    t.same(more, []);
    const what = `${grpc ? 'gRPC' : 'HTTP'} ${status} ${grpcStatus} ${error}`;
    t.same(line?.labels, { direction: 'inbound', ...target, ...noTls, ...srv, ...route, ...authz, ...want }, what);
  }
});

t.test('a request from beginning to end', async (t) => {
  const { telemetry, advance } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  const request = scope.requestStarted(fx.portPolicy(), fx.permit, false);
  const before = await fx.scrape(telemetry);
  t.equal(fx.find(before, 'request_total')[0]?.value, 0, 'a body that has not come yet is not counted');
  t.equal(fx.find(before, 'inbound_http_requests_total')[0]?.value, 1);
  request.requestFrame(100);
  request.requestFrame(2000);
  advance(30);
  request.requestEnded();
  request.responseHead(201);
  advance(15);
  request.responseFrame(20_000);
  advance(1000);
  request.responseEnded(null, '');
  request.responseEnded(null, 'unclassified');
  const lines = await fx.scrape(telemetry);
  t.same(
    fx.find(lines, 'request_total').map((line) => line.value),
    [1],
  );
  t.same(
    fx.find(lines, 'response_total').map((line) => line.value),
    [1],
    'an end is counted once',
  );
  const bucket = (name: string, le: string) => fx.find(lines, `${name}_bucket`, { le })[0]?.value;
  t.equal(bucket('response_latency_ms', '40'), 0);
  t.equal(bucket('response_latency_ms', '50'), 1, 'latency is taken at the first piece of the body');
  t.equal(fx.find(lines, 'response_latency_ms_sum')[0]?.value, 45);
  t.equal(fx.find(lines, 'response_latency_ms_count')[0]?.labels.status_code, '201');
  t.equal(fx.find(lines, 'inbound_http_request_duration_seconds_sum')[0]?.value, 1.045);
  t.equal(fx.find(lines, 'inbound_http_response_duration_seconds_sum')[0]?.value, 1.015);
  t.equal(bucket('inbound_http_request_frame_size_bytes', '128.0'), 1);
  t.equal(bucket('inbound_http_request_frame_size_bytes', '10240.0'), 2);
  t.equal(bucket('inbound_http_response_frame_size_bytes', '10240.0'), 0);
  t.equal(bucket('inbound_http_response_frame_size_bytes', '+Inf'), 1);
  t.same(
    fx.find(lines, 'inbound_http_statuses_total').map((line) => line.labels),
    [{ ...parent, ...route, status: '201' }],
  );
  t.same(fx.find(lines, 'inbound_grpc_requests_total'), []);
});

t.test('an empty response has its latency at its end, and one cut off before its head has no status', async (t) => {
  const { telemetry, advance } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  const empty = scope.requestStarted(fx.portPolicy(), fx.permit, false);
  empty.requestEnded();
  empty.responseHead(204);
  advance(7);
  empty.responseEnded(null, '');
  const cut = scope.requestStarted(fx.portPolicy({ protocol: 'grpc' }), fx.permit, true);
  cut.responseEnded(null, 'h2(CANCEL)');
  const lines = await fx.scrape(telemetry);
  t.equal(fx.find(lines, 'response_latency_ms_sum', { status_code: '204' })[0]?.value, 7);
  t.equal(fx.find(lines, 'inbound_grpc_statuses_total', { status: '' })[0]?.value, 1);
  t.equal(fx.find(lines, 'response_total', { status_code: '', error: 'h2(CANCEL)' })[0]?.value, 1);
  t.equal(fx.find(lines, 'inbound_grpc_response_duration_seconds_count')[0]?.value, 0, 'its request never ended');
  t.equal(fx.find(lines, 'request_total')[0]?.value, 2, 'no response without its request');
});

t.test('the route, not the request, says whether it is counted as gRPC', async (t) => {
  const rows = [
    ['http1', true, 'http', '200'],
    ['detect', true, 'http', '200'],
    ['detect', false, 'http', '200'],
    ['grpc', true, 'grpc', '0'],
    ['grpc', false, 'grpc', '0'],
  ] as const;
  for (const [protocol, grpc, family, status] of rows) {
    const { telemetry } = fx.fixture();
    one(telemetry.recorder, { grpc, status: 200, grpcStatus: '0', error: '' }, fx.portPolicy({ protocol }));
    const lines = await fx.scrape(telemetry);
    const of = (name: string) => fx.find(lines, `inbound_${name}_statuses_total`).map((line) => line.labels.status);
    const what = `${grpc ? 'gRPC' : 'HTTP'} on ${protocol}`;
    t.same([of('http'), of('grpc')], family === 'http' ? [[status], []] : [[], [status]], what);
    t.equal(fx.find(lines, 'response_total')[0]?.labels.grpc_status, grpc ? '0' : '', `${what}: response_total`);
  }
});

t.test('an answer of ours in place of a response is the response', async (t) => {
  for (const [grpc, labels] of [
    [false, { status_code: '502', classification: 'failure', grpc_status: '', error: '' }],
    [true, { status_code: '200', classification: 'failure', grpc_status: '14', error: '' }],
  ] as const) {
    const { telemetry } = fx.fixture();
    const request = telemetry.recorder.connection(fx.facts()).requestStarted(fx.portPolicy(), fx.permit, grpc);
    request.refused(502, 14);
    request.responseEnded(null, 'unclassified');
    const lines = await fx.scrape(telemetry);
    t.match(fx.find(lines, 'response_total'), [{ labels, value: 1 }], grpc ? 'gRPC' : 'HTTP');
    t.match(fx.find(lines, 'inbound_http_statuses_total'), [{ labels: { status: labels.status_code }, value: 1 }]);
  }
});

t.test('bytes that are no HTTP where nothing else may come', async (t) => {
  const { telemetry } = fx.fixture();
  telemetry.recorder.connection(fx.facts()).brokenProtocol();
  const lines = await fx.scrape(telemetry);
  t.match(fx.find(lines, 'inbound_tcp_errors_total'), [{ labels: { error: 'unexpected', ...target }, value: 1 }]);
});

t.test('connections through the redirect that lead nowhere', async (t) => {
  const { telemetry } = fx.fixture();
  telemetry.recorder.strayed('own_port');
  telemetry.recorder.strayed('own_port');
  const strays = fx.find(await fx.scrape(telemetry), 'sallyport_redirect_closed_total');
  t.match(strays, [
    { labels: { reason: 'not_redirected' }, value: 0 },
    { labels: { reason: 'foreign_destination' }, value: 0 },
    { labels: { reason: 'own_port' }, value: 2 },
  ]);
});

t.test('buckets are Linkerd’s', async (t) => {
  const { telemetry } = fx.fixture();
  one(telemetry.recorder, { grpc: true, status: 200, grpcStatus: '0', error: '' }, fx.portPolicy({ protocol: 'grpc' }));
  telemetry.recorder.connection(fx.facts()).detected(fx.portPolicy({ protocol: 'detect' }), 'http/1', 0.05);
  const lines = await fx.scrape(telemetry);
  const rows: [string, string][] = [
    [
      'response_latency_ms',
      '1 2 3 4 5 10 20 30 40 50 100 200 300 400 500 1000 2000 3000 4000 5000 10000 20000 30000 40000 50000 +Inf',
    ],
    ['inbound_grpc_request_duration_seconds', '0.025 0.05 0.1 0.25 0.5 1.0 10.0 +Inf'],
    ['inbound_grpc_response_duration_seconds', '0.05 0.5 1.0 10.0 +Inf'],
    ['inbound_grpc_request_frame_size_bytes', '128.0 1024.0 10240.0 +Inf'],
    ['inbound_grpc_response_frame_size_bytes', '128.0 1024.0 10240.0 +Inf'],
    ['inbound_tcp_detect_http_duration_seconds', '0.001 0.1 +Inf'],
  ];
  for (const [name, bounds] of rows) {
    t.equal(
      fx
        .find(lines, `${name}_bucket`)
        .map((line) => line.labels.le)
        .join(' '),
      bounds,
      name,
    );
  }
});

t.test('the five detection results of a server exist from its first connection on', async (t) => {
  const { telemetry } = fx.fixture();
  const policy = fx.portPolicy({ protocol: 'detect' });
  const scope = telemetry.recorder.connection(fx.facts());
  scope.connectionDecided(policy, fx.tcpPermit);
  const name = 'inbound_tcp_detect_http_results_total';
  const results = (lines: fx.Line[]) => fx.find(lines, name).map((line) => `${line.labels.result} ${line.value}`);
  t.same(results(await fx.scrape(telemetry)), ['http/1 0', 'http/2 0', 'not_http 0', 'read_timeout 0', 'error 0']);
  scope.detected(policy, 'not_http', 0.0005);
  const lines = await fx.scrape(telemetry);
  t.same(results(lines), ['http/1 0', 'http/2 0', 'not_http 1', 'read_timeout 0', 'error 0']);
  t.same(fx.find(lines, name, { result: 'not_http' })[0]?.labels, { result: 'not_http', ...srv });
});

t.test('transports', async (t) => {
  const { telemetry } = fx.fixture();
  const { recorder } = telemetry;
  const source = { bytesRead: 10, bytesWritten: 20 };
  const scope = recorder.connection(fx.facts({ tls: fx.mesh('a.ns') }));
  const open = scope.openSource(fx.portPolicy(), source);
  const toApp = recorder.openDestination({ bytesRead: 5, bytesWritten: 6 });
  const src = { direction: 'inbound', peer: 'src', ...target, tls: 'true', client_id: 'a.ns', ...srv };
  const dst = { direction: 'inbound', peer: 'dst', tls: 'no_identity', no_tls_reason: 'loopback' };
  let lines = await fx.scrape(telemetry);
  t.same(
    fx.find(lines, 'tcp_open_connections').map((line) => [line.labels, line.value]),
    [
      [src, 1],
      [dst, 1],
    ],
  );
  source.bytesRead = 110;
  lines = await fx.scrape(telemetry);
  t.equal(fx.find(lines, 'tcp_read_bytes_total', src)[0]?.value, 110, 'bytes of an open connection are live');
  t.same(fx.find(lines, 'tcp_close_total'), [], 'nothing closed yet');
  // What Node's socket.bytesWritten becomes once the socket is destroyed.
  (source as { bytesWritten: unknown }).bytesWritten = undefined;
  open.closed('ECONNRESET');
  open.closed('EPIPE');
  toApp.closed('');
  lines = await fx.scrape(telemetry);
  t.same(
    fx.find(lines, 'tcp_close_total').map((line) => [line.labels, line.value]),
    [
      [{ ...src, errno: 'ECONNRESET' }, 1],
      [{ ...dst, errno: '' }, 1],
    ],
  );
  t.equal(fx.find(lines, 'tcp_open_connections', src)[0]?.value, 0);
  t.equal(fx.find(lines, 'tcp_write_bytes_total', src)[0]?.value, 20, 'a counter never falls');
  t.equal(fx.find(lines, 'tcp_open_total', src)[0]?.value, 1);
});

t.test('idle series are forgotten after ten minutes, open ones and decisions never', async (t) => {
  const minute = 60_000;
  const { telemetry, advance } = fx.fixture();
  const scope = telemetry.recorder.connection(fx.facts());
  const policy = fx.portPolicy();
  const bytes = { bytesRead: 1, bytesWritten: 1 };
  scope.requestDecided(policy, fx.permit, fx.requestLog());
  const started = scope.requestStarted(policy, fx.permit, false);
  const transport = scope.openSource(policy, bytes);
  const counts = async () => {
    const lines = await fx.scrape(telemetry);
    return [`request_total`, 'tcp_open_total', 'inbound_http_authz_allow_total'].map(
      (name) => fx.find(lines, name).length,
    );
  };
  t.same(await counts(), [1, 1, 1]);
  advance(11 * minute);
  t.same(await counts(), [1, 1, 1], 'open for eleven minutes');
  started.responseEnded(null, '');
  transport.closed('');
  t.same(await counts(), [1, 1, 1]);
  advance(9 * minute);
  t.same(await counts(), [1, 1, 1], 'idle for nine minutes');
  advance(minute);
  t.same(await counts(), [0, 0, 1], 'idle for ten minutes');
  const again = scope.requestStarted(policy, fx.permit, false);
  again.requestEnded();
  const lines = await fx.scrape(telemetry);
  t.same(
    fx.find(lines, 'request_total').map((line) => line.value),
    [1],
    'the same connection begins a new series',
  );
  telemetry.recorder.connection(fx.facts()).openSource(policy, bytes);
  t.same(await counts(), [1, 1, 1], 'and so does the next connection');
});

t.test('policy, identity and build', async (t) => {
  const { telemetry } = fx.fixture();
  let lines = await fx.scrape(telemetry);
  const value = (name: string, labels = {}) => fx.find(lines, name, labels)[0]?.value;
  t.equal(value('sallyport_policy_generation'), 0);
  t.equal(value('control_identity_cert_expiration_timestamp_seconds'), undefined, 'no certificate, no date');
  telemetry.policyLoaded(3, 1_790_000_100);
  telemetry.policyLoadFailed();
  telemetry.identityLoaded({ expiresAt: new Date(1_790_086_400_000), refreshedAt: new Date(1_790_000_000_000) });
  telemetry.identityLoadFailed();
  telemetry.identityLoadFailed();
  telemetry.identityOverdue(true);
  lines = await fx.scrape(telemetry);
  t.equal(value('sallyport_policy_generation'), 3);
  t.equal(value('sallyport_policy_last_load_success_timestamp_seconds'), 1_790_000_100);
  t.equal(value('sallyport_policy_load_errors_total'), 1);
  t.equal(value('control_identity_cert_expiration_timestamp_seconds'), 1_790_086_400);
  t.equal(value('control_identity_cert_refresh_timestamp_seconds'), 1_790_000_000);
  t.equal(value('control_identity_cert_refreshes_total', { result: 'ok' }), 1);
  t.equal(value('control_identity_cert_refreshes_total', { result: 'error' }), 2);
  t.equal(value('sallyport_identity_reload_overdue'), 1);
  t.equal(value('proxy_build_info', { version: '0.1.0', git_sha: 'abc', date: '2026-11-20' }), 1);
  t.equal(value('sallyport_build_info', { version: '0.1.0', node: process.version }), 1);
  t.equal(value('process_start_time_seconds'), 1_790_000_000);
});

t.test('the process, as /proc shows it', { skip: process.platform === 'linux' ? false : 'needs /proc' }, async (t) => {
  const { telemetry, advance } = fx.fixture();
  advance(5000);
  const lines = await fx.scrape(telemetry);
  const value = (name: string) => fx.find(lines, name)[0]?.value ?? Number.NaN;
  t.equal(value('process_uptime_seconds_total'), 5);
  t.ok(value('process_cpu_seconds_total') > 0);
  t.ok(Math.abs(value('process_resident_memory_bytes') / process.memoryUsage.rss() - 1) < 0.5);
  t.ok(value('process_virtual_memory_bytes') > value('process_resident_memory_bytes'));
  t.ok(value('process_threads') >= 2, 'Node has more than one thread');
  t.ok(value('process_open_fds') >= 3 && value('process_open_fds') < value('process_max_fds'));
  t.ok(value('nodejs_heap_size_used_bytes') > 0);
});

t.test('an anchor that a bundle has twice has one series', async (t) => {
  const { telemetry } = fx.fixture();
  const notAfter = new Date();
  const anchor = { subject: 'CN=root', id: 'AA:BB', notAfter };
  const anchors = [anchor, anchor, { ...anchor, id: 'CC:DD' }];
  telemetry.identityLoaded({ expiresAt: notAfter, refreshedAt: notAfter, anchors });
  const { body } = await telemetry.exposition();
  const series = [...body.matchAll(/^sallyport_trust_anchor_expiration\w*\{.*sha256="(\w+)"/gm)];
  t.same(
    series.map(([, sha256]) => sha256),
    ['AABB', 'CCDD'],
  );
});

t.test('promtool accepts the exposition', async (t) => {
  const { telemetry } = fx.fixture();
  everything(telemetry.recorder);
  telemetry.identityLoaded({ expiresAt: new Date(), refreshedAt: new Date() });
  const result = await fx.pipe('promtool', ['check', 'metrics'], (await telemetry.exposition()).body);
  if (result === undefined) {
    t.pass('needs promtool', { skip: 'promtool is not on the PATH' });
    return;
  }
  const complaints = result.output.split('\n').filter((line) => line !== '');
  // Linkerd's own name; its dashboards ask for it.
  t.same(complaints, ['response_latency_ms metric names should not contain abbreviated units']);
});

t.test('every series that Linkerd’s viz and Grafana ask of an inbound proxy has its labels', async (t) => {
  const { telemetry } = fx.fixture();
  everything(telemetry.recorder);
  const lines = await fx.scrape(telemetry);
  const named = [
    'srv_kind',
    'srv_name',
    'route_kind',
    'route_name',
    'authz_kind',
    'authz_name',
    'direction',
    'tls',
    'target_port',
  ];
  const rows: [string, string[]][] = [
    ['request_total', named],
    ['response_total', [...named, 'classification', 'status_code', 'grpc_status', 'error']],
    ['response_latency_ms_bucket', [...named, 'le', 'status_code']],
    [
      'inbound_http_authz_allow_total',
      ['srv_kind', 'srv_name', 'route_kind', 'route_name', 'authz_kind', 'authz_name', 'tls'],
    ],
    ['inbound_http_authz_deny_total', ['srv_kind', 'srv_name', 'route_kind', 'route_name', 'tls']],
    ['tcp_open_connections', ['direction', 'peer', 'tls']],
    ['tcp_read_bytes_total', ['direction', 'peer', 'tls']],
    ['tcp_write_bytes_total', ['direction', 'peer', 'tls']],
    ['tcp_close_total', ['direction', 'peer', 'errno']],
    ['process_start_time_seconds', []],
    ['process_cpu_seconds_total', []],
  ];
  for (const [name, labels] of rows) {
    const [line] = fx.find(lines, name);
    t.ok(line, name);
    for (const label of labels) t.ok(label in (line?.labels ?? {}), `${name} has ${label}`);
  }
});

/** One request from permit to end on a connection of its own. */
function one(
  recorder: Recorder,
  end: { grpc: boolean; status: number; grpcStatus: string | null; error: string },
  policy = fx.portPolicy(),
): void {
  const request = recorder.connection(fx.facts()).requestStarted(policy, fx.permit, end.grpc);
  request.requestFrame(10);
  request.requestEnded();
  if (end.status !== 0) request.responseHead(end.status);
  request.responseFrame(10);
  request.responseEnded(end.grpcStatus, end.error);
}

/** Something of every family. */
function everything(recorder: Recorder): void {
  const policy = fx.portPolicy({ protocol: 'detect' });
  const scope = recorder.connection(fx.facts({ tls: fx.mesh('a"b\\c\n.ns') }));
  for (const decision of [fx.permit, fx.audited, fx.deny, fx.noRoute, fx.redirect, fx.limited, fx.invalid()]) {
    scope.requestDecided(policy, decision, fx.requestLog());
  }
  scope.connectionDecided(policy, fx.tcpPermit);
  scope.connectionDecided(policy, fx.tcpDeny);
  scope.connectionTerminated(policy);
  scope.requestTerminated(policy, fx.deny, fx.requestLog());
  scope.detected(policy, 'http/2', 0.2);
  scope.tcpError('i/o', null);
  const code = 'ERR_SALLYPORT_UNREACHABLE';
  scope.httpError(policy, { code, label: 'i/o', detail: 'the app did not answer', met: null }, fx.requestLog());
  const transport = scope.openSource(policy, { bytesRead: 1, bytesWritten: 2 });
  transport.closed('ECONNRESET');
  recorder.openDestination({ bytesRead: 1, bytesWritten: 2 });
  one(recorder, { grpc: false, status: 200, grpcStatus: null, error: '' });
  one(recorder, { grpc: true, status: 200, grpcStatus: '0', error: '' }, fx.portPolicy({ protocol: 'grpc' }));
}
