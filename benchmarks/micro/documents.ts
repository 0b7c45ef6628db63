import type { Client } from '../../lib/client.ts';
import { type IpAddress, parseIp } from '../../lib/ip.ts';
import type { RequestFacts } from '../../lib/policy/decision.ts';
import { noPorts, type Workload } from '../../lib/policy/workload.ts';

/** A policy set of a given size, and questions whose answers are known. */
export interface PolicySet {
  /** As YAML would decode. */
  readonly documents: readonly object[];
  question(random: () => number): Question;
}

export interface Question {
  readonly port: number;
  readonly client: Client;
  readonly request: RequestFacts;
  readonly verdict: 'permit' | 'deny' | 'no-route';
}

const namespace = 'bench';
const port = 8080;
const lowestPort = 2000;

export const workload: Workload = Object.freeze({
  podName: 'web-0',
  namespace,
  labels: new Map([['app', 'web']]),
  ips: [ip('10.0.0.10')],
  ipsStated: true,
  containerPorts: new Set<number>(),
  nodeIps: [],
  namedPorts: new Map(),
  adminPort: null,
  probes: new Map(),
  probesWithRoutes: false,
  namespaceStated: true,
  defaultPolicy: 'deny',
  opaquePorts: noPorts,
  requireIdentityPorts: noPorts,
  clusterNetworks: ['10.0.0.0/8'],
  probeNetworks: ['0.0.0.0/0', '::/0'],
  authorizeLocalhost: true,
  controlPlaneNamespace: 'linkerd',
  trustDomain: 'cluster.local',
  detectTimeoutMs: 10_000,
});

/** One port whose every path is open to these networks. */
export function openPort(name: string, at: number, cidrs: readonly string[]): readonly object[] {
  return [
    server(name, at),
    route(name, name, '/'),
    networks(name, cidrs),
    authorization(name, 'HTTPRoute', name, [{ kind: 'NetworkAuthentication', name }]),
  ];
}

/**
 * `count` ports, each with a Server, an HTTPRoute and an AuthorizationPolicy. Sets of different editions have no route or
 * authorization in common.
 */
export function manyServers(count: number, edition = ''): PolicySet {
  const each = Array.from({ length: count }, (_, i) => [
    server(`s${i}`, lowestPort + i),
    route(`r${i}${edition}`, `s${i}`, `/r${i}/`),
    authorization(`a${i}${edition}`, 'HTTPRoute', `r${i}${edition}`, [
      { kind: 'NetworkAuthentication', name: 'inside' },
    ]),
  ]);
  return {
    documents: [...each.flat(), networks('inside', ['10.0.0.0/8'])],
    question(random) {
      const i = below(count, random);
      const inside = random() < 0.5;
      return {
        port: lowestPort + i,
        client: plainClient(inside ? '10.1.2.3' : '192.0.2.1'),
        request: get(`/r${i}/item`),
        verdict: inside ? 'permit' : 'deny',
      };
    },
  };
}

/** One Server with `count` HTTPRoutes. */
export function manyRoutes(count: number): PolicySet {
  const routes = Array.from({ length: count }, (_, i) => route(`r${i}`, 'web', `/r${i}/`));
  return {
    documents: [
      server('web', port),
      ...routes,
      networks('inside', ['10.0.0.0/8']),
      authorization('all', 'Server', 'web', [{ kind: 'NetworkAuthentication', name: 'inside' }]),
    ],
    question(random) {
      const known = random() < 0.5;
      return {
        port,
        client: plainClient('10.1.2.3'),
        request: get(known ? `/r${below(count, random)}/item` : `/x${below(count, random)}/item`),
        verdict: known ? 'permit' : 'no-route',
      };
    },
  };
}

/** One route with `count` AuthorizationPolicies, each for one identity. */
export function manyAuthorizations(count: number): PolicySet {
  const each = Array.from({ length: count }, (_, i) => [
    document('policy.linkerd.io/v1alpha1', 'MeshTLSAuthentication', `m${i}`, { identities: [identity(i)] }),
    authorization(`a${i}`, 'HTTPRoute', 'web', [{ kind: 'MeshTLSAuthentication', name: `m${i}` }]),
  ]);
  return {
    documents: [server('web', port), route('web', 'web', '/'), ...each.flat()],
    question(random) {
      const known = random() < 0.5;
      return {
        port,
        client: meshClient(identity(below(count, random) + (known ? 0 : count))),
        request: get('/item'),
        verdict: known ? 'permit' : 'deny',
      };
    },
  };
}

/** One AuthorizationPolicy over `count` networks of differing length, in 16.0.0.0/4: the even ones of its /24s and below. */
export function manyNetworks(count: number): PolicySet {
  const network = (i: number): string => {
    const length = 24 + (i % 9);
    // Within its own /24: aligned to any length from 24 on.
    return `${address(base + i * 512)}/${length}`;
  };
  return {
    documents: [
      server('web', port),
      route('web', 'web', '/'),
      networks(
        'many',
        Array.from({ length: count }, (_, i) => network(i)),
      ),
      authorization('web', 'HTTPRoute', 'web', [{ kind: 'NetworkAuthentication', name: 'many' }]),
    ],
    question(random) {
      const inside = random() < 0.5;
      return {
        port,
        client: plainClient(address(base + below(count, random) * 512 + (inside ? 0 : 256))),
        request: get('/item'),
        verdict: inside ? 'permit' : 'deny',
      };
    },
  };
}
/** 16.0.0.0 */
const base = 0x10000000;

function address(value: number): string {
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 0xff).join('.');
}

function identity(i: number): string {
  return `sa-${i}.ns-${i % 97}.serviceaccount.identity.linkerd.cluster.local`;
}

function ip(text: string): IpAddress {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new TypeError(`not an address: ${text}`);
  return parsed;
}

function plainClient(address: string): Client {
  return { ip: ip(address), tls: { kind: 'none', reason: 'no_tls_from_remote' } };
}

function meshClient(name: string): Client {
  return { ip: ip('10.1.2.3'), tls: { kind: 'mesh', identity: { form: 'dns', name } } };
}

/** Anonymous, from an address that the policies of `hostilePolicy` do not know. */
export const hostileClient: Client = plainClient('198.51.100.7');

/**
 * A port whose routes look at all that can be looked at, and nearly open: whatever is refused is refused for its readings.
 * Twelve routes, four regular expressions, a thousand authorizations.
 */
export function hostilePolicy(): object[] {
  const parentRefs = [{ group: 'policy.linkerd.io', kind: 'Server', name: 'web' }];
  const routed = (name: string, match: object, more: object = {}, hostnames?: readonly string[]): object =>
    document('policy.linkerd.io/v1beta3', 'HTTPRoute', name, {
      parentRefs,
      ...(hostnames === undefined ? {} : { hostnames }),
      rules: [{ matches: [match], ...more }],
    });
  const prefix = (value: string): object => ({ path: { type: 'PathPrefix', value } });
  const regex = (value: string): object => ({ type: 'RegularExpression', value });
  const modify = { type: 'RequestHeaderModifier', requestHeaderModifier: { set: [{ name: 'x-user', value: 'web' }] } };
  const redirect = {
    type: 'RequestRedirect',
    requestRedirect: { path: { type: 'ReplacePrefixMatch', replacePrefixMatch: '/new' } },
  };
  const open = ['all', 'api', 'files', 'search', 'tiers', 'old'];
  return [
    server('web', 8080),
    routed('all', prefix('/')),
    routed('admin', prefix('/admin')),
    routed('console', { path: { type: 'Exact', value: '/Console' } }),
    routed('api', prefix('/api/v1'), { filters: [modify] }),
    routed('files', { path: regex('/files/([a-z]+/)*[a-z.]+') }),
    routed('secrets', { path: regex('.*/(secret|private)/.*') }),
    routed('search', { ...prefix('/search'), queryParams: [{ name: 'q', value: '1' }] }),
    routed('debug', {
      queryParams: [
        { name: 'debug', value: '1' },
        { name: 'tag', ...regex('a.*') },
      ],
    }),
    routed('tiers', { ...prefix('/tiers'), headers: [{ name: 'x-tier', ...regex('(gold|silver)(,[a-z]+)*') }] }),
    routed('root', { headers: [{ name: 'x-root', value: 'true' }] }),
    routed('old', prefix('/old'), { filters: [redirect] }),
    routed('hosts', prefix('/'), {}, ['admin.example', '*.internal.example']),
    ...open.map((name) => authorization(`open-${name}`, 'HTTPRoute', name, [])),
    document('policy.linkerd.io/v1alpha1', 'MeshTLSAuthentication', 'nobody', {
      identities: Array.from({ length: 1000 }, (_, i) => `sa-${i}.other.serviceaccount.identity.linkerd.cluster.local`),
    }),
    ...Array.from({ length: 1000 }, (_, i) =>
      authorization(`peer-${i}`, 'Server', 'web', [{ kind: 'MeshTLSAuthentication', name: 'nobody' }]),
    ),
  ];
}

const noValues: readonly string[] = [];
function get(path: string): RequestFacts {
  return {
    method: 'GET',
    path,
    query: '',
    host: 'web.bench',
    grpc: false,
    carries: 'nothing',
    header: () => noValues,
    oddNames: noValues,
  };
}

function below(limit: number, random: () => number): number {
  return Math.floor(random() * limit);
}

function document(apiVersion: string, kind: string, name: string, spec: object): object {
  return { apiVersion, kind, metadata: { name, namespace }, spec };
}

function server(name: string, at: number): object {
  return document('policy.linkerd.io/v1beta3', 'Server', name, {
    podSelector: { matchLabels: { app: 'web' } },
    port: at,
    proxyProtocol: 'HTTP/1',
  });
}

function route(name: string, parent: string, prefix: string): object {
  return document('policy.linkerd.io/v1beta3', 'HTTPRoute', name, {
    parentRefs: [{ group: 'policy.linkerd.io', kind: 'Server', name: parent }],
    rules: [{ matches: [{ path: { type: 'PathPrefix', value: prefix } }] }],
  });
}

function networks(name: string, cidrs: readonly string[]): object {
  return document('policy.linkerd.io/v1alpha1', 'NetworkAuthentication', name, {
    networks: cidrs.map((cidr) => ({ cidr })),
  });
}

function authorization(
  name: string,
  targetKind: 'Server' | 'HTTPRoute',
  target: string,
  required: readonly { readonly kind: string; readonly name: string }[],
): object {
  return document('policy.linkerd.io/v1alpha1', 'AuthorizationPolicy', name, {
    targetRef: { group: 'policy.linkerd.io', kind: targetKind, name: target },
    requiredAuthenticationRefs: required.map((ref) => ({ group: 'policy.linkerd.io', ...ref })),
  });
}

/** The same sequence in every run (a linear congruential generator, constants from Numerical Recipes). */
export function seededRandom(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
