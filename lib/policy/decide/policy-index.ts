import type { IpAddress } from '../../ip.ts';
import type { ResourceRef } from '../../resource-ref.ts';
import { byteText } from '../bytes.ts';
import type {
  AskedOfRequests,
  ConnectionDeny,
  ConnectionPermit,
  HeaderChanges,
  NoRoute,
  PortPolicy,
  PortProtocol,
  RequestDeny,
  RequestPermit,
} from '../decision.ts';
import type { GrpcMatch, HttpMatch, NamedMatch, RedirectFilter } from '../route-rule.ts';
import { ParameterNames } from './asked-parameters.ts';
import { type Authorization, GrantList } from './client-match.ts';
import { type GuardedNames, guardedNames } from './header-names.ts';
import type { NetworkIsolation } from './network-policy.ts';
import type { Question, TableTraits } from './question.ts';

/** One rule of a route, with all that deciding on it takes. */
export interface CompiledRule {
  readonly route: ResourceRef;
  /** From 0, among the rules of its route's document; null where the rule is none of a document that can be read. */
  readonly place: number | null;
  readonly grants: GrantList;
  readonly headerChanges: HeaderChanges | null;
  readonly redirect: RedirectFilter | null;
  /** Equal for rules that do the same to a request they let through. */
  readonly effects: string;
  /** The header changes alone of these. */
  readonly changes: string;
  /** The request headers that it writes or removes. */
  readonly guarded: GuardedNames | null;
  readonly deny: RequestDeny;
  /** Holds a field we do not know: refuses whatever it matches. */
  readonly sealed: boolean;
  /** Filled by `decide.ts`, the only maker of permits; bounded by the rule's authorizations. */
  readonly permits: Map<Authorization, RequestPermit>;
}

/** What won. */
export interface RouteMatch {
  readonly rule: CompiledRule;
  /** By which it won, without trailing slashes but for `/` itself; null for exact, regular expression and gRPC. */
  readonly prefix: string | null;
  /** The path that the rule's author wrote, by which it won; null for regular expressions and probes. */
  readonly literal: string | null;
}

export interface RouteTable {
  /** Null where no route matches. Throws `UnexaminedValue`. */
  find(question: Question): RouteMatch | null;
  readonly traits: TableTraits;
  /**
   * Matches that stay what they are in every spelling: where one is found by a path without escapes, a server that sees no case
   * in paths (see `foldPath`) finds it as well, or one whose author spelled it otherwise. It need not hold all of these.
   */
  readonly anyCase: ReadonlySet<RouteMatch>;
  /** Some route is for some hosts only. */
  readonly namesHosts: boolean;
  /** For the policy view. */
  readonly rules: readonly CompiledRule[];
  /** All that it holds, in order of precedence. */
  outline(): TableOutline;
}

export interface OutlineEntry<Match> {
  readonly match: Match;
  readonly rule: CompiledRule;
}

export interface HostOutline<Match> {
  /** Lower case, `*.suffix` for a wildcard; null is any host. */
  readonly hostname: string | null;
  /** Of those whose hosts and matched paths are equally long the first that holds wins. */
  readonly entries: readonly OutlineEntry<Match>[];
}

/** What a table of routes holds, for who asks about all requests at once instead of one. */
export type TableOutline =
  /** Every request has this one. */
  | { readonly kind: 'every'; readonly found: RouteMatch }
  /** Every call of gRPC. */
  | { readonly kind: 'calls'; readonly found: RouteMatch }
  | { readonly kind: 'http'; readonly hosts: readonly HostOutline<HttpMatch>[] }
  /** Null: every request, be it a call or not. */
  | { readonly kind: 'grpc'; readonly hosts: readonly HostOutline<GrpcMatch | null>[] }
  /** Null instead of paths: calls of the gRPC health check. */
  | {
      readonly kind: 'probed';
      readonly own: TableOutline;
      readonly probes: readonly { readonly paths: readonly string[] | null; readonly grant: Authorization }[];
    }
  | {
      readonly kind: 'refused';
      readonly good: TableOutline;
      readonly withRefused: TableOutline;
      readonly first: TableOutline | null;
    };

/** HTTPLocalRateLimitPolicy, resolved. Null and absent mean no limit; numbers are requests a second, above 0. */
export interface RateLimit {
  readonly ref: ResourceRef;
  /** Names this limit and its numbers: buckets survive a reload for as long as it stays the same. */
  readonly key: string;
  readonly total: number | null;
  readonly identity: number | null;
  /** By identity. Clients of one entry share its bucket. Rate null: this client has no limit of its own. */
  readonly overrides: ReadonlyMap<string, { readonly entry: number; readonly rate: number | null }>;
}

/** Where a document stands. */
export interface DocumentPlace {
  readonly namespace: string;
  readonly file: string;
  readonly line: number;
}

/** A Server that could have had a port, and has none. */
export interface MissedServer {
  /** Null: nobody knows which it was to have. */
  readonly port: number | null;
  /** Which it is, and why it does not apply, in a sentence. */
  readonly why: string;
  /** It is nearly what the pod has: misspelt, rather than of another pod. */
  readonly isNear: boolean;
}

/** One port's policy, whole. The data plane sees only the `PortPolicy` of it. */
export interface CompiledPort extends PortPolicy {
  /** Null for opaque and TLS ports: no request is ever routed there. */
  readonly routes: RouteTable | null;
  /** The server's own authorizations: what decides connections. */
  readonly grants: GrantList;
  readonly rateLimit: RateLimit | null;
  /** The Server's; null where a default policy has the port. */
  readonly document: DocumentPlace | null;
  /** Who may connect to find out whether the port is open; null where it has no TCP probe. */
  readonly tcpProbe: Authorization | null;
  /** What is decided of requests in TLS that is not for us, and would not go on as bytes; null where it has no HTTPS probe. */
  readonly tlsProbes: RouteTable | null;
  /** Servers that have no port at all: for hints, never for decisions. */
  readonly missed: readonly MissedServer[];
  /** Addresses of the pod's node, behind which NAT may hide clients: for reasons, never for decisions. */
  readonly nodeIps: readonly IpAddress[];
  readonly noRoute: NoRoute;
  readonly connectionDeny: ConnectionDeny;
  /** Filled by `decide.ts`. */
  readonly connectionPermits: Map<Authorization, ConnectionPermit>;
}

/** A port's policy but for its number: one for all ports that nothing else tells apart. */
export type PortBody = Omit<CompiledPort, 'port'>;

/** Everything that was compiled from one set of documents for one workload. */
export interface PolicyIndex {
  /** Every port has a policy; one outside 1 to 65535 has one that grants nothing. */
  port(port: number): CompiledPort;
  /** Comes before everything else. */
  readonly isolation: NetworkIsolation;
  /** Ports with a Server, ascending. */
  readonly servers: readonly CompiledPort[];
}

/** As they are written to the application, which takes one character for one byte. */
function inBytes(changes: HeaderChanges | null): HeaderChanges | null {
  if (changes === null) return null;
  const bytes = ([name, value]: readonly [string, string]) => [name, byteText(value)] as const;
  return { add: changes.add.map(bytes), set: changes.set.map(bytes), remove: changes.remove };
}

export function compiledRule(options: {
  readonly server: ResourceRef;
  readonly route: ResourceRef;
  readonly place?: number | null;
  readonly grants: GrantList;
  readonly headerChanges?: HeaderChanges | null;
  readonly redirect?: RedirectFilter | null;
  readonly sealed?: boolean;
}): CompiledRule {
  const { server, route, place = null, redirect = null, sealed = false } = options;
  const headerChanges = inBytes(options.headerChanges ?? null);
  return {
    route,
    place,
    grants: sealed ? new GrantList([]) : options.grants,
    headerChanges,
    redirect,
    effects: headerChanges === null && redirect === null ? '' : JSON.stringify([headerChanges, redirect]),
    changes: headerChanges === null ? '' : JSON.stringify(headerChanges),
    guarded:
      headerChanges === null
        ? null
        : guardedNames([
            ...[...headerChanges.add, ...headerChanges.set].map(([name]) => name),
            ...headerChanges.remove,
          ]),
    deny: Object.freeze({ kind: 'deny', server, route }),
    sealed,
    permits: new Map(),
  };
}

/** The same rule, letting nobody in. Its denial is another one: a rule is known by it. */
export function sealedRule(rule: CompiledRule): CompiledRule {
  const deny = Object.freeze({ ...rule.deny });
  return { ...rule, grants: new GrantList([]), deny, sealed: true, permits: new Map() };
}

interface BodyOptions {
  readonly server: ResourceRef;
  readonly protocol: PortProtocol;
  readonly detectTimeoutMs: number;
  readonly hasRequestRules: boolean;
  readonly routes: RouteTable | null;
  readonly grants: GrantList;
  readonly rateLimit: RateLimit | null;
  readonly document?: DocumentPlace | null;
  readonly tcpProbe?: Authorization | null;
  readonly tlsProbes?: RouteTable | null;
  readonly nodeIps?: readonly IpAddress[];
  readonly missed?: readonly MissedServer[];
}

export function compiledPort({ port, ...options }: BodyOptions & { readonly port: number }): CompiledPort {
  return Object.freeze({ port, ...portBody(options) });
}

export function portBody(options: BodyOptions): PortBody {
  const { server, document = null, tcpProbe = null, tlsProbes = null, nodeIps = [], missed = [] } = options;
  return Object.freeze({
    ...options,
    document,
    tcpProbe,
    tlsProbes,
    nodeIps,
    missed,
    decisionsLast: options.rateLimit === null,
    asks: askedBy([options.routes, tlsProbes].filter((table) => table !== null)),
    noRoute: Object.freeze({ kind: 'no-route', server } as const),
    connectionDeny: Object.freeze({ kind: 'deny', server } as const),
    connectionPermits: new Map(),
  });
}

/** Every header test of a table. */
export function headerTests(table: RouteTable | null): NamedMatch[] {
  if (table === null) return [];
  const of = (outline: TableOutline): NamedMatch[] => {
    switch (outline.kind) {
      case 'every':
      case 'calls':
        return [];
      case 'http':
      case 'grpc':
        return outline.hosts.flatMap(({ entries }) =>
          (entries as readonly { readonly match: HttpMatch | GrpcMatch | null }[]).flatMap(
            ({ match }) => match?.headers ?? [],
          ),
        );
      case 'probed':
        return of(outline.own);
      case 'refused':
        return [outline.good, outline.withRefused, outline.first].flatMap((each) => (each === null ? [] : of(each)));
    }
  };
  return of(table.outline());
}

function askedBy(tables: readonly RouteTable[]): AskedOfRequests {
  const headers = tables.flatMap(({ traits, rules }) => [
    ...(traits.guarded?.names ?? []),
    ...rules.flatMap(({ guarded }) => guarded?.aliases ?? []),
  ]);
  return {
    headers: [...new Set(headers)].sort(),
    query: new ParameterNames(tables.flatMap(({ traits }) => [...traits.queryNames.folded.values()].flat())),
    spells: (name, bytes) =>
      tables.some((table) =>
        headerTests(table).some(
          (test) => test.type === 'exact' && test.name === name && byteText(test.value) === bytes,
        ),
      ),
  };
}
