import type { CodeOf } from '../../errors/problems.ts';
import type { RateLimit } from '../decide/policy-index.ts';
import type {
  GrpcRouteDocument,
  HttpRouteDocument,
  RateLimitDocument,
  RouteParent,
  ServerDocument,
} from '../documents/types.ts';
import { push } from '../lists.ts';
import { serviceAccountIdentity, type Workload } from '../workload.ts';
import { byAge, byText, inSlices, type Linking, refOf } from './linking.ts';
import { warnOfUnreachable } from './unreachable-paths.ts';

export type RouteDocument = HttpRouteDocument | GrpcRouteDocument;

/** Whether a Server speaks HTTP as far as HTTPRoutes and rate limits are concerned; gRPC Servers have neither. */
export function takesHttpRoutes({ spec: { protocol } }: ServerDocument): boolean {
  return protocol === 'detect' || protocol === 'http1' || protocol === 'http2';
}

/** What is attached to Servers, by name. */
export interface LinkedRoutes {
  readonly byServer: ReadonlyMap<string, readonly RouteDocument[]>;
  /** Servers of which a refused GRPCRoute would have taken the HTTPRoutes away: no request of theirs is let in. */
  readonly contested: ReadonlySet<string>;
}

/**
 * The routes that each Server has, in the order in which ties are settled. Linkerd reads it from their Accepted status;
 * here it is computed: the Server exists, and no GRPCRoute shares it with an HTTPRoute.
 */
export function* linkRoutes(linking: Linking): Generator<void, LinkedRoutes, void> {
  const { index } = linking;
  const grpcServers = new Set<string>();
  const refusedGrpc = new Set<string>();
  yield* inSlices(index.routes.values(), (route) => {
    if (route.kind !== 'GRPCRoute') return;
    for (const { name } of parentsOf(route, linking)) (route.spec.refused ? refusedGrpc : grpcServers).add(name);
  });
  const byServer = new Map<string, RouteDocument[]>();
  const contested = new Set<string>();
  yield* inSlices(index.routes.values(), (route) => {
    const attached = new Set<string>();
    for (const parent of parentsOf(route, linking)) {
      if (accepts(parent, route, grpcServers, linking)) attached.add(parent.name);
    }
    for (const name of attached) {
      push(byServer, name, route);
      if (route.kind === 'HTTPRoute' && refusedGrpc.has(name)) contested.add(name);
    }
  });
  for (const routes of byServer.values()) {
    routes.sort((a, b) => byAge(a, b) || byText(a.group, b.group) || byText(a.kind, b.kind));
    warnOfUnreachable(
      routes.filter((route) => route.kind === 'HTTPRoute'),
      linking,
    );
    if (routes.length > 1) yield;
  }
  return { byServer, contested };
}

/** Every Server, where the route's parents cannot be read. */
function parentsOf({ spec }: RouteDocument, { index }: Linking): readonly RouteParent[] {
  if (spec.refused?.everyServer !== true) return spec.parents;
  return [...index.servers.keys()].map((name) => ({ name, index: 0 }));
}

function accepts(
  { name, index }: RouteDocument['spec']['parents'][number],
  route: RouteDocument,
  grpcServers: ReadonlySet<string>,
  linking: Linking,
): boolean {
  const { servers } = linking.index;
  const server = servers.get(name);
  const doubt = (code: CodeOf<'warning'>, message: string, hint: string): false => {
    if (route.spec.refused === undefined)
      linking.warn(route, ['spec', 'parentRefs', index, 'name'], code, message, hint);
    return false;
  };
  if (server === undefined) {
    return doubt(
      'dangling-parent',
      `there is no Server ${name} in namespace ${route.namespace}, so the route is not attached`,
      linking.hints.for(name, () => servers.keys()),
    );
  }
  if (route.kind === 'HTTPRoute' && grpcServers.has(name)) {
    return doubt(
      'route-conflict',
      `a GRPCRoute is attached to Server ${name}, so this HTTPRoute is not accepted there`,
      'Use routes of one kind for a Server.',
    );
  }
  const { protocol } = server.spec;
  const fits = route.kind === 'GRPCRoute' ? protocol === 'grpc' : takesHttpRoutes(server);
  if (fits) return true;
  return doubt(
    'route-without-effect',
    `Server ${name} has protocol ${protocol}, for which no ${route.kind} counts`,
    route.kind === 'GRPCRoute'
      ? 'Write proxyProtocol: gRPC.'
      : 'Write proxyProtocol: HTTP/1 or HTTP/2, or leave it out.',
  );
}

/** The one limit that each Server has: the oldest, then the first by name. */
export function* linkRateLimits(linking: Linking): Generator<void, ReadonlyMap<string, RateLimitDocument>, void> {
  const { servers, rateLimits } = linking.index;
  const byServer = new Map<string, RateLimitDocument>();
  yield* inSlices([...rateLimits].sort(byAge), (limit) => {
    const { server: name, refused } = limit.spec;
    if (refused !== undefined) {
      for (const server of refused.everyServer ? servers.keys() : [name]) {
        if (!byServer.has(server)) byServer.set(server, limit);
      }
      return;
    }
    const doubt = (code: CodeOf<'warning'>, message: string, hint = ''): void =>
      linking.warn(limit, ['spec', 'targetRef', 'name'], code, message, hint);
    const server = servers.get(name);
    const winner = byServer.get(name);
    if (server === undefined) {
      doubt(
        'dangling-target',
        `there is no Server ${name} in namespace ${limit.namespace}, so nothing is limited`,
        linking.hints.for(name, () => servers.keys()),
      );
    } else if (winner !== undefined) {
      doubt('rate-limit-taken', `Server ${name} already has the limit ${winner.name}, so ${limit.name} has no effect`);
    } else {
      byServer.set(name, limit);
      if (!takesHttpRoutes(server)) {
        doubt('rate-limit-without-effect', `Server ${name} has protocol ${server.spec.protocol}, which is not limited`);
      }
    }
  });
  return byServer;
}

/** The limit as it applies to one port, its clients resolved to identities. */
export function resolveRateLimit(document: RateLimitDocument, port: number, workload: Workload): RateLimit {
  const { total, identity, overrides, server } = document.spec;
  const resolved = new Map<string, { readonly entry: number; readonly rate: number | null }>();
  overrides.forEach(({ requestsPerSecond, clients }, entry) => {
    for (const { namespace, name } of clients) {
      const id = serviceAccountIdentity(workload, namespace, name);
      // Named twice: the last entry that limits counts, as in Linkerd.
      if (requestsPerSecond > 0) resolved.set(id, { entry, rate: requestsPerSecond });
      else if (!resolved.has(id)) resolved.set(id, { entry, rate: null });
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
