import type { ResourceRef } from '../../resource-ref.ts';
import { GrantList } from '../decide/client-match.ts';
import { DefaultGrpcRoute, GrpcRouteTable } from '../decide/grpc-routes.ts';
import { DefaultHttpRoute, HttpRouteTable } from '../decide/http-routes.ts';
import type { NetworkIsolation } from '../decide/network-policy.ts';
import {
  type CompiledPort,
  type CompiledRule,
  compiledPort,
  compiledRule,
  type DocumentPlace,
  type MissedServer,
  type PolicyIndex,
  type PortBody,
  portBody,
  type RouteTable,
} from '../decide/policy-index.ts';
import type { TableTraits } from '../decide/question.ts';
import { Traits } from '../decide/route-entries.ts';
import { SharedPort } from '../decide/shared-port.ts';
import { type Judged, judged } from '../documents/allowed.ts';
import type { PolicyDocument } from '../documents/read.ts';
import {
  type GrpcRouteDocument,
  type HttpRouteDocument,
  locate,
  type RateLimitDocument,
  type ServerDocument,
} from '../documents/types.ts';
import type { Probe } from '../probes.ts';
import type { DefaultPolicy, Workload } from '../workload.ts';
import { closedBody, DefaultGrants, defaultRef, requireIdentity } from './defaults.ts';
import { type AuthorizationsByTarget, linkAuthorizations } from './link-authorizations.ts';
import { linkNetworkPolicies } from './link-network-policies.ts';
import {
  type LinkedRoutes,
  linkRateLimits,
  linkRoutes,
  type RouteDocument,
  resolveRateLimit,
  takesHttpRoutes,
} from './link-routes.ts';
import { linkServers } from './link-servers.ts';
import { inSlices, Linking, refOf, routeKey } from './linking.ts';
import { checkNamespaces } from './other-namespaces.ts';
import { checkProbes } from './refused-probes.ts';
import { RefusedRoutes } from './refused-routes.ts';

export type { PolicyIndex } from '../decide/policy-index.ts';

/** With how the documents point at each other, where that is doubtful; their own faults come from `readDocuments`. */
export interface CompiledPolicy extends Judged {
  readonly index: PolicyIndex;
}

/** The whole compilation at once. */
export function compileNow(documents: readonly PolicyDocument[], workload: Workload): CompiledPolicy {
  const steps = compile(documents, workload);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Links documents for one workload into an index that answers for every port. It yields after each slice of work, so that
 * a caller can compile thousands of documents without holding the event loop. Documents of other namespaces are ignored,
 * authentications, Pods and Namespaces apart. No documents: every port has the default policy.
 */
export function* compile(
  documents: readonly PolicyDocument[],
  workload: Workload,
): Generator<void, CompiledPolicy, void> {
  const linking = new Linking(workload);
  const defaults = new DefaultGrants(workload);
  yield* inSlices(documents, (document) => linking.index.add(document));
  const isolation = yield* linkNetworkPolicies(linking);
  const servers = yield* linkServers(linking);
  checkNamespaces(documents, servers.byPort.size > 0 || servers.elsewhere !== null, linking);
  const effective = new Set([...servers.byPort.values()].map(({ name }) => name));
  const linked: Linked = {
    authorizations: yield* linkAuthorizations(linking, effective, defaults.clusterNetworks),
    routes: yield* linkRoutes(linking),
    rateLimits: yield* linkRateLimits(linking),
  };
  const ports = new Map<number, CompiledPort>();
  for (const [port, server] of servers.byPort) {
    ports.set(port, yield* new PortCompiler(port, server, linked, workload, defaults).compile());
  }
  const elsewhere = servers.elsewhere === null ? null : refOf(servers.elsewhere);
  const index = new CompiledIndex(ports, isolation, workload, defaults, elsewhere, servers.missed);
  checkProbes(index, servers.byPort, linking);
  return { index, ...judged(documents, linking.problems) };
}

function placeOf(document: ServerDocument): DocumentPlace {
  const { file, line } = locate(document);
  return { namespace: document.namespace, file, line };
}

/** Documents by what they apply to. */
interface Linked {
  readonly authorizations: AuthorizationsByTarget;
  /** By the Server's name. */
  readonly routes: LinkedRoutes;
  readonly rateLimits: ReadonlyMap<string, RateLimitDocument>;
}

/** Puts together the policy of one port that has a Server. */
class PortCompiler {
  readonly #port: number;
  readonly #document: ServerDocument;
  readonly #linked: Linked;
  readonly #workload: Workload;
  readonly #defaults: DefaultGrants;

  constructor(port: number, document: ServerDocument, linked: Linked, workload: Workload, defaults: DefaultGrants) {
    this.#port = port;
    this.#document = document;
    this.#linked = linked;
    this.#workload = workload;
    this.#defaults = defaults;
  }

  *compile(): Generator<void, CompiledPort, void> {
    const { name, spec } = this.#document;
    const grants = this.#serverGrants();
    yield;
    const attached = this.#linked.routes.byServer.get(name) ?? [];
    const limit = takesHttpRoutes(this.#document) ? this.#linked.rateLimits.get(name) : undefined;
    const shut = limit?.spec.refused !== undefined || this.#linked.routes.contested.has(name);
    const routes = shut ? this.#noRequests() : this.#withProbes(yield* this.#withRefused(attached, grants), attached);
    return compiledPort({
      port: this.#port,
      server: refOf(this.#document),
      document: placeOf(this.#document),
      protocol: spec.protocol,
      detectTimeoutMs: this.#workload.detectTimeoutMs,
      hasRequestRules: attached.length > 0 || limit !== undefined,
      routes,
      grants,
      rateLimit: limit === undefined || shut ? null : resolveRateLimit(limit, this.#port, this.#workload),
      ...this.#connectionProbes(attached),
      nodeIps: this.#workload.nodeIps,
    });
  }

  #serverGrants(): GrantList {
    const { name, spec } = this.#document;
    if (spec.sealed) return new GrantList([]);
    const { grants, broken } = this.#linked.authorizations.ofServer(name);
    return this.#defaults.list(grants, spec.accessPolicy, broken);
  }

  /** Every request is refused: nobody knows which would be let in, since a document about them cannot be read. */
  #noRequests(): RouteTable {
    const rule = compiledRule({
      server: refOf(this.#document),
      route: defaultRef('default'),
      grants: new GrantList([]),
      sealed: true,
    });
    return new DefaultHttpRoute(rule);
  }

  /** Linkerd's probes pass where no route counts; by choice, everywhere. */
  #passProbes(attached: readonly RouteDocument[]): boolean {
    const isRouted = attached.some(({ spec }) => spec.refused === undefined);
    return !this.#document.spec.sealed && (!isRouted || this.#workload.probesWithRoutes);
  }

  #withProbes(own: RouteTable | null, attached: readonly RouteDocument[]): RouteTable | null {
    if (own === null || !this.#passProbes(attached)) return own;
    const kinds = this.#document.spec.protocol === 'grpc' ? (['grpc'] as const) : undefined;
    return this.#defaults.withProbes(own, refOf(this.#document), this.#workload.probes.get(this.#port), kinds);
  }

  /** Of one that sends nothing, no route has anything to say; of what comes in TLS nobody reads but the probes. */
  #connectionProbes(attached: readonly RouteDocument[]): Pick<CompiledPort, 'tcpProbe' | 'tlsProbes'> {
    const probes = this.#workload.probes.get(this.#port);
    const covers = attached.some(({ spec }) => spec.refused !== undefined);
    return {
      tcpProbe: this.#document.spec.sealed ? null : this.#defaults.tcpProbe(probes),
      tlsProbes: covers || !this.#passProbes(attached) ? null : this.#defaults.tlsProbes(refOf(this.#document), probes),
    };
  }

  /**
   * Routes that were refused take away what they cover, and no more: one that can be read as far as its matches has the
   * place it would have had, another comes before all. They do not count as attached, as in Linkerd.
   */
  *#withRefused(attached: readonly RouteDocument[], grants: GrantList): Generator<void, RouteTable | null, void> {
    const good = attached.filter(({ spec }) => spec.refused === undefined);
    if (good.length === attached.length) return yield* this.#routes(attached, grants);
    const refused = attached.filter(({ spec }) => spec.refused !== undefined);
    const before = refused.flatMap((route) => part(route, (vague) => vague || good.length === 0));
    const inPlace = attached.flatMap((route) => part(route, (vague) => !vague));
    const table = yield* this.#routes(good, grants, true);
    if (table === null) return null;
    const withRefused = good.length === 0 ? table : yield* this.#routes(inPlace, grants, true);
    const first = before.length === 0 ? null : yield* this.#routes(before, grants, true);
    const traits = traitsOf([...before, ...inPlace]);
    return new RefusedRoutes({ good: table, withRefused: withRefused ?? table, first, traits });
  }

  /** Once one route is attached, what matches none is not found; else there are the default routes. */
  *#routes(
    attached: readonly RouteDocument[],
    grants: GrantList,
    respelled = false,
  ): Generator<void, RouteTable | null, void> {
    const { protocol } = this.#document.spec;
    if (protocol === 'opaque' || protocol === 'tls') return null;
    if (attached.length === 0) {
      const rule = compiledRule({ server: refOf(this.#document), route: defaultRef('default'), grants });
      return protocol === 'grpc' ? new DefaultGrpcRoute(rule) : new DefaultHttpRoute(rule);
    }
    const weight = ({ spec: { rules } }: RouteDocument): number =>
      rules.reduce((sum, { matches }) => sum + matches.length, 1);
    if (protocol === 'grpc') {
      const table = new GrpcRouteTable();
      const add = (route: GrpcRouteDocument): void => table.add(route.spec, this.#rules(route, grants));
      yield* inSlices(attached as readonly GrpcRouteDocument[], add, weight);
      table.seal();
      return table;
    }
    const table = new HttpRouteTable();
    const add = (route: HttpRouteDocument): void => table.add(route.spec, this.#rules(route, grants));
    yield* inSlices(attached as readonly HttpRouteDocument[], add, weight);
    table.seal(respelled);
    return table;
  }

  /** A route is authorized by its own policies and all of its server's: it can only widen (Linkerd). */
  #rules(route: RouteDocument, serverGrants: GrantList): CompiledRule[] {
    const own = this.#linked.authorizations.ofRoute(routeKey(route.group, route.kind, route.name));
    const none = own.grants.length === 0 && own.broken.length === 0;
    const grants = none ? serverGrants : new GrantList(own.grants, serverGrants, own.broken);
    const server = refOf(this.#document);
    const ref = refOf(route);
    // Of a refused route only a part of the rules may be here.
    const isWhole = route.spec.refused === undefined;
    return route.spec.rules.map(({ headerChanges, redirect, sealed }, i) =>
      compiledRule({
        server,
        route: ref,
        place: isWhole ? i : null,
        grants,
        headerChanges,
        redirect,
        sealed: sealed || this.#document.spec.sealed,
      }),
    );
  }
}

/** Of tables that are asked one after the other; in any spelling, to be safe: that costs time, and refused routes are rare. */
function traitsOf(routes: readonly RouteDocument[]): TableTraits {
  const traits = new Traits();
  for (const { spec } of routes) for (const { matches } of spec.rules) for (const match of matches) traits.add(match);
  traits.seal();
  traits.respelled = true;
  return traits;
}

/** A refused route with those of its rules that are wanted, or none; any other is itself. */
function part(route: RouteDocument, wanted: (vague: boolean) => boolean): readonly RouteDocument[] {
  const { refused } = route.spec;
  if (refused === undefined) return [route];
  const some = <Rule>(rules: readonly Rule[]): Rule[] => rules.filter((_, i) => wanted(refused.vague[i] ?? true));
  if (!refused.vague.some(wanted)) return [];
  return route.kind === 'HTTPRoute'
    ? [{ ...route, spec: { ...route.spec, rules: some(route.spec.rules) } }]
    : [{ ...route, spec: { ...route.spec, rules: some(route.spec.rules) } }];
}

/** Ports with a Server have its policy; any other gets the default policy when it is first asked for. */
class CompiledIndex implements PolicyIndex {
  readonly servers: readonly CompiledPort[];
  readonly isolation: NetworkIsolation;
  readonly #ports: Map<number, CompiledPort>;
  readonly #workload: Workload;
  readonly #defaults: DefaultGrants;
  /** Of ports without a Server, by what tells them apart: their kinds are few, and they may be all 65,535. */
  readonly #bodies = new Map<string, PortBody>();
  /** The Server that has every port without one. */
  readonly #elsewhere: ResourceRef | null;
  readonly #missed: readonly MissedServer[];

  constructor(
    ports: Map<number, CompiledPort>,
    isolation: NetworkIsolation,
    workload: Workload,
    defaults: DefaultGrants,
    elsewhere: ResourceRef | null,
    missed: readonly MissedServer[],
  ) {
    this.#missed = missed;
    this.#elsewhere = elsewhere;
    this.isolation = isolation;
    this.servers = [...ports.values()].sort((a, b) => a.port - b.port);
    this.#ports = ports;
    this.#workload = workload;
    this.#defaults = defaults;
  }

  port(port: number): CompiledPort {
    let compiled = this.#ports.get(port);
    if (compiled === undefined) {
      if (!Number.isInteger(port) || port < 1 || port > 65535) return new SharedPort(port, this.#closed('no port'));
      compiled = new SharedPort(port, this.#defaultBody(port));
      this.#ports.set(port, compiled);
    }
    return compiled;
  }

  #defaultBody(port: number): PortBody {
    if (this.#elsewhere !== null) return this.#closed('elsewhere', this.#elsewhere);
    const { defaultPolicy, opaquePorts, requireIdentityPorts, probes } = this.#workload;
    const policy = requireIdentityPorts.has(port) ? requireIdentity(defaultPolicy) : defaultPolicy;
    const protocol = opaquePorts.has(port) ? 'opaque' : 'detect';
    const probed = probes.get(port);
    const kind = `${policy} ${protocol} ${probed === undefined ? 'unprobed' : port}`;
    return this.#body(kind, () => this.#makeBody(policy, protocol, probed));
  }

  #closed(kind: string, server?: ResourceRef): PortBody {
    return this.#body(kind, () => closedBody(this.#workload.detectTimeoutMs, server));
  }

  #body(kind: string, make: () => PortBody): PortBody {
    const body = this.#bodies.get(kind) ?? make();
    this.#bodies.set(kind, body);
    return body;
  }

  #makeBody(policy: DefaultPolicy, protocol: 'opaque' | 'detect', probes: readonly Probe[] | undefined): PortBody {
    const { detectTimeoutMs, nodeIps } = this.#workload;
    const server = defaultRef(policy);
    const grants = this.#defaults.list([], policy);
    const routes = new DefaultHttpRoute(compiledRule({ server, route: defaultRef('default'), grants }));
    return portBody({
      server,
      protocol,
      detectTimeoutMs,
      hasRequestRules: false,
      routes: protocol === 'opaque' ? null : this.#defaults.withProbes(routes, server, probes),
      grants,
      rateLimit: null,
      tcpProbe: this.#defaults.tcpProbe(probes),
      tlsProbes: this.#defaults.tlsProbes(server, probes),
      nodeIps,
      missed: this.#missed,
    });
  }
}
