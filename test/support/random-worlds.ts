import fc from 'fast-check';

/*
 * Policies and questions at random, close enough to each other that they meet: few names, few paths, few networks.
 */

export interface RandomDocument {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string; readonly creationTimestamp?: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

export interface RandomRequest {
  /** Which of the ports of the world. */
  readonly port: number;
  readonly client: string;
  /** A name of one of the clients' certificates, or what there is in its place. */
  readonly tls: 'none' | 'anonymous' | 'passthrough' | { readonly identity: string };
  readonly protocol: 'http1' | 'http2' | 'grpc' | 'tcp' | 'connect';
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
}

export const identities = {
  dns: 'orders.shop.serviceaccount.identity.linkerd.cluster.local',
  other: 'web.bank.serviceaccount.identity.linkerd.cluster.local',
  spiffe: 'spiffe://root.test/ns/shop/sa/orders',
} as const;

const linkerd = 'policy.linkerd.io';
const gateway = 'gateway.networking.k8s.io';
const servers = ['a', 'b', 'c', 'd'] as const;
const routes = ['r0', 'r1', 'r2', 'r3'] as const;
const of = fc.constantFrom;
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const some = <T>(value: fc.Arbitrary<T>, maxLength: number): fc.Arbitrary<T[]> => fc.array(value, { maxLength });
/** Without what is absent: `undefined` is no YAML. */
const record = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Record<string, unknown>> =>
  fc.record(fields).map((each) => Object.fromEntries(Object.entries(each).filter(([, value]) => value !== undefined)));

function document(
  apiVersion: string,
  kind: string,
  name: fc.Arbitrary<string>,
  spec: fc.Arbitrary<Record<string, unknown>>,
): fc.Arbitrary<RandomDocument> {
  const at = optional(of('2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'));
  return fc.tuple(name, at, spec).map(([named, creationTimestamp, body]) => ({
    apiVersion,
    kind,
    metadata: { name: named, namespace: 'shop', ...(creationTimestamp === undefined ? {} : { creationTimestamp }) },
    spec: body,
  }));
}

const selector = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  { weight: 4, arbitrary: fc.constant({ matchLabels: { app: 'web' } }) },
  { weight: 1, arbitrary: fc.constant({ matchLabels: { app: 'other' } }) },
  { weight: 1, arbitrary: fc.constant({ matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['db'] }] }) },
);
const cidr = of('127.0.0.1/32', '127.0.0.2/32', '127.0.0.2/31', '127.0.0.0/8', '0.0.0.0/0', '::/0', 'podClusterIp');
const network = fc.oneof(
  cidr.map((text) => ({ cidr: text })),
  fc.constant({ cidr: '127.0.0.0/8', except: ['127.0.0.2/32'] }),
  fc.constant({ cidr: '0.0.0.0/0', except: ['127.0.0.0/24', '127.9.0.0/16'] }),
);
const identity = of(
  ...Object.values(identities),
  '*',
  '*.shop.serviceaccount.identity.linkerd.cluster.local',
  '*.local',
);

const server = (ports: readonly number[]): fc.Arbitrary<RandomDocument> =>
  document(
    `${linkerd}/v1beta3`,
    'Server',
    of(...servers),
    record({
      podSelector: selector,
      port: of<number | string>(...ports, 'named'),
      proxyProtocol: optional(of('unknown', 'unknown', 'HTTP/1', 'HTTP/1', 'HTTP/2', 'gRPC', 'opaque', 'TLS')),
      accessPolicy: optional(
        of(
          'deny',
          'all-unauthenticated',
          'all-authenticated',
          'cluster-unauthenticated',
          'cluster-authenticated',
          'audit',
        ),
      ),
    }),
  );

const parentRefs = of(...servers).map((name) => [{ group: linkerd, kind: 'Server', name }]);
const headerMatch = fc.oneof(
  fc.record({ name: of('x-role', 'X-Role', 'cookie'), value: of('admin', 'user') }),
  fc.record({ name: of('x-role'), type: of('RegularExpression'), value: of('a.*', '(admin|user)', '.*n') }),
);
const queryMatch = fc.record({ name: of('x', 'y'), value: of('1', '2') });
const path = fc.oneof(
  fc.record({ type: of('PathPrefix', 'Exact'), value: of('/', '/a', '/a/b', '/healthz', '/a/') }),
  fc.record({ type: of('RegularExpression'), value: of('/a/.*', '/[ab]+', '/(a|a/b)', '.*b') }),
);
const filter = fc.oneof(
  fc.constant({ type: 'RequestHeaderModifier', requestHeaderModifier: { set: [{ name: 'x-set', value: 'here' }] } }),
  fc.constant({ type: 'RequestRedirect', requestRedirect: { hostname: 'elsewhere.test', statusCode: 301 } }),
);
const httpRoute = (group: string, version: string): fc.Arbitrary<RandomDocument> =>
  document(
    `${group}/${version}`,
    'HTTPRoute',
    of(...routes),
    record({
      parentRefs,
      hostnames: optional(fc.constantFrom(['web.shop'], ['*.shop'], ['web.shop', 'other.test'])),
      rules: fc.array(
        record({
          matches: optional(
            fc.array(
              record({
                path: optional(path),
                method: optional(of('GET', 'POST', 'DELETE')),
                headers: optional(fc.array(headerMatch, { minLength: 1, maxLength: 1 })),
                queryParams: optional(fc.array(queryMatch, { minLength: 1, maxLength: 1 })),
              }),
              { minLength: 1, maxLength: 2 },
            ),
          ),
          filters: fc.oneof(
            { weight: 5, arbitrary: fc.constant(undefined) },
            { weight: 1, arbitrary: some(filter, 1) },
          ),
        }),
        { minLength: 1, maxLength: 3 },
      ),
    }),
  );
const grpcRoute = document(
  `${gateway}/v1`,
  'GRPCRoute',
  of(...routes),
  record({
    parentRefs,
    rules: fc.array(
      record({
        matches: optional(
          fc.array(
            record({
              method: fc.oneof(
                fc.record({ service: of('svc.Foo') }),
                fc.record({ service: of('svc.Foo'), method: of('Bar', 'Baz') }),
                fc.record({ method: of('Bar') }),
              ),
              headers: optional(fc.array(headerMatch, { minLength: 1, maxLength: 1 })),
            }),
            { minLength: 1, maxLength: 2 },
          ),
        ),
      }),
      { maxLength: 2 },
    ),
  }),
);

const target = fc.oneof(
  of(...servers).map((name) => ({ group: linkerd, kind: 'Server', name })),
  of(...routes).chain((name) => of(linkerd, gateway).map((group) => ({ group, kind: 'HTTPRoute', name }))),
  of(...routes).map((name) => ({ group: gateway, kind: 'GRPCRoute', name })),
  fc.constant({ kind: 'Namespace', name: 'shop' }),
);
const required = fc.oneof(
  fc.constant([]),
  of('m0', 'm1').map((name) => [{ group: linkerd, kind: 'MeshTLSAuthentication', name }]),
  of('n0', 'n1').map((name) => [{ group: linkerd, kind: 'NetworkAuthentication', name }]),
  fc.tuple(of('m0', 'm1'), of('n0', 'n1')).map(([mesh, net]) => [
    { group: linkerd, kind: 'MeshTLSAuthentication', name: mesh },
    { group: linkerd, kind: 'NetworkAuthentication', name: net },
  ]),
  fc.constant([{ kind: 'ServiceAccount', name: 'orders' }]),
);
const authorizations = fc.oneof(
  document(
    `${linkerd}/v1alpha1`,
    'AuthorizationPolicy',
    of('p0', 'p1', 'p2', 'p3', 'p4'),
    record({ targetRef: target, requiredAuthenticationRefs: required }),
  ),
  document(
    `${linkerd}/v1beta1`,
    'ServerAuthorization',
    of('s0', 's1'),
    record({
      server: of(...servers).map((name) => ({ name })),
      client: fc
        .tuple(
          optional(fc.array(network, { minLength: 1, maxLength: 2 })),
          fc.oneof(
            fc.constant({ unauthenticated: true }),
            fc.constant({ meshTLS: { unauthenticatedTLS: true } }),
            identity.map((each) => ({ meshTLS: { identities: [each] } })),
            fc.constant({ meshTLS: { serviceAccounts: [{ name: 'orders' }] } }),
          ),
        )
        .map(([networks, who]) => ({ ...(networks === undefined ? {} : { networks }), ...who })),
    }),
  ),
  document(
    `${linkerd}/v1alpha1`,
    'MeshTLSAuthentication',
    of('m0', 'm1'),
    fc.oneof(
      fc.array(identity, { minLength: 1, maxLength: 2 }).map((list) => ({ identities: list })),
      fc.constant({ identityRefs: [{ kind: 'ServiceAccount', name: 'orders' }] }),
    ),
  ),
  document(
    `${linkerd}/v1alpha1`,
    'NetworkAuthentication',
    of('n0', 'n1'),
    fc.array(network, { minLength: 1, maxLength: 2 }).map((networks) => ({ networks })),
  ),
);

/** Documents of all kinds; of those with one name the first. Some are refused for what others say. */
export function randomPolicy(ports: readonly number[]): fc.Arbitrary<readonly RandomDocument[]> {
  const each = (arbitrary: fc.Arbitrary<RandomDocument>, minLength: number, maxLength: number) =>
    fc.array(arbitrary, { minLength, maxLength });
  return fc
    .tuple(
      each(server(ports), 2, 6),
      each(fc.oneof(httpRoute(linkerd, 'v1beta3'), httpRoute(gateway, 'v1'), grpcRoute), 0, 4),
      each(authorizations, 2, 10),
    )
    .map((lists) => [
      ...new Map(
        lists
          .flat()
          .toReversed()
          .map((one) => [`${one.apiVersion.split('/')[0]}/${one.kind}/${one.metadata.name}`, one]),
      ).values(),
    ]);
}

export function randomRequest(ports: readonly number[]): fc.Arbitrary<RandomRequest> {
  const request = fc.record({
    port: of(...ports),
    client: of('127.0.0.1', '127.0.0.2', '127.0.0.3', '127.9.9.9'),
    tls: of<RandomRequest['tls']>(
      'none',
      'none',
      'anonymous',
      'passthrough',
      'passthrough',
      ...Object.values(identities).map((name) => ({ identity: name })),
    ),
    protocol: of('http1', 'http1', 'http1', 'http2', 'http2', 'grpc', 'tcp', 'connect'),
    method: of('GET', 'GET', 'GET', 'POST', 'HEAD', 'DELETE', 'OPTIONS', 'PROPFIND', 'get'),
    path: of(
      ...['/', '/', '/a', '/a', '/a/b', '/a/', '/A', '/a;x', '/a/../b', '/a/%2e%2e/b', '/a%2fb', '//a', '/%61', '/a#f'],
      ...['/healthz', '/healthz', '/healthz?x=1', '/secure', '/secure', '/secure?x=1', '/stop', '/Stop', '/secure/'],
      ...['/grpc.health.v1.Health/Check', '/grpc.health.v1.Health/Check', '/grpc.health.v1.Health/Watch'],
      ...['/svc.Foo/Bar', '/svc.Foo/Bar', '/svc.Foo/Baz', '/svc.Foo/Bar/'],
      ...['/a?x=1', '/a?x=2&y=1', '/a?X=1', '/a?x=1;y=2', '/b?x=%31', '/a\\b', '/a%00', '*', 'http://web.shop/a'],
    ),
    host: of('web.shop', 'web.shop', 'WEB.shop:80', 'a.web.shop', 'other.test.', '10.0.0.1', '[::1]:80', 'a@web.shop'),
    headers: of<Record<string, string>>(
      ...[{}, {}, {}, { 'x-role': 'admin' }, { 'x-role': 'user' }, { x_role: 'admin' }, { cookie: 'admin' }],
      ...[{ 'l5d-client-id': 'root' }, { l5d_client_id: 'root' }, { 'x-role': ' admin' }],
    ),
  });
  // A call of gRPC has content, and so its method is POST.
  return request.map((each) => (each.protocol === 'grpc' ? { ...each, method: 'POST' } : each));
}
