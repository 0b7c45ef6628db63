import * as z from 'zod';
import { type IpAddress, parseIp } from '../../ip.ts';
import type { AdmissionContext } from './report.ts';
import { type NamespaceDocument, namespaceNameLabel, type PodDocument } from './types.ts';

/*
 * Pods and Namespaces as `kubectl get pods,namespaces -A -o yaml` prints them: what the selectors of NetworkPolicies are
 * resolved by. Only labels, addresses and the ServiceAccount are kept. A pod that is left out, or has no address, is one that no rule lets in.
 */

const address = z.looseObject({ ip: z.string().optional() });
const podStatus = z.looseObject({
  phase: z.string().optional(),
  podIP: z.string().optional(),
  podIPs: z.array(address).optional(),
  hostIP: z.string().optional(),
  hostIPs: z.array(address).optional(),
});
const podSpec = z.looseObject({ hostNetwork: z.boolean().optional(), serviceAccountName: z.string().optional() });

export function admitPod(spec: unknown, { report, meta, status }: AdmissionContext): PodDocument {
  const shapes = { spec: podSpec.safeParse(spec ?? {}), status: podStatus.safeParse(status ?? {}) };
  for (const [part, { error }] of Object.entries(shapes)) report.issues(error?.issues ?? [], [part], 'refuse');
  const { hostNetwork = false, serviceAccountName: account = null } = shapes.spec.data ?? {};
  const { phase, podIP, podIPs, hostIP, hostIPs } = shapes.status.data ?? {};
  // A finished pod's address may be another pod's by now; with the node's network it has the address of all who do.
  const finished = phase === 'Succeeded' || phase === 'Failed';
  const without = finished ? 'terminated' : hostNetwork ? 'host-network' : null;
  const ips = without === null ? addresses(podIPs, podIP) : [];
  const nodeIps = finished ? [] : addresses(hostIPs, hostIP);
  return { kind: 'Pod', ...meta, marks: meta.marks.slice(0, 1), spec: { ips, nodeIps, without, account } };
}

function addresses(list: readonly { readonly ip?: string | undefined }[] = [], single = ''): readonly IpAddress[] {
  const texts = [...new Set([...list.map(({ ip = '' }) => ip), single])];
  return texts.flatMap((text) => parseIp(text) ?? []);
}

/** The API server sets the label with the name, and lets nobody change it. */
export function admitNamespace({ meta }: AdmissionContext): NamespaceDocument {
  const labels = meta.labels.filter(([key]) => key !== namespaceNameLabel);
  return {
    kind: 'Namespace',
    ...meta,
    marks: meta.marks.slice(0, 1),
    labels: [...labels, [namespaceNameLabel, meta.name]],
    spec: {},
  };
}
