import { type Client, clientId } from '../client.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { Authorization } from './client-match.ts';
import type {
  ConnectionDecision,
  ConnectionPermit,
  InvalidRequest,
  RequestDecision,
  RequestFacts,
  RequestPermit,
} from './decision.ts';
import { inspectPath, readings } from './path-readings.ts';
import type { CompiledPort, CompiledRule, RouteMatch, RouteTable } from './policy-index.ts';
import type { RateLimiter } from './rate-limit.ts';
import { redirectTarget } from './redirect.ts';
import { UnexaminedValue } from './value-match.ts';

/*
 * The two deciding functions, and the only place where a permit is made. Permits are prepared: one for each pair of rule
 * and authorization that has ever let somebody in.
 */

/**
 * Whether a connection may be forwarded as bytes. Denied where no authorization covers the client, and always on ports
 * whose protocol is HTTP or gRPC: there only requests are let in (Linkerd), audit or not.
 */
export function decideConnection(port: CompiledPort, client: Client): ConnectionDecision {
  if (port.protocol === 'http1' || port.protocol === 'http2' || port.protocol === 'grpc') return port.connectionDeny;
  const grant = port.grants.find(client);
  return grant === null ? port.connectionDeny : connectionPermit(port, grant);
}

/**
 * Whether a request may be forwarded, and what is to be done to it. No route, no request: on a port that became opaque or
 * TLS under an open connection nothing is found. No authorization that covers the client: denied. Readings of the path
 * that disagree, or a path that cannot be read: invalid. A limit is spent last, by the permitted alone.
 */
export function decideRequest(
  port: CompiledPort,
  client: Client,
  request: RequestFacts,
  limiter: RateLimiter | null,
): RequestDecision {
  const table = port.routes;
  if (table === null) return port.noRoute;
  const inspection = inspectPath(request.method, request.path);
  if (inspection.kind === 'invalid') return invalid(port.server, inspection.detail);
  // A server that cuts the fragment off would read another value than the one that was matched.
  if (request.query !== '' && request.query.includes('#')) return invalid(port.server, 'the query holds a fragment');

  const id = clientId(client);
  let match: RouteMatch | null;
  try {
    match = table.find(request, request.path, id);
    if (inspection.kind === 'ambiguous') {
      const differing = differingReading(table, client, request, id, match);
      // `;` is an ordinary character: a path refused as it stands is answered for what it is (403 or 404), not as malformed.
      const refusedAnyway = inspection.parametersOnly && (match === null || match.rule.grants.find(client) === null);
      if (differing !== undefined && !refusedAnyway) return invalid(port.server, differing);
    }
  } catch (error) {
    if (error instanceof UnexaminedValue) return invalid(port.server, error.message);
    throw error;
  }
  if (match === null) return port.noRoute;
  const { rule } = match;
  const grant = rule.grants.find(client);
  if (grant === null) return rule.deny;

  const { server } = port;
  const { route } = rule;
  const { ref: authz, audit } = grant;
  if (rule.redirect !== null) {
    const target = redirectTarget(rule.redirect, request, match.prefix);
    if (target.kind === 'redirect') {
      const { location } = target;
      return { kind: 'redirect', server, route, authz, audit, status: rule.redirect.status, location };
    }
  }
  const limit = port.rateLimit;
  if (limit !== null && limiter !== null) {
    const scope = limiter.take(limit, id);
    if (scope !== null) return { kind: 'rate-limited', server, route, authz, audit, limit: limit.ref, scope };
  }
  return requestPermit(server, rule, grant);
}

/** Says how a reading of the path is decided otherwise than the path as it came; undefined where all agree. */
function differingReading(
  table: RouteTable,
  client: Client,
  request: RequestFacts,
  id: string | null,
  raw: RouteMatch | null,
): string | undefined {
  for (const reading of readings(request.path)) {
    if (reading === null) return 'the path has too many readings, or one with a control character';
    const match = table.find(request, reading, id);
    if (match === raw) continue;
    if (!sameOutcome(match, raw, client)) return 'servers could read the path in ways that are decided differently';
  }
  return undefined;
}

/** Same verdict, and the same done to the request; which route or authorization it is credited to may differ. */
function sameOutcome(a: RouteMatch | null, b: RouteMatch | null, client: Client): boolean {
  if (a === null || b === null) return a === b;
  const granted = a.rule.grants.find(client) !== null;
  if (granted !== (b.rule.grants.find(client) !== null)) return false;
  if (!granted) return true;
  return a.rule.effects === b.rule.effects && (a.rule.redirect === null || a.prefix === b.prefix);
}

function invalid(server: ResourceRef, detail: string): InvalidRequest {
  return { kind: 'invalid', server, detail };
}

function requestPermit(server: ResourceRef, rule: CompiledRule, grant: Authorization): RequestPermit {
  let permit = rule.permits.get(grant);
  if (permit === undefined) {
    const { route, headerChanges } = rule;
    permit = Object.freeze({
      kind: 'permit',
      server,
      route,
      authz: grant.ref,
      audit: grant.audit,
      headerChanges,
    }) as RequestPermit;
    rule.permits.set(grant, permit);
  }
  return permit;
}

function connectionPermit(port: CompiledPort, grant: Authorization): ConnectionPermit {
  let permit = port.connectionPermits.get(grant);
  if (permit === undefined) {
    const { server } = port;
    permit = Object.freeze({ kind: 'permit', server, authz: grant.ref, audit: grant.audit }) as ConnectionPermit;
    port.connectionPermits.set(grant, permit);
  }
  return permit;
}
