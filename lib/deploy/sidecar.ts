import { duration } from '../config/values.ts';
import type { PodFacts } from '../policy/pod.ts';
import { type Probe, type ProbesByPort, probeText } from '../policy/probes.ts';
import { redirectPort } from './option-values.ts';
import type { PodOptions } from './options.ts';
import { containersOf, type PodSpecValue } from './pod-template.ts';
import type { ListName } from './record.ts';
import { containerResources, type Resources } from './resources.ts';
import { type InjectSettings, proxyUid, statedVariables, type TemplateFault } from './settings.ts';

/** The names that Sallyport's parts bear in a pod. A pod that uses one of them for something else is refused. */
export const initName = 'sallyport-init';
export const proxyName = 'sallyport';
export const volumeName = {
  policy: 'sallyport-policy',
  candidate: 'sallyport-candidate',
  pod: 'sallyport-pod',
  identity: 'sallyport-identity',
  run: 'sallyport-run',
} as const;
export const adminPortName = 'linkerd-admin';

const folder = {
  policy: '/etc/sallyport/policy',
  candidate: '/etc/sallyport/candidate',
  pod: '/etc/sallyport/pod',
  identity: '/etc/sallyport/identity',
} as const;

/** What Kubernetes gives a pod that does not say, and what Sallyport takes where the pod would give it longer. */
const grace = { ofPods: 30, longest: 120 } as const;

/** What is added to the lists of a pod. */
export interface Sidecar {
  readonly lists: Readonly<Record<ListName, readonly Readonly<Record<string, unknown>>[]>>;
  readonly faults: readonly TemplateFault[];
}

/** What one pod adds to the settings. */
export interface SidecarPod {
  readonly options: PodOptions;
  readonly facts: Pick<PodFacts, 'namedPorts' | 'containerPorts' | 'probes'>;
  /** Without an injection. */
  readonly spec: PodSpecValue | null | undefined;
}

/**
 * Two init containers, first of all others. `sallyport-init` sets the redirect rules and ends: from then on every port
 * is closed unless the proxy lets somebody in. `sallyport` is a native sidecar (`restartPolicy: Always`): everything
 * after it starts once it is ready, it outlives the app, and Jobs end without it.
 */
export function sidecar(settings: InjectSettings, pod: SidecarPod): Sidecar {
  const { options, spec } = pod;
  const image = {
    image: options.image ?? `sallyport:${settings.version}`,
    ...(options['image-pull-policy'] === null ? {} : { imagePullPolicy: options['image-pull-policy'] }),
  };
  const { 'identity-secret': identitySecret, 'candidate-configmap': candidate } = options;
  const redirected = isRedirected(options);
  const volumes = [
    // Not optional: without the ConfigMap the pod waits, and says so in its events, rather than run without policy.
    { name: volumeName.policy, configMap: { name: options['policy-configmap'] } },
    // Optional: nothing waits for what decides nothing.
    ...(candidate === null ? [] : [{ name: volumeName.candidate, configMap: { name: candidate, optional: true } }]),
    {
      name: volumeName.pod,
      downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] },
    },
    ...(identitySecret === null ? [] : [{ name: volumeName.identity, secret: { secretName: identitySecret } }]),
    // The lock file of iptables, under a root that is read-only.
    ...(redirected ? [{ name: volumeName.run, emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } }] : []),
  ];
  const init = containerResources('init', options, spec);
  const own = containerResources('proxy', options, spec);
  const containers = [
    ...(redirected ? [redirectStep(image, options, init.resources)] : []),
    proxy(image, pod, own.resources),
  ];
  const there = new Set((spec?.imagePullSecrets ?? []).map(({ name }) => name));
  const secrets = (options['image-pull-secrets'] ?? []).filter((name) => !there.has(name));
  return {
    lists: { initContainers: containers, volumes, imagePullSecrets: [...new Set(secrets)].map((name) => ({ name })) },
    faults: [...(redirected ? init.faults : []), ...own.faults],
  };
}

/** Whether connections come by the redirect rules, or to listeners that clients are told of. */
export function isRedirected(options: PodOptions): boolean {
  return options['inbound-ports'] === null;
}

type Image = Readonly<Record<'image' | 'imagePullPolicy', string>> | { readonly image: string };

function redirectStep(image: Image, options: PodOptions, resources: Resources) {
  const list = (flag: string, text: string | null): string[] =>
    text === null || text === '' ? [] : [`--${flag}=${text}`];
  return {
    name: initName,
    ...image,
    args: [
      'iptables',
      '--apply',
      // Where the kernel has no IPv6 this does nothing; where it has, a pod guarded in IPv4 alone is not guarded.
      '--ipv6',
      `--inbound-port=${redirectPort}`,
      `--admin-port=${options['admin-port']}`,
      `--health-port=${options['health-port']}`,
      `--proxy-uid=${proxyUid}`,
      ...(options['own-address'] === true ? ['--own-address'] : []),
      ...list('skip-inbound-ports', options['skip-inbound-ports']),
      ...list('skip-subnets', options['skip-subnets']),
    ],
    resources,
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

function proxy(image: Image, pod: SidecarPod, resources: Resources) {
  const { options, spec } = pod;
  const healthPortName = freePortName('health', spec);
  const probe = (path: string) => ({ httpGet: { path, port: healthPortName } });
  return {
    name: proxyName,
    ...image,
    args: ['run'],
    restartPolicy: 'Always',
    env: environment(pod),
    ports: [
      { name: adminPortName, containerPort: options['admin-port'], protocol: 'TCP' },
      { name: healthPortName, containerPort: options['health-port'], protocol: 'TCP' },
    ],
    // Nothing after this container starts before policy has been read once: a minute of grace, then a restart.
    startupProbe: { ...probe('/ready'), periodSeconds: 1, failureThreshold: 60 },
    readinessProbe: { ...probe('/ready'), periodSeconds: 5 },
    livenessProbe: { ...probe('/live'), periodSeconds: 10, timeoutSeconds: 5 },
    resources,
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
      mounted('policy'),
      ...(options['candidate-configmap'] === null ? [] : [mounted('candidate')]),
      mounted('pod'),
      ...(options['identity-secret'] === null ? [] : [mounted('identity')]),
    ],
  };
}

function mounted(volume: keyof typeof folder) {
  return { name: volumeName[volume], mountPath: folder[volume], readOnly: true };
}

/** One that no container of the pod has: a Service, a Server or a probe that means the app's port must find it alone. */
function freePortName(wanted: string, spec: PodSpecValue | null | undefined): string {
  const taken = new Set(containersOf(spec).flatMap(({ own }) => (own.ports ?? []).map(({ name }) => name)));
  let name = wanted;
  for (let number = 2; taken.has(name); number++) name = `${wanted}-${number}`;
  return name;
}

type EnvVar =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly valueFrom: { readonly fieldRef: { readonly fieldPath: string } } };

function environment({ options, facts, spec }: SidecarPod): EnvVar[] {
  const given = (name: string, value: string | null): EnvVar[] =>
    value === null ? [] : [{ name, value: escaped(value) }];
  const field = (name: string, fieldPath: string): EnvVar => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  const identity = (name: string, file: string): EnvVar[] =>
    options['identity-secret'] === null ? [] : given(name, `${folder.identity}/${file}`);
  return [
    field('SALLYPORT_POD_NAME', 'metadata.name'),
    field('SALLYPORT_POD_NAMESPACE', 'metadata.namespace'),
    field('SALLYPORT_POD_IPS', 'status.podIPs'),
    field('SALLYPORT_NODE_IPS', 'status.hostIP'),
    ...given('SALLYPORT_POD_LABELS_FILE', `${folder.pod}/labels`),
    // The sidecar's own port is the pod's, too: NetworkPolicies may open it by its name.
    ...given('SALLYPORT_POD_PORTS', namedPortList(facts.namedPorts, options['admin-port'])),
    ...given('SALLYPORT_PROBES', probeList(facts.probes)),
    ...given('SALLYPORT_LOOPBACK_PORTS', unnamedPortList(facts)),
    ...given('SALLYPORT_POLICY', folder.policy),
    ...given('SALLYPORT_CANDIDATE_POLICY', options['candidate-configmap'] === null ? null : folder.candidate),
    // Both families, where the kernel has both.
    ...(isRedirected(options) ? given('SALLYPORT_INBOUND_LISTEN', `[::]:${redirectPort}`) : []),
    ...given('SALLYPORT_ADMIN_LISTEN', `[::]:${options['admin-port']}`),
    ...given('SALLYPORT_HEALTH_LISTEN', `[::]:${options['health-port']}`),
    ...identity('SALLYPORT_IDENTITY_CERT', 'tls.crt'),
    ...identity('SALLYPORT_IDENTITY_KEY', 'tls.key'),
    ...identity('SALLYPORT_IDENTITY_TRUST_ANCHORS', 'ca.crt'),
    ...statedVariables(options).flatMap(([name, value]) => given(name, value)),
    ...given('SALLYPORT_SHUTDOWN_GRACE_PERIOD', shutdownGrace(options, spec)),
  ];
}

/**
 * The proxy's drain fits into the pod's own grace period rather than the other way round: the kubelet stops a native
 * sidecar after the app has ended and kills whatever is left at the end of the period, so a longer one for the pod
 * would only let a hanging app hang longer.
 */
function shutdownGrace(options: PodOptions, spec: PodSpecValue | null | undefined): string {
  const ofPod = spec?.terminationGracePeriodSeconds;
  const seconds = typeof ofPod === 'number' && Number.isInteger(ofPod) && ofPod >= 0 ? ofPod : grace.ofPods;
  const text = options['shutdown-grace-period'] ?? `${grace.longest}s`;
  const stated = duration(text);
  return 'value' in stated && stated.value <= seconds * 1000 ? text : `${seconds}s`;
}

/** Ports that the Pod declares without a name: no less reachable on loopback than those with one. Null where there is none. */
function unnamedPortList({ containerPorts, namedPorts }: SidecarPod['facts']): string | null {
  const named = new Set([...namedPorts.values()].flat());
  const rest = [...containerPorts].filter((port) => !named.has(port));
  return rest.length === 0 ? null : rest.join(',');
}

function namedPortList(ports: ReadonlyMap<string, readonly number[]>, adminPort: number | null): string {
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
