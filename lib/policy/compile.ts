import type { Problem } from '../problem.ts';
import { GrantList } from './client-match.ts';
import { closedPort, DefaultGrants, defaultRef, requireIdentity } from './defaults.ts';
import type { GrpcRouteDocument, HttpRouteDocument, RateLimitDocument, ServerDocument } from './document-types.ts';
import type { PolicyDocument } from './documents.ts';
import { type AuthorizationsByTarget, linkAuthorizations } from './link-authorizations.ts';
import { linkRateLimits, linkRoutes, type RouteDocument, resolveRateLimit, takesHttpRoutes } from './link-routes.ts';
import { linkServers } from './link-servers.ts';
import { inSlices, Linking, refOf, routeKey } from './linking.ts';
import type { NetworkIsolation } from './network-policy.ts';
import { linkNetworkPolicies } from './network-policy-link.ts';
import {
  type CompiledPort,
  type CompiledRule,
  compiledPort,
  compiledRule,
  type PolicyIndex,
  type RouteTable,
} from './policy-index.ts';
import { DefaultGrpcRoute, GrpcRouteTable, HttpRouteTable } from './route-match.ts';
import type { Workload } from './workload.ts';

export type { PolicyIndex } from './policy-index.ts';

export interface CompiledPolicy {
  readonly index: PolicyIndex;
  /** How the documents point at each other, where that is doubtful. The documents' own faults come from `readDocuments`. */
  readonly problems: readonly Problem[];
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
  const serverByPort = yield* linkServers(linking);
  const effective = new Set([...serverByPort.values()].map(({ name }) => name));
  const linked: Linked = {
    authorizations: yield* linkAuthorizations(linking, effective, defaults.clusterNetworks),
    routes: yield* linkRoutes(linking),
    rateLimits: yield* linkRateLimits(linking),
  };
  const ports = new Map<number, CompiledPort>();
  for (const [port, server] of serverByPort) {
    ports.set(port, yield* new PortCompiler(port, server, linked, workload, defaults).compile());
  }
  return { index: new CompiledIndex(ports, isolation, workload, defaults), problems: linking.problems };
}

/** Documents by what they apply to. */
interface Linked {
  readonly authorizations: AuthorizationsByTarget;
  /** By the Server's name. */
  readonly routes: ReadonlyMap<string, readonly RouteDocument[]>;
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
    const attached = this.#linked.routes.get(name) ?? [];
    const routes = yield* this.#routes(attached, grants);
    const limit = takesHttpRoutes(this.#document) ? this.#linked.rateLimits.get(name) : undefined;
    return compiledPort({
      port: this.#port,
      server: refOf(this.#document),
      protocol: spec.protocol,
      detectTimeoutMs: this.#workload.detectTimeoutMs,
      hasRequestRules: attached.length > 0 || limit !== undefined,
      routes,
      grants,
      rateLimit: limit === undefined ? null : resolveRateLimit(limit, this.#port, this.#workload),
    });
  }

  #serverGrants(): GrantList {
    const { name, spec } = this.#document;
    if (spec.sealed) return new GrantList([]);
    const { grants, broken } = this.#linked.authorizations.ofServer(name);
    return this.#defaults.list(grants, spec.accessPolicy, broken);
  }

  /** Once one route is attached, what matches none is not found; else there are the default routes. */
  *#routes(attached: readonly RouteDocument[], grants: GrantList): Generator<void, RouteTable | null, void> {
    const { protocol, sealed } = this.#document.spec;
    if (protocol === 'opaque' || protocol === 'tls') return null;
    if (attached.length === 0) {
      const server = refOf(this.#document);
      return protocol === 'grpc'
        ? new DefaultGrpcRoute(compiledRule({ server, route: defaultRef('default'), grants }))
        : this.#defaults.routes(server, grants, sealed ? [] : (this.#workload.probes.get(this.#port) ?? []));
    }
    const weight = ({ spec: { rules } }: RouteDocument): number =>
      rules.reduce((sum, { matches }) => sum + matches.length, 1);
    if (protocol === 'grpc') {
      const table = new GrpcRouteTable();
      const add = (route: GrpcRouteDocument): void => table.add(route, this.#rules(route, grants));
      yield* inSlices(attached as readonly GrpcRouteDocument[], add, weight);
      table.seal();
      return table;
    }
    const table = new HttpRouteTable();
    const add = (route: HttpRouteDocument): void => table.add(route, this.#rules(route, grants));
    yield* inSlices(attached as readonly HttpRouteDocument[], add, weight);
    table.seal();
    return table;
  }

  /** A route is authorized by its own policies and all of its server's: it can only widen (Linkerd). */
  #rules(route: RouteDocument, serverGrants: GrantList): CompiledRule[] {
    const own = this.#linked.authorizations.ofRoute(routeKey(route.group, route.kind, route.name));
    const none = own.grants.length === 0 && own.broken.length === 0;
    const grants = none ? serverGrants : new GrantList(own.grants, serverGrants, own.broken);
    const server = refOf(this.#document);
    const ref = refOf(route);
    return route.spec.rules.map(({ headerChanges, redirect, sealed }) =>
      compiledRule({
        server,
        route: ref,
        grants,
        headerChanges,
        redirect,
        sealed: sealed || this.#document.spec.sealed,
      }),
    );
  }
}

/** Ports with a Server have its policy; any other gets the default policy when it is first asked for. */
class CompiledIndex implements PolicyIndex {
  readonly servers: readonly CompiledPort[];
  readonly isolation: NetworkIsolation;
  readonly #ports: Map<number, CompiledPort>;
  readonly #workload: Workload;
  readonly #defaults: DefaultGrants;

  constructor(
    ports: Map<number, CompiledPort>,
    isolation: NetworkIsolation,
    workload: Workload,
    defaults: DefaultGrants,
  ) {
    this.isolation = isolation;
    this.servers = [...ports.values()].sort((a, b) => a.port - b.port);
    this.#ports = ports;
    this.#workload = workload;
    this.#defaults = defaults;
  }

  port(port: number): CompiledPort {
    let compiled = this.#ports.get(port);
    if (compiled === undefined) {
      if (!Number.isInteger(port) || port < 1 || port > 65535) return closedPort(port, this.#workload.detectTimeoutMs);
      compiled = this.#defaultPort(port);
      this.#ports.set(port, compiled);
    }
    return compiled;
  }

  #defaultPort(port: number): CompiledPort {
    const { defaultPolicy, opaquePorts, requireIdentityPorts, probes, detectTimeoutMs } = this.#workload;
    const policy = requireIdentityPorts.has(port) ? requireIdentity(defaultPolicy) : defaultPolicy;
    const server = defaultRef(policy);
    const grants = this.#defaults.list([], policy);
    const opaque = opaquePorts.has(port);
    return compiledPort({
      port,
      server,
      protocol: opaque ? 'opaque' : 'detect',
      detectTimeoutMs,
      hasRequestRules: false,
      routes: opaque ? null : this.#defaults.routes(server, grants, probes.get(port) ?? []),
      grants,
      rateLimit: null,
    });
  }
}
