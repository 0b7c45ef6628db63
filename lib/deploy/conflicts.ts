import type { CodeOf } from '../errors/problems.ts';
import { valueAt } from '../policy/field-path.ts';
import { isTcp } from '../policy/pod.ts';
import type { NamespaceFacts } from './namespaces.ts';
import { otherProxies } from './neighbours.ts';
import { redirectPort } from './option-values.ts';
import { annotationOf, optionNames, type PodOptions } from './options.ts';
import { containersOf, type PodSpecValue, type PodTemplate } from './pod-template.ts';
import { injectAnnotation } from './record.ts';
import { type Annotations, isLeftOut, proxyUid, type TemplateFault } from './settings.ts';
import { adminPortName, initName, isRedirected, proxyName, volumeName } from './sidecar.ts';

/** Why a pod is left as it is, without that being a fault; null where it is to be injected. */
export function reasonToSkip(
  { spec }: PodTemplate['pod'],
  own: Annotations,
  { annotations }: NamespaceFacts,
): string | TemplateFault | null {
  const leftOut = isLeftOut(own, annotations);
  if (typeof leftOut === 'object') return leftOut;
  if (leftOut) return `${injectAnnotation} is "disabled"`;
  const windows = spec?.os?.name === 'windows' || spec?.nodeSelector?.['kubernetes.io/os'] === 'windows';
  return windows ? 'it runs on Windows, which has no iptables' : null;
}

/**
 * Why a pod cannot be guarded as it is (errors), or less well than its author may believe (warnings).
 * @param options null where they cannot be read: then nothing is said of ports.
 */
export function conflicts(
  template: PodTemplate,
  options: PodOptions | null,
  own: Annotations,
  namespace: NamespaceFacts,
): TemplateFault[] {
  const { spec } = template.pod;
  const faults: TemplateFault[] = [];
  const add = (code: CodeOf<'error'>, path: TemplateFault['path'], message: string, hint: string): void => {
    faults.push({ severity: 'error', code, path, message, hint });
  };
  if (spec === undefined || spec === null || (spec.containers ?? []).length === 0) {
    add('invalid-pod', ['spec'], 'the pod has no containers', asKubectl);
    return faults;
  }
  for (const list of ['volumes', 'imagePullSecrets'] as const) {
    if (!isListOfObjects(spec[list])) add('invalid-pod', ['spec', list], `${list} is no list of objects`, asKubectl);
  }
  // Of a template it may be left out; of a Pod it has the name.
  if (template.workload.kind === 'Pod' && template.pod.metadata === undefined) {
    add('invalid-pod', [], 'the Pod has no metadata', asKubectl);
  }
  if (faults.length > 0) return faults;
  const redirected = options === null || isRedirected(options);
  if (spec.hostNetwork === true && redirected) {
    const hint = `Take hostNetwork away, or annotate the pod with ${injectAnnotation}: disabled.`;
    const message = 'hostNetwork: the redirect rules would be those of the node, for every pod on it';
    add('host-network', ['spec', 'hostNetwork'], message, hint);
  }
  if (redirected) faults.push(...podSecurity(namespace));
  faults.push(...otherProxies(template.pod, own, namespace));
  for (const { own: container, at } of containersOf(spec)) {
    if (container.name === initName || container.name === proxyName) {
      const message = `a container is already named ${container.name}, and not by an injection that is on record`;
      add('name-in-use', [...at, 'name'], message, 'Rename it, or take out what was put in by hand.');
    }
    if (options !== null) faults.push(...portsInUse(container.ports ?? [], options, at));
    if (redirected) faults.push(...openPorts(container.ports ?? [], at));
    if (redirected) faults.push(...powers(spec, container.securityContext ?? null, at));
  }
  for (const [index, { name }] of (spec.volumes ?? []).entries()) {
    if (!Object.values(volumeName).includes(name as never)) continue;
    const message = `a volume is already named ${String(name)}`;
    add('name-in-use', ['spec', 'volumes', index, 'name'], message, 'Rename it.');
  }
  if (!redirected) {
    const message = 'nothing is redirected: of the pod only the listeners of --inbound-ports are guarded';
    const hint = 'Let the app listen on 127.0.0.1 alone, and Services and probes name the listeners.';
    faults.push({ severity: 'warning', code: 'no-redirect', path: ['spec'], message, hint });
    faults.push(...idleWithoutRedirect(options, own));
  }
  return faults;
}

/** What the redirect rules alone could do, or the container that sets them. */
function idleWithoutRedirect(options: PodOptions, own: Annotations): TemplateFault[] {
  const said = optionNames.filter((name) => {
    const ofRules = name === 'own-address' || /^(skip|init)-/.test(name);
    return ofRules && !['', 'false'].includes(String(options[name] ?? ''));
  });
  return said.map((name): TemplateFault => {
    const annotation = annotationOf(name);
    const isOwn = Object.hasOwn(own, annotation);
    const path = isOwn ? ['metadata', 'annotations', annotation] : ['spec'];
    const message = `${isOwn ? annotation : name} has no effect with inbound-ports, which redirects nothing`;
    return { severity: 'warning', code: 'no-redirect', path, message, hint: 'Take it, or inbound-ports, away.' };
  });
}

const enforceLabel = 'pod-security.kubernetes.io/enforce';

/** Where Pod Security refuses the container that sets the redirect rules, and with it the pod. */
function podSecurity({ labels }: NamespaceFacts): TemplateFault[] {
  const level = labels[enforceLabel];
  if (level !== 'baseline' && level !== 'restricted') return [];
  const message = `the Namespace has ${enforceLabel}: ${level}, which refuses this pod: its init container adds NET_ADMIN and runs as root`;
  const hint =
    'Use --inbound-ports, which needs neither (sallyport.dev/inbound-ports), or let the Namespace enforce "privileged".';
  return [{ severity: 'warning', code: 'pod-security', path: ['spec'], message, hint }];
}

const asKubectl = 'Write it as kubectl get pod -o yaml does.';

/** Nothing at all is one, too. */
function isListOfObjects(value: unknown): boolean {
  const items = value ?? [];
  return Array.isArray(items) && items.every((item) => typeof item === 'object' && item !== null);
}

type Ports = NonNullable<ReturnType<typeof containersOf>[number]['own']['ports']>;

/** What the redirect rules, which are of TCP, let through to the app. */
function openPorts(ports: Ports, at: TemplateFault['path']): TemplateFault[] {
  return [...ports.entries()].flatMap(([index, { containerPort, protocol }]): TemplateFault[] => {
    if (isTcp(protocol)) return [];
    const path = [...at, 'ports', index];
    const message = `port ${String(containerPort)} over ${String(protocol)} stays open: only TCP is redirected`;
    const hint = "Close it by a NetworkPolicy of the cluster's network, or by the app's own means.";
    return [{ severity: 'warning', code: 'unguarded-port', path, message, hint }];
  });
}

function portsInUse(ports: Ports, options: PodOptions, at: TemplateFault['path']): TemplateFault[] {
  const ours = new Map<unknown, string>([
    ...(isRedirected(options) ? [[redirectPort, 'redirected connections'] as const] : []),
    [options['admin-port'], 'the admin server'],
    [options['health-port'], 'the health server'],
  ]);
  return [...ports.entries()].flatMap(([index, { name, containerPort, protocol }]): TemplateFault[] => {
    const path = [...at, 'ports', index];
    if (name === adminPortName) {
      const message = `a port is named ${adminPortName}, which always is Sallyport's own`;
      return [{ severity: 'error', code: 'name-in-use', path: [...path, 'name'], message, hint: 'Rename it.' }];
    }
    const use = isTcp(protocol) ? ours.get(containerPort) : undefined;
    if (use === undefined) return [];
    const movable = containerPort === redirectPort ? '' : ', or choose another by --admin-port or --health-port';
    const hint = `Let the container listen elsewhere${movable}.`;
    const message = `port ${String(containerPort)} is Sallyport's, for ${use}`;
    return [{ severity: 'error', code: 'port-in-use', path: [...path, 'containerPort'], message, hint }];
  });
}

/** What would let a container past the redirect rules. */
function powers(
  spec: PodSpecValue,
  context: NonNullable<PodSpecValue['securityContext']> | null,
  at: TemplateFault['path'],
): TemplateFault[] {
  const faults: TemplateFault[] = [];
  const where = [...at, 'securityContext'];
  if ((context?.runAsUser ?? spec.securityContext?.runAsUser) === proxyUid) {
    const path = context?.runAsUser === undefined ? ['spec', 'securityContext', 'runAsUser'] : [...where, 'runAsUser'];
    const message = `the container runs as user ${proxyUid}, whom the redirect rules take for the proxy`;
    faults.push({ severity: 'error', code: 'uid-in-use', path, message, hint: 'Run it as another user.' });
  }
  const capabilities = valueAt(context, ['capabilities', 'add']);
  const powerful =
    Array.isArray(capabilities) && capabilities.some((name) => /^(CAP_)?(NET_ADMIN|ALL)$/i.test(String(name)));
  if (context?.privileged === true || powerful) {
    const message = 'the container may change the redirect rules, and so open every port';
    const hint = 'Take NET_ADMIN and privileged away from it.';
    faults.push({ severity: 'warning', code: 'may-unguard', path: where, message, hint });
  }
  return faults;
}
