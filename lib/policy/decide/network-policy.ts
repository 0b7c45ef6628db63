import { type IpAddress, isLoopback } from '../../ip.ts';
import type { ResourceRef } from '../../resource-ref.ts';
import type { Admission, Candidate, Reasons } from '../decision.ts';
import { push } from '../lists.ts';
import { type Cidr, NetworkSet, networkSet } from '../networks.ts';
import type { PortRange } from '../workload.ts';

/** One ingress rule of one NetworkPolicy, with its selectors resolved to addresses. */
export interface ResolvedIngressRule {
  readonly policy: ResourceRef;
  /** As in the document: `spec.ingress[2]`. */
  readonly path: string;
  /** Null: every port. */
  readonly ports: readonly PortRange[] | null;
  readonly portsText: string;
  /** Null: everyone. */
  readonly from: NetworkSet | null;
}

export interface IsolationParts {
  /** The NetworkPolicies that select the pod for ingress; with none, it is not isolated. */
  readonly policies: readonly ResourceRef[];
  readonly openings: readonly ResolvedIngressRule[];
  /** The pod's own addresses and its node's. */
  readonly alwaysAdmitted: readonly Cidr[];
  /** What is known of an address, for reasons: the pod that has it. Empty where nothing is. */
  readonly whoHas: (ip: IpAddress) => string;
}

/** Ports up to the next segment's first one, all opened by the same rules. */
interface Segment {
  readonly first: number;
  /** Null: everyone. */
  readonly from: NetworkSet | null;
}

/** Reasons are read by people. */
const mostCandidates = 64;

const admitted: Admission = Object.freeze({ kind: 'admitted' });
const nobody = networkSet([], []);

/**
 * The NetworkPolicies in force for the pod: its ports in segments, each with the one set of addresses that the rules for
 * these ports together let in, and one set for the rules that name no port. Where no policy selects the pod everyone is
 * admitted; where one does, nobody but those that a rule names, the pod itself (loopback and its own addresses) and its
 * node, which Kubernetes always lets in.
 */
export class NetworkIsolation {
  readonly policies: readonly ResourceRef[];
  readonly openings: readonly ResolvedIngressRule[];
  readonly always: NetworkSet;
  /** Who may reach every port; null is everyone. */
  readonly #anyPort: NetworkSet | null;
  readonly #segments: readonly Segment[];
  readonly #refused: Admission;
  readonly #whoHas: IsolationParts['whoHas'];

  /** Compiled step by step, since a rule may name the addresses of ten thousand pods. */
  static *compile(parts: IsolationParts): Generator<void, NetworkIsolation, void> {
    const segments = yield* segmentsOf(parts.openings);
    return new NetworkIsolation(parts, segments);
  }

  constructor({ policies, openings, alwaysAdmitted, whoHas }: IsolationParts, segments: readonly Segment[]) {
    this.policies = policies;
    this.openings = openings;
    this.always = networkSet(
      alwaysAdmitted.map((network) => ({ network, except: [] })),
      [],
    );
    this.#anyPort = anyPortSet(openings);
    this.#segments = segments;
    this.#refused = Object.freeze({ kind: 'refused', policies });
    this.#whoHas = whoHas;
  }

  /** No port outside 1 to 65535 is ever open. */
  admits(port: number, ip: IpAddress): Admission {
    if (this.policies.length === 0 || isLoopback(ip) || this.always.contains(ip)) return admitted;
    if (!(port >= 1 && port <= 65_535)) return this.#refused;
    for (const from of [this.#anyPort, this.#segmentAt(port)]) if (from === null || from.contains(ip)) return admitted;
    return this.#refused;
  }

  /** Binary search for the last segment that begins at the port or below it. */
  #segmentAt(port: number): NetworkSet | null {
    let low = 0;
    let high = this.#segments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#segments[middle] as Segment).first <= port) low = middle;
      else high = middle - 1;
    }
    return (this.#segments[low] ?? { from: nobody }).from;
  }

  reasons(port: number, ip: IpAddress): Reasons {
    if (this.policies.length === 0) return { reason: 'no NetworkPolicy selects the pod', candidates: [] };
    const who = `${ip.text}${this.#whoHas(ip)}`;
    const names = namesOf(this.policies);
    const candidates = this.openings.slice(0, mostCandidates).map((opening) => candidateOf(opening, port, ip, who));
    if (this.admits(port, ip).kind === 'refused') {
      return { reason: `the pod is isolated by ${names}, and no rule admits ${who} to port ${port}`, candidates };
    }
    const own = isLoopback(ip) || this.always.contains(ip);
    const why = own ? `is the pod itself or its node, which ${names} cannot keep out` : `is admitted by ${names}`;
    return { reason: `${who} ${why}`, candidates };
  }
}

/** Where nothing isolates: before the first load, too, when authorization refuses everything. */
export const notIsolated = new NetworkIsolation(
  { policies: [], openings: [], alwaysAdmitted: [], whoHas: () => '' },
  [],
);

const mostNamed = 8;

function namesOf(policies: readonly ResourceRef[]): string {
  const names = policies.slice(0, mostNamed).map(({ name }) => name);
  if (policies.length > mostNamed) names.push(`${policies.length - mostNamed} more`);
  return `${policies.length === 1 ? 'NetworkPolicy' : 'NetworkPolicies'} ${names.join(', ')}`;
}

function opens({ ports }: ResolvedIngressRule, port: number): boolean {
  return ports === null || ports.some(({ first, last }) => first <= port && port <= last);
}

function candidateOf(opening: ResolvedIngressRule, port: number, ip: IpAddress, who: string): Candidate {
  const { policy, path, portsText, from } = opening;
  const failed = (wanted: string, was: string): Candidate => {
    const detail = `${path}: wanted ${wanted}, was ${was}`;
    return { authz: policy, granted: false, failed: 'network', detail };
  };
  if (!opens(opening, port)) return failed(portsText, `TCP ${port}`);
  if (from !== null && !from.contains(ip)) return failed(from.text, who);
  return { authz: policy, granted: true, failed: null, detail: '' };
}

/** Who may reach every port: one set for all rules that name no port; null where one of them is for everyone. */
function anyPortSet(openings: readonly ResolvedIngressRule[]): NetworkSet | null {
  return unionOf(openings.filter(({ ports }) => ports === null));
}

/**
 * The ports from each boundary to the next, and who may reach them by the rules that name ports. Rules that share a port
 * add up; combinations that come again are put together once.
 */
function* segmentsOf(openings: readonly ResolvedIngressRule[]): Generator<void, Segment[], void> {
  const begin = new Map<number, number[]>();
  const end = new Map<number, number[]>();
  for (const [i, { ports }] of openings.entries()) {
    for (const { first, last } of ports ?? []) {
      push(begin, first, i);
      push(end, last + 1, i);
    }
  }
  // How many ranges of a rule hold the port: they may overlap.
  const active = new Map<number, number>();
  const byCombination = new Map<string, NetworkSet | null>();
  const segments: Segment[] = [{ first: 1, from: nobody }];
  for (const first of [...new Set([...begin.keys(), ...end.keys()])].sort((a, b) => a - b)) {
    for (const i of begin.get(first) ?? []) active.set(i, (active.get(i) ?? 0) + 1);
    for (const i of end.get(first) ?? []) {
      const left = (active.get(i) ?? 0) - 1;
      if (left > 0) active.set(i, left);
      else active.delete(i);
    }
    const here = [...active.keys()].sort((a, b) => a - b);
    const combination = here.join();
    let from = byCombination.get(combination);
    if (from === undefined) {
      from = unionOf(here.map((i) => openings[i] as ResolvedIngressRule));
      byCombination.set(combination, from);
      yield;
    }
    segments.push({ first, from });
  }
  return segments;
}

/** Null, everyone, where one of them is. */
function unionOf(openings: readonly ResolvedIngressRule[]): NetworkSet | null {
  const sets = openings.flatMap(({ from }) => from ?? []);
  return sets.length < openings.length ? null : NetworkSet.union(sets);
}

/** For a policy without rules, or with one that cannot be read: opens nothing, and says so where reasons are given. */
export function closedOpening(policy: ResourceRef, path: string, why: string): ResolvedIngressRule {
  return { policy, path, ports: null, portsText: 'any port', from: networkSet([], [], why) };
}
