import { type Client, clientId } from '../../client.ts';
import type { ResourceRef } from '../../resource-ref.ts';
import type {
  ConnectionDecision,
  ConnectionPermit,
  ConnectionProbes,
  InvalidRequest,
  RequestDecision,
  RequestFacts,
  RequestPermit,
} from '../decision.ts';
import { type Authorization, covers } from './client-match.ts';
import { foldPath, inspectPath, readings, staysBelow } from './path-readings.ts';
import type { CompiledPort, CompiledRule, RouteMatch, RouteTable } from './policy-index.ts';
import { Question, UnexaminedValue } from './question.ts';
import { type RateLimiter, reachedText } from './rate-limit.ts';
import { redirectTarget } from './redirect.ts';

/*
 * The two deciding functions, and the only place where a permit is made. Permits are prepared: one for each pair of rule
 * and authorization that has ever let somebody in.
 */

/**
 * Whether a connection may be forwarded as bytes. Denied where no authorization covers the client, and always on ports
 * whose protocol is HTTP or gRPC: there only requests are let in (Linkerd), audit or not. So it is on a port of unknown
 * protocol that has routes or a rate limit: whatever they say of requests, bytes must not go round it.
 */
export function decideConnection(port: CompiledPort, client: Client): ConnectionDecision {
  if (takesRequestsAlone(port)) return port.connectionDeny;
  const grant = port.grants.find(client);
  return grant === null ? port.connectionDeny : connectionPermit(port, grant);
}

/** Only from the probe networks, and only on a port that is probed so. */
export function decideProbes({ tcpProbe, tlsProbes }: CompiledPort, client: Client): ConnectionProbes {
  return {
    silence: tcpProbe !== null && covers(tcpProbe, client),
    tls: tlsProbes?.rules.some(({ grants }) => grants.find(client) !== null) ?? false,
  };
}

/** The routes that a client's requests are decided by; null: none is. */
export function routesFor({ routes, tlsProbes }: CompiledPort, { tls }: Client): RouteTable | null {
  return tls.kind === 'passthrough' ? tlsProbes : routes;
}

/** Nothing but HTTP goes on, from any client. */
export function takesRequestsAlone({ protocol, hasRequestRules }: CompiledPort): boolean {
  return protocol === 'detect' ? hasRequestRules : protocol === 'http1' || protocol === 'http2' || protocol === 'grpc';
}

/**
 * Whether a request may be forwarded, and what is to be done to it. No route, no request: on a port that became opaque or
 * TLS under an open connection nothing is found. No authorization that covers the client: denied. Readings of the path
 * that disagree, or a path that cannot be read: invalid. A limit is spent last, by the permitted alone.
 *
 * @param spent the key of a limit of which the request has a token already; null for a request that has none.
 */
export function decideRequest(
  port: CompiledPort,
  client: Client,
  request: RequestFacts,
  limiter: RateLimiter | null,
  spent: string | null = null,
): RequestDecision {
  const table = routesFor(port, client);
  if (table === null) return port.noRoute;
  const id = clientId(client);
  let match: RouteMatch | null;
  try {
    const routed = routeOf(table, client, request, new Question(request, id, table.traits));
    if (routed.kind === 'invalid') return invalid(port.server, routed.detail);
    ({ match } = routed);
  } catch (error) {
    if (error instanceof UnexaminedValue) return invalid(port.server, error.message);
    throw error;
  }
  if (match === null) return port.noRoute;
  const { rule } = match;
  const grant = rule.grants.find(client);
  if (grant === null) return rule.deny;
  const alias = rule.guarded?.alias(request) ?? null;
  if (alias !== null) return invalid(port.server, aliasFault(alias));

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
  if (limit !== null && limiter !== null && limit.key !== spent) {
    const reached = limiter.take(limit, id);
    if (reached !== null) {
      const scope = reached === 'total' ? 'total' : 'identity';
      const detail = reachedText(limit, reached, id);
      return { kind: 'rate-limited', server, route, authz, audit, limit: limit.ref, scope, detail };
    }
  }
  return requestPermit(server, rule, grant);
}

type Routed =
  | { readonly kind: 'routed'; readonly match: RouteMatch | null }
  | { readonly kind: 'invalid'; readonly detail: string };

/**
 * The route of a request as it stands, once every other way to read it has been found to end the same. What is refused as
 * it stands, and could only be read otherwise by case, a trailing slash, `;parameters` or another grammar of queries, is
 * answered for what it is (403 or 404), and not as malformed. @throws {UnexaminedValue}
 */
function routeOf(table: RouteTable, client: Client, request: RequestFacts, question: Question): Routed {
  const { path } = request;
  const inspection = inspectPath(request.method, path);
  if (inspection.kind === 'invalid') return inspection;
  // A server that cuts the fragment off would read another value than the one that was matched.
  if (request.query.includes('#')) return { kind: 'invalid', detail: 'the query holds a fragment' };
  const { traits } = table;
  if (traits.guarded !== null) {
    const alias = traits.guarded.alias(request);
    if (alias !== null) return { kind: 'invalid', detail: aliasFault(alias) };
  }
  // `%61dmin.example` is a name to a server that decodes it (WHATWG URL), and no name to one that does not.
  if (table.namesHosts && request.host.includes('%')) return { kind: 'invalid', detail: 'the host holds an escape' };

  const match = table.find(question);
  const granted = match !== null && match.rule.grants.find(client) !== null;
  let differing: string | null = null;
  if (inspection.kind === 'ambiguous') {
    const soft = inspection.parametersOnly && !granted;
    if (!soft) differing = differingReading(table, client, question, match, granted);
  } else if (granted && (question.askedQuery || !table.anyCase.has(match))) {
    const folds = !inspection.folded || traits.respelled || (path.length > 1 && path.endsWith('/'));
    if (folds && foldedDiffers(table, client, question, path, match)) differing = differently.path;
  }
  if (differing === null && granted && question.askedQuery) {
    differing = queryDiffers(table, client, question, match) ? differently.query : null;
  }
  return differing === null ? { kind: 'routed', match } : { kind: 'invalid', detail: differing };
}

const differently = {
  path: 'servers could read the path in ways that are decided differently',
  query: 'servers could read the query in ways that are decided differently',
};

function aliasFault(name: string): string {
  return `header ${name} has the name of one that policy decides on or writes, for a server that folds names (CGI)`;
}

/** Says how a reading of the path is decided otherwise than the path as it came; null where all agree. */
function differingReading(
  table: RouteTable,
  client: Client,
  question: Question,
  raw: RouteMatch | null,
  granted: boolean,
): string | null {
  for (const reading of readings(question.request.path)) {
    if (reading === null) return 'the path has too many readings, or one with a control character';
    question.path = reading;
    const match = table.find(question);
    if (match !== raw && !sameOutcome(match, raw, client) && !isRespelled(raw, match, question.request.path, reading)) {
      return differently.path;
    }
    if (granted && foldedDiffers(table, client, question, reading, raw)) return differently.path;
  }
  question.path = question.request.path;
  return granted && foldedDiffers(table, client, question, question.path, raw) ? differently.path : null;
}

/**
 * Whether a reading is another spelling of what the winning rule names itself (`/files/a%20b`), to which nothing applies that
 * did not apply, and give way, to the path as it came: then it is what its author let in.
 */
function isRespelled(raw: RouteMatch | null, read: RouteMatch | null, path: string, reading: string): boolean {
  if (raw === null || raw.literal === null || raw.literal === '' || !raw.literal.includes('%')) return false;
  if (read !== null) {
    const { prefix } = read;
    if (prefix === null) return false;
    if (prefix !== '' && prefix !== '/' && path !== prefix && !path.startsWith(`${prefix}/`)) return false;
  }
  return staysBelow(raw.literal, raw.prefix !== null, reading);
}

/** Same verdict, and the same done to the request; which route or authorization it is credited to may differ. */
function sameOutcome(a: RouteMatch | null, b: RouteMatch | null, client: Client): boolean {
  if (a === null || b === null) return a === b;
  const granted = a.rule.grants.find(client) !== null;
  if (granted !== (b.rule.grants.find(client) !== null)) return false;
  if (!granted) return true;
  return a.rule.effects === b.rule.effects && (a.rule.redirect === null || a.prefix === b.prefix);
}

/** Whether a granted request would be refused, or changed otherwise, by servers that see no case (see `foldPath`). */
function foldedDiffers(
  table: RouteTable,
  client: Client,
  question: Question,
  reading: string,
  raw: RouteMatch | null,
): boolean {
  question.path = reading;
  const folded = foldPath(reading);
  // Compared byte by byte it has just been found to agree.
  if (folded === reading && !table.traits.respelled && !question.askedQuery) return false;
  question.folded = folded;
  let differs = !lets(table.find(question), raw, client);
  if (!differs && question.askedQuery) {
    // Who sees no case in paths may see none in queries.
    const { own, loose } = question.queryReadings;
    if (own !== loose) {
      question.parameters = loose;
      differs = !lets(table.find(question), raw, client);
      question.parameters = null;
    }
  }
  question.folded = null;
  return differs;
}

/** Whether a granted request would be refused, or changed otherwise, by servers that read queries by another grammar. */
function queryDiffers(table: RouteTable, client: Client, question: Question, raw: RouteMatch | null): boolean {
  const { own, loose } = question.queryReadings;
  if (own === loose) return false;
  question.path = question.request.path;
  question.parameters = loose;
  const differs = !lets(table.find(question), raw, client);
  question.parameters = null;
  return differs;
}

/**
 * Whether `other` lets in what `own` lets in, with the same headers. Where both are written out in the policy, each in its
 * own spelling, its author tells them apart, and so may the request. A redirect reaches no application.
 */
function lets(other: RouteMatch | null, own: RouteMatch | null, client: Client): boolean {
  if (other === own) return true;
  if (other === null || own === null) return false;
  if (spelledOut(other, own)) return true;
  if (other.rule.grants.find(client) === null) return false;
  return other.rule.redirect !== null || own.rule.redirect !== null || other.rule.changes === own.rule.changes;
}

function spelledOut(other: RouteMatch, own: RouteMatch): boolean {
  if (other.literal === null || own.literal === null || other.literal === own.literal) return false;
  return foldPath(other.literal) === foldPath(own.literal);
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
      probe: grant.probe ?? null,
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
