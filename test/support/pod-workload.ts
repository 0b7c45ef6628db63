import { type PodProblem, readPod } from '../../lib/policy/pod.ts';
import { noPorts, type Workload } from '../../lib/policy/workload.ts';

/** What is known without a Pod; a Pod's own statements win over it. */
type WorkloadSettings = Pick<
  Workload,
  | 'defaultPolicy'
  | 'opaquePorts'
  | 'clusterNetworks'
  | 'probeNetworks'
  | 'authorizeLocalhost'
  | 'controlPlaneNamespace'
  | 'trustDomain'
  | 'detectTimeoutMs'
>;

/** The workload of a Pod. Null where the value is no Pod; a caller must not go on with a policy for nobody. */
export function workloadFromPod(
  value: unknown,
  settings: WorkloadSettings,
): { readonly workload: Workload | null; readonly problems: readonly PodProblem[] } {
  const { facts, problems } = readPod(value);
  if (facts === null) return { workload: null, problems };
  const workload: Workload = Object.freeze({
    ...settings,
    podName: facts.podName ?? '',
    namespace: facts.namespace ?? 'default',
    namespaceStated: facts.namespace !== null,
    labels: facts.labels,
    ips: facts.ips,
    ipsStated: facts.ips.length > 0,
    containerPorts: facts.containerPorts,
    nodeIps: facts.nodeIps,
    namedPorts: facts.namedPorts,
    adminPort: null,
    probes: facts.probes,
    probesWithRoutes: false,
    defaultPolicy: facts.defaultPolicy ?? settings.defaultPolicy,
    opaquePorts: facts.opaquePorts ?? settings.opaquePorts,
    requireIdentityPorts: facts.requireIdentityPorts ?? noPorts,
  });
  return { workload, problems };
}
