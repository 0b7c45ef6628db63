import { type Client, clientId } from '../../client.ts';
import { type ResourceRef, refText } from '../../resource-ref.ts';
import type { Candidate, Reasons, RequestDecision, RequestFacts, RequestReasons } from '../decision.ts';
import { type GrantList, tlsText } from './client-match.ts';
import { decideConnection, routesFor, takesRequestsAlone } from './decide.ts';
import type { CompiledPort, CompiledRule } from './policy-index.ts';
import { Question, UnexaminedValue } from './question.ts';
import { refusalHint } from './refusal-hints.ts';

/** Reasons are read by people: a list of a thousand near misses helps nobody and would swell the log. */
const mostCandidates = 64;

function candidatesOf(grants: GrantList, client: Client): Candidate[] {
  return [...grants.candidates(client).take(mostCandidates)];
}

function who(client: Client): string {
  return `${client.ip.text} (${tlsText(client.tls)})`;
}

function notCovered(what: string, port: CompiledPort, client: Client, candidates: readonly Candidate[]): string {
  if (candidates.length === 0) return `nothing is authorized on ${what}`;
  const isNode = port.nodeIps.some(({ text }) => text === client.ip.text);
  const whose = isNode
    ? ", which is an address of the pod's own node: NAT may have put it in place of the client's"
    : '';
  return `no authorization of ${what} covers ${who(client)}${whose}`;
}

function grantedBy(authz: ResourceRef, audit: boolean, client: Client): string {
  return audit
    ? `no policy covers ${who(client)}, but ${refText(authz)} lets it through to be audited`
    : `${refText(authz)} covers ${who(client)}`;
}

export function connectionReasons(port: CompiledPort, client: Client): Reasons {
  const decision = decideConnection(port, client);
  const candidates = candidatesOf(port.grants, client);
  const server = refText(port.server);
  if (decision.kind === 'permit') return { reason: grantedBy(decision.authz, decision.audit, client), candidates };
  if (takesRequestsAlone(port)) {
    const reason =
      port.protocol === 'detect'
        ? `${server} has routes or a rate limit, so nothing but HTTP is let in; declare its proxyProtocol if it speaks another`
        : `${server} serves ${port.protocol}: bytes of another protocol are never let in`;
    return { reason, candidates };
  }
  return {
    reason: notCovered(server, port, client, candidates),
    candidates,
    ...hinted(port, client, candidates, null),
  };
}

export function requestReasons(
  port: CompiledPort,
  client: Client,
  request: RequestFacts,
  decision: RequestDecision,
): RequestReasons {
  switch (decision.kind) {
    case 'permit':
      return {
        reason: grantedBy(decision.authz, decision.audit, client),
        ...ofMatchedRule(port, client, request),
      };
    case 'deny': {
      // Which rule it was is known by its denial: a client that is refused does not make us look for it again.
      const rule =
        routesFor(port, client)?.rules.find(({ deny }) => deny === decision) ?? matchedRule(port, client, request);
      const candidates = rule === null ? [] : candidatesOf(rule.grants, client);
      const reason = denied(port, client, rule, decision.route, candidates);
      return { reason, candidates, rule: rule?.place ?? null, ...hinted(port, client, candidates, request) };
    }
    case 'no-route':
      return routesFor(port, client) === null
        ? { reason: `${refText(port.server)} takes no requests: its protocol is ${port.protocol}`, ...noRule }
        : {
            reason: `no route of ${refText(port.server)} matches the request`,
            ...noRule,
            ...hinted(port, client, [], request),
          };
    case 'redirect':
      return {
        reason:
          decision.location === null
            ? `${refText(decision.route)} redirects, but not from this request: its match is no prefix, or it has no host`
            : `${refText(decision.route)} redirects`,
        ...ofMatchedRule(port, client, request),
      };
    case 'rate-limited':
      return {
        reason: `${refText(decision.limit)}: the ${decision.scope} limit is exceeded`,
        ...ofMatchedRule(port, client, request),
      };
    case 'invalid':
      return { reason: decision.detail, ...noRule };
  }
}

function hinted(...asked: Parameters<typeof refusalHint>): { readonly hint?: string } {
  const hint = refusalHint(...asked);
  return hint === '' ? {} : { hint };
}

function denied(
  port: CompiledPort,
  client: Client,
  rule: CompiledRule | null,
  route: ResourceRef,
  candidates: readonly Candidate[],
): string {
  return rule?.sealed === true
    ? `a document about this part of ${refText(route)} cannot be read, and what it may cover is refused until the document is corrected`
    : notCovered(`${refText(port.server)} for ${refText(route)}`, port, client, candidates);
}

function matchedRule(port: CompiledPort, client: Client, request: RequestFacts) {
  try {
    const routes = routesFor(port, client);
    return routes?.find(new Question(request, clientId(client), routes.traits))?.rule ?? null;
  } catch (error) {
    if (error instanceof UnexaminedValue) return null;
    throw error;
  }
}

const noRule = { candidates: [], rule: null } as const;

function ofMatchedRule(
  port: CompiledPort,
  client: Client,
  request: RequestFacts,
): Pick<RequestReasons, 'candidates' | 'rule'> {
  const rule = matchedRule(port, client, request);
  return rule === null ? noRule : { candidates: candidatesOf(rule.grants, client), rule: rule.place };
}
