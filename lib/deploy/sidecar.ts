import type { PodFacts } from '../policy/pod.ts';
import { type Probe, type ProbesByPort, probeText } from '../policy/probes.ts';
import { type InjectSettings, type PodSettings, proxyUid, redirectPort } from './settings.ts';

/** The names that Sallyport's parts bear in a pod. A pod that uses one of them for something else is refused. */
export const initName = 'sallyport-init';
export const proxyName = 'sallyport';
export const volumeName = {
  policy: 'sallyport-policy',
  pod: 'sallyport-pod',
  identity: 'sallyport-identity',
  run: 'sallyport-run',
} as const;
export const adminPortName = 'linkerd-admin';

const folder = { policy: '/etc/sallyport/policy', pod: '/etc/sallyport/pod', identity: '/etc/sallyport/identity' };

/** What Kubernetes gives a pod that does not say, and what Sallyport takes where the pod would give it longer. */
const grace = { ofPods: 30, longest: 120 } as const;

export interface Sidecar {
  readonly initContainers: readonly Readonly<Record<string, unknown>>[];
  readonly volumes: readonly Readonly<Record<string, unknown>>[];
}

/** What one pod adds to the settings. */
export interface SidecarPod {
  readonly settings: PodSettings;
  readonly facts: Pick<PodFacts, 'namedPorts' | 'containerPorts' | 'probes'>;
  /** As the pod says it; anything but a number of seconds counts as not said. */
  readonly terminationGracePeriodSeconds: unknown;
}

/**
 * Two init containers, first of all others. `sallyport-init` sets the redirect rules and ends: from then on every port
 * is closed unless the proxy lets somebody in. `sallyport` is a native sidecar (`restartPolicy: Always`): everything
 * after it starts once it is ready, it outlives the app, and Jobs end without it.
 */
export function sidecar(settings: InjectSettings, pod: SidecarPod): Sidecar {
  const { identitySecret, policyConfigMap } = settings;
  const volumes = [
    // Not optional: without the ConfigMap the pod waits, and says so in its events, rather than run without policy.
    { name: volumeName.policy, configMap: { name: policyConfigMap } },
    {
      name: volumeName.pod,
      downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] },
    },
    ...(identitySecret === null ? [] : [{ name: volumeName.identity, secret: { secretName: identitySecret } }]),
    // The lock file of iptables, under a root that is read-only.
    { name: volumeName.run, emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
  ];
  return { initContainers: [redirectStep(settings, pod.settings), proxy(settings, pod)], volumes };
}

function redirectStep(settings: InjectSettings, { skipInboundPorts }: PodSettings) {
  return {
    name: initName,
    image: settings.image,
    args: [
      'iptables',
      '--apply',
      // Where the kernel has no IPv6 this does nothing; where it has, a pod guarded in IPv4 alone is not guarded.
      '--ipv6',
      `--inbound-port=${redirectPort}`,
      `--admin-port=${settings.adminPort}`,
      `--health-port=${settings.healthPort}`,
      `--proxy-uid=${proxyUid}`,
      ...(settings.ownAddress ? ['--own-address'] : []),
      ...(skipInboundPorts === null || skipInboundPorts === '' ? [] : [`--skip-inbound-ports=${skipInboundPorts}`]),
    ],
    resources: { requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '128Mi' } },
    securityContext: {
      allowPrivilegeEscalation: false,
      // NET_RAW is what the legacy programs ask for; those of nf_tables do without.
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] },
      privileged: false,
      readOnlyRootFilesystem: true,
      runAsGroup: 0,
      runAsNonRoot: false,
      runAsUser: 0,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    volumeMounts: [{ name: volumeName.run, mountPath: '/run' }],
  };
}

function proxy(settings: InjectSettings, pod: SidecarPod) {
  const { adminPort, healthPort, identitySecret } = settings;
  const probe = (path: string) => ({ httpGet: { path, port: 'health' } });
  return {
    name: proxyName,
    image: settings.image,
    args: ['run'],
    restartPolicy: 'Always',
    env: environment(settings, pod),
    ports: [
      { name: adminPortName, containerPort: adminPort, protocol: 'TCP' },
      { name: 'health', containerPort: healthPort, protocol: 'TCP' },
    ],
    // Nothing after this container starts before policy has been read once: a minute of grace, then a restart.
    startupProbe: { ...probe('/ready'), periodSeconds: 1, failureThreshold: 60 },
    readinessProbe: { ...probe('/ready'), periodSeconds: 5 },
    livenessProbe: { ...probe('/live'), periodSeconds: 10, timeoutSeconds: 5 },
    resources: { requests: { cpu: '20m', memory: '96Mi' }, limits: { memory: '256Mi' } },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      privileged: false,
      readOnlyRootFilesystem: true,
      runAsGroup: proxyUid,
      runAsNonRoot: true,
      runAsUser: proxyUid,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    volumeMounts: [
      { name: volumeName.policy, mountPath: folder.policy, readOnly: true },
      { name: volumeName.pod, mountPath: folder.pod, readOnly: true },
      ...(identitySecret === null ? [] : [{ name: volumeName.identity, mountPath: folder.identity, readOnly: true }]),
    ],
  };
}

type EnvVar =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly valueFrom: { readonly fieldRef: { readonly fieldPath: string } } };

function environment(settings: InjectSettings, pod: SidecarPod): EnvVar[] {
  const { adminPort, healthPort, identitySecret, trustDomain, controlPlaneNamespace } = settings;
  const { defaultPolicy, opaquePorts, requireIdentityPorts } = pod.settings;
  const given = (name: string, value: string | null): EnvVar[] =>
    value === null ? [] : [{ name, value: escaped(value) }];
  const field = (name: string, fieldPath: string): EnvVar => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  const identity = (name: string, file: string): EnvVar[] =>
    identitySecret === null ? [] : given(name, `${folder.identity}/${file}`);
  return [
    field('SALLYPORT_POD_NAME', 'metadata.name'),
    field('SALLYPORT_POD_NAMESPACE', 'metadata.namespace'),
    field('SALLYPORT_POD_IPS', 'status.podIPs'),
    ...given('SALLYPORT_POD_LABELS_FILE', `${folder.pod}/labels`),
    // The sidecar's own port is the pod's, too: NetworkPolicies may open it by its name.
    ...given('SALLYPORT_POD_PORTS', namedPortList(pod.facts.namedPorts, adminPort)),
    ...given('SALLYPORT_PROBES', probeList(pod.facts.probes)),
    ...given('SALLYPORT_LOOPBACK_PORTS', unnamedPortList(pod.facts)),
    ...given('SALLYPORT_POLICY', folder.policy),
    ...given('SALLYPORT_DEFAULT_INBOUND_POLICY', defaultPolicy ?? 'deny'),
    ...given('SALLYPORT_OPAQUE_PORTS', opaquePorts),
    ...given('SALLYPORT_REQUIRE_IDENTITY_PORTS', requireIdentityPorts),
    // Both families, where the kernel has both.
    ...given('SALLYPORT_INBOUND_LISTEN', `[::]:${redirectPort}`),
    ...given('SALLYPORT_ADMIN_LISTEN', `[::]:${adminPort}`),
    ...given('SALLYPORT_HEALTH_LISTEN', `[::]:${healthPort}`),
    ...identity('SALLYPORT_IDENTITY_CERT', 'tls.crt'),
    ...identity('SALLYPORT_IDENTITY_KEY', 'tls.key'),
    ...identity('SALLYPORT_IDENTITY_TRUST_ANCHORS', 'ca.crt'),
    ...given('SALLYPORT_TRUST_DOMAIN', trustDomain),
    ...given('SALLYPORT_CONTROL_PLANE_NAMESPACE', controlPlaneNamespace),
    ...given('SALLYPORT_SHUTDOWN_GRACE_PERIOD', `${shutdownGrace(pod.terminationGracePeriodSeconds)}s`),
  ];
}

/**
 * The proxy's drain fits into the pod's own grace period rather than the other way round: the kubelet stops a native
 * sidecar after the app has ended and kills whatever is left at the end of the period, so a longer one for the pod
 * would only let a hanging app hang longer.
 */
function shutdownGrace(ofPod: unknown): number {
  const seconds = typeof ofPod === 'number' && Number.isInteger(ofPod) && ofPod >= 0 ? ofPod : grace.ofPods;
  return Math.min(seconds, grace.longest);
}

/** Ports that the Pod declares without a name: no less reachable on loopback than those with one. Null where there is none. */
function unnamedPortList({ containerPorts, namedPorts }: SidecarPod['facts']): string | null {
  const named = new Set([...namedPorts.values()].flat());
  const rest = [...containerPorts].filter((port) => !named.has(port));
  return rest.length === 0 ? null : rest.join(',');
}

function namedPortList(ports: ReadonlyMap<string, readonly number[]>, adminPort: number): string {
  const pairs = [...ports].flatMap(([name, numbers]) => numbers.map((number) => `${name}=${number}`));
  return [...pairs, `${adminPortName}=${adminPort}`].join(',');
}

/** Null where there is none: an empty variable would say the same, and only take up room. */
function probeList(probes: ProbesByPort): string | null {
  const texts = [...probes].flatMap(([port, ofPort]) => ofPort.filter(isListable).map((each) => probeText(port, each)));
  return texts.length === 0 ? null : texts.join(',');
}

/** A path with a comma cannot stand in a list that commas divide. */
export function isListable(probe: Probe): boolean {
  return !('path' in probe && probe.path.includes(','));
}

/** The kubelet expands `$(NAME)` in values and takes `$$` for one dollar sign. */
function escaped(value: string): string {
  return value.replaceAll('$', '$$$$');
}
