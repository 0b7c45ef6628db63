import t from 'tap';
import { createAuthorizer } from '../../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import { effectivePolicy } from '../../../../lib/policy/effective.ts';
import type { Workload } from '../../../../lib/policy/workload.ts';
import { ip, load, server, sources, workload } from '../../../support/policy-fixtures.ts';
import fc from '../../../support/properties.ts';

// The pod is shop/web-0, labels app=web and tier=front, ports http (8080) and grpc (7070), at 10.244.1.10.

const listing = `
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: linkerd, labels: {linkerd.io/is-control-plane: "true"}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: monitoring, labels: {team: ops, kubernetes.io/metadata.name: shop}}}
${[
  'name: web-0, ns: shop, labels: {app: web, tier: front}, ips: [10.244.1.10], hostIP: 192.168.7.1',
  'name: cart-0, ns: shop, labels: {app: cart}, ips: [10.244.1.11, "fd00:10:244:1::11"]',
  'name: done-0, ns: shop, labels: {app: cart}, ips: [10.244.1.12], phase: Succeeded',
  'name: failed-0, ns: shop, labels: {app: cart}, ips: [10.244.1.13], phase: Failed',
  'name: proxy-0, ns: shop, labels: {app: cart}, ips: [192.168.7.1], hostNetwork: true',
  'name: pending-0, ns: shop, labels: {app: slow}, ips: [], phase: Pending',
  'name: identity-0, ns: linkerd, labels: {linkerd.io/control-plane-component: identity}, ips: [10.244.2.1]',
  'name: prometheus-0, ns: monitoring, labels: {app: prometheus, linkerd.io/control-plane-ns: linkerd}, ips: [10.244.3.1]',
  'name: stranger-0, ns: unlisted, labels: {app: cart}, ips: [10.244.4.1]',
]
  .map(podItem)
  .join('')}
`;

function podItem(row: string): string {
  const name = /name: ([\w-]+)/.exec(row)?.[1];
  const namespace = /ns: ([\w-]+)/.exec(row)?.[1];
  const labels = /labels: (\{[^}]*\})/.exec(row)?.[1];
  const ips = /ips: \[([^\]]*)\]/.exec(row)?.[1] ?? '';
  const phase = /phase: (\w+)/.exec(row)?.[1] ?? 'Running';
  const hostIp = /hostIP: ([\d.]+)/.exec(row)?.[1] ?? '192.168.7.2';
  const list = ips === '' ? '' : `, podIPs: [${ips.split(', ').map((one) => `{ip: ${one}}`)}]`;
  return `- apiVersion: v1
  kind: Pod
  metadata: {name: ${name}, namespace: ${namespace}, labels: ${labels}, ownerReferences: [{kind: ReplicaSet}]}
  spec: {nodeName: one, containers: [{name: main}]${row.includes('hostNetwork') ? ', hostNetwork: true' : ''}}
  status: {phase: ${phase}, hostIP: ${hostIp}, qosClass: BestEffort${list}}
`;
}

function netpol(spec: string, name = 'np', namespace = 'shop'): string {
  return `
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: ${name}, namespace: ${namespace}}
spec: ${spec}
`;
}

/** One policy that selects every pod, with these ingress rules. */
const ingress = (rules: string): string => netpol(`{podSelector: {}, ingress: ${rules}}`);

function loaded(text: string, over: Partial<Workload> = {}) {
  const { authorizer, problems, ask } = load(text, over);
  const admits = (from: string, port = 8080): boolean => authorizer.admits(port, ip(from)).kind === 'admitted';
  return { authorizer, admits, problems, ask, codes: problems.map(({ code }) => code) };
}

const cart = '10.244.1.11';
const cart6 = 'fd00:10:244:1::11';
const identity = '10.244.2.1';
const prometheus = '10.244.3.1';
const stranger = '10.244.4.1';
const outside = '203.0.113.9';
const everyone = [cart, cart6, identity, prometheus, stranger, outside];

t.test('who reaches port 8080', async (t) => {
  const rows: readonly [what: string, documents: string, admitted: readonly string[]][] = [
    ['no policy at all', '', everyone],
    ['a policy of another namespace', netpol('{podSelector: {}}', 'np', 'other'), everyone],
    ['a policy for other pods', netpol('{podSelector: {matchLabels: {app: cart}}}'), everyone],
    ['egress alone does not isolate', netpol('{podSelector: {}, policyTypes: [Egress]}'), everyone],
    ['selected, without rules', netpol('{podSelector: {}}'), []],
    ['an absent podSelector selects every pod', netpol('{policyTypes: [Ingress]}'), []],
    ['no spec', netpol(''), []],
    ['an empty list of rules', ingress('[]'), []],
    ['an empty list of types is no list', netpol('{podSelector: {}, policyTypes: []}'), []],
    ['types ingress and egress', netpol('{podSelector: {}, policyTypes: [Egress, Ingress]}'), []],
    ['one empty rule', ingress('[{}]'), everyone],
    ['empty lists in a rule', ingress('[{from: [], ports: []}]'), everyone],
    ['null that narrows nothing is absent', ingress('[{ports: [{port: 8080, endPort: null}]}]'), everyone],
    ['its own namespace', ingress('[{from: [{podSelector: {}}]}]'), [cart, cart6]],
    ['labels in its own namespace', ingress('[{from: [{podSelector: {matchLabels: {app: prometheus}}}]}]'), []],
    [
      'every pod of every namespace, even of one that is not listed',
      ingress('[{from: [{namespaceSelector: {}}]}]'),
      [cart, cart6, identity, prometheus, stranger],
    ],
    [
      'both selectors: pods in namespaces',
      ingress('[{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: cart}}}]}]'),
      [cart, cart6, stranger],
    ],
    [
      'two items: either',
      ingress('[{from: [{namespaceSelector: {matchLabels: {team: ops}}}, {podSelector: {matchLabels: {app: cart}}}]}]'),
      [cart, cart6, prometheus],
    ],
    [
      'Exists, in all namespaces',
      ingress(
        '[{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: linkerd.io/control-plane-ns, operator: Exists}]}}]}]',
      ),
      [prometheus],
    ],
    [
      'Exists with an empty list of values',
      ingress('[{from: [{podSelector: {matchExpressions: [{key: app, operator: Exists, values: []}]}}]}]'),
      [cart, cart6],
    ],
    [
      'a labelled namespace',
      ingress('[{from: [{namespaceSelector: {matchLabels: {linkerd.io/is-control-plane: "true"}}}]}]'),
      [identity],
    ],
    [
      'the label with its name, implied where no Namespace is listed',
      ingress('[{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: unlisted}}}]}]'),
      [stranger],
    ],
    [
      'and not to be forged where one is',
      ingress('[{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]}]'),
      [cart, cart6],
    ],
    [
      'absence of a label is not assumed of a namespace that is not listed',
      ingress('[{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}]}]'),
      [identity],
    ],
    [
      'nor that it has another value',
      ingress('[{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [shop]}]}}]}]'),
      [identity, prometheus],
    ],
    ['a block', ingress('[{from: [{ipBlock: {cidr: 10.244.0.0/16}}]}]'), [cart, identity, prometheus, stranger]],
    [
      'a block with exceptions',
      ingress('[{from: [{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.3.0/24, 10.244.1.8/29]}}]}]'),
      [identity, stranger],
    ],
    [
      'an exception holds for its own block alone',
      ingress(
        '[{from: [{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.3.0/24]}}, {podSelector: {}}, {ipBlock: {cidr: 10.244.3.1/32}}]}]',
      ),
      [cart, cart6, identity, prometheus, stranger],
    ],
    ['an IPv6 block', ingress('[{from: [{ipBlock: {cidr: "fd00:10:244::/48"}}]}]'), [cart6]],
    ['a number', ingress('[{ports: [{port: 8080}]}]'), everyone],
    ['another number', ingress('[{ports: [{port: 8081}]}]'), []],
    ['a name', ingress('[{ports: [{port: http}]}]'), everyone],
    ['another name', ingress('[{ports: [{port: grpc}]}]'), []],
    ['a range', ingress('[{ports: [{port: 8000, endPort: 8080}]}]'), everyone],
    ['a range that ends before', ingress('[{ports: [{port: 8000, endPort: 8079}]}]'), []],
    ['a protocol without a port', ingress('[{ports: [{protocol: TCP}]}]'), everyone],
    ['UDP and SCTP are other ports', ingress('[{ports: [{protocol: UDP, port: 8080}, {protocol: SCTP}]}]'), []],
    [
      'peers and ports of one rule are both asked for',
      ingress('[{from: [{podSelector: {}}], ports: [{port: 8081}]}]'),
      [],
    ],
    [
      'rules add up',
      ingress('[{from: [{podSelector: {}}]}, {ports: [{port: 8080}], from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]'),
      [cart, cart6, outside],
    ],
    [
      'policies add up',
      `${netpol('{podSelector: {}}', 'deny-all')}${netpol('{podSelector: {matchLabels: {app: web}}, ingress: [{}]}', 'open')}`,
      everyone,
    ],
    [
      'and do so for their own pods only',
      `${netpol('{podSelector: {}}', 'deny-all')}${netpol('{podSelector: {matchLabels: {app: cart}}, ingress: [{}]}', 'open')}`,
      [],
    ],
  ];
  for (const [what, documents, admitted] of rows) {
    const { admits, problems } = loaded(documents + listing);
    t.same(
      problems.filter(({ severity }) => severity === 'error'),
      [],
      `${what}: no error`,
    );
    t.same(
      everyone.filter((from) => admits(from)),
      admitted,
      what,
    );
  }
});

t.test('what is never kept out', async (t) => {
  const closed = netpol('{podSelector: {}}');
  const rows: readonly [what: string, text: string, from: string, over: Partial<Workload>, admitted: boolean][] = [
    ['loopback', closed, '127.0.0.1', {}, true],
    ['all of loopback', closed, '127.8.9.10', {}, true],
    ['loopback, IPv6', closed, '::1', {}, true],
    ["the pod's own address", closed, '10.244.1.10', {}, true],
    ['its other address', closed, 'fd00:10:244:1::10', {}, true],
    ['its address of before', closed, '10.244.1.10', { ips: [ip('10.244.9.9')] }, false],
    ['its node, from its own Pod document', closed + listing, '192.168.7.1', {}, true],
    ['its node, from its manifest', closed, '192.168.7.9', { nodeIps: [ip('192.168.7.9')] }, true],
    ['its node, where nothing tells it', closed, '192.168.7.1', {}, false],
    ['the node of another pod', closed + listing, '192.168.7.2', {}, false],
  ];
  for (const [what, text, from, over, admitted] of rows) {
    t.equal(loaded(text, over).admits(from), admitted, what);
  }
});

t.test('pods without an address of their own are no peers', async (t) => {
  const { admits } = loaded(ingress('[{from: [{podSelector: {matchLabels: {app: cart}}}]}]') + listing, {
    podName: 'x',
  });
  t.equal(admits(cart), true);
  for (const from of ['10.244.1.12', '10.244.1.13', '192.168.7.1']) t.equal(admits(from), false, from);
});

t.test('what is malformed closes', async (t) => {
  const good = '{from: [{podSelector: {}}]}';
  const peer = (one: string): string => ingress(`[{from: [${one}, {ipBlock: {cidr: 0.0.0.0/0}}]}, ${good}]`);
  const ports = (one: string): string => ingress(`[{ports: [${one}]}, ${good}]`);
  const onlyTheRule = [cart, cart6];
  const rows: readonly [what: string, document: string, code: string, admitted: readonly string[]][] = [
    ['a peer without a field', peer('{}'), 'peer', onlyTheRule],
    ['a null peer', peer('null'), 'missing-field', onlyTheRule],
    ['an unknown field in a peer', peer('{podSelektor: {}}'), 'unknown-field', onlyTheRule],
    ['a block beside a selector', peer('{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}'), 'peer', onlyTheRule],
    ['no address', peer('{ipBlock: {cidr: example}}'), 'cidr', onlyTheRule],
    ['a bare address', peer('{ipBlock: {cidr: 10.0.0.1}}'), 'cidr', onlyTheRule],
    ['an exception outside', peer('{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}'), 'except', onlyTheRule],
    ['an exception for everything', peer('{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}'), 'except', onlyTheRule],
    ['In without values', peer('{podSelector: {matchExpressions: [{key: a, operator: In}]}}'), 'selector', onlyTheRule],
    [
      'Exists with values',
      peer('{podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}'),
      'selector',
      onlyTheRule,
    ],
    [
      'an unknown operator',
      peer('{podSelector: {matchExpressions: [{key: a, operator: Is}]}}'),
      'invalid-field',
      onlyTheRule,
    ],
    ['a label that cannot be', peer('{podSelector: {matchLabels: {app: "a b"}}}'), 'selector', onlyTheRule],
    ['a label without a value', peer('{podSelector: {matchLabels: {app: }}}'), 'invalid-field', onlyTheRule],
    ['an unknown field in a rule', ingress(`[{form: [{podSelector: {}}]}, ${good}]`), 'unknown-field', onlyTheRule],
    ['an unknown field in a port', ports('{port: 8080, protokoll: UDP}'), 'unknown-field', onlyTheRule],
    ['a quoted number', ports('{port: "8080"}'), 'invalid-field', onlyTheRule],
    ['a port beyond all', ports('{port: 65536}'), 'invalid-field', onlyTheRule],
    ['a range downwards', ports('{port: 8080, endPort: 80}'), 'end-port', onlyTheRule],
    ['a range from a name', ports('{port: http, endPort: 9000}'), 'end-port', onlyTheRule],
    ['a range from nowhere', ports('{endPort: 9000}'), 'end-port', onlyTheRule],
    ['an unknown protocol', ports('{protocol: ICMP}'), 'invalid-field', onlyTheRule],
    ['a rule that is no object', ingress(`[everyone, ${good}]`), 'invalid-field', onlyTheRule],
    ['rules that are no list', ingress('everyone'), 'invalid-field', []],
    [
      'an unknown field beside the rules',
      netpol(`{podSelector: {}, ingres: [], ingress: [${good}]}`),
      'unknown-field',
      [],
    ],
    ['an unknown type', netpol(`{podSelector: {}, policyTypes: [ingress], ingress: [${good}]}`), 'invalid-field', []],
    [
      'a podSelector that cannot be read selects this pod too',
      netpol(`{podSelector: {matchLabel: {app: cart}}, ingress: [${good}]}`),
      'unknown-field',
      [],
    ],
    ['a spec that is no object', netpol('all'), 'invalid-field', []],
    ['a name that cannot be', netpol(`{podSelector: {}, ingress: [${good}]}`, 'No_Name'), 'invalid-field', []],
    [
      'a version that does not exist',
      ingress(`[${good}]`).replace('networking.k8s.io/v1', 'networking.k8s.io/v2'),
      'unknown-version',
      [],
    ],
  ];
  for (const [what, document, code, admitted] of rows) {
    const { admits, problems } = loaded(document + listing);
    t.match(
      problems.filter(({ severity }) => severity === 'error'),
      [{ code }],
      `${what}: ${code}`,
    );
    t.same(
      everyone.filter((from) => admits(from)),
      admitted,
      what,
    );
  }
  t.match(loaded(ingress(`[{form: [{podSelector: {}}]}]`)).problems[0], {
    message: 'unknown field spec.ingress[0].form: the rule opens nothing',
    hint: 'Did you mean "from"?',
  });
});

t.test('a Pod that cannot be read is an error, and nobody', async (t) => {
  const broken = `
---
apiVersion: v1
kind: Pod
metadata: {name: cart-0, namespace: shop, labels: {app: cart}}
status: {podIPs: 10.244.1.11}
`;
  const { admits, problems } = loaded(ingress('[{from: [{podSelector: {}}]}]') + broken);
  t.match(problems, [
    { severity: 'error', code: 'invalid-field', message: /^status\.podIPs / },
    { code: 'no-pods-known' },
  ]);
  t.equal(admits(cart), false);
});

t.test('doubts', async (t) => {
  const rows: readonly [what: string, text: string, code: string, hint: RegExp][] = [
    [
      'selects no known pod',
      netpol('{podSelector: {matchLabels: {app: wbe}}}') + listing,
      'selects-no-known-pod',
      /Compare/,
    ],
    ['does not select this one', netpol('{podSelector: {matchLabels: {app: wbe}}}'), 'selects-no-pod', /Compare/],
    ['selects another', netpol('{podSelector: {matchLabels: {app: cart}}}') + listing, '', /^$/],
    ['a port name', ingress('[{ports: [{port: htpp}]}]'), 'port-name-unknown', /"http"/],
    [
      'labels, and no Pod listed',
      ingress('[{from: [{podSelector: {}}]}]'),
      'no-pods-known',
      /kubectl get pods,namespaces/,
    ],
    ['a block needs no listing', ingress('[{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]'), '', /^$/],
    [
      'a peer that nobody is',
      ingress('[{from: [{podSelector: {matchLabels: {app: crat}}}]}]') + listing,
      'peer-selects-nobody',
      /labels of the pods/,
    ],
    [
      'a peer that has no address yet',
      ingress('[{from: [{podSelector: {matchLabels: {app: slow}}}]}]') + listing,
      'peer-selects-nobody',
      /not yet started/,
    ],
    [
      'namespaces that are not listed',
      ingress('[{from: [{namespaceSelector: {matchLabels: {team: ops}}}]}]') +
        listing.replaceAll('kind: Namespace', 'kind: ConfigMap'),
      'peer-selects-nobody',
      /labels of namespaces are not known/,
    ],
    ['egress too', netpol('{podSelector: {}, egress: [{}]}'), 'egress-not-enforced', /plugin/],
    ['egress only', netpol('{podSelector: {}, policyTypes: [Egress]}'), 'egress-not-enforced', /plugin/],
    [
      'rules without the type',
      netpol('{podSelector: {}, policyTypes: [Egress], ingress: [{}]}'),
      'ingress-not-enforced',
      /Add Ingress/,
    ],
    ['everything listed twice', listing + listing, 'duplicate', /one listing/],
  ];
  for (const [what, text, code, hint] of rows) {
    const doubts = loaded(text).problems.filter((problem) => problem.code !== 'ignored-kind');
    if (code === '') t.same(doubts, [], what);
    else t.match(doubts[0], { severity: 'warning', code, hint, file: 'policy.yaml' }, what);
  }
  t.equal(loaded(listing + listing).problems.length, 1, 'one note for a whole listing');
  t.same(loaded(listing).problems, [], 'a listing is read without noise');
});

t.test('a Server for a port that the pod does not have', async (t) => {
  const { problems } = loaded(server().replace('port: 8080', 'port: htpp'));
  t.match(problems, [
    { severity: 'warning', code: 'port-name-unknown', message: /no port named "htpp"/, hint: 'Did you mean "http"?' },
  ]);
});

t.test(
  "the proxy's own names for the admin port are a Server's words: a NetworkPolicy goes by the pod's",
  async (t) => {
    for (const name of ['admin', 'linkerd-admin']) {
      const text =
        ingress(`[{ports: [{port: ${name}}]}]`) +
        server('accessPolicy: all-unauthenticated').replace('port: 8080', `port: ${name}`);
      const { ask, problems } = loaded(text, { adminPort: 4191 });
      t.match(ask({ port: 4191 }), { verdict: 'deny', tcp: 'close' }, name);
      t.match(problems, [{ code: 'port-name-unknown', resource: { kind: 'NetworkPolicy' } }], name);
      const declared = loaded(text, { adminPort: 4191, namedPorts: new Map([[name, [4191]]]) });
      t.match(declared.ask({ port: 4191 }), { verdict: 'permit' }, `${name}, declared`);
    }
  },
);

t.test('explain names the policies and every rule that did not match', async (t) => {
  const text =
    ingress('[{from: [{podSelector: {}}]}, {ports: [{port: 9000, endPort: 9002}, {port: grpc}]}]') +
    netpol('{podSelector: {matchLabels: {app: web}}}', 'deny-all') +
    listing;
  const { ask, authorizer } = loaded(text, { defaultPolicy: 'all-unauthenticated' });
  const ref = (name: string) => ({ group: 'networking.k8s.io', kind: 'NetworkPolicy', name });
  const failed = { granted: false, failed: 'network' } as const;
  t.same(ask({ ip: prometheus, identity: 'prometheus.monitoring' }), {
    verdict: 'deny',
    httpStatus: null,
    grpcStatus: null,
    tcp: 'close',
    audit: false,
    route: null,
    rule: null,
    authz: null,
    server: { group: '', kind: 'default', name: 'all-unauthenticated' },
    reason:
      'the pod is isolated by NetworkPolicies deny-all, np, and no rule admits 10.244.3.1 (Pod monitoring/prometheus-0) to port 8080',
    candidates: [
      {
        authz: ref('deny-all'),
        ...failed,
        detail: 'spec.ingress: wanted nobody: it has no ingress rules, was 10.244.3.1 (Pod monitoring/prometheus-0)',
      },
      {
        authz: ref('np'),
        ...failed,
        detail: 'spec.ingress[0]: wanted pods (all) of namespace shop, was 10.244.3.1 (Pod monitoring/prometheus-0)',
      },
      { authz: ref('np'), ...failed, detail: 'spec.ingress[1]: wanted TCP 9000-9002, grpc, was TCP 8080' },
    ],
    networkPolicies: [ref('deny-all'), ref('np')],
  });
  t.match(ask({ ip: cart }), { verdict: 'permit', networkPolicies: [] }, 'admitted, and then decided as ever');
  t.match(ask({ ip: prometheus, port: 7070 }), { verdict: 'permit' });
  t.match(authorizer.admissionReasons(8080, ip(cart)), {
    reason: /10\.244\.1\.11 \(Pod shop\/cart-0\) is admitted by/,
  });
  t.match(authorizer.admissionReasons(8080, ip('127.0.0.1')), { reason: /the pod itself or its node/ });
  t.match(loaded('').authorizer.admissionReasons(8080, ip(cart)), { reason: 'no NetworkPolicy selects the pod' });
});

t.test('the policy view shows them', async (t) => {
  const pod = workload();
  const text = ingress('[{from: [{podSelector: {}}]}, {ports: [{port: http}]}]') + listing;
  const { index } = compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, pod);
  t.same(effectivePolicy(index, pod).networkPolicies, [
    {
      policy: 'networking.k8s.io/NetworkPolicy/np',
      rules: [
        { path: 'spec.ingress[0]', ports: 'any port', from: 'pods (all) of namespace shop' },
        { path: 'spec.ingress[1]', ports: 'TCP http', from: 'anybody' },
      ],
    },
  ]);
});

t.test('no port is open that is none', async (t) => {
  const { admits } = loaded(ingress('[{ports: [{port: 1, endPort: 65535}]}]'));
  t.same(
    [0, 1, 65_535, 65_536, -1, Number.NaN].map((port) => admits(outside, port)),
    [false, true, true, false, false, false],
  );
});

t.test('any rules: ports and blocks as one by one', async (t) => {
  const port = fc.integer({ min: 1, max: 40 });
  const range = fc.tuple(port, port).map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));
  const block = fc.tuple(fc.integer({ min: 0, max: 15 }), fc.integer({ min: 28, max: 32 })).map(([last, prefix]) => {
    const size = 2 ** (32 - prefix);
    const first = last - (last % size);
    return { cidr: `10.0.0.${last}/${prefix}`, first, last: first + size - 1 };
  });
  const rules = fc.array(
    fc.record({ ports: fc.array(range, { maxLength: 3 }), from: fc.array(block, { maxLength: 3 }) }),
  );
  const same = fc.property(
    rules,
    fc.integer({ min: 1, max: 41 }),
    fc.integer({ min: 0, max: 17 }),
    (list, asked, last) => {
      const spec = list.map(({ ports, from }) => ({
        ports: ports.map(({ first, last: endPort }) => ({ port: first, endPort })),
        from: from.map(({ cidr }) => ({ ipBlock: { cidr } })),
      }));
      const inside = (all: readonly { first: number; last: number }[], one: number): boolean =>
        all.length === 0 || all.some((each) => each.first <= one && one <= each.last);
      const expected = list.some(({ ports, from }) => inside(ports, asked) && inside(from, last));
      return loaded(ingress(JSON.stringify(spec))).admits(`10.0.0.${last}`, asked) === expected;
    },
  );
  t.doesNotThrow(() => fc.assert(same));
});

t.test('before the first load, refusing is left to authorization', async (t) => {
  const authorizer = createAuthorizer({ nowMs: () => 0 });
  t.equal(authorizer.admits(8080, ip(outside)).kind, 'admitted');
  t.equal(
    authorizer.connection(authorizer.port(8080), { ip: ip(outside), tls: { kind: 'none', reason: 'port_skipped' } })
      .kind,
    'deny',
  );
});
