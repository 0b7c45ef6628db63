/**
 * At the first load there is no last good policy. A refused document grants nothing then, and what it might have refused,
 * had it been right, is closed until it is mended; everything else is as if it were not there.
 */
import t, { type Test } from 'tap';
import { document, load, open, policy, route, server } from '../../../support/policy-fixtures.ts';

const beta3 = 'policy.linkerd.io/v1beta3';
const open80 = { defaultPolicy: 'all-unauthenticated' } as const;
const bad = (spec: string, version = beta3): string => document('Server', 'web', spec, version);
const selects = 'podSelector: {matchLabels: {app: web}}';
const parent = 'parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]';
const routeOf = (spec: string): string => document('HTTPRoute', 'admin', `{${spec}}`, beta3);
const everyone = server('accessPolicy: all-unauthenticated');
const limitOn = (target: string, rest: string): string =>
  document('HTTPLocalRateLimitPolicy', 'l', `{targetRef: {${target}}, ${rest}}`);

/** Of each question whether it is let in. */
type Row = readonly [
  title: string,
  text: string,
  asked: readonly (readonly [question: Parameters<ReturnType<typeof load>['ask']>[0], permitted: boolean])[],
];

t.test('a Server', async (t) => {
  const rows: Row[] = [
    [
      'an access policy that is none',
      bad(`{${selects}, port: 8080, accessPolicy: allow}`),
      [
        [{}, false],
        [{ port: 9000 }, true],
      ],
    ],
    [
      'a named port',
      bad(`{${selects}, port: http, accessPolicy: allow}`),
      [
        [{}, false],
        [{ port: 7070 }, true],
      ],
    ],
    [
      'a port that is none',
      bad(`{${selects}, port: 0}`),
      [
        [{}, false],
        [{ port: 9000 }, false],
      ],
    ],
    [
      'no port',
      bad(`{${selects}}`),
      [
        [{}, false],
        [{ port: 4191 }, false],
      ],
    ],
    [
      'no spec',
      bad('null'),
      [
        [{}, false],
        [{ port: 9000 }, false],
      ],
    ],
    ['bytes that are not HTTP', bad(`{${selects}, port: 8080, accessPolicy: allow}`), [[{ protocol: 'tcp' }, false]]],
    ['a probe', bad(`{${selects}, port: 8080, accessPolicy: allow}`), [[{ path: '/live' }, false]]],
    ['loopback', bad(`{${selects}, port: 8080, accessPolicy: allow}`), [[{ ip: '127.0.0.1' }, false]]],
    ['of other pods', bad('{podSelector: {matchLabels: {app: api}}, port: 8080, accessPolicy: allow}'), [[{}, true]]],
    [
      'a selector that cannot be read',
      bad('{podSelector: {matchLabels: {app: 1}}, port: 8080}'),
      [
        [{}, false],
        [{ port: 9000 }, true],
      ],
    ],
    [
      'a selector that selects nothing as it stands',
      bad('{podSelector: {matchExpressions: [{key: a, operator: In}]}, port: 8080, accessPolicy: no}'),
      [[{}, false]],
    ],
    [
      'a selector without the values of an expression',
      bad('{podSelector: {matchExpressions: [{key: app, operator: In, valeus: [web]}]}, port: 8080}'),
      [
        [{}, false],
        [{ port: 9000 }, true],
      ],
    ],
    ...['ProxyProtocol', 'proxyprotocol', 'protocol'].map(
      (field): Row => [
        `${field} for proxyProtocol`,
        bad(`{${selects}, port: 8080, ${field}: HTTP/1, accessPolicy: all-unauthenticated}`),
        [
          [{ protocol: 'tcp' }, false],
          [{ port: 9000 }, true],
        ],
      ],
    ),
    ['no selector', bad('{port: 8080}'), [[{}, false]]],
    ['of external workloads', bad('{externalWorkloadSelector: {}, port: 8080, accessPolicy: allow}'), [[{}, true]]],
    [
      'of another namespace',
      bad(`{${selects}, port: 0}`).replace('name: web', 'name: web, namespace: other'),
      [[{}, true]],
    ],
    [
      'of a namespace that cannot be read',
      bad(`{${selects}, port: 8080}`).replace('name: web', 'name: web, namespace: 7'),
      [[{}, false]],
    ],
    ['a name that is none', bad(`{${selects}, port: 8080}`).replace('name: web', 'name: Web'), [[{}, false]]],
    ['a version that there is not', bad(`{${selects}, port: 8080}`, 'policy.linkerd.io/v2'), [[{}, false]]],
    [
      'older than another Server of the port, or not',
      `${everyone.replace('name: web', 'name: web, creationTimestamp: 2020-01-01T00:00:00Z')}${bad(`{${selects}}`).replace('name: web', 'name: b, creationTimestamp: 2021-01-01T00:00:00Z')}`,
      [
        [{}, true],
        [{ port: 9000 }, false],
      ],
    ],
    [
      'older than another Server of the port',
      `${everyone.replace('name: web', 'name: web, creationTimestamp: 2022-01-01T00:00:00Z')}${bad(`{${selects}}`).replace('name: web', 'name: b, creationTimestamp: 2021-01-01T00:00:00Z')}`,
      [[{}, false]],
    ],
    [
      'in the place of one that was right',
      `${everyone}${bad(`{${selects}, port: 8080, accessPolicy: allow}`)}`,
      [[{}, false]],
    ],
    [
      'with grants for it, and routes',
      `${bad(`{${selects}, port: 8080, accessPolicy: allow}`)}${policy('p', 'kind: Server, name: web')}${route('a', '{path: {value: /a}}')}${open('a')}`,
      [[{ path: '/a' }, false]],
    ],
    [
      'two without a name',
      `${bad(`{${selects}, port: 8080, accessPolicy: x}`)}${bad(`{${selects}, port: 9000, accessPolicy: x}`)}`.replaceAll(
        'name: web',
        'name: ""',
      ),
      [
        [{}, false],
        [{ port: 9000 }, false],
        [{ port: 9001 }, true],
      ],
    ],
  ];
  for (const row of rows) check(t, row);
});

t.test('a route', async (t) => {
  const root = `${route('root', '{path: {value: /}}')}${open('root')}`;
  const admin = '{path: {value: /admin}}';
  const rows: Row[] = [
    [
      'beside an open one: an unsupported filter',
      everyone + root + routeOf(`${parent}, rules: [{matches: [${admin}], filters: [{type: URLRewrite}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/admin/x' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'more specific ones stay as they are',
      `${everyone}${route('public', '{path: {value: /admin/public}}')}${open('public')}${routeOf(`${parent}, rules: [{matches: [${admin}], filters: [{type: URLRewrite}]}]`)}`,
      [
        [{ path: '/admin/public' }, true],
        [{ path: '/admin' }, false],
      ],
    ],
    [
      'alone: what it does not cover is decided as without it',
      everyone + routeOf(`${parent}, rules: [{matches: [${admin}], filters: [{type: URLRewrite}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'a method that is none',
      everyone + root + routeOf(`${parent}, rules: [{matches: [{path: {value: /admin}, method: get}]}]`),
      [
        [{ path: '/admin', method: 'DELETE' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'a path type that is none comes before more specific routes',
      `${everyone}${route('a', '{path: {type: Exact, value: /a}}')}${open('a')}${routeOf(`${parent}, rules: [{matches: [{path: {type: Glob, value: /b}}]}]`)}`,
      [[{ path: '/a' }, false]],
    ],
    [
      'a header that cannot be read, on one path',
      everyone +
        root +
        routeOf(`${parent}, rules: [{matches: [{path: {value: /admin}, headers: [{name: "a b", value: x}]}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'a pattern that is broken',
      everyone + root + routeOf(`${parent}, rules: [{matches: [{path: {type: RegularExpression, value: "/admin("}}]}]`),
      [
        [{ path: '/admin/x' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'a pattern that is broken, with alternatives',
      everyone +
        root +
        routeOf(`${parent}, rules: [{matches: [{path: {type: RegularExpression, value: "/admin(|/x"}}]}]`),
      [[{ path: '/x' }, false]],
    ],
    [
      'a relative path',
      everyone + root + routeOf(`${parent}, rules: [{matches: [{path: {type: Exact, value: admin}}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    ['rules that are no list', everyone + root + routeOf(`${parent}, rules: {matches: []}`), [[{ path: '/x' }, false]]],
    [
      'hosts that cannot be read',
      everyone + root + routeOf(`${parent}, hostnames: ["*"], rules: [{matches: [${admin}]}]`),
      [
        [{ path: '/admin', host: 'any' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'of one host',
      everyone +
        root +
        routeOf(`${parent}, hostnames: [a.example], rules: [{matches: [${admin}], filters: [{type: CORS}]}]`),
      [
        [{ path: '/admin', host: 'a.example' }, false],
        [{ path: '/admin', host: 'b.example' }, true],
      ],
    ],
    [
      'parents that are no list',
      everyone + root + routeOf(`parentRefs: {kind: Server, name: web}, rules: [{matches: [${admin}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'a parent of a kind that is nearly right',
      everyone +
        root +
        routeOf(`parentRefs: [{group: policy.linkerd.io, kind: Sever, name: web}], rules: [{matches: [${admin}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'a parent of a group that is nearly right',
      everyone +
        root +
        routeOf(`parentRefs: [{group: policy.linkerd.oi, kind: Server, name: web}], rules: [{matches: [${admin}]}]`),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    ...['kind: Srv', 'Kind: Server', 'knd: Server', 'kind: ""'].map(
      (kind): Row => [
        `a parent with ${kind}`,
        everyone +
          root +
          routeOf(`parentRefs: [{group: policy.linkerd.io, ${kind}, name: web}], rules: [{matches: [${admin}]}]`),
        [
          [{ path: '/admin' }, false],
          [{ path: '/x' }, true],
        ],
      ],
    ),
    ...[
      '{group: policy.linkerd.io, kin: , name: web}',
      '{group: policy.linkerd.io, kind: Server, name: ""}',
      '{group: policy.linkerd.io, kind: Server, name: web, namespace: ""}',
      '[{group: policy.linkerd.io, kind: Server, name: web}]',
      '{grou: policy.linkerd.io, kind: Server, name: web}',
      '{apiGroup: policy.linkerd.io, kind: Server, name: web}',
      '{Group: , kind: Server, name: web}',
    ].map(
      (ref): Row => [
        `a parent that is ${ref}`,
        everyone +
          root +
          routeOf(`parentRefs: [${ref}], rules: [{matches: [${admin}]}]`).replace(
            beta3,
            'gateway.networking.k8s.io/v1',
          ),
        [
          [{ path: '/admin' }, false],
          [{ path: '/x' }, true],
        ],
      ],
    ),
    [
      'Spec for spec, of which nothing can be read',
      everyone + root + routeOf(`${parent}, rules: [{matches: [${admin}]}]`).replace('spec:', 'Spec:'),
      [[{ path: '/x' }, false]],
    ],
    ...['parentRef', 'parentrefs', 'parents'].map(
      (field): Row => [
        `${field} for parentRefs`,
        everyone +
          root +
          routeOf(`${field}: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [{matches: [${admin}]}]`),
        [
          [{ path: '/admin' }, false],
          [{ path: '/x' }, true],
        ],
      ],
    ),
    [
      'in a group of Kubernetes, not of the Gateway API',
      everyone + root + routeOf(`${parent}, rules: [{matches: [${admin}]}]`).replace(beta3, 'networking.k8s.io/v1'),
      [
        [{ path: '/admin' }, false],
        [{ path: '/x' }, true],
      ],
    ],
    [
      'of a Gateway: none of ours, whatever it holds',
      everyone + routeOf(`parentRefs: [{name: web}], rules: [{matches: [{path: {type: Glob}}]}]`),
      [[{ path: '/admin' }, true]],
    ],
    [
      'a spelling of the path',
      everyone + root + routeOf(`${parent}, rules: [{matches: [${admin}], filters: [{type: URLRewrite}]}]`),
      [
        [{ path: '/x/../admin' }, false],
        [{ path: '/%61dmin' }, false],
      ],
    ],
    [
      'gRPC',
      `${server('accessPolicy: all-unauthenticated, proxyProtocol: gRPC')}${document('GRPCRoute', 'g', `{${parent}, rules: [{matches: [{method: {service: s, method: m}}], filters: [{type: RequestMirror}]}]}`, 'gateway.networking.k8s.io/v1')}`,
      [
        [{ path: '/s/m', method: 'POST', protocol: 'grpc' }, false],
        [{ path: '/s/n', method: 'POST', protocol: 'grpc' }, true],
      ],
    ],
    [
      'gRPC that would take the HTTPRoutes away',
      `${everyone}${root}${document('GRPCRoute', 'g', `{${parent}, rules: [{filters: [{type: RequestMirror}]}]}`, 'gateway.networking.k8s.io/v1')}`,
      [[{ path: '/x' }, false]],
    ],
  ];
  for (const row of rows) check(t, row);
});

t.test('a rate limit: its Server takes no requests', async (t) => {
  const onWeb = 'group: policy.linkerd.io, kind: Server, name: web';
  const other = document('Server', 'other', '{podSelector: {}, port: 9000, accessPolicy: all-unauthenticated}', beta3);
  const rows: Row[] = [
    [
      'above the total',
      everyone + other + limitOn(onWeb, 'total: {requestsPerSecond: 1}, identity: {requestsPerSecond: 2}'),
      [
        [{}, false],
        [{ port: 9000 }, true],
      ],
    ],
    ['a field that is not known', everyone + limitOn(onWeb, 'totl: {requestsPerSecond: 1}'), [[{}, false]]],
    [
      'a target without its group',
      everyone + other + limitOn('kind: Server, name: web', 'total: {requestsPerSecond: 1}'),
      [
        [{}, false],
        [{ port: 9000 }, true],
      ],
    ],
    [
      'a target that nobody knows',
      everyone + other + limitOn('kind: Pod, name: web', 'total: {requestsPerSecond: 1}'),
      [
        [{}, false],
        [{ port: 9000 }, false],
      ],
    ],
    [
      'of a Server that there is not',
      everyone + limitOn(onWeb.replace('web', 'wep'), 'total: {requestsPerSecond: x}'),
      [[{}, true]],
    ],
  ];
  for (const row of rows) check(t, row);
});

t.test('what only grants closes nothing, and takes an earlier one of its name away', async (t) => {
  const wide = policy('p', 'kind: Server, name: web');
  const rows: Row[] = [
    [
      'an AuthorizationPolicy',
      everyone + document('AuthorizationPolicy', 'x', '{targetRef: {kind: Pod, name: a}}'),
      [[{}, true]],
    ],
    ['a MeshTLSAuthentication', everyone + document('MeshTLSAuthentication', 'x', '{}'), [[{}, true]]],
    [
      'the later of two',
      server() + wide + policy('p', 'kind: Server, name: web', '{kind: JWT, name: a}'),
      [[{}, false]],
    ],
    [
      'the earlier of two',
      server() + policy('p', 'kind: Server, name: web', '{kind: JWT, name: a}') + wide,
      [[{}, true]],
    ],
  ];
  for (const row of rows) check(t, row);
});

t.test('a NetworkPolicy of a raw list closes what it selects', async (t) => {
  const list = `
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicyList
items: [{metadata: {name: np}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.9.0.0/16}}]}]}}]
`;
  check(t, [
    'closed but for its rules',
    list,
    [
      [{}, false],
      [{ ip: '10.9.1.1' }, true],
    ],
  ]);
});

function check(t: Test, [title, text, asked]: Row): void {
  const { ask } = load(text, open80);
  for (const [question, permitted] of asked) {
    const { verdict, reason, candidates, tcp } = ask(question);
    t.equal(verdict === 'permit', permitted, `${title}: ${JSON.stringify(question)}: ${verdict}, ${reason}`);
    const admitting = candidates.filter(({ granted }) => granted);
    if (verdict === 'deny' && tcp === null) t.same(admitting, [], `${title}: nobody is said to admit what is refused`);
  }
}
