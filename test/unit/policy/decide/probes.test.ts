import t from 'tap';
import { type Probe, parseProbe, probeText } from '../../../../lib/policy/probes.ts';
import type { Workload } from '../../../../lib/policy/workload.ts';
import { account, document, ip, load, open, policy, route, server } from '../../../support/policy-fixtures.ts';

/*
 * What a declared probe opens on a port that is closed otherwise, and that it opens nothing else.
 */

const kubelet = '10.9.0.1';
const probes: readonly Probe[] = [
  { kind: 'http', path: '/healthz' },
  { kind: 'hook', path: '/poststart' },
  { kind: 'grpc' },
  { kind: 'tcp' },
  { kind: 'https', path: '/secure' },
  { kind: 'https-hook', path: '/secure-stop' },
];
const probed: Partial<Workload> = {
  probes: new Map([[8080, probes]]),
  probeNetworks: ['10.9.0.0/24'],
};
const check = '/grpc.health.v1.Health/Check';

type Ask = Parameters<ReturnType<typeof load>['ask']>[0];
type Row = readonly [title: string, query: Ask, passes: boolean];

/** All from the kubelet, unless they say otherwise. */
const rows: readonly Row[] = [
  ['httpGet', { path: '/healthz' }, true],
  ['httpGet with a query', { path: '/healthz?full=1' }, true],
  ['httpGet over HTTP/2', { path: '/healthz', protocol: 'http2', host: 'web' }, true],
  ['httpGet by an absolute target', { path: 'http://web/healthz' }, true],
  ['httpGet of another host', { path: '/healthz', host: 'admin.internal' }, true],
  ['a hook', { path: '/poststart' }, true],
  ['the health check', { protocol: 'grpc', path: check, host: 'web' }, true],
  ['a connection', { protocol: 'connect' }, true],
  ['secured httpGet', { path: '/secure', tls: 'passthrough' }, true],
  ['a secured httpGet over HTTP/2', { path: '/secure', tls: 'passthrough', protocol: 'http2', host: 'web' }, true],
  ['a secured hook', { path: '/secure-stop', tls: 'passthrough' }, true],

  ['another path', { path: '/' }, false],
  ['a longer segment', { path: '/healthzX' }, false],
  ['a segment more', { path: '/healthz/x' }, false],
  ['a slash more', { path: '/healthz/' }, false],
  ['another case', { path: '/Healthz' }, false],
  ['two slashes', { path: '//healthz' }, false],
  ['dot segments', { path: '/x/../healthz' }, false],
  ['dot segments that lead away', { path: '/healthz/../admin' }, false],
  ['an escape', { path: '/%68ealthz' }, false],
  ['parameters', { path: '/healthz;x=1' }, false],
  ['an escaped slash', { path: '/healthz%2f..%2fadmin' }, false],
  ['HEAD', { path: '/healthz', method: 'HEAD' }, false],
  ['POST', { path: '/healthz', method: 'POST' }, false],
  ['CONNECT', { path: 'web:80', method: 'CONNECT', host: 'web:80' }, false],
  ['content', { path: '/healthz', headers: [['content-length', '5']] }, false],
  ['chunks', { path: '/healthz', headers: [['transfer-encoding', 'chunked']] }, false],
  ['an upgrade', { path: '/healthz', headers: [['upgrade', 'websocket']] }, false],
  ['a hook by POST', { path: '/poststart', method: 'POST' }, false],
  ['a hook with more of a path', { path: '/poststart/now' }, false],
  ['another call of the service', { protocol: 'grpc', path: '/grpc.health.v1.Health/Watch', host: 'web' }, false],
  ['another service', { protocol: 'grpc', path: '/grpc.reflection.v1.ServerReflection/Check', host: 'web' }, false],
  ['a call with a segment more', { protocol: 'grpc', path: `${check}/x`, host: 'web' }, false],
  ['a call in another case', { protocol: 'grpc', path: check.toLowerCase(), host: 'web' }, false],
  ['a call by GET', { protocol: 'grpc', path: check, host: 'web', method: 'GET' }, false],
  ['the path of a call, without gRPC', { protocol: 'http2', path: check, host: 'web', method: 'POST' }, false],
  ['the path of a call over HTTP/1', { path: check, method: 'POST' }, false],
  ['bytes', { protocol: 'tcp' }, false],
  ['TLS for somebody', { tls: 'passthrough' }, false],
  ['bytes in TLS', { tls: 'passthrough', protocol: 'tcp' }, false],
  ['httpGet in TLS', { path: '/healthz', tls: 'passthrough' }, false],
  ['a hook in TLS', { path: '/poststart', tls: 'passthrough' }, false],
  ['a call in TLS', { protocol: 'grpc', path: check, host: 'web', tls: 'passthrough' }, false],
  ['a secured path without TLS', { path: '/secure' }, false],
  ['a secured path in our TLS', { path: '/secure', tls: 'anonymous' }, false],
  ['a secured path and more', { path: '/secure/x', tls: 'passthrough' }, false],
  ['a secured path by POST', { path: '/secure', method: 'POST', tls: 'passthrough' }, false],
  ['a secured path, escaped', { path: '/%73ecure', tls: 'passthrough' }, false],
];

t.test('from the probe networks a probe passes, and nothing else', async (t) => {
  const worlds: Readonly<Record<string, ReturnType<typeof load>>> = {
    'no Server': load('', probed),
    'a closed Server': load(server(), probed),
  };
  for (const [world, { ask }] of Object.entries(worlds)) {
    for (const [title, query, passes] of rows) {
      const answer = ask({ ip: kubelet, ...query });
      t.equal(answer.verdict === 'permit', passes, `${world}: ${title}: ${answer.reason}`);
      if (passes) t.equal(answer.authz?.kind, 'default', `${world}: ${title}: by the probe's own permission`);
      const elsewhere = ask({ ip: '10.9.1.1', ...query });
      t.not(elsewhere.verdict, 'permit', `${world}: ${title}: from outside the probe networks`);
    }
  }
});

t.test('each kind opens its own port alone, and only what it is', async (t) => {
  for (const [i, [title, query]] of rows.filter(([, , passes]) => passes).entries()) {
    const { ask } = load('', { ...probed, probes: new Map([[9090, probes]]) });
    t.not(ask({ ip: kubelet, ...query }).verdict, 'permit', `${i} ${title}: probed on another port`);
  }
  for (const probe of probes) {
    const { ask } = load('', { ...probed, probes: new Map([[8080, [probe]]]) });
    const passing = rows.filter(([, query]) => ask({ ip: kubelet, ...query }).verdict === 'permit');
    const secured = { https: 'secured httpGet', 'https-hook': 'secured hook' };
    const own = { http: 'httpGet', hook: 'hook', grpc: 'health check', tcp: 'connection', ...secured };
    t.ok(passing.length > 0 && passing.every(([title]) => title.includes(own[probe.kind])), probe.kind);
  }
});

t.test('a hook passes from where nothing but the kubelet is to be expected', async (t) => {
  const everybody = { ...probed, probeNetworks: ['0.0.0.0/0', '::/0'] };
  const world = (more: Partial<Workload>) =>
    load('', { ...everybody, ...more }).ask({ ip: kubelet, path: '/poststart' });
  t.match(world({}), { verdict: 'deny' }, 'everybody is not the kubelet');
  t.match(world({ nodeIps: [ip(kubelet)] }), { verdict: 'permit', authz: { name: 'hook' }, route: { name: 'probe' } });
  t.match(world({ nodeIps: [ip('fd00::1'), ip('10.9.0.2')] }), { verdict: 'deny' });
  t.match(world({ probeNetworks: ['0.0.0.0/0', '10.9.0.1/32'] }), { verdict: 'permit' });
  t.match(
    world({ nodeIps: [ip(kubelet)], probeNetworks: ['10.10.0.0/16'] }),
    { verdict: 'deny' },
    'the networks as set',
  );
  const { ask } = load('', { ...everybody, nodeIps: [ip(kubelet)] });
  t.match(ask({ ip: '198.51.100.7', path: '/healthz' }), { verdict: 'permit' }, 'Linkerd lets probes in from anywhere');
});

const grpcRoute = document(
  'GRPCRoute',
  'calls',
  '{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [{matches: [{method: {service: a.B}}]}]}',
  'gateway.networking.k8s.io/v1',
);
const orders = route('orders', '{path: {value: /orders}}');
const covering = `${route('all', '{path: {value: /}}')}${policy('p', 'kind: HTTPRoute, name: all', '{kind: ServiceAccount, name: a}')}`;

t.test('on Servers of every protocol, and where routes are attached', async (t) => {
  const plain = { ip: kubelet, path: '/healthz' };
  const secured = { ip: kubelet, path: '/secure', tls: 'passthrough' } as const;
  const call = { ip: kubelet, protocol: 'grpc', path: check, host: 'web' } as const;
  type Verdicts = readonly [title: string, documents: string, asked: Ask, off: string, on: string];
  const worlds: readonly Verdicts[] = [
    ['HTTP/2', server('proxyProtocol: HTTP/2'), { ...plain, protocol: 'http2', host: 'web' }, 'permit', 'permit'],
    ['HTTP/2, a call', server('proxyProtocol: HTTP/2'), call, 'permit', 'permit'],
    ['gRPC', server('proxyProtocol: gRPC'), call, 'permit', 'permit'],
    [
      'gRPC, httpGet',
      server('proxyProtocol: gRPC'),
      { ...plain, protocol: 'http2', host: 'web' },
      'no-route',
      'no-route',
    ],
    ['gRPC with routes', server('proxyProtocol: gRPC') + grpcRoute, call, 'no-route', 'permit'],
    ['opaque', server('proxyProtocol: opaque'), { ...call, protocol: 'connect' }, 'permit', 'permit'],
    ['opaque, httpGet', server('proxyProtocol: opaque'), plain, 'deny', 'deny'],
    ['opaque, secured', server('proxyProtocol: opaque'), secured, 'permit', 'permit'],
    ['TLS, secured', server('proxyProtocol: TLS'), secured, 'permit', 'permit'],
    ['HTTP/1, secured', server('proxyProtocol: HTTP/1'), secured, 'permit', 'permit'],
    ['secured, with routes', server() + orders, secured, 'deny', 'permit'],
    [
      'an open opaque port, secured',
      server('proxyProtocol: opaque, accessPolicy: all-unauthenticated'),
      secured,
      'permit',
      'permit',
    ],
    ['a route for another path', server() + orders, plain, 'no-route', 'permit'],
    ['a route for it, closed', server() + covering, plain, 'deny', 'permit'],
    ['a connection, with routes', server() + orders, { ip: kubelet, protocol: 'connect' }, 'permit', 'permit'],
    ['a Server that cannot be read', server('proxyProtocol: HTTP/9'), plain, 'deny', 'deny'],
  ];
  for (const [title, documents, asked, off, on] of worlds) {
    t.equal(load(documents, probed).ask(asked).verdict, off, title);
    t.equal(load(documents, { ...probed, probesWithRoutes: true }).ask(asked).verdict, on, `${title}, by choice`);
  }
});

t.test('by choice, a probe keeps the route that it has, and whom that lets in', async (t) => {
  const both = { ...probed, probesWithRoutes: true };
  const { ask } = load(server() + covering, both);
  const authz = { group: '', kind: 'default', name: 'probe' };
  t.match(ask({ ip: kubelet, path: '/healthz' }), { verdict: 'permit', route: { name: 'all' }, authz });
  const known = { ip: '10.20.0.5', path: '/healthz', identity: account('a') };
  t.match(ask(known), { verdict: 'permit', route: { name: 'all' }, authz: { name: 'p' } });
  t.match(ask({ path: '/healthz' }), { verdict: 'deny', candidates: [{ authz, failed: 'network' }, {}, {}] });
  const routed = load(server() + orders + open('orders'), both);
  t.match(routed.ask({ path: '/healthz' }), { verdict: 'deny', route: { name: 'probe' } }, 'others are refused');
  for (const [title, query, passes] of rows) {
    if (query.protocol === 'connect') continue;
    const verdict = routed.ask({ ip: kubelet, ...query }).verdict === 'permit';
    t.equal(verdict, passes, `with routes: ${title}`);
  }
});

t.test('probes as text', async (t) => {
  const texts = ['8080/healthz', 'https:8443/', 'grpc:9000', 'tcp:5432', 'hook:80/a,b', 'https-hook:1/x'];
  for (const text of texts) {
    const { port = 0, probe = probes[0] } = parseProbe(text) ?? {};
    t.equal(probeText(port, probe as Probe), text);
  }
  t.same(parseProbe('8080/r?full=1'), { port: 8080, probe: { kind: 'http', path: '/r' } });
  const none = [
    '',
    '8080',
    '/healthz',
    '0/x',
    '65536/x',
    'grpc:9000/x',
    'tcp:',
    'tcp:1?x',
    'http:1',
    'exec:1/x',
    '1/a b',
  ];
  for (const text of none) t.equal(parseProbe(text), undefined, text);
});
