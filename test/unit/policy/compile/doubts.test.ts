import t from 'tap';
import type { Probe } from '../../../../lib/policy/probes.ts';
import { parsePortSet, type Workload } from '../../../../lib/policy/workload.ts';
import { document, httpProbes, ip, load, open, policy, route, server } from '../../../support/policy-fixtures.ts';

/*
 * What a policy says without effect, and what it leaves out: found by compiling it for a pod.
 */

const mesh = '{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}';
const anyMesh = document('MeshTLSAuthentication', 'm', '{identities: ["*"]}');
const inOther = (text: string): string =>
  text.replaceAll(/metadata: \{name: (\w+)/g, 'metadata: {name: $1, namespace: other');

t.test('what is for another namespace is named, unless it is most likely meant for others', async (t) => {
  const theirs = inOther(server() + policy('p', 'kind: Server, name: web', mesh));
  const [problem] = load(theirs, { namespaceStated: false }).problems;
  t.match(problem, {
    code: 'other-namespace',
    message:
      'the pod is in namespace shop (not stated), so what is for namespace other is ignored: Server web, AuthorizationPolicy p',
    resource: { kind: 'Server', namespace: 'other', name: 'web' },
    hint: 'Set SALLYPORT_POD_NAMESPACE=other if the pod is there; a folder may hold documents for others too.',
  });
  const codes = (text: string, over: Parameters<typeof load>[1]): string[] =>
    load(text, over).problems.map(({ code }) => code);
  t.same(codes(theirs, {}), ['other-namespace'], 'stated, and no Server of its own');
  t.same(codes(server() + theirs, {}), [], 'stated, with a Server of its own');
  t.same(codes(server() + theirs, { namespaceStated: false }), ['other-namespace'], 'assumed');
  const shared = inOther(anyMesh);
  t.same(codes(server() + shared, { namespaceStated: false }), [], 'authentications count everywhere');
  const many = Array.from({ length: 20 }, (_, i) => theirs.replaceAll('other', `n${i}`)).join('');
  const { problems } = load(many, {});
  t.equal(problems.length, 5, 'bounded');
  t.match(problems.at(-1)?.message, /and so are those of 15 more|; so are those of 15 more namespaces/);
});

t.test('a declared probe that is refused', async (t) => {
  const probes = (probe: Probe) => ({ probes: new Map([[8080, [probe]]]) });
  const [live] = httpProbes('/live');
  const call = { kind: 'grpc' } as const;
  const orders = route('orders', '{path: {value: /orders}}');
  const all = route('all', '{path: {value: /}}');
  const network = (cidr: string): string =>
    `${all}${document('NetworkAuthentication', 'n', `{networks: [{cidr: ${cidr}}]}`)}`;
  const byNetwork = policy(
    'n',
    'kind: HTTPRoute, name: all',
    '{group: policy.linkerd.io, kind: NetworkAuthentication, name: n}',
  );
  const node = { nodeIps: [ip('10.9.0.1')] };
  type Row = readonly [
    title: string,
    text: string,
    probe: Probe | undefined,
    over: Partial<Workload>,
    why: RegExp | null,
  ];
  const rows: readonly Row[] = [
    ['no Server', '', live, {}, null],
    ['a closed Server', server(), live, {}, null],
    ['a route for something else', server() + orders, live, {}, /no route of web matches GET \/live$/],
    ['by choice', server() + orders, live, { probesWithRoutes: true }, null],
    ['a route for all, closed', server() + all, live, {}, /no authorization of all of web covers the kubelet/],
    [
      'a route for all, by identity',
      server() + all + anyMesh + policy('p', 'kind: HTTPRoute, name: all', mesh),
      live,
      {},
      /covers/,
    ],
    ['a route for all, open', server() + all + open('all'), live, {}, null],
    ['a Server that is open', server('accessPolicy: all-unauthenticated') + all, live, {}, null],
    ['by a network that may be its own', server() + network('192.168.0.0/16') + byNetwork, live, {}, null],
    ['by a network that is not its own', server() + network('192.168.0.0/16') + byNetwork, live, node, /covers/],
    ['by its own network', server() + network('10.9.0.0/24') + byNetwork, live, node, null],
    ['no probe networks', server(), live, { probeNetworks: [] }, /no authorization of default of web/],
    ['opaque', server('proxyProtocol: opaque'), live, {}, /web is opaque, so that nobody reads requests/],
    ['opaque, and open', server('proxyProtocol: opaque, accessPolicy: all-unauthenticated'), live, {}, null],
    ['HTTP/2', server('proxyProtocol: HTTP/2'), live, {}, /asks by HTTP\/1, which web \(http2\) does not take/],
    ['a call, HTTP/2', server('proxyProtocol: HTTP/2'), call, {}, null],
    ['a call, gRPC', server('proxyProtocol: gRPC'), call, {}, null],
    ['a call, HTTP/1', server('proxyProtocol: HTTP/1'), call, {}, /asks by HTTP\/2, which web \(http1\) does not take/],
    ['a hook from anywhere', server(), { kind: 'hook', path: '/x' }, {}, /no authorization of default of web/],
    ['a hook from the node', server(), { kind: 'hook', path: '/x' }, node, null],
    ['a connection', server('proxyProtocol: opaque') + orders, { kind: 'tcp' }, {}, null],
  ];
  for (const [title, text, probe, over, why] of rows) {
    const { problems, ask } = load(text, { ...probes(probe as Probe), ...over });
    const found = problems.filter(({ code }) => code === 'probe-refused');
    if (why === null) t.same(found, [], title);
    else t.match(found, [{ severity: 'warning', message: why, file: 'policy.yaml' }], title);
    // What it says is what happens, where the kubelet's place is known.
    if (probe?.kind !== 'http' || over.nodeIps === undefined) continue;
    t.equal(ask({ ip: '10.9.0.1', path: '/live' }).verdict === 'permit', why === null, `${title}: from the node`);
  }
  const opaque = { opaquePorts: parsePortSet('8080').ports };
  t.match(
    load('', opaque).problems,
    [{ code: 'probe-refused', file: 'SALLYPORT_PROBES', resource: null }],
    'no document',
  );
});

t.test('names that are nearly right', async (t) => {
  const pod = (name: string, account: string): string => `
---
apiVersion: v1
kind: Pod
metadata: {name: ${name}}
spec: {serviceAccountName: ${account}}
`;
  const listed = pod('a', 'checkout') + pod('b', 'web');
  const wants = (account: string): string =>
    server() + policy('p', 'kind: Server, name: web', `{kind: ServiceAccount, name: ${account}}`);
  const misspelt = { code: 'service-account-unknown', resource: { name: 'p' }, hint: 'Did you mean "checkout"?' };
  t.match(load(listed + wants('chekout')).problems, [misspelt]);
  t.same(load(listed + wants('checkout')).problems, []);
  t.same(load(wants('chekout')).problems, [], 'nobody knows which there are');
  const mtls = document('MeshTLSAuthentication', 'm', '{identityRefs: [{kind: ServiceAccount, name: wep}]}');
  t.match(load(listed + mtls).problems, [{ code: 'service-account-unknown', hint: 'Did you mean "web"?' }]);
  const labelled = server().replace('matchLabels: {app: web}', 'matchLabels: {app: wbe}');
  t.match(load(labelled).problems, [{ code: 'selects-no-pod', hint: 'Did you mean "app=web"?' }]);
});

t.test('a refused authentication admits nobody, and is named once', async (t) => {
  const { problems, ask } = load(
    server() +
      document('NetworkAuthentication', 'n', '{networks: [{cidr: nowhere}]}') +
      policy('p', 'kind: Server, name: web', '{group: policy.linkerd.io, kind: NetworkAuthentication, name: n}'),
  );
  t.same(problems.map(({ code }) => code).sort(), ['cidr', 'refused-authentication']);
  const answer = ask({ ip: '10.1.2.3' });
  t.equal(answer.verdict, 'deny');
  t.match(JSON.stringify(answer.candidates), /wanted NetworkAuthentication shop\/n, was refused, see policy\.yaml:\d/);
});

t.test('a Server selects workloads of its kind', async (t) => {
  const of = (selector: string): string =>
    document(
      'Server',
      'vm',
      `{${selector}, port: 8080, accessPolicy: all-unauthenticated}`,
      'policy.linkerd.io/v1beta3',
    );
  const labels = new Map([['location', 'vm']]);
  const rows: readonly (readonly [selector: string, kind: 'pod' | 'external', verdict: string, code: string | null])[] =
    [
      ['externalWorkloadSelector: {matchLabels: {location: vm}}', 'external', 'permit', null],
      ['externalWorkloadSelector: {matchLabels: {location: vm}}', 'pod', 'deny', 'selects-other-workloads'],
      ['externalWorkloadSelector: {matchLabels: {location: other}}', 'external', 'deny', 'selects-no-pod'],
      ['externalWorkloadSelector: {matchExpressions: [{key: location, operator: Exists}]}', 'external', 'permit', null],
      ['podSelector: {}', 'external', 'deny', 'selects-other-workloads'],
      ['podSelector: {}', 'pod', 'permit', null],
    ];
  for (const [selector, kind, verdict, code] of rows) {
    const { ask, problems } = load(of(selector), { labels, kind });
    t.equal(ask({}).verdict, verdict, `${selector} of ${kind}`);
    const codes = problems.map((problem) => problem.code).filter((found) => found.startsWith('selects-'));
    t.same(codes, code === null ? [] : [code]);
  }
  // Refused, it closes the port of whatever it may have been meant for.
  for (const kind of ['pod', 'external'] as const) {
    const over = { labels, kind, defaultPolicy: 'all-unauthenticated' } as const;
    t.equal(load(of('proxyProtocol: none'), over).ask({}).verdict, 'deny', 'with neither selector');
    const external = of('externalWorkloadSelector: {matchLabels: {location: vm}}, proxyProtocol: none');
    t.equal(load(external, over).ask({}).verdict, kind === 'pod' ? 'permit' : 'deny');
    const seal = of('externalWorkloadSelector: {matchLabels: {location: vm}, matchLables: {a: b}}');
    t.equal(load(seal, over).ask({}).verdict, kind === 'pod' ? 'permit' : 'deny', 'a field that is unknown');
  }
});
