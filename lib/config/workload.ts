import { type IpAddress, parseIp } from '../ip.ts';
import type { PodFacts } from '../policy/pod.ts';
import { type ProbesByPort, withProbe } from '../policy/probes.ts';
import { noPorts, type PortSet, type Workload } from '../policy/workload.ts';
import { fileFault } from './file-fault.ts';
import type { Host } from './host.ts';
import { labelsFile, type Parsed } from './values.ts';
import type { ConfigFault, VariableName, VariableReader } from './variables.ts';

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
  const { facts: pod, warnings } = readPodManifest(reader, host);
  const defaultPolicy = get('SALLYPORT_DEFAULT_INBOUND_POLICY');
  const namedPorts = get('SALLYPORT_POD_PORTS') ?? pod?.namedPorts ?? new Map();
  const probes = new Map(get('SALLYPORT_PROBES') ?? pod?.probes);
  const opaquePorts = opaquePortsOf(reader, pod?.opaquePorts ?? null, spokenTo(probes));
  const adminPort = get('SALLYPORT_ADMIN_LISTEN')?.port ?? null;
  if (adminPort !== null) {
    // The kubelet probes it.
    for (const path of ['/live', '/ready']) {
      probes.set(adminPort, withProbe(probes.get(adminPort), { kind: 'http', path }));
    }
  }
  const ips = get('SALLYPORT_POD_IPS') ?? pod?.ips ?? [];
  const namespace = get('SALLYPORT_POD_NAMESPACE') ?? pod?.namespace ?? null;
  const workload: Workload = {
    kind: get('SALLYPORT_WORKLOAD_KIND'),
    podName: get('SALLYPORT_POD_NAME') ?? pod?.podName ?? host.hostname(),
    namespace: namespace ?? 'default',
    namespaceStated: namespace !== null,
    labels: readLabels(reader, host) ?? pod?.labels ?? new Map(),
    ips: ips.length > 0 ? ips : ownAddresses(host),
    ipsStated: ips.length > 0,
    containerPorts: pod?.containerPorts ?? new Set(),
    nodeIps: nodeAddresses(get('SALLYPORT_NODE_IPS'), host) ?? pod?.nodeIps ?? [],
    namedPorts,
    adminPort,
    probes,
    probesWithRoutes: get('SALLYPORT_PROBES_WITH_ROUTES'),
    // A flag of `explain` is a question about exactly this value, so there it is the most specific.
    defaultPolicy: reader.isFlag('SALLYPORT_DEFAULT_INBOUND_POLICY')
      ? defaultPolicy
      : (pod?.defaultPolicy ?? defaultPolicy),
    opaquePorts,
    ...(pod === null ? {} : { annotated: pod.annotated }),
    requireIdentityPorts: pod?.requireIdentityPorts ?? get('SALLYPORT_REQUIRE_IDENTITY_PORTS') ?? noPorts,
    clusterNetworks: get('SALLYPORT_CLUSTER_NETWORKS'),
    probeNetworks: get('SALLYPORT_PROBE_NETWORKS'),
    authorizeLocalhost: get('SALLYPORT_AUTHORIZE_LOCALHOST'),
    controlPlaneNamespace: get('SALLYPORT_CONTROL_PLANE_NAMESPACE'),
    trustDomain: get('SALLYPORT_TRUST_DOMAIN'),
    detectTimeoutMs: get('SALLYPORT_DETECT_TIMEOUT'),
  };
  return { workload: Object.freeze(workload), warnings };
}

/** Ports on which the kubelet speaks HTTP as it is: `httpGet`, and gRPC. */
function spokenTo(probes: ProbesByPort): ReadonlySet<number> {
  const plain = [...probes].filter(([, ofPort]) =>
    ofPort.some(({ kind }) => kind === 'http' || kind === 'hook' || kind === 'grpc'),
  );
  return new Set(plain.map(([port]) => port));
}

/**
 * The variable's built-in default is a guess by port number. A port with an httpGet probe evidently serves HTTP, and as
 * an opaque one its probe could never be let through: there the guess gives way. What is written stands as written.
 */
function opaquePortsOf(reader: VariableReader, annotated: PortSet | null, probed: ReadonlySet<number>): PortSet {
  const name = 'SALLYPORT_OPAQUE_PORTS';
  const configured = reader.get(name);
  if (reader.isFlag(name)) return configured;
  if (annotated !== null) return annotated;
  return reader.isSet(name) ? configured : { has: (port) => configured.has(port) && !probed.has(port) };
}

function ownAddresses(host: Host): readonly IpAddress[] {
  return host.addresses().flatMap((address) => parseIp(address) ?? []);
}

/** Null where none is stated. */
function nodeAddresses(stated: readonly IpAddress[] | null, host: Host): readonly IpAddress[] | null {
  if (stated === null) return null;
  const gateways = host.gateways().flatMap((address) => parseIp(address) ?? []);
  return [...stated, ...gateways.filter(({ text }) => stated.every((ip) => ip.text !== text))];
}

/** From the variable, or else from the file; null where neither is set. */
function readLabels(reader: VariableReader, host: Host): ReadonlyMap<string, string> | null {
  const file = reader.get('SALLYPORT_POD_LABELS_FILE');
  const given = reader.get('SALLYPORT_POD_LABELS');
  if (given !== null || file === null) return given;
  return fromFile(reader, host, 'SALLYPORT_POD_LABELS_FILE', file, labelsFile);
}

function readPodManifest(
  reader: VariableReader,
  host: Host,
): { readonly facts: PodFacts | null; readonly warnings: readonly ConfigFault[] } {
  const name = 'SALLYPORT_POD_MANIFEST';
  const file = reader.get(name);
  if (file === null) return { facts: null, warnings: [] };
  const { readManifest } = host;
  if (readManifest === null) throw new Error('a host that reads no manifests was asked for one');
  const read = fromFile(reader, host, name, file, (text) => readManifest(text, file));
  const warnings: ConfigFault[] = [];
  for (const { severity, code, message, hint } of read?.problems ?? []) {
    if (severity === 'error') reader.fault(name, code, message, hint);
    else warnings.push({ variable: name, code, message, hint });
  }
  if (host.answersForSidecar && read !== null) reader.beneath = read.variables;
  return { facts: read?.facts ?? null, warnings };
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
    const { why, remedy } = fileFault(file, error);
    reader.fault(
      name,
      'setting-unreadable',
      `${file} cannot be read: ${why}`,
      remedy === '' ? 'check the path and its permissions' : remedy,
    );
    return null;
  }
  const parsed = parse(text);
  if ('value' in parsed) return parsed.value;
  reader.fault(name, parsed.code, `${file}: ${parsed.fault}`, parsed.hint);
  return null;
}
