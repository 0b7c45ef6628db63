import type { Problem } from '../problem.ts';
import { closedPort } from './authorizer.ts';
import { type Authorization, type BrokenAuthorization, GrantList } from './client-match.ts';
import { DefaultGrants, defaultRef, requireIdentity } from './defaults.ts';
import type { GrpcRouteDocument, HttpRouteDocument, RateLimitDocument, ServerDocument } from './document-types.ts';
import type { PolicyDocument } from './documents.ts';
import { AuthorizationLinker, byAge, byText, DocumentIndex, linkProblem, refOf, routeKey } from './linking.ts';
import { didYouMean } from './nearest.ts';
import {
  type CompiledPort,
  compiledPort,
  compiledRule,
  type PolicyIndex,
  type RateLimit,
  type RouteTable,
} from './policy-index.ts';
import { DefaultGrpcRoute, GrpcRouteTable, HttpRouteTable, type RouteSource } from './route-match.ts';
import { type Labels, selects } from './selectors.ts';
import { serviceAccountIdentity, type Workload } from './workload.ts';

export type { PolicyIndex } from './policy-index.ts';

export interface CompiledPolicy {
  readonly index: PolicyIndex;
  /** How the documents point at each other, where that is doubtful. The documents' own faults come from `readDocuments`. */
  readonly problems: readonly Problem[];
}

/** So many documents are handled between two yields. */
const sliceDocuments = 50;

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
 * authentications apart. No documents: every port has the default policy.
 */
export function* compile(
  documents: readonly PolicyDocument[],
  workload: Workload,
): Generator<void, CompiledPolicy, void> {
  const compilation = new Compilation(workload);
  yield* inSlices(documents, (document) => compilation.index.add(document));
  yield* compilation.selectServers();
  yield* compilation.linkAuthorizations();
  yield* compilation.linkRoutes();
  yield* compilation.linkRateLimits();
  const ports = new Map<number, CompiledPort>();
  for (const [port, server] of compilation.serverByPort) {
    ports.set(port, yield* compilation.compilePort(port, server));
  }
  return { index: new CompiledIndex(ports, workload), problems: compilation.problems };
}

function* inSlices<Item>(items: Iterable<Item>, handle: (item: Item) => void): Generator<void, void, void> {
  let handled = 0;
  for (const item of items) {
    handle(item);
    if (++handled % sliceDocuments === 0) yield;
  }
  yield;
}

type Route = HttpRouteDocument | GrpcRouteDocument;

class Compilation {
  readonly index: DocumentIndex;
  readonly problems: Problem[] = [];
  readonly serverByPort = new Map<number, ServerDocument>();
  readonly #workload: Workload;
  readonly #defaults: DefaultGrants;
  readonly #linker: AuthorizationLinker;
  /** Grants by what they apply to: a server's name, or a route's key. */
  readonly #byServer = new Map<string, (Authorization | BrokenAuthorization)[]>();
  readonly #byRoute = new Map<string, (Authorization | BrokenAuthorization)[]>();
  readonly #everyServer: (Authorization | BrokenAuthorization)[] = [];
  readonly #routesByServer = new Map<string, Route[]>();
  readonly #limitByServer = new Map<string, RateLimitDocument>();

  constructor(workload: Workload) {
    this.#workload = workload;
    this.#defaults = new DefaultGrants(workload);
    this.index = new DocumentIndex(workload.namespace);
    this.#linker = new AuthorizationLinker(this.index, workload, this.#defaults.clusterNetworks);
  }

  /** Which Server has which port of the pod: the oldest, then the first by name. */
  *selectServers(): Generator<void, void, void> {
    const servers = [...this.index.servers.values()].sort(byAge);
    yield;
    yield* inSlices(servers, (server) => {
      for (const port of this.#selectedPorts(server)) {
        const winner = this.serverByPort.get(port);
        if (winner === undefined) this.serverByPort.set(port, server);
        else {
          this.#warn(
            server,
            ['spec', 'port'],
            'port-taken',
            `port ${port} already has Server ${winner.name}, so Server ${server.name} has no effect on it`,
            'The oldest Server wins, then the first by name; remove one.',
          );
        }
      }
    });
  }

  #selectedPorts(server: ServerDocument): readonly number[] {
    const { podSelector, port } = server.spec;
    if (podSelector === null) return [];
    if (!selects(podSelector, this.#workload.labels)) {
      this.#warn(
        server,
        ['spec', 'podSelector'],
        'selects-no-pod',
        `the podSelector does not select pod ${this.#workload.podName}`,
        'Compare it with the labels of the pod; a folder may hold Servers of other pods too.',
      );
      return [];
    }
    if (typeof port === 'number') return [port];
    const ports = this.#workload.namedPorts.get(port) ?? [];
    if (ports.length === 0) {
      this.#warn(
        server,
        ['spec', 'port'],
        'port-name-unknown',
        `pod ${this.#workload.podName} has no port named "${port}", so this Server has no effect`,
        /^\d+$/.test(port)
          ? 'A number in quotes is a name: remove the quotes.'
          : didYouMean(port, this.#workload.namedPorts.keys()),
      );
    }
    return ports;
  }

  *linkAuthorizations(): Generator<void, void, void> {
    const { index, problems } = this;
    const effective = new Set([...this.serverByPort.values()].map(({ name }) => name));
    yield* inSlices(index.authorizationPolicies, (policy) => {
      problems.push(...this.#linker.policyProblems(policy));
      const { target } = policy.spec;
      if (target.kind === 'server' && !effective.has(target.name)) return;
      const grant = this.#linker.policy(policy);
      if (target.kind === 'namespace') this.#everyServer.push(grant);
      else if (target.kind === 'server') push(this.#byServer, target.name, grant);
      else push(this.#byRoute, routeKey(target.group, target.route, target.name), grant);
    });
    const labels = new Map<string, Labels>();
    for (const server of index.servers.values()) labels.set(server.name, new Map(server.labels));
    yield* inSlices(index.serverAuthorizations, (document) => {
      const { server, networks } = document.spec;
      if (networks !== null) {
        problems.push(...this.#linker.networkProblems(document, networks, ['spec', 'client', 'networks']));
        if (networks.length === 0) {
          this.#warn(
            document,
            ['spec', 'client', 'networks'],
            'empty-networks',
            'networks is empty, so this authorizes nobody',
          );
        }
      }
      const targets: string[] = [];
      if ('name' in server) {
        if (labels.has(server.name)) targets.push(server.name);
        else {
          this.#warn(
            document,
            ['spec', 'server', 'name'],
            'dangling-target',
            `there is no Server ${server.name} in namespace ${document.namespace}, so this applies to nothing`,
            didYouMean(server.name, labels.keys()),
          );
        }
      } else {
        // Servers without effect matter only to tell whether the selector finds anything.
        for (const name of effective) if (selects(server.selector, labels.get(name) as Labels)) targets.push(name);
        if (targets.length === 0 && ![...labels.values()].some((own) => selects(server.selector, own))) {
          this.#warn(
            document,
            ['spec', 'server', 'selector'],
            'selects-no-server',
            'the selector selects no Server, so this applies to nothing',
            'It is compared with the labels of Servers, not of pods.',
          );
        }
      }
      const grant = targets.some((name) => effective.has(name)) ? this.#linker.serverAuthorization(document) : null;
      if (grant !== null) for (const name of targets) push(this.#byServer, name, grant);
    });
    yield* inSlices(index.networks.values(), (document) => {
      problems.push(...this.#linker.networkProblems(document, document.spec.networks, ['spec', 'networks']));
    });
  }

  /** Accepted is computed: the Server exists, and an HTTPRoute does not share it with a GRPCRoute. */
  *linkRoutes(): Generator<void, void, void> {
    const grpcServers = new Set<string>();
    yield* inSlices(this.index.routes.values(), (route) => {
      if (route.kind === 'GRPCRoute') for (const { name } of route.spec.parents) grpcServers.add(name);
    });
    yield* inSlices(this.index.routes.values(), (route) => {
      for (const { name, index } of route.spec.parents) {
        const at = ['spec', 'parentRefs', index, 'name'];
        const server = this.index.servers.get(name);
        if (server === undefined) {
          this.#warn(
            route,
            at,
            'dangling-parent',
            `there is no Server ${name} in namespace ${route.namespace}, so the route is not attached`,
            didYouMean(name, this.index.servers.keys()),
          );
          continue;
        }
        const { protocol } = server.spec;
        if (route.kind === 'HTTPRoute' && grpcServers.has(name)) {
          this.#warn(
            route,
            at,
            'route-conflict',
            `a GRPCRoute is attached to Server ${name}, so this HTTPRoute is not accepted there`,
            'Use routes of one kind for a Server.',
          );
          continue;
        }
        const fits = route.kind === 'GRPCRoute' ? protocol === 'grpc' : ['detect', 'http1', 'http2'].includes(protocol);
        if (!fits) {
          const hint =
            route.kind === 'GRPCRoute'
              ? 'Write proxyProtocol: gRPC.'
              : 'Write proxyProtocol: HTTP/1 or HTTP/2, or leave it out.';
          this.#warn(
            route,
            at,
            'route-without-effect',
            `Server ${name} has protocol ${protocol}, for which no ${route.kind} counts`,
            hint,
          );
          continue;
        }
        const attached = this.#routesByServer.get(name) ?? [];
        if (!attached.includes(route)) push(this.#routesByServer, name, route);
      }
    });
  }

  /** One limit for a Server: the oldest, then the first by name. */
  *linkRateLimits(): Generator<void, void, void> {
    yield* inSlices([...this.index.rateLimits].sort(byAge), (limit) => {
      const { server: name } = limit.spec;
      const at = ['spec', 'targetRef', 'name'];
      const server = this.index.servers.get(name);
      const winner = this.#limitByServer.get(name);
      if (server === undefined) {
        this.#warn(
          limit,
          at,
          'dangling-target',
          `there is no Server ${name} in namespace ${limit.namespace}, so nothing is limited`,
          didYouMean(name, this.index.servers.keys()),
        );
      } else if (winner !== undefined) {
        this.#warn(
          limit,
          at,
          'rate-limit-taken',
          `Server ${name} already has the limit ${winner.name}, so ${limit.name} has no effect`,
        );
      } else {
        this.#limitByServer.set(name, limit);
        if (!['detect', 'http1', 'http2'].includes(server.spec.protocol)) {
          this.#warn(
            limit,
            at,
            'rate-limit-without-effect',
            `Server ${name} has protocol ${server.spec.protocol}, which is not limited`,
          );
        }
      }
    });
  }

  *compilePort(port: number, document: ServerDocument): Generator<void, CompiledPort, void> {
    const server = refOf(document);
    const { protocol, accessPolicy, sealed } = document.spec;
    const { grants: policies, broken } = sorted([...(this.#byServer.get(document.name) ?? []), ...this.#everyServer]);
    const grants = sealed ? new GrantList([]) : this.#defaults.list(policies, accessPolicy, broken);
    const http = protocol === 'detect' || protocol === 'http1' || protocol === 'http2';
    yield;
    let routes: RouteTable | null = null;
    const attached = [...(this.#routesByServer.get(document.name) ?? [])].sort(byRouteOrder);
    if (http || protocol === 'grpc') {
      const sources: RouteSource<Route>[] = [];
      yield* inSlices(attached, (route) =>
        sources.push({ document: route, rules: this.#rules(route, document, grants) }),
      );
      if (attached.length > 0) {
        routes = http
          ? new HttpRouteTable(sources as RouteSource<HttpRouteDocument>[])
          : new GrpcRouteTable(sources as RouteSource<GrpcRouteDocument>[]);
      } else if (http) {
        routes = this.#defaults.routes(server, grants, sealed ? [] : (this.#workload.probes.get(port) ?? []));
      } else routes = new DefaultGrpcRoute(compiledRule({ server, route: defaultRef('default'), grants }));
    }
    const limit = this.#limitByServer.get(document.name);
    const rateLimit = http && limit !== undefined ? this.#rateLimit(limit, port) : null;
    yield;
    const { detectTimeoutMs } = this.#workload;
    const hasRequestRules = attached.length > 0 || rateLimit !== null;
    return compiledPort({ port, server, protocol, detectTimeoutMs, hasRequestRules, routes, grants, rateLimit });
  }

  #rules(route: Route, server: ServerDocument, serverGrants: GrantList) {
    const own = sorted(this.#byRoute.get(routeKey(route.group, route.kind, route.name)) ?? []);
    const grants =
      own.grants.length === 0 && own.broken.length === 0
        ? serverGrants
        : new GrantList(own.grants, serverGrants, own.broken);
    const ref = refOf(route);
    return route.spec.rules.map(({ headerChanges, redirect, sealed }) =>
      compiledRule({
        server: refOf(server),
        route: ref,
        grants,
        headerChanges,
        redirect,
        sealed: sealed || server.spec.sealed,
      }),
    );
  }

  #rateLimit(document: RateLimitDocument, port: number): RateLimit {
    const { total, identity, overrides, server } = document.spec;
    const resolved = new Map<string, { readonly entry: number; readonly rate: number | null }>();
    overrides.forEach(({ requestsPerSecond, clients }, entry) => {
      for (const { namespace, name } of clients) {
        const id = serviceAccountIdentity(this.#workload, namespace, name);
        // Named twice: the first entry counts.
        if (!resolved.has(id)) resolved.set(id, { entry, rate: requestsPerSecond === 0 ? null : requestsPerSecond });
      }
    });
    return {
      ref: refOf(document),
      key: JSON.stringify([document.name, server, port, total, identity, [...resolved]]),
      total: total === 0 ? null : total,
      identity: identity === 0 ? null : identity,
      overrides: resolved,
    };
  }

  #warn(document: PolicyDocument, path: readonly (string | number)[], code: string, message: string, hint = ''): void {
    this.problems.push(linkProblem(document, path, code, message, hint));
  }
}

function push<Item>(lists: Map<string, Item[]>, key: string, item: Item): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

/** In the order in which they are credited: by name, then kind. The same whatever the order of the documents. */
function sorted(all: readonly (Authorization | BrokenAuthorization)[]): {
  readonly grants: readonly Authorization[];
  readonly broken: readonly BrokenAuthorization[];
} {
  const ordered = [...all].sort((a, b) => byText(a.ref.name, b.ref.name) || byText(a.ref.kind, b.ref.kind));
  return {
    grants: ordered.filter((entry): entry is Authorization => 'tls' in entry),
    broken: ordered.filter((entry): entry is BrokenAuthorization => !('tls' in entry)),
  };
}

function byRouteOrder(a: Route, b: Route): number {
  return byAge(a, b) || byText(a.group, b.group) || byText(a.kind, b.kind);
}

/** Ports with a Server have its policy; any other gets the default policy when it is first asked for. */
class CompiledIndex implements PolicyIndex {
  readonly servers: readonly CompiledPort[];
  readonly #ports: Map<number, CompiledPort>;
  readonly #workload: Workload;
  readonly #defaults: DefaultGrants;

  constructor(ports: Map<number, CompiledPort>, workload: Workload) {
    this.#ports = ports;
    this.servers = [...ports.values()].sort((a, b) => a.port - b.port);
    this.#workload = workload;
    this.#defaults = new DefaultGrants(workload);
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
    const routes = opaque ? null : this.#defaults.routes(server, grants, probes.get(port) ?? []);
    const protocol = opaque ? 'opaque' : 'detect';
    const hasRequestRules = false;
    return compiledPort({ port, server, protocol, detectTimeoutMs, hasRequestRules, routes, grants, rateLimit: null });
  }
}
