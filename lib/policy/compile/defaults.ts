import type { ResourceRef } from '../../resource-ref.ts';
import { type Authorization, GrantList } from '../decide/client-match.ts';
import { DefaultHttpRoute } from '../decide/http-routes.ts';
import { compiledRule, type PortBody, portBody, type RouteTable } from '../decide/policy-index.ts';
import { type ProbedRequests, ProbedRoutes } from '../decide/probed-routes.ts';
import { acceptedIdentity, IdentitySet } from '../identities.ts';
import { type NetworkSet, networkSetOf } from '../networks.ts';
import { type Probe, type ProbeKind, pathsOf } from '../probes.ts';
import type { DefaultPolicy, Workload } from '../workload.ts';

export function defaultRef(name: string): ResourceRef {
  return Object.freeze({ group: '', kind: 'default', name });
}

type RequestKind = 'http' | 'hook' | 'grpc' | 'https' | 'https-hook';

/** The built-in grants of one workload: the six default policies, localhost and the probes'. */
export class DefaultGrants {
  readonly clusterNetworks: NetworkSet;
  /** Exactly 127.0.0.1 and ::1, not all of 127/8; null where the workload does without. */
  readonly localhost: Authorization | null;
  /** CIDRs from which probes come; where there are none, probes have no permission of their own (Linkerd). */
  readonly #probeNetworks: readonly string[];
  /** Those from which nothing but the kubelet is to be expected. */
  readonly #kubeletNetworks: readonly string[];

  constructor(workload: Workload) {
    this.clusterNetworks = networkSetOf(workload.clusterNetworks);
    this.localhost = workload.authorizeLocalhost
      ? {
          ref: defaultRef('localhost'),
          audit: false,
          networks: networkSetOf(['127.0.0.1/32', '::1/128']),
          tls: { kind: 'unauthenticated' },
        }
      : null;
    this.#probeNetworks = workload.probeNetworks;
    this.#kubeletNetworks = kubeletNetworks(workload);
  }

  /**
   * What lets probes of one kind in, whatever else is denied; null where nothing does. A hook makes the app do something, so
   * that not everybody may call it because the kubelet may.
   */
  probe(kind: ProbeKind): Authorization | null {
    const isHook = kind === 'hook' || kind === 'https-hook';
    const networks = isHook ? this.#kubeletNetworks : this.#probeNetworks;
    if (networks.length === 0) return null;
    const ref = defaultRef(isHook ? 'hook' : 'probe');
    return { ref, audit: false, networks: networkSetOf(networks), tls: { kind: 'unauthenticated' }, probe: kind };
  }

  /** The grant of a default policy; null for `deny`. */
  of(policy: DefaultPolicy): Authorization | null {
    const ref = defaultRef(policy);
    const anyIdentity = { kind: 'identities', identities: new IdentitySet([acceptedIdentity('*')]) } as const;
    switch (policy) {
      case 'all-unauthenticated':
        return { ref, audit: false, networks: null, tls: { kind: 'unauthenticated' } };
      case 'all-authenticated':
        return { ref, audit: false, networks: null, tls: anyIdentity };
      case 'cluster-unauthenticated':
        return { ref, audit: false, networks: this.clusterNetworks, tls: { kind: 'unauthenticated' } };
      case 'cluster-authenticated':
        return { ref, audit: false, networks: this.clusterNetworks, tls: anyIdentity };
      case 'audit':
        return { ref, audit: true, networks: null, tls: { kind: 'unauthenticated' } };
      case 'deny':
        return null;
    }
  }

  /**
   * A server's grants in the order in which they are credited: policies, then the default or access policy, then
   * localhost. Audit comes after all, so that it is credited for exactly what nothing else covers.
   */
  list(
    policies: readonly Authorization[],
    access: DefaultPolicy,
    broken: ConstructorParameters<typeof GrantList>[2] = [],
  ): GrantList {
    const grant = this.of(access);
    const entries = [...policies];
    if (grant !== null && !grant.audit) entries.push(grant);
    if (this.localhost !== null) entries.push(this.localhost);
    if (grant?.audit === true) entries.push(grant);
    return new GrantList(entries, null, broken);
  }

  /** In TLS for others: the probes, and nothing else. */
  tlsProbes(server: ResourceRef, probes: readonly Probe[] = []): RouteTable | null {
    const none = new DefaultHttpRoute(
      compiledRule({ server, route: defaultRef('default'), grants: new GrantList([]) }),
    );
    const table = this.withProbes(none, server, probes, ['https', 'https-hook']);
    return table === none ? null : table;
  }

  tcpProbe(probes: readonly Probe[] = []): Authorization | null {
    return probes.some(({ kind }) => kind === 'tcp') ? this.probe('tcp') : null;
  }

  /** Routes, with what the probes of their port may ask on top: on a gRPC Server nothing but calls (Linkerd). */
  withProbes(
    own: RouteTable,
    server: ResourceRef,
    probes: readonly Probe[] = [],
    kinds: readonly RequestKind[] = ['http', 'hook', 'grpc'],
  ): RouteTable {
    const probed: ProbedRequests[] = [];
    for (const kind of kinds) {
      const grant = probes.some((probe) => probe.kind === kind) ? this.probe(kind) : null;
      if (grant !== null) probed.push({ grant, paths: kind === 'grpc' ? null : pathsOf(probes, kind) });
    }
    return probed.length === 0 ? own : new ProbedRoutes(own, server, defaultRef('probe'), probed);
  }
}

/**
 * The probe networks without those that hold everybody, in place of which the node's addresses stand, where they are known:
 * the kubelet is there.
 */
function kubeletNetworks({ probeNetworks, nodeIps }: Workload): readonly string[] {
  return probeNetworks.flatMap((cidr) => {
    if (!cidr.endsWith('/0')) return [cidr];
    const family = cidr.includes(':') ? 6 : 4;
    return nodeIps.filter((ip) => ip.family === family).map((ip) => ip.text);
  });
}

/** For ports that require identity: what lets in the unauthenticated asks for an identity instead. */
export function requireIdentity(policy: DefaultPolicy): DefaultPolicy {
  if (policy === 'all-unauthenticated') return 'all-authenticated';
  if (policy === 'cluster-unauthenticated') return 'cluster-authenticated';
  return policy;
}

/**
 * Of a port on which nothing is authorized, neither localhost nor probes: before the first load, for what is no port, and where
 * the Server cannot be read.
 */
export function closedBody(detectTimeoutMs: number, server: ResourceRef = defaultRef('deny')): PortBody {
  const grants = new GrantList([]);
  return portBody({
    server,
    protocol: 'detect',
    detectTimeoutMs,
    hasRequestRules: false,
    routes: new DefaultHttpRoute(compiledRule({ server, route: defaultRef('default'), grants })),
    grants,
    rateLimit: null,
  });
}
