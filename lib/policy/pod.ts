import * as z from 'zod';
import type { Coded } from '../errors/problems.ts';
import { type IpAddress, parseIp } from '../ip.ts';
import type { FieldPath } from './field-path.ts';
import { didYouMean } from './nearest.ts';
import { type PathKind, type Probe, type ProbesByPort, withProbe } from './probes.ts';
import { type DefaultPolicy, defaultPolicies, type PortSet, parseDefaultPolicy, parsePortSet } from './workload.ts';

/** A fault in a Pod; `path` leads to the field, for callers that know its place in a file. */
export type PodProblem = Coded & {
  readonly path: FieldPath;
  readonly message: string;
  readonly hint: string;
};

/** What a Pod says of itself, as Linkerd's controller would read it. Null and empty where it says nothing. */
export interface PodFacts {
  readonly podName: string | null;
  readonly namespace: string | null;
  readonly labels: ReadonlyMap<string, string>;
  readonly ips: readonly IpAddress[];
  readonly nodeIps: readonly IpAddress[];
  readonly namedPorts: ReadonlyMap<string, readonly number[]>;
  /** Every TCP container port, with a name or without. */
  readonly containerPorts: ReadonlySet<number>;
  readonly probes: ProbesByPort;
  /** From the annotations `config.linkerd.io/*`; null where absent or invalid. */
  readonly defaultPolicy: DefaultPolicy | null;
  readonly opaquePorts: PortSet | null;
  readonly requireIdentityPorts: PortSet | null;
  /** Which of these three it says. */
  readonly annotated: readonly string[];
}

const port = z.int().min(1).max(65535);
const portOrName = z.union([port, z.string()]);
const httpGet = z.looseObject({
  host: z.string().nullish(),
  path: z.string().nullish(),
  port: portOrName,
  scheme: z.string().nullish(),
});
const probe = z.looseObject({
  httpGet: httpGet.nullish(),
  grpc: z.looseObject({ port }).nullish(),
  tcpSocket: z.looseObject({ host: z.string().nullish(), port: portOrName }).nullish(),
});
const hook = z.looseObject({ httpGet: httpGet.nullish() });
const container = z.looseObject({
  ports: z
    .array(z.looseObject({ name: z.string().nullish(), containerPort: port, protocol: z.string().nullish() }))
    .nullish(),
  livenessProbe: probe.nullish(),
  readinessProbe: probe.nullish(),
  startupProbe: probe.nullish(),
  lifecycle: z.looseObject({ postStart: hook.nullish(), preStop: hook.nullish() }).nullish(),
});
const strings = z.record(z.string(), z.string());
const addresses = z.array(z.looseObject({ ip: z.string() }));
const pod = z.looseObject({
  kind: z.literal('Pod'),
  metadata: z
    .looseObject({
      name: z.string().nullish(),
      namespace: z.string().nullish(),
      labels: strings.nullish(),
      annotations: strings.nullish(),
    })
    .nullish(),
  spec: z
    .looseObject({
      hostNetwork: z.unknown().optional(),
      containers: z.array(container).nullish(),
      initContainers: z.array(container).nullish(),
    })
    .nullish(),
  status: z
    .looseObject({
      podIP: z.string().nullish(),
      podIPs: addresses.nullish(),
      hostIP: z.string().nullish(),
      hostIPs: addresses.nullish(),
    })
    .nullish(),
});
type Pod = z.infer<typeof pod>;
type Container = z.infer<typeof container>;

const annotation = {
  defaultPolicy: 'config.linkerd.io/default-inbound-policy',
  opaquePorts: 'config.linkerd.io/opaque-ports',
  requireIdentity: 'config.linkerd.io/proxy-require-identity-inbound-ports',
} as const;

/**
 * Reads a decoded Pod. Facts are null where it is no Pod at all; single bad statements are left out and reported.
 *
 * @param pathOf the path that a probe's `path` stands for; undefined for none. Where nothing is given, as Linkerd reads it.
 */
export function readPod(
  value: unknown,
  pathOf: PathReader = probePath,
): { readonly facts: PodFacts | null; readonly problems: readonly PodProblem[] } {
  const parsed = pod.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(
      ({ path, message }): PodProblem => ({
        severity: 'error',
        code: 'invalid-pod',
        path: path as (string | number)[],
        message: `${path.join('.') || 'the document'}: ${message}`,
        hint: 'Write it as kubectl get pod -o yaml does.',
      }),
    );
    return { facts: null, problems };
  }
  const problems: PodProblem[] = [];
  const { metadata, spec } = parsed.data;
  const containers = [
    ...(spec?.containers ?? []).map((own, i) => ({ own, at: ['spec', 'containers', i] as const })),
    ...(spec?.initContainers ?? []).map((own, i) => ({ own, at: ['spec', 'initContainers', i] as const })),
  ];
  const namedPorts = new Map<string, number[]>();
  const containerPorts = new Set<number>();
  const probes = new Map<number, readonly Probe[]>();
  for (const { own, at } of containers) {
    for (const { name, containerPort } of tcpPorts(own)) {
      containerPorts.add(containerPort);
      if (typeof name === 'string' && name !== '') add(namedPorts, name, containerPort);
    }
    for (const { port, probe } of probesOf(own, at, { onNode: spec?.hostNetwork === true, pathOf, problems }))
      probes.set(port, withProbe(probes.get(port), probe));
  }
  const annotations = metadata?.annotations ?? {};
  const ports = (name: string): PortSet | null => {
    const text = annotations[name];
    if (text === undefined) return null;
    const { ports: set, fault } = parsePortSet(text);
    if (fault === null) return set;
    // Linkerd takes an empty list, which opens the ports of which the cluster's own list requires identity.
    problems.push({
      severity: 'warning',
      code: 'annotation',
      path: ['metadata', 'annotations', name],
      message: `${name}: ${fault}; the cluster's default applies`,
      hint: 'List numbers and ranges, such as 25,9000-9100.',
    });
    return null;
  };
  const said = {
    defaultPolicy: defaultPolicyOf(annotations[annotation.defaultPolicy], problems),
    opaquePorts: ports(annotation.opaquePorts),
    requireIdentityPorts: ports(annotation.requireIdentity),
  };
  const facts: PodFacts = {
    podName: metadata?.name || null,
    namespace: metadata?.namespace || null,
    labels: new Map(Object.entries(metadata?.labels ?? {})),
    ips: addressesOf(parsed.data, 'pod', problems),
    nodeIps: addressesOf(parsed.data, 'host', problems),
    namedPorts,
    containerPorts,
    probes,
    ...said,
    annotated: Object.entries(said).flatMap(([fact, value]) => (value === null ? [] : [fact])),
  };
  return { facts, problems };
}

function add<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else if (!list.includes(value)) list.push(value);
}

/** The protocol of a container's port. The API server fills in an empty text as it does one that is not there. */
export function isTcp(protocol: unknown): boolean {
  return (protocol || 'TCP') === 'TCP';
}

function tcpPorts(own: Container) {
  return (own.ports ?? []).filter(({ protocol }) => isTcp(protocol));
}

interface FoundProbe {
  readonly port: number;
  readonly probe: Probe;
}

type PathReader = (text: string) => string | undefined;
type HttpGet = z.infer<typeof httpGet>;

/** What the kubelet asks of one container; `exec` and `sleep` need nobody's permission. */
interface Probing {
  /** The pod is on the network of its node. */
  readonly onNode: boolean;
  readonly pathOf: PathReader;
  readonly problems: PodProblem[];
}

function probesOf(own: Container, at: FieldPath, probing: Probing): FoundProbe[] {
  const { onNode, problems } = probing;
  const found: (FoundProbe | undefined)[] = [];
  // On the network of its node the pod may be any of the node's addresses.
  const isElsewhere = ({ host }: Pick<HttpGet, 'host'>, name: string, place: FieldPath): boolean => {
    if (onNode || !host) return false;
    const message = `the ${name} has a host, which the kubelet asks in place of the pod; the probe is skipped`;
    const hint = 'Take host away; the name that an app wants to hear goes into httpHeaders, as Host.';
    problems.push({ severity: 'warning', code: 'probe-host', path: [...place, 'host'], message, hint });
    return true;
  };
  for (const name of ['livenessProbe', 'readinessProbe', 'startupProbe'] as const) {
    const { httpGet: get, grpc, tcpSocket } = own[name] ?? {};
    if (get && !isElsewhere(get, name, [...at, name, 'httpGet'])) {
      found.push(httpProbe(own, get, ['http', 'https'], name, [...at, name, 'httpGet'], probing));
    }
    if (grpc) found.push({ port: grpc.port, probe: { kind: 'grpc' } });
    if (tcpSocket && !isElsewhere(tcpSocket, name, [...at, name, 'tcpSocket'])) {
      const port = probedPort(own, tcpSocket.port, name, [...at, name, 'tcpSocket'], problems);
      if (port !== undefined) found.push({ port, probe: { kind: 'tcp' } });
    }
  }
  for (const name of ['postStart', 'preStop'] as const) {
    const get = own.lifecycle?.[name]?.httpGet;
    const place = [...at, 'lifecycle', name, 'httpGet'];
    if (get && !isElsewhere(get, `${name} hook`, place)) {
      found.push(httpProbe(own, get, ['hook', 'https-hook'], `${name} hook`, place, probing));
    }
  }
  return found.filter((each) => each !== undefined);
}

/** A named port is looked for in the probe's own container, without case. */
function probedPort(
  own: Container,
  wanted: number | string,
  name: string,
  at: FieldPath,
  problems: PodProblem[],
): number | undefined {
  if (typeof wanted === 'number') return wanted;
  const ports = tcpPorts(own);
  const number = ports.find((each) => each.name?.toLowerCase() === wanted.toLowerCase())?.containerPort;
  if (number !== undefined) return number;
  problems.push({
    severity: 'warning',
    code: 'probe-port',
    path: [...at, 'port'],
    message: `the ${name} names port "${wanted}", which its container does not have over TCP; the probe is skipped`,
    hint: didYouMean(
      wanted,
      ports.flatMap((each) => each.name ?? []),
    ),
  });
  return undefined;
}

function httpProbe(
  own: Container,
  get: HttpGet,
  [plain, secured]: readonly [PathKind, PathKind],
  name: string,
  at: FieldPath,
  { pathOf, problems }: Probing,
): FoundProbe | undefined {
  const port = probedPort(own, get.port, name, at, problems);
  if (port === undefined) return undefined;
  const path = pathOf(get.path ?? '/');
  if (path !== undefined) return { port, probe: { kind: get.scheme === 'HTTPS' ? secured : plain, path } };
  problems.push({
    severity: 'warning',
    code: 'probe-path',
    path: [...at, 'path'],
    message: `the ${name} has a path that is none; the probe is skipped`,
    hint: 'Write it from "/", with %20 for a space, as the kubelet asks for it.',
  });
  return undefined;
}

/**
 * The path of a probe's URI reference, without query and fragment; undefined for what has none. A path that lacks its first
 * slash names none, as for Linkerd, although the kubelet would add it.
 */
export function probePath(text: string): string | undefined {
  const [, origin, path = ''] = /^([a-z][a-z0-9+.-]*:\/\/[^/?#]+)?([^?#]*)/i.exec(text) ?? [];
  if (origin !== undefined && path === '') return '/';
  return /^\/[\x21\x22\x24-\x3e\x40-\x7e]*$/.test(path) ? path : undefined;
}

/** The list, or the single one where there is none. */
function addressesOf({ status }: Pod, whose: 'pod' | 'host', problems: PodProblem[]): IpAddress[] {
  const single = status?.[`${whose}IP`];
  const list = (status?.[`${whose}IPs`] ?? []).map(({ ip }, i) => ({ ip, path: ['status', `${whose}IPs`, i, 'ip'] }));
  const all = list.length > 0 ? list : single ? [{ ip: single, path: ['status', `${whose}IP`] }] : [];
  return all.flatMap(({ ip, path }) => {
    const parsed = parseIp(ip);
    if (parsed !== undefined) return [parsed];
    problems.push({ severity: 'warning', code: 'pod-ip', path, message: `"${ip}" is no IP address`, hint: '' });
    return [];
  });
}

/** Invalid: a warning and the cluster's default, as in Linkerd. */
function defaultPolicyOf(text: string | undefined, problems: PodProblem[]): DefaultPolicy | null {
  if (text === undefined) return null;
  const policy = parseDefaultPolicy(text);
  if (policy !== undefined) return policy;
  problems.push({
    severity: 'warning',
    code: 'annotation',
    path: ['metadata', 'annotations', annotation.defaultPolicy],
    message: `${annotation.defaultPolicy} "${text}" is none of ${defaultPolicies.join(', ')}; the cluster's default applies`,
    hint: didYouMean(text, defaultPolicies),
  });
  return null;
}
