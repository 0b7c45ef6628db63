import type { Client } from '../client.ts';
import type { IpAddress } from '../ip.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { ProbeKind } from './probes.ts';

export type { ProbeKind };

/** Linkerd's `proxyProtocol`, compiled. `detect` is `unknown` in documents. */
export type PortProtocol = 'detect' | 'http1' | 'http2' | 'grpc' | 'opaque' | 'tls';

/** What the data plane may see of one port's compiled policy. Immutable; compare by reference to notice a change. */
export interface PortPolicy {
  readonly port: number;
  readonly server: ResourceRef;
  readonly protocol: PortProtocol;
  /** Milliseconds to wait for the first bytes before HTTP detection gives up. */
  readonly detectTimeoutMs: number;
  /** Routes or a rate limit are attached: where the protocol is unknown, nothing but HTTP goes on. */
  readonly hasRequestRules: boolean;
  /**
   * Equal requests of one client are decided alike for as long as this policy is in force, so that a decision may be kept:
   * there is no rate limit.
   */
  readonly decisionsLast: boolean;
  /** What names the rate limit and its numbers. */
  readonly rateLimit: { readonly key: string } | null;
  /** What of a request, beside its method, host and path, decisions on this port may depend on. */
  readonly asks: AskedOfRequests;
}

export interface AskedOfRequests {
  /** Lower-case names of fields whose values, or whose presence, count. */
  readonly headers: readonly string[];
  readonly query: AskedParameters;
  /** Whether a route wants this very value of a field, in bytes: what documents write out is no secret of a client's. Slow. */
  spells(name: string, bytes: string): boolean;
}

/** What decisions look at in a query, besides whether it holds a fragment. */
export interface AskedParameters {
  /** Of parameters, in bytes. */
  readonly names: readonly string[];
  /** What of a query decides: that is decided like the query. Anything else may be a secret of the client's. */
  told(query: string): ToldQuery;
  /** A name that counts here, and of which whoever was told the parameters of these names does not know all; null: there is none. */
  beyond(names: readonly string[]): string | null;
}

/** What may be said of a query. `names`: of which parameters it has all. */
export type ToldQuery =
  | { readonly kind: 'whole'; readonly query: string }
  | { readonly kind: 'parts'; readonly query: string; readonly names: readonly string[] };

/** One request as policy sees it. Strings are as received; policy does its own reading of spellings. */
export interface RequestFacts {
  readonly method: string;
  /** The target's path, without `?query`, byte for byte as received (absolute-form: its path). */
  readonly path: string;
  /** After the `?`; empty where none. */
  readonly query: string;
  /** Host, `:authority` or the absolute-form authority that won; empty where none. */
  readonly host: string;
  /** HTTP/2 with a content-type that starts `application/grpc`. */
  readonly grpc: boolean;
  /**
   * What comes with the head: nothing, content (or the announcement of some), or the wish to leave HTTP (Upgrade, CONNECT).
   * A probe is a plain request, which has nothing.
   */
  readonly carries: 'nothing' | 'body' | 'upgrade';
  /** Every value of a header, by lower-case name; empty where absent. Never called for `l5d-client-id`. */
  header(name: string): readonly string[];
  /**
   * Lower-case names of the fields whose name holds anything but letters, digits and hyphens (`noOddNames` where none do):
   * CGI and its kin give an application such a field under the name of another. Asked for at most once per decision.
   */
  readonly oddNames: readonly string[];
}

/** The `oddNames` of nearly all requests. */
export const noOddNames: readonly string[] = Object.freeze([]);

const oddName = /[^A-Za-z0-9-]/;

/** `RequestFacts.oddNames` of a flat list of names and values. */
export function oddNamesOf(fields: readonly string[]): readonly string[] {
  let odd: string[] | null = null;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    if (!oddName.test(name)) continue;
    odd ??= [];
    odd.push(name.toLowerCase());
  }
  return odd ?? noOddNames;
}

declare const granted: unique symbol;

/** Permission to forward one connection. Only `decide/decide.ts` makes one. */
export interface ConnectionPermit {
  readonly [granted]: 'connection';
  readonly kind: 'permit';
  readonly server: ResourceRef;
  readonly authz: ResourceRef;
  /** Let through only because of an `audit` default or access policy. */
  readonly audit: boolean;
}
export interface ConnectionDeny {
  readonly kind: 'deny';
  readonly server: ResourceRef;
}
export type ConnectionDecision = ConnectionPermit | ConnectionDeny;

/** What a connection that nothing authorizes may still turn out to be, by what comes on it. Nothing of it is forwarded as bytes. */
export interface ConnectionProbes {
  /** Nothing comes, and it ends: a TCP probe. */
  readonly silence: boolean;
  /** TLS, of which each request is decided: HTTPS probes. */
  readonly tls: boolean;
}

/** RequestHeaderModifier, to be applied to the forwarded request in the order add, set, remove. Names in lower case. */
export interface HeaderChanges {
  readonly add: readonly (readonly [string, string])[];
  readonly set: readonly (readonly [string, string])[];
  readonly remove: readonly string[];
}

/** Permission to forward one request. Only `decide/decide.ts` makes one. */
export interface RequestPermit {
  readonly [granted]: 'request';
  readonly kind: 'permit';
  readonly server: ResourceRef;
  readonly route: ResourceRef;
  readonly authz: ResourceRef;
  readonly audit: boolean;
  /** Let through only because it is a probe of this kind; null for nearly all. */
  readonly probe: ProbeKind | null;
  /** Null for nearly all. */
  readonly headerChanges: HeaderChanges | null;
}
export interface RequestDeny {
  readonly kind: 'deny';
  readonly server: ResourceRef;
  readonly route: ResourceRef;
}
export interface NoRoute {
  readonly kind: 'no-route';
  readonly server: ResourceRef;
}
export interface Redirect {
  readonly kind: 'redirect';
  readonly server: ResourceRef;
  readonly route: ResourceRef;
  readonly authz: ResourceRef;
  readonly audit: boolean;
  readonly status: number;
  /** Absolute URL. Null when `replacePrefixMatch` meets a match that is no prefix: answered 500, as Linkerd does. */
  readonly location: string | null;
}
export interface RateLimited {
  readonly kind: 'rate-limited';
  readonly server: ResourceRef;
  readonly route: ResourceRef;
  readonly authz: ResourceRef;
  readonly audit: boolean;
  /** The HTTPLocalRateLimitPolicy; kind as in the CRD. */
  readonly limit: ResourceRef;
  /** Metric label: overrides report `identity`. */
  readonly scope: 'total' | 'identity';
  /** Which limit, and how much it is. */
  readonly detail: string;
}
/** Readings of the path disagree, or it holds NUL, a control character or a fragment: 400. */
export interface InvalidRequest {
  readonly kind: 'invalid';
  readonly server: ResourceRef;
  readonly detail: string;
}
/** Nothing of the request goes on to the app. */
export type RequestRefusal = RequestDeny | NoRoute | Redirect | RateLimited | InvalidRequest;
export type RequestDecision = RequestPermit | RequestRefusal;

/** Whether NetworkPolicies let a connection in at all. Nothing is granted by it: authorization comes after. */
export type Admission =
  | { readonly kind: 'admitted' }
  /** By no rule of the NetworkPolicies that select the pod: these. */
  | { readonly kind: 'refused'; readonly policies: readonly ResourceRef[] };

/** Why one authorization did or did not grant. */
export interface Candidate {
  readonly authz: ResourceRef;
  readonly granted: boolean;
  /** The first clause that failed; null when granted. `reference`: a referent is missing, so it can grant nothing. */
  readonly failed: 'identity' | 'network' | 'reference' | null;
  /** `wanted …, was …`; empty when granted. */
  readonly detail: string;
}
export interface Reasons {
  /** One sentence for a person. */
  readonly reason: string;
  readonly candidates: readonly Candidate[];
  /** What is likely to be wrong with the policy, where it refuses; left out where nothing is. */
  readonly hint?: string;
}
export interface RequestReasons extends Reasons {
  /** The place, from 0, of the rule that the request belongs to among those of its route's document; null where it has none. */
  readonly rule: number | null;
}

/**
 * All that the data plane knows of policy. Every method may be called per request and answers from the index
 * that is current at that moment.
 */
export interface Authorizer {
  /** Counts successful swaps; 0 until the first good load, and then nothing is authorized on any port. */
  readonly generation: number;
  /** Asked before a byte of the connection is read, and again after each swap. */
  admits(port: number, ip: IpAddress): Admission;
  port(port: number): PortPolicy;
  connection(policy: PortPolicy, client: Client): ConnectionDecision;
  /** Of a connection that `connection` denies, or that has not been decided. */
  probes(policy: PortPolicy, client: Client): ConnectionProbes;
  /**
   * Of a client whose TLS is for another name only HTTPS probes are let in.
   *
   * @param letInBy by which the request was permitted before; left out for one that is new. What it has taken of a rate limit it
   * has taken: the same limit is not spent again.
   */
  request(policy: PortPolicy, client: Client, request: RequestFacts, letInBy?: PortPolicy): RequestDecision;
  /** The same of a request that was let in before, and is under way: a rate limit is for what begins. */
  requestAgain(policy: PortPolicy, client: Client, request: RequestFacts): RequestDecision;
  /** The same decision with its reasons. Slower; for logs and `explain`. Spends no rate-limit token. */
  admissionReasons(port: number, ip: IpAddress): Reasons;
  connectionReasons(policy: PortPolicy, client: Client): Reasons;
  requestReasons(policy: PortPolicy, client: Client, request: RequestFacts, decision: RequestDecision): RequestReasons;
  /** Called after each swap; returns the way to stop listening. */
  onChange(listener: () => void): () => void;
}
