/** What a test file says: read whole, or refused whole with the place of each fault. */
import t from 'tap';
import { questionCount, questionsOf } from '../../../lib/policy-test/questions.ts';
import { type PolicySuite, readSuite } from '../../../lib/policy-test/suite.ts';
import { readYaml } from '../../../lib/yaml.ts';

const workload = {
  namespace: 'shop',
  clusterNetworks: ['10.0.0.0/8'],
  trustDomain: 'cluster.local',
  controlPlaneNamespace: 'linkerd',
};

function read(text: string): ReturnType<typeof readSuite> & { readonly places: readonly string[] } {
  const { documents, problems } = readYaml(text, 'web.test.yaml');
  t.same(problems, [], 'it is YAML');
  const [document] = documents;
  if (document === undefined) throw new Error('the text holds no document');
  const result = readSuite(document);
  const places = result.faults.map(({ code, path, message }) => {
    const { line } = document.position(path);
    return `${line} ${code}: ${message}`;
  });
  return { ...result, places };
}

function suiteOf(text: string): PolicySuite {
  const { suite, places } = read(text);
  t.same(places, [], text.slice(0, 120));
  if (suite === null) throw new Error(`no suite: ${text.slice(0, 120)}`);
  return suite;
}

function questions(text: string): object[] {
  return suiteOf(text).cases.flatMap((one) => {
    const asked = [...questionsOf(one, workload)];
    t.equal(asked.length, questionCount(one, workload), 'as many as are counted');
    return asked.map(({ given, who }) => (who === null ? given : { ...given, who }));
  });
}

t.test('a case is asked once for each combination', async (t) => {
  const rows: readonly (readonly [name: string, text: string, asked: object[]])[] = [
    ['one', 'cases: [{ port: 80, expect: permit }]', [{ port: 80 }]],
    [
      'lists, of which the first changes slowest',
      'cases: [{ path: [/a, /b], method: [GET, POST], port: http, expect: permit }]',
      [
        { port: 'http', method: 'GET', path: '/a' },
        { port: 'http', method: 'GET', path: '/b' },
        { port: 'http', method: 'POST', path: '/a' },
        { port: 'http', method: 'POST', path: '/b' },
      ],
    ],
    [
      'defaults, which give way',
      'defaults: { port: 80, client: 10.0.0.1, path: /d, headers: { a: b } }\ncases: [{ path: /c, expect: permit }, { headers: { c: [d, e] }, expect: permit }]',
      [
        { port: 80, client: '10.0.0.1', path: '/c', headers: { a: ['b'] } },
        { port: 80, client: '10.0.0.1', path: '/d', headers: { c: ['d', 'e'] } },
      ],
    ],
    [
      'each of',
      'cases: [{ port: 80, each of: [{ path: /a }, { path: [/b, /c], method: PUT }], expect: permit }]',
      [
        { port: 80, path: '/a' },
        { port: 80, method: 'PUT', path: '/b' },
        { port: 80, method: 'PUT', path: '/c' },
      ],
    ],
    [
      'who asks is one thing: a default identity is none beside another',
      'defaults: { identity: a.b }\ncases: [{ tls: none, expect: permit }, { serviceAccount: c, expect: permit }, { path: /, expect: permit }]',
      [{ tls: 'none' }, { serviceAccount: 'c' }, { identity: 'a.b', path: '/' }],
    ],
    [
      'clients by name, and written out',
      'clients: { shop: { serviceAccount: [a/b, { name: c, namespace: d }], client: 10.0.0.2 } }\ndefaults: { client: 10.0.0.1 }\ncases: [{ from: [shop, { tls: anonymous }], expect: permit }]',
      [
        { client: '10.0.0.2', serviceAccount: 'a/b', who: 'shop' },
        { client: '10.0.0.2', serviceAccount: { name: 'c', namespace: 'd' }, who: 'shop' },
        { client: '10.0.0.1', tls: 'anonymous' },
      ],
    ],
    [
      'a default from gives way to who is named, or where from',
      'defaults: { from: everyone }\ncases: [{ client: 10.0.0.1, expect: permit }, { identity: a.b, client: 10.0.0.1, expect: permit }]',
      [{ client: '10.0.0.1' }, { client: '10.0.0.1', identity: 'a.b' }],
    ],
    [
      'anchors and merge keys',
      'defaults: &d { port: 80 }\ncases: [{ <<: *d, path: /a, expect: permit }]',
      [{ port: 80, path: '/a' }],
    ],
  ];
  for (const [name, text, asked] of rows) t.same(questions(text), asked, name);
});

t.test('everyone: a client of each kind that nobody has named', async (t) => {
  const asked = questions('defaults: { client: 1.2.3.4 }\ncases: [{ from: everyone, expect: deny }]');
  t.same(asked, [
    { client: '10.255.255.254', who: 'everyone: without TLS, inside the cluster' },
    { client: '203.0.113.77', who: 'everyone: without TLS, outside the cluster' },
    { client: '10.255.255.254', tls: 'anonymous', who: 'everyone: TLS without a certificate' },
    {
      client: '10.255.255.254',
      identity: 'stranger.shop.serviceaccount.identity.linkerd.cluster.local',
      who: 'everyone: a ServiceAccount of the namespace',
    },
    {
      client: '10.255.255.254',
      identity: 'stranger.elsewhere.serviceaccount.identity.linkerd.cluster.local',
      who: 'everyone: a ServiceAccount of another namespace',
    },
    {
      client: '203.0.113.77',
      identity: 'stranger.elsewhere.serviceaccount.identity.linkerd.foreign.test',
      who: 'everyone: an identity of another trust domain',
    },
  ]);
  const clients = (clusterNetworks: readonly string[], trustDomain = 'cluster.local'): unknown[] => {
    const [one] = suiteOf('cases: [{ from: everyone, expect: deny }]').cases;
    if (one === undefined) throw new Error('no case');
    return [...questionsOf(one, { ...workload, clusterNetworks, trustDomain })].map(
      ({ given: { client, identity = '' } }) => `${client} ${String(identity).split('.').slice(-2).join('.')}`.trim(),
    );
  };
  t.same([...new Set(clients([]).map((each) => String(each).split(' ')[0]))], ['203.0.113.77'], 'no cluster networks');
  t.same(clients(['0.0.0.0/0', '::/0']).length, 5, 'nothing is outside');
  t.same(clients(['fd00::/8'])[0], 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffe', 'IPv6');
  t.same(clients(['203.0.113.0/24'])[1], '198.51.100.77', 'an address outside, whatever is inside');
  t.same(clients(['10.9.9.9/32'])[0], '10.9.9.9', 'a network of one');
  t.match(clients(['10.0.0.0/8'], 'foreign.test').at(-1), /other\.test$/, 'another trust domain than the own');
});

const ok = 'expect: permit';
const faulty: readonly (readonly [text: string, faults: readonly string[]])[] = [
  ['[]', ['1 test-value: the document is a list, where a mapping is wanted']],
  ['text', ['1 test-value: the document is the text "text", where a mapping is wanted']],
  ['pod: {}', ['1 test-missing: the document has no cases']],
  ['cases:', ['1 test-value: cases is empty, where a list is wanted']],
  ['cases: []', ['1 test-empty: cases is an empty list']],
  ['cases: { path: / }', ['1 test-value: cases is a mapping, where a list is wanted']],
  ['cases:\n  - path: /a', ['2 test-missing: cases[0] has no expect']],
  [
    'cases:\n  - path: /a\n    expct: deny',
    ['3 test-field: cases[0].expct is not known', '2 test-missing: cases[0] has no expect'],
  ],
  ['cases:\n  - path: []\n    expect: deny', ['2 test-empty: cases[0].path is an empty list']],
  ['cases:\n  - path:\n    expect: deny', ['2 test-value: cases[0].path is empty, where text is wanted']],
  [
    'cases:\n  - path: [/a, 7]\n    expect: deny',
    ['2 test-value: cases[0].path[1] is the number 7, where text is wanted'],
  ],
  [
    `cases:\n  - port: 0\n    ${ok}`,
    ['2 test-value: cases[0].port is the number 0, where a whole number from 1 to 65535 is wanted'],
  ],
  [
    `cases:\n  - port: 1.5\n    ${ok}`,
    ['2 test-value: cases[0].port is the number 1.5, where a whole number from 1 to 65535 is wanted'],
  ],
  [
    `cases:\n  - tls: anonymus\n    ${ok}`,
    ['2 test-value: cases[0].tls is "anonymus", which is none of none, anonymous, passthrough'],
  ],
  [`cases:\n  - { headers: {}, ${ok} }`, ['2 test-empty: cases[0].headers is an empty mapping']],
  [
    `cases:\n  - { headers: { a: 1 }, ${ok} }`,
    ['2 test-value: cases[0].headers.a is the number 1, where text is wanted'],
  ],
  [
    `cases:\n  - { repeat: 0, ${ok} }`,
    ['2 test-value: cases[0].repeat is the number 0, where a whole number from 1 to 100000 is wanted'],
  ],
  [`cases:\n  - { each of: [], ${ok} }`, ['2 test-empty: cases[0].each of is an empty list']],
  [
    `cases:\n  - { path: /a, each of: [{ path: /b }], ${ok} }`,
    ['2 test-conflict: cases[0].each of[0].path is said by the case as well'],
  ],
  [`cases:\n  - { each of: [{ expect: permit }], ${ok} }`, ['2 test-field: cases[0].each of[0].expect is not known']],
  [
    `defaults: { expect: deny }\ncases: [{ path: / }]`,
    ['1 test-field: defaults.expect is not known', '2 test-missing: cases[0] has no expect'],
  ],
  [`cases:\n  - { from: nobody, ${ok} }`, ['2 test-value: cases[0].from names "nobody", which clients do not hold']],
  [`cases:\n  - { from: [], ${ok} }`, ['2 test-empty: cases[0].from is an empty list']],
  [`cases:\n  - { from: [{}], ${ok} }`, ['2 test-empty: cases[0].from[0] says nothing of a client']],
  [
    `cases:\n  - { from: everyone, identity: a.b, ${ok} }`,
    ['2 test-conflict: cases[0].identity stands beside from, which says who asks'],
  ],
  [
    `cases:\n  - { from: everyone, client: 1.2.3.4, ${ok} }`,
    ['2 test-conflict: cases[0].client stands beside from, which says who asks'],
  ],
  [
    `clients: { everyone: { tls: none } }\ncases: [{ ${ok} }]`,
    ['1 test-conflict: clients.everyone has a name that means all kinds of clients'],
  ],
  [
    'cases:\n  - expect: allow',
    [
      '2 test-value: cases[0].expect is "allow", which is none of permit, deny, no-route, redirect, rate-limited, invalid, refused',
    ],
  ],
  [
    'cases:\n  - expect: 42',
    ['2 test-value: cases[0].expect is the number 42, where a whole number from 300 to 599 is wanted'],
  ],
  [
    'cases:\n  - expect: 200',
    ['2 test-value: cases[0].expect is the number 200, where a whole number from 300 to 599 is wanted'],
  ],
  [
    'cases:\n  - expect: true',
    ['2 test-value: cases[0].expect is the truth value true, where a verdict, an HTTP status or a mapping is wanted'],
  ],
  ['cases:\n  - expect: {}', ['2 test-missing: cases[0].expect has neither verdict nor status nor grpcStatus']],
  [
    'cases:\n  - expect: { route: a }',
    ['2 test-missing: cases[0].expect has neither verdict nor status nor grpcStatus'],
  ],
  [
    'cases:\n  - expect: { verdict: permit, status: 403 }',
    ['2 test-conflict: cases[0].expect permits, and has the status of a refusal'],
  ],
  [
    'cases:\n  - expect: { verdict: deny, authorization: a }',
    ['2 test-conflict: cases[0].expect denies, and names what admits'],
  ],
  [
    'cases:\n  - expect: { verdict: deny, failing: { a: ip } }',
    ['2 test-value: cases[0].expect.failing.a is "ip", which is none of identity, network, reference'],
  ],
  [
    `pod: { labels: { a: 1 } }\ncases: [{ ${ok} }]`,
    ['1 test-value: pod.labels.a is the number 1, where text is wanted'],
  ],
  [
    `pod: { labels: { a: 'b,c=d' } }\ncases: [{ ${ok} }]`,
    ['1 test-value: pod.labels.a holds "b,c=d", with a comma, "=" or a line end'],
  ],
  [`pod: { ips: ['1.2.3.4,5.6.7.8'] }\ncases: [{ ${ok} }]`, ['1 test-value: pod.ips[0] holds a comma or a line end']],
  [`pod: { nmespace: a }\ncases: [{ ${ok} }]`, ['1 test-field: pod.nmespace is not known']],
  [`policy: []\ncases: [{ ${ok} }]`, ['1 test-empty: policy is an empty list']],
  [`policy: ''\ncases: [{ ${ok} }]`, ['1 test-empty: policy is empty text']],
  [`apiVersion: sallyport.dev/v1alpha1\ncases: [{ ${ok} }]`, ['1 test-missing: apiVersion stands alone']],
  [
    'apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: { name: a }',
    ['2 test-value: kind is Server: this is no policy test'],
  ],
];

t.test('what is wrong, with its line', async (t) => {
  for (const [text, faults] of faulty) {
    const { suite, places } = read(text);
    t.same(places, faults, text);
    t.equal(suite, null, 'and nothing of it is asked');
  }
  t.match(read('cases: [{ pth: /, expect: deny }]').faults, [{ hint: 'Did you mean "path"?' }]);
});

t.test('the settings of the pod, in the form of their variables', async (t) => {
  const { pod, manifest, policy } = suiteOf(`apiVersion: sallyport.dev/v1alpha1
kind: PolicyTest
policy: [a.yaml, b]
pod:
  manifest: pod.yaml
  namespace: shop
  labels: { app: web, tier: '' }
  ports: { http: [8080, 8081], grpc: 9000 }
  ips: [10.1.2.3, fd00::1]
  probes: 8080/healthz
  adminPort: 9999
  opaquePorts: [25, 9000-9100]
  probeNetworks: []
  authorizeLocalhost: false
cases: [{ expect: permit }]`);
  t.same(Object.fromEntries(pod.map(({ name, text }) => [name, text])), {
    namespace: 'shop',
    labels: 'app=web,tier=',
    ports: 'http=8080,http=8081,grpc=9000',
    ips: '10.1.2.3,fd00::1',
    probes: '8080/healthz',
    adminPort: '0.0.0.0:9999',
    opaquePorts: '25,9000-9100',
    probeNetworks: '',
    authorizeLocalhost: 'false',
  });
  t.equal(manifest?.value, 'pod.yaml');
  t.same(
    policy.map(({ value }) => value),
    ['a.yaml', 'b'],
  );
});

t.test('a case that stands for too many questions is counted without being asked', async (t) => {
  const list = JSON.stringify(Array.from({ length: 1000 }, (_, i) => `/${i}`));
  const [one] = suiteOf(`cases: [{ path: ${list}, method: ${list}, host: ${list}, expect: deny }]`).cases;
  t.equal(one === undefined ? 0 : questionCount(one, workload), 100_001);
});
