import type { Client } from '../client.ts';
import type { ResourceRef } from '../resource-ref.ts';
import {
  type Carried,
  decideSilence,
  isBytes,
  looksFurther,
  type Probed,
  probedReason,
  seenBy,
  takesTls,
} from './carried.ts';
import type {
  Authorizer,
  ConnectionDecision,
  HeaderChanges,
  PortPolicy,
  PortProtocol,
  Reasons,
  RequestDecision,
  RequestFacts,
} from './decision.ts';

/*
 * What another policy would have made of that which the policy in force has decided. It is asked as `explain` asks: whatever
 * comes before a request in the other policy (NetworkPolicies, the protocol of the port, TLS) is asked first.
 */

/** Of a connection that NetworkPolicies do not admit. */
interface NetworkRefused {
  readonly kind: 'network-refused';
  readonly server: ResourceRef;
}
/** NetworkPolicies let in what those in force refuse at accept: what would have come on it nobody knows. */
interface LetIn {
  readonly kind: 'let-in';
  readonly server: ResourceRef;
}
/** The other policy would look for what nobody has looked for: TLS, HTTP, or requests in TLS. */
interface Unseen {
  readonly kind: 'unseen';
  readonly server: ResourceRef;
}

export type BesideDecision = RequestDecision | ConnectionDecision | NetworkRefused | LetIn | Unseen | Probed;

/** In a word. `audit`: let through only because of an `audit` default or access policy. */
export type BesideVerdict = BesideDecision['kind'] | 'audit';

export function verdictOf(decision: BesideDecision): BesideVerdict {
  return decision.kind === 'permit' && decision.audit ? 'audit' : decision.kind;
}

/**
 * `same`: nothing is different. `moved`: nothing for the client, but another route or authorization answers for it, or it is
 * audited by one policy alone. `differs`: the client, or the app, would notice.
 */
export type Agreement = 'same' | 'moved' | 'differs';

/** A request that the policy in force has decided. */
export function besideRequest(
  beside: Authorizer,
  port: number,
  client: Client,
  request: RequestFacts,
  protocol: Carried,
): BesideDecision {
  const policy = beside.port(port);
  if (beside.admits(port, client.ip).kind === 'refused') return { kind: 'network-refused', server: policy.server };
  if (client.tls.kind === 'passthrough' && takesTls(beside, policy, client)) {
    return beside.request(policy, client, request);
  }
  const seen = seenBy(policy, client);
  return isBytes(policy, seen, protocol) ? beside.connection(policy, seen) : beside.request(policy, seen, request);
}

/**
 * A connection that the policy in force has decided as bytes.
 *
 * @param protocol that the port had by it: what has been looked for in the bytes.
 */
export function besideConnection(
  beside: Authorizer,
  port: number,
  client: Client,
  protocol: PortProtocol,
): BesideDecision {
  const policy = beside.port(port);
  const { server } = policy;
  if (beside.admits(port, client.ip).kind === 'refused') return { kind: 'network-refused', server };
  if (client.tls.kind === 'passthrough' && takesTls(beside, policy, client)) return { kind: 'unseen', server };
  return looksFurther(policy, client, protocol)
    ? { kind: 'unseen', server }
    : beside.connection(policy, seenBy(policy, client));
}

/** A connection that was let in as a TCP probe: nothing came on it. */
export function besideSilence(beside: Authorizer, port: number, client: Client): BesideDecision {
  const policy = beside.port(port);
  if (beside.admits(port, client.ip).kind === 'refused') return { kind: 'network-refused', server: policy.server };
  return decideSilence(beside, policy, seenBy(policy, client));
}

/** A connection that NetworkPolicies in force have refused. */
export function besideRefusal(beside: Authorizer, port: number, client: Client): BesideDecision {
  const { server } = beside.port(port);
  return { kind: beside.admits(port, client.ip).kind === 'refused' ? 'network-refused' : 'let-in', server };
}

/** Slower: for people. `request` null: it was none. */
export function besideReasons(
  beside: Authorizer,
  port: number,
  client: Client,
  request: RequestFacts | null,
  decision: BesideDecision,
): Reasons {
  const policy = beside.port(port);
  switch (decision.kind) {
    case 'network-refused':
      return beside.admissionReasons(port, client.ip);
    case 'probed':
      return { reason: probedReason, candidates: [] };
    case 'let-in':
      return {
        reason: 'NetworkPolicies let the connection in; what would have come on it is not known',
        candidates: [],
      };
    case 'unseen':
      return { reason: unseenReason(policy), candidates: [] };
    default:
      if (isOfConnection(decision)) return beside.connectionReasons(policy, seenBy(policy, client));
      if (request === null) return { reason: '', candidates: [] };
      return beside.requestReasons(policy, client, request, decision);
  }
}

function unseenReason({ protocol, server }: PortPolicy): string {
  const what = protocol === 'tls' ? 'TLS' : protocol === 'detect' ? 'TLS and HTTP' : 'requests';
  return `${server.kind} ${server.name} would look for ${what}, which the policy in force does not: what it would find is not known`;
}

/** Whether it is of bytes, and not of a request in them. */
function isOfConnection(decision: BesideDecision): decision is ConnectionDecision {
  return (decision.kind === 'permit' || decision.kind === 'deny') && !('route' in decision);
}

export function agreementOf(one: BesideDecision, other: BesideDecision): Agreement {
  if (isClosed(one) && isClosed(other)) return one.kind === other.kind && isSame(one, other) ? 'same' : 'moved';
  if (one.kind !== other.kind || isClosed(one) !== isClosed(other) || !answersAlike(one, other)) return 'differs';
  return isSame(one, other) ? 'same' : 'moved';
}

/** Without a response. */
function isClosed(decision: BesideDecision): boolean {
  return decision.kind === 'network-refused' || (decision.kind === 'deny' && !('route' in decision));
}

/** Of one kind. */
function answersAlike(one: BesideDecision, other: BesideDecision): boolean {
  switch (one.kind) {
    case 'permit':
      return areSameChanges(changesOf(one), changesOf(other));
    case 'redirect':
      return other.kind === 'redirect' && one.status === other.status && one.location === other.location;
    default:
      return true;
  }
}

function changesOf(decision: BesideDecision): HeaderChanges | null {
  return 'headerChanges' in decision ? decision.headerChanges : null;
}

function areSameChanges(one: HeaderChanges | null, other: HeaderChanges | null): boolean {
  return one === other || (one !== null && other !== null && JSON.stringify(one) === JSON.stringify(other));
}

/** Credited to the same documents, and audited by both or neither. Of one kind. */
function isSame(one: BesideDecision, other: BesideDecision): boolean {
  return (
    areSameRefs(one.server, other.server) &&
    areSameRefs(namedRef(one, 'route'), namedRef(other, 'route')) &&
    areSameRefs(namedRef(one, 'authz'), namedRef(other, 'authz')) &&
    areSameRefs(namedRef(one, 'limit'), namedRef(other, 'limit')) &&
    ('audit' in one && one.audit) === ('audit' in other && other.audit)
  );
}

/** Null where it names none. */
export function namedRef(decision: BesideDecision, name: 'route' | 'authz' | 'limit'): ResourceRef | null {
  const named = decision as { readonly [each in typeof name]?: ResourceRef };
  return named[name] ?? null;
}

function areSameRefs(one: ResourceRef | null, other: ResourceRef | null): boolean {
  if (one === other) return true;
  if (one === null || other === null) return false;
  return one.name === other.name && one.kind === other.kind && one.group === other.group;
}
