import type { ResourceRef } from '../../resource-ref.ts';
import { type Authorization, GrantList } from '../decide/client-match.ts';
import { DefaultHttpRoutes } from '../decide/http-routes.ts';
import { type CompiledPort, type CompiledRule, compiledPort, compiledRule } from '../decide/policy-index.ts';
import { IdentitySet } from '../identities.ts';
import { type NetworkSet, networkSetOf } from '../networks.ts';
import type { DefaultPolicy, Workload } from '../workload.ts';

export function defaultRef(name: string): ResourceRef {
  return Object.freeze({ group: '', kind: 'default', name });
}

/** The built-in grants of one workload: the six default policies, localhost and the probes'. */
export class DefaultGrants {
  readonly clusterNetworks: NetworkSet;
  /** Exactly 127.0.0.1 and ::1, not all of 127/8; null where the workload does without. */
  readonly localhost: Authorization | null;
  /** Null where there are no probe networks: then probes have no route of their own (Linkerd). */
  readonly probe: Authorization | null;

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
    this.probe =
      workload.probeNetworks.length === 0
        ? null
        : {
            ref: defaultRef('probe'),
            audit: false,
            networks: networkSetOf(workload.probeNetworks),
            tls: { kind: 'unauthenticated' },
          };
  }

  /** The grant of a default policy; null for `deny`. */
  of(policy: DefaultPolicy): Authorization | null {
    const ref = defaultRef(policy);
    const anyIdentity = { kind: 'identities', identities: new IdentitySet(['*']) } as const;
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

  /** The routes of a server that has none of its own: `default`, and `probe` where it is probed. */
  routes(server: ResourceRef, grants: GrantList, probePaths: readonly string[]): DefaultHttpRoutes {
    const rule = compiledRule({ server, route: defaultRef('default'), grants });
    const probe: CompiledRule | null =
      this.probe === null || probePaths.length === 0
        ? null
        : compiledRule({ server, route: defaultRef('probe'), grants: new GrantList([this.probe], grants) });
    return new DefaultHttpRoutes(rule, probe, probePaths);
  }
}

/** For ports that require identity: what lets in the unauthenticated asks for an identity instead. */
export function requireIdentity(policy: DefaultPolicy): DefaultPolicy {
  if (policy === 'all-unauthenticated') return 'all-authenticated';
  if (policy === 'cluster-unauthenticated') return 'cluster-authenticated';
  return policy;
}

/**
 * A port on which nothing is authorized, neither localhost nor probes: before the first load, for what is no port, and where
 * the Server cannot be read.
 */
export function closedPort(
  port: number,
  detectTimeoutMs: number,
  server: ResourceRef = defaultRef('deny'),
): CompiledPort {
  const grants = new GrantList([]);
  return compiledPort({
    port,
    server,
    protocol: 'detect',
    detectTimeoutMs,
    hasRequestRules: false,
    routes: new DefaultHttpRoutes(compiledRule({ server, route: defaultRef('default'), grants }), null, []),
    grants,
    rateLimit: null,
  });
}
