/** Documents that are valid and hardly what was meant: each row is a set of them, and what `check` says. */
import t from 'tap';
import { withRemedy } from '../../../lib/errors/problems.ts';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import { unknownAllowed, unusedAllowed } from '../../../lib/policy/documents/allowed-in-vain.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import type { Problem } from '../../../lib/problem.ts';
import { Review } from '../../../lib/review/review.ts';
import { readYaml } from '../../../lib/yaml.ts';
import { workload } from '../../support/policy-fixtures.ts';

const linkerd = 'policy.linkerd.io';
const base = 'serviceaccount.identity.linkerd.cluster.local';

function document(version: string, kind: string, name: string, spec: string, annotation = ''): string {
  const annotations = annotation === '' ? '' : `, annotations: { sallyport.dev/allow: ${JSON.stringify(annotation)} }`;
  return `apiVersion: ${version}\nkind: ${kind}\nmetadata: { name: ${name}, namespace: shop${annotations} }\nspec: ${spec}\n`;
}

const server = (more = '', name = 'web', port = 8080, allow = ''): string =>
  document(`${linkerd}/v1beta3`, 'Server', name, `{ podSelector: {}, port: ${port}${more} }`, allow);
const route = (name: string, matches: readonly string[], allow = '', hosts = ''): string => {
  const rules = matches.map((match) => `{ matches: [${match}] }`).join(', ');
  const spec = `{ parentRefs: [{ group: ${linkerd}, kind: Server, name: web }]${hosts}, rules: [${rules}] }`;
  return document(`${linkerd}/v1beta3`, 'HTTPRoute', name, spec, allow);
};
const path = (value: string, type = 'PathPrefix', more = ''): string =>
  `{ path: { type: ${type}, value: ${JSON.stringify(value)} }${more} }`;
const policy = (name: string, required: string, target = 'kind: Server, name: web', allow = ''): string => {
  const group = target.startsWith('kind: Namespace') ? '' : `group: ${linkerd}, `;
  const spec = `{ targetRef: { ${group}${target} }, requiredAuthenticationRefs: [${required}] }`;
  return document(`${linkerd}/v1alpha1`, 'AuthorizationPolicy', name, spec, allow);
};
const account = (name: string): string => `{ kind: ServiceAccount, name: ${name} }`;
const needs = (kind: string, name = 'a'): string => `{ group: ${linkerd}, kind: ${kind}, name: ${name} }`;
const tls = (...identities: string[]): string =>
  document(`${linkerd}/v1alpha1`, 'MeshTLSAuthentication', 'a', JSON.stringify({ identities }));
const networks = (...list: (string | object)[]): string => {
  const items = list.map((item) => (typeof item === 'string' ? { cidr: item } : item));
  return document(`${linkerd}/v1alpha1`, 'NetworkAuthentication', 'a', JSON.stringify({ networks: items }));
};
const onServer = (client: string): string =>
  document(`${linkerd}/v1beta1`, 'ServerAuthorization', 'sa', `{ server: { name: web }, client: ${client} }`);
const usesTls = policy('p', needs('MeshTLSAuthentication'));
const usesNetworks = policy('p', needs('NetworkAuthentication'), 'kind: HTTPRoute, name: r');
const everywhere = '[{ cidr: 0.0.0.0/0 }, { cidr: "::/0" }]';

const pod = workload({ namespace: 'shop', probes: new Map() });
const everyone = { code: 'admits-everyone' };
type Said = readonly (string | { readonly code: string; readonly message?: RegExp; readonly line?: number })[];

function said(documents: readonly string[]): readonly Problem[] {
  const sources = readYaml(documents.join('---\n'), 'p.yaml');
  t.same(sources.problems, []);
  const read = readDocuments(sources.documents, { namespace: 'shop' });
  t.same(
    read.problems.filter(({ severity }) => severity === 'error'),
    [],
  );
  const compiled = compileNow(read.documents, pod);
  const review = new Review(read.documents);
  review.pod(compiled.index);
  t.equal(review.unexamined, 0);
  const found = [read, compiled, review.findings(pod)];
  const unused = unusedAllowed(
    read.documents,
    found.flatMap(({ allowed }) => allowed),
  );
  return [...found.flatMap(({ problems }) => problems), ...unknownAllowed(read.documents), ...unused];
}

const rows: readonly (readonly [title: string, documents: readonly string[], said: Said])[] = [
  // Routes and rules
  ['routes that differ', [server(), route('r', [path('/a'), path('/b')]), route('s', [path('/a/b')])], []],
  [
    'a rule behind an equal one',
    [server(), route('r', [path('/a'), path('/a')])],
    [{ code: 'rule-never-found', message: /^no request finds rule 2: rule 1 takes all/, line: 9 }],
  ],
  [
    'a rule behind two that together take all',
    [server(), route('r', [path('/a', 'PathPrefix', ', method: GET'), path('/a'), path('/a', 'PathPrefix')])],
    [{ code: 'rule-never-found', message: /^no request finds rule 3: rule 2 takes/ }],
  ],
  ['a method less is no shadow', [server(), route('r', [path('/a', 'PathPrefix', ', method: GET'), path('/a')])], []],
  [
    'a route behind an older one',
    [server(), route('r', [path('/a')]), route('s', [path('/a')])],
    [{ code: 'route-never-found', message: /rule 1 of HTTPRoute r takes all that it matches/ }],
  ],
  [
    'for other hosts',
    [
      server(),
      route('r', [path('/a')], '', ', hostnames: [a.test]'),
      route('s', [path('/a')], '', ', hostnames: [b.test]'),
    ],
    [],
  ],
  [
    'for a host that has its own',
    [server(), route('r', [path('/a')]), route('s', [path('/a')], '', ', hostnames: [b.test]')],
    [],
  ],
  [
    'for all hosts of a domain, and of one in it',
    [
      server(),
      route('r', [path('/a')], '', ", hostnames: ['*.b.example']"),
      route('s', [path('/a')], '', ", hostnames: ['*.example']"),
    ],
    [],
  ],
  ['an expression behind a prefix', [server(), route('r', [path('/a/b'), path('/a/b/.*', 'RegularExpression')])], []],
  [
    'an expression within an older expression',
    [server(), route('r', [path('/a/.*', 'RegularExpression'), path('/a/b.*', 'RegularExpression')])],
    ['rule-never-found'],
  ],
  [
    'an expression that matches no path',
    [server(), route('r', [path('a.*', 'RegularExpression'), path('/')])],
    [{ code: 'rule-never-found', message: /rule 1: it matches no request/ }],
  ],
  [
    'headers: one that implies the other',
    [
      server(),
      route('r', [
        path('/', 'PathPrefix', ', headers: [{ name: x, type: RegularExpression, value: "a.*" }]'),
        path('/', 'PathPrefix', ', headers: [{ name: x, value: ab }]'),
        path('/', 'PathPrefix', ', headers: [{ name: x, value: b }]'),
      ]),
    ],
    ['rule-never-found'],
  ],
  [
    'the same on two Servers, and found on one',
    [
      server(),
      server('', 'api', 8081),
      route('r', [path('/a')]),
      route('s', [path('/a')]).replace('name: web }]', `name: web }, { group: ${linkerd}, kind: Server, name: api }]`),
    ],
    [],
  ],
  // Authorizations
  [
    'an identity on an opaque port',
    [server(', proxyProtocol: opaque'), policy('p', account('a'))],
    ['authorization-never-applies'],
  ],
  [
    'any identity on an opaque port',
    [server(', proxyProtocol: opaque'), tls('*'), usesTls],
    [{ code: 'authorization-never-applies', message: /the ports are opaque/ }],
  ],
  [
    'any identity on an opaque port, for a Server alone',
    [server(', proxyProtocol: opaque'), onServer(`{ meshTLS: { identities: ["*"] } }`)],
    ['authorization-never-applies'],
  ],
  ...['all', 'cluster'].map((whom): (typeof rows)[number] => [
    `an opaque port for whoever of ${whom} has an identity`,
    [server(`, proxyProtocol: opaque, accessPolicy: ${whom}-authenticated`)],
    [{ code: 'authorization-never-applies', message: /^accessPolicy: .* the port is opaque$/ }],
  ]),
  [
    'an identity for the namespace, and one port is not opaque',
    [
      server(', proxyProtocol: opaque'),
      server('', 'api', 8081),
      policy('p', account('a'), 'kind: Namespace, name: shop'),
    ],
    [],
  ],
  [
    'equal ones',
    [server(), policy('p', account('a')), policy('q', account('a'))],
    [{ code: 'authorization-redundant', message: /^authorizationpolicy p admits whomever/ }],
  ],
  ['different ones', [server(), policy('p', account('a')), policy('q', account('b'))], []],
  [
    'one of a route, and the same of its Server',
    [
      server(),
      route('r', [path('/')]),
      policy('p', account('a')),
      policy('q', account('a'), 'kind: HTTPRoute, name: r'),
    ],
    ['authorization-redundant'],
  ],
  [
    'one of a Server, and a wider one of one of its routes',
    [
      server(),
      route('r', [path('/')]),
      policy('p', account('a')),
      policy('q', '', 'kind: HTTPRoute, name: r', 'admits-everyone: the front page'),
    ],
    [],
  ],
  [
    'an authentication that nothing requires',
    [server(), tls(`a.shop.${base}`), policy('p', account('a'))],
    ['authentication-unused'],
  ],
  ['authentications alone', [tls(`a.shop.${base}`)], []],
  // Networks
  [
    'exceptions that together leave nothing',
    [
      server(),
      route('r', [path('/')]),
      usesNetworks,
      networks({ cidr: '10.0.0.0/8', except: ['10.0.0.0/9', '10.128.0.0/9'] }),
    ],
    ['network-covered'],
  ],
  [
    'exceptions',
    [server(), route('r', [path('/')]), usesNetworks, networks({ cidr: '10.0.0.0/8', except: ['10.0.0.0/9'] })],
    [],
  ],
  ['host bits', [server(), route('r', [path('/')]), usesNetworks, networks('10.1.2.3/8')], ['host-bits']],
  // Open to everybody
  ['nothing required', [server(), policy('p', '')], [everyone]],
  ['all networks', [server(), policy('p', needs('NetworkAuthentication')), networks('0.0.0.0/0', '::/0')], [everyone]],
  ['all of IPv4', [server(), policy('p', needs('NetworkAuthentication')), networks('0.0.0.0/0')], []],
  ['all networks, of a route', [server(), route('r', [path('/')]), usesNetworks, networks('0.0.0.0/0', '::/0')], []],
  ['any identity', [server(), usesTls, tls('*')], ['admits-every-identity']],
  [
    'any identity, from some networks',
    [
      server(),
      policy('p', `${needs('MeshTLSAuthentication')}, ${needs('NetworkAuthentication')}`),
      tls('*'),
      networks('10.0.0.0/8'),
    ],
    [],
  ],
  [
    'ServerAuthorization: everyone',
    [server(), onServer(`{ unauthenticated: true, networks: ${everywhere} }`)],
    [everyone],
  ],
  ['ServerAuthorization: the cluster', [server(), onServer('{ unauthenticated: true }')], []],
  [
    'ServerAuthorization: any identity',
    [server(), onServer(`{ meshTLS: { identities: ["*"] }, networks: ${everywhere} }`)],
    ['admits-every-identity'],
  ],
  ['accessPolicy: everyone', [server(', accessPolicy: all-unauthenticated')], [everyone]],
  ['accessPolicy: every identity', [server(', accessPolicy: all-authenticated')], ['admits-every-identity']],
  ['accessPolicy: audit', [server(', accessPolicy: audit')], [{ code: 'audit-left-on', line: 4 }]],
  ['accessPolicy: deny', [server(', accessPolicy: deny')], []],
  // What an annotation allows
  [
    'allowed',
    [server(', accessPolicy: audit', 'web', 8080, 'audit-left-on: until May; admits-everyone')],
    ['allow-unused'],
  ],
  ['allowed, and nothing else', [server(', accessPolicy: audit', 'web', 8080, 'audit-left-on: until May')], []],
  [
    'a code that is none',
    [server(', accessPolicy: audit', 'web', 8080, 'audit-lefton')],
    ['audit-left-on', { code: 'allow-unknown', message: /names "audit-lefton", which is no warning/, line: 3 }],
  ],
  ['an error', [server('', 'web', 8080, 'regex: it is right')], ['allow-unknown']],
  ['its own code', [server('', 'web', 8080, 'allow-unused: why not')], ['allow-unknown']],
  [
    'on another document',
    [server(', accessPolicy: audit'), policy('p', account('a'), undefined, 'audit-left-on')],
    ['audit-left-on', 'allow-unused'],
  ],
  ['what depends on the pod', [server('', 'web', 8080, 'probe-refused: by the app')], []],
  [
    'no text',
    [server('', 'web').replace('namespace: shop', 'namespace: shop, annotations: { sallyport.dev/allow: [1] }')],
    ['allow-unknown'],
  ],
];

t.test('documents, and what is said of them', async (t) => {
  for (const [title, documents, expected] of rows) {
    const problems = said(documents);
    const codes = expected.map((each) => (typeof each === 'string' ? each : each.code));
    t.same(problems.map(({ code }) => code).sort(), [...codes].sort(), title);
    for (const each of expected) {
      if (typeof each !== 'string')
        t.match(
          problems.find(({ code }) => code === each.code),
          each,
          title,
        );
    }
    for (const problem of problems) {
      t.equal(problem.severity, 'warning', title);
      t.not(withRemedy(problem).hint, '', title);
    }
  }
});

const identities: readonly (readonly [identity: string, impossible: RegExp | null])[] = [
  [`web.shop.${base}`, null],
  [`my.web.shop.${base}`, null],
  ['*', null],
  ['*.local', null],
  ['*.cluster.local', null],
  [`*.${base}`, null],
  [`*.shop.${base}`, null],
  [`*.web.shop.${base}`, null],
  ['web.example.com', null],
  ['web.shop.serviceaccount.identity.linkerd.other.test', null],
  ['spiffe://root.test/vm', null],
  ['web.shop.svc.cluster.local', /DNS name of a Service/],
  ['*.shop.svc.cluster.local', /DNS name of a Service/],
  ['10-1-2-3.shop.pod.cluster.local', /DNS name of a pod/],
  ['web.shop.serviceaccount.identity.linkerd2.cluster.local', /in namespace linkerd, not in linkerd2/],
  ['web.shop.identity.serviceaccount.linkerd.cluster.local', /end with "\.serviceaccount\.identity/],
  ['web.shop.identity.linkerd.cluster.local', /end with "\.serviceaccount\.identity/],
  [`web.${base}`, /no namespace stands between/],
  [base, /end with/],
  ['*.shop.linkerd.cluster.local', /end with/],
  ['cluster.local', /end with/],
  ['checkout', /names have dots; name a ServiceAccount/],
  ['web.shop.1', /no certificate gives/],
  [`${'a'.repeat(64)}.example.com`, /no certificate gives/],
  [`spiffe://${'a'.repeat(256)}/vm`, /no certificate gives/],
  ['*.example', null],
];

t.test('identities that no ServiceAccount has', async (t) => {
  for (const [identity, impossible] of identities) {
    const problems = said([server(), usesTls, tls(identity)]);
    const found = problems.filter(({ code }) => code === 'identity-impossible');
    t.equal(found.length, impossible === null ? 0 : 1, identity);
    if (impossible !== null) t.match(found[0]?.message, impossible, identity);
  }
});
