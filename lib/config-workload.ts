import type { ConfigFault, Host, VariableName, VariableReader } from './config.ts';
import { labelsFile, type Parsed } from './config-values.ts';
import { type IpAddress, parseIp } from './ip.ts';
import { workloadFromPod } from './policy/pod.ts';
import type { Workload } from './policy/workload.ts';
import { readYaml } from './reload/yaml.ts';

/**
 * The workload, from three sources: the Pod manifest, the variables, the host. Faults go to the reader.
 *
 * A variable that describes the pod (`SALLYPORT_POD_*`, `SALLYPORT_PROBES`) replaces what the manifest says of the
 * same thing, whole: labels are not merged, so that what is written is what there is. The default inbound policy and
 * the opaque ports are no facts of the pod but the cluster's defaults, Linkerd's controller flags; the pod's own
 * annotation is the more specific and overrides them, as it does there. An annotation that is invalid leaves the
 * variable's value in force and is warned of.
 */
export function assembleWorkload(
  reader: VariableReader,
  host: Host,
): { readonly workload: Workload; readonly warnings: readonly ConfigFault[] } {
  const get = reader.get.bind(reader);
  const settings = {
    defaultPolicy: get('SALLYPORT_DEFAULT_INBOUND_POLICY'),
    opaquePorts: get('SALLYPORT_OPAQUE_PORTS'),
    clusterNetworks: get('SALLYPORT_CLUSTER_NETWORKS'),
    probeNetworks: get('SALLYPORT_PROBE_NETWORKS'),
    authorizeLocalhost: get('SALLYPORT_AUTHORIZE_LOCALHOST'),
    controlPlaneNamespace: get('SALLYPORT_CONTROL_PLANE_NAMESPACE'),
    trustDomain: get('SALLYPORT_TRUST_DOMAIN'),
    detectTimeoutMs: get('SALLYPORT_DETECT_TIMEOUT'),
  };
  const manifest = get('SALLYPORT_POD_MANIFEST');
  const pod = workloadFromPod(manifest === null ? {} : readManifest(reader, host, manifest), settings);
  const warnings = pod.warnings.map((message) => ({
    variable: 'SALLYPORT_POD_MANIFEST',
    message: `${manifest}: ${message}`,
    hint: '',
  }));

  const ips = get('SALLYPORT_POD_IPS') ?? pod.workload.ips;
  const namedPorts = new Map(get('SALLYPORT_POD_PORTS') ?? pod.workload.namedPorts);
  const probes = new Map(get('SALLYPORT_PROBES') ?? pod.workload.probes);
  const adminPort = get('SALLYPORT_ADMIN_LISTEN')?.port;
  if (adminPort !== undefined) {
    // Linkerd's proxy container declares `linkerd-admin`, and the kubelet probes it: policies count on both.
    for (const name of ['linkerd-admin', 'admin']) namedPorts.set(name, withItem(namedPorts.get(name), adminPort));
    for (const path of ['/live', '/ready']) probes.set(adminPort, withItem(probes.get(adminPort), path));
  }
  const workload: Workload = {
    ...pod.workload,
    podName: get('SALLYPORT_POD_NAME') ?? (pod.workload.podName || host.hostname()),
    namespace: get('SALLYPORT_POD_NAMESPACE') ?? (pod.workload.namespace || 'default'),
    labels: readLabels(reader, host) ?? pod.workload.labels,
    ips: ips.length > 0 ? ips : ownAddresses(host),
    namedPorts,
    probes,
    // A flag of `explain` is a question about exactly this value, so here it is the most specific.
    ...(reader.isFlag('SALLYPORT_DEFAULT_INBOUND_POLICY') ? { defaultPolicy: settings.defaultPolicy } : {}),
    ...(reader.isFlag('SALLYPORT_OPAQUE_PORTS') ? { opaquePorts: settings.opaquePorts } : {}),
  };
  return { workload: Object.freeze(workload), warnings };
}

function withItem<T>(list: readonly T[] | undefined, item: T): readonly T[] {
  return list === undefined ? [item] : list.includes(item) ? list : [...list, item];
}

function ownAddresses(host: Host): readonly IpAddress[] {
  return host.addresses().flatMap((address) => parseIp(address) ?? []);
}

/** From the variable, or else from the file; null where neither is set. */
function readLabels(reader: VariableReader, host: Host): ReadonlyMap<string, string> | null {
  const file = reader.get('SALLYPORT_POD_LABELS_FILE');
  const given = reader.get('SALLYPORT_POD_LABELS');
  if (given !== null || file === null) return given;
  return fromFile(reader, host, 'SALLYPORT_POD_LABELS_FILE', file, labelsFile);
}

function readManifest(reader: VariableReader, host: Host, file: string): unknown {
  const pod = fromFile(reader, host, 'SALLYPORT_POD_MANIFEST', file, (text): Parsed<unknown> => {
    const { documents, problems } = readYaml(text, file);
    const [problem] = problems;
    if (problem !== undefined)
      return { fault: `${problem.line}:${problem.column}: ${problem.message}`, hint: problem.hint };
    const found = documents.map(({ value }) => value).filter(isPod);
    return found.length === 1
      ? { value: found[0] }
      : {
          fault: `holds ${found.length} documents of kind Pod`,
          hint: 'give the one Pod, as `kubectl get pod -o yaml` prints it',
        };
  });
  return pod ?? {};
}

function isPod(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'Pod';
}

function fromFile<T>(
  reader: VariableReader,
  host: Host,
  name: VariableName,
  file: string,
  parse: (text: string) => Parsed<T>,
): T | null {
  let text: string;
  try {
    text = host.readFile(file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    reader.fault(name, `${file} cannot be read: ${code}`, 'check the path and its permissions');
    return null;
  }
  const parsed = parse(text);
  if ('value' in parsed) return parsed.value;
  reader.fault(name, `${file}: ${parsed.fault}`, parsed.hint);
  return null;
}
