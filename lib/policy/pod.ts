import { z } from 'zod';
import type { Coded } from '../errors/problems.ts';
import { type IpAddress, parseIp } from '../ip.ts';
import { didYouMean } from './nearest.ts';
import { type DefaultPolicy, defaultPolicies, type PortSet, parseDefaultPolicy, parsePortSet } from './workload.ts';

/** A fault in a Pod; `path` leads to the field, for callers that know its place in a file. */
export type PodProblem = Coded & {
  readonly path: readonly (string | number)[];
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
  readonly probes: ReadonlyMap<number, readonly string[]>;
  /** From the annotations `config.linkerd.io/*`; null where absent. */
  readonly defaultPolicy: DefaultPolicy | null;
  readonly opaquePorts: PortSet | null;
  readonly requireIdentityPorts: PortSet | null;
}

const port = z.int().min(1).max(65535);
const probe = z.looseObject({
  httpGet: z.looseObject({ path: z.string().nullish(), port: z.union([port, z.string()]) }).nullish(),
});
const container = z.looseObject({
  ports: z
    .array(z.looseObject({ name: z.string().nullish(), containerPort: port, protocol: z.string().nullish() }))
    .nullish(),
  livenessProbe: probe.nullish(),
  readinessProbe: probe.nullish(),
  startupProbe: probe.nullish(),
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
    .looseObject({ containers: z.array(container).nullish(), initContainers: z.array(container).nullish() })
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

/** Reads a decoded Pod. Facts are null where it is no Pod at all; single bad statements are left out and reported. */
export function readPod(value: unknown): { readonly facts: PodFacts | null; readonly problems: readonly PodProblem[] } {
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
  const probes = new Map<number, string[]>();
  for (const { own, at } of containers) {
    for (const { name, containerPort } of tcpPorts(own)) {
      containerPorts.add(containerPort);
      if (typeof name === 'string' && name !== '') add(namedPorts, name, containerPort);
    }
    for (const kind of ['livenessProbe', 'readinessProbe', 'startupProbe'] as const) {
      const found = probeOf(own, kind, [...at, kind, 'httpGet'], problems);
      if (found !== undefined) add(probes, found.port, found.path);
    }
  }
  const annotations = metadata?.annotations ?? {};
  const ports = (name: string): PortSet | null => {
    const text = annotations[name];
    if (text === undefined) return null;
    const { ports: set, fault } = parsePortSet(text);
    if (fault !== null) {
      problems.push({
        severity: 'warning',
        code: 'annotation',
        path: ['metadata', 'annotations', name],
        message: `${name}: ${fault}, so the whole list is empty`,
        hint: 'List numbers and ranges, such as 25,9000-9100.',
      });
    }
    return set;
  };
  const facts: PodFacts = {
    podName: metadata?.name ?? null,
    namespace: metadata?.namespace ?? null,
    labels: new Map(Object.entries(metadata?.labels ?? {})),
    ips: addressesOf(parsed.data, 'pod', problems),
    nodeIps: addressesOf(parsed.data, 'host', problems),
    namedPorts,
    containerPorts,
    probes,
    defaultPolicy: defaultPolicyOf(annotations[annotation.defaultPolicy], problems),
    opaquePorts: ports(annotation.opaquePorts),
    requireIdentityPorts: ports(annotation.requireIdentity),
  };
  return { facts, problems };
}

function add<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else if (!list.includes(value)) list.push(value);
}

function tcpPorts(own: Container) {
  return (own.ports ?? []).filter(({ protocol }) => (protocol ?? 'TCP') === 'TCP');
}

/** Only httpGet probes count. A named port is looked for in the probe's own container, without case. */
function probeOf(
  own: Container,
  kind: 'livenessProbe' | 'readinessProbe' | 'startupProbe',
  at: readonly (string | number)[],
  problems: PodProblem[],
): { readonly port: number; readonly path: string } | undefined {
  const get = own[kind]?.httpGet;
  if (get === undefined || get === null) return undefined;
  const { port: wanted } = get;
  const number =
    typeof wanted === 'number'
      ? wanted
      : tcpPorts(own).find(({ name }) => name?.toLowerCase() === wanted.toLowerCase())?.containerPort;
  if (number === undefined) {
    problems.push({
      severity: 'warning',
      code: 'probe-port',
      path: [...at, 'port'],
      message: `the ${kind} names port "${wanted}", which its container does not have over TCP; the probe is skipped`,
      hint: didYouMean(
        String(wanted),
        tcpPorts(own).flatMap(({ name }) => name ?? []),
      ),
    });
    return undefined;
  }
  const path = probePath(get.path ?? '/');
  if (path === undefined) {
    problems.push({
      severity: 'warning',
      code: 'probe-path',
      path: [...at, 'path'],
      message: `the ${kind} has a path that is none; the probe is skipped`,
      hint: 'It must begin with "/" and hold no spaces.',
    });
    return undefined;
  }
  return { port: number, path };
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
