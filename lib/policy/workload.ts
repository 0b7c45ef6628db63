import type { IpAddress } from '../ip.ts';
import type { ProbesByPort } from './probes.ts';

/** Linkerd's six default inbound policies; no other string parses. */
export const defaultPolicies = [
  'all-unauthenticated',
  'all-authenticated',
  'cluster-unauthenticated',
  'cluster-authenticated',
  'deny',
  'audit',
] as const;
export type DefaultPolicy = (typeof defaultPolicies)[number];

/** Undefined for anything but the six; callers decide what that means (nothing here ever widens). */
export function parseDefaultPolicy(text: string): DefaultPolicy | undefined {
  return defaultPolicies.find((known) => known === text);
}

/** A set of ports, from lists such as `25,587,9000-9100`. */
export interface PortSet {
  has(port: number): boolean;
}

export function areSamePorts(a: PortSet, b: PortSet): boolean {
  if (a === b) return true;
  for (let port = 1; port <= 65_535; port++) if (a.has(port) !== b.has(port)) return false;
  return true;
}

export const noPorts: PortSet = Object.freeze({ has: () => false });

/** Both ends belong to it. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/**
 * `25,587,9000-9100`, spaces trimmed: the one reading of such lists, for annotations, variables, `inject` and the redirect
 * rules alike. Empty entries are nothing; the first bad one (a name, port 0, a descending range) is named by `fault`, and
 * there are then no ranges.
 */
export function parsePortRanges(text: string): {
  readonly ranges: readonly PortRange[];
  readonly fault: string | null;
} {
  const ranges: PortRange[] = [];
  for (const entry of text.split(',').map((part) => part.trim())) {
    if (entry === '') continue;
    const match = /^(\d{1,5})(?:\s*-\s*(\d{1,5}))?$/.exec(entry);
    const first = Number(match?.[1]);
    const last = Number(match?.[2] ?? match?.[1]);
    if (match === null || first < 1 || last > 65535 || last < first) {
      return { ranges: [], fault: `"${entry}" is neither a port from 1 to 65535 nor an ascending range of them` };
    }
    ranges.push({ first, last });
  }
  return { ranges, fault: null };
}

/** One bad entry empties the whole set, as in Linkerd's controller; `fault` names it, for callers that would rather refuse. */
export function parsePortSet(text: string): { readonly ports: PortSet; readonly fault: string | null } {
  const { ranges, fault } = parsePortRanges(text);
  if (fault !== null) return { ports: noPorts, fault };
  return { ports: { has: (port) => ranges.some(({ first, last }) => first <= port && port <= last) }, fault: null };
}

/** The list that `parsePortRanges` reads so: no spaces, no empty entries. */
export function portRangeText(ranges: readonly PortRange[]): string {
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(',');
}

/**
 * Everything compilation needs to know about the pod and its cluster: what Linkerd's controller would read from the
 * Pod, its annotations and its own flags. Frozen; a change (a new pod address, say) means a new value and a new compile.
 */
export const workloadKinds = ['pod', 'external'] as const;

export interface Workload {
  /** `external`: no pod, but what an ExternalWorkload stands for, a virtual machine say. Absent: a pod. */
  readonly kind?: (typeof workloadKinds)[number];
  readonly podName: string;
  readonly namespace: string;
  /** Whether it was stated; otherwise it is only assumed. */
  readonly namespaceStated: boolean;
  readonly labels: ReadonlyMap<string, string>;
  /** The pod's own addresses: what `podClusterIp` means. */
  readonly ips: readonly IpAddress[];
  /** Its node's, where the Pod's status names them: always let in by NetworkPolicies, as in Kubernetes. */
  readonly nodeIps: readonly IpAddress[];
  /** Whether they were stated; otherwise they are the host's own. */
  readonly ipsStated: boolean;
  /** TCP container ports that a Pod declares, with a name or without. */
  readonly containerPorts: ReadonlySet<number>;
  /** TCP container ports by exact, case-sensitive name, as the pod declares them; one name may cover several ports. */
  readonly namedPorts: ReadonlyMap<string, readonly number[]>;
  /** The proxy's own, which to a Server is `linkerd-admin` and `admin` whatever the pod declares; null where it has none. */
  readonly adminPort: number | null;
  readonly probes: ProbesByPort;
  /** Probes keep their permission where routes are attached; Linkerd takes it away then. */
  readonly probesWithRoutes: boolean;
  /** Which of the three that follow an annotation of a Pod manifest says. Absent: none. */
  readonly annotated?: readonly string[];
  /** For ports without a Server. */
  readonly defaultPolicy: DefaultPolicy;
  /** For ports without a Server: never inspected. */
  readonly opaquePorts: PortSet;
  /** For ports without a Server: `*-unauthenticated` becomes `*-authenticated`. */
  readonly requireIdentityPorts: PortSet;
  /** CIDRs, already validated. */
  readonly clusterNetworks: readonly string[];
  readonly probeNetworks: readonly string[];
  /** Whether every policy ends with the implicit `localhost` authorization. */
  readonly authorizeLocalhost: boolean;
  readonly controlPlaneNamespace: string;
  readonly trustDomain: string;
  /** Milliseconds; Linkerd fixes it at 10 s for policies. */
  readonly detectTimeoutMs: number;
}

/** Linkerd's proxy container declares the first; policies count on both. */
const adminPortNames = ['linkerd-admin', 'admin'];

/** The ports that a Server means by a name; empty where there are none. */
export function portsOfServer({ namedPorts, adminPort }: Workload, name: string): readonly number[] {
  const declared = namedPorts.get(name) ?? [];
  return adminPort !== null && adminPortNames.includes(name) ? [...new Set([...declared, adminPort])] : declared;
}

/** Every name that a Server may use, for hints. */
export function serverPortNames({ namedPorts, adminPort }: Workload): Iterable<string> {
  return adminPort === null ? namedPorts.keys() : new Set([...namedPorts.keys(), ...adminPortNames]);
}

/** `<sa>.<ns>.serviceaccount.identity.<cp-ns>.<trust-domain>` (Linkerd's identity convention). */
export function serviceAccountIdentity(
  workload: Pick<Workload, 'controlPlaneNamespace' | 'trustDomain'>,
  namespace: string,
  name: string,
): string {
  return `${name}.${namespace}.serviceaccount.identity.${workload.controlPlaneNamespace}.${workload.trustDomain}`;
}
