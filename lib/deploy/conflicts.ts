import type { CodeOf } from '../errors/problems.ts';
import { containersOf, type PodSpecValue, type PodTemplate } from './pod-template.ts';
import { injectAnnotation } from './record.ts';
import { type InjectSettings, proxyUid, redirectPort, type TemplateFault } from './settings.ts';
import { initName, proxyName, volumeName } from './sidecar.ts';
import { valueAt } from './yaml-edit.ts';

type Annotations = Readonly<Record<string, unknown>>;

/** Why a pod is left as it is, without that being a fault; null where it is to be injected. */
export function reasonToSkip({ spec }: PodTemplate['pod'], own: Annotations, ofNamespace: Annotations): string | null {
  const wish = own[injectAnnotation] ?? ofNamespace[injectAnnotation];
  if (wish === 'disabled') return `${injectAnnotation} is "disabled"`;
  const windows = spec?.os?.name === 'windows' || spec?.nodeSelector?.['kubernetes.io/os'] === 'windows';
  return windows ? 'it runs on Windows, which has no iptables' : null;
}

/** Why a pod cannot be guarded as it is (errors), or less well than its author may believe (warnings). */
export function conflicts(
  { pod: { spec } }: PodTemplate,
  settings: InjectSettings,
  own: Annotations,
  ofNamespace: Annotations,
): TemplateFault[] {
  const faults: TemplateFault[] = [];
  const add = (code: CodeOf<'error'>, path: TemplateFault['path'], message: string, hint: string): void => {
    faults.push({ severity: 'error', code, path, message, hint });
  };
  if (spec === undefined || spec === null || (spec.containers ?? []).length === 0) {
    add('invalid-pod', ['spec'], 'the pod has no containers', 'Write it as kubectl get pod -o yaml does.');
    return faults;
  }
  if (spec.hostNetwork === true) {
    const hint = `Take hostNetwork away, or annotate the pod with ${injectAnnotation}: disabled.`;
    const message = 'hostNetwork: the redirect rules would be those of the node, for every pod on it';
    add('host-network', ['spec', 'hostNetwork'], message, hint);
  }
  const linkerd = own['linkerd.io/inject'] ?? ofNamespace['linkerd.io/inject'];
  if (linkerd === 'enabled' || linkerd === 'ingress') {
    const message = `linkerd.io/inject is "${linkerd}": Linkerd's own proxy would take the same ports`;
    const hint = 'Inject one of the two: set linkerd.io/inject: disabled on this pod, or leave Sallyport out.';
    add('linkerd-injects', ['metadata', 'annotations', 'linkerd.io/inject'], message, hint);
  }
  const ports = new Map<unknown, string>([
    [redirectPort, 'redirected connections'],
    [settings.adminPort, 'the admin server'],
    [settings.healthPort, 'the health server'],
  ]);
  for (const { own: container, at } of containersOf(spec)) {
    if (container.name === initName || container.name === proxyName) {
      const message = `a container is already named ${container.name}, and not by an injection that is on record`;
      add('name-in-use', [...at, 'name'], message, 'Rename it, or take out what was put in by hand.');
    }
    for (const [index, { containerPort, protocol }] of (container.ports ?? []).entries()) {
      const use = (protocol ?? 'TCP') === 'TCP' ? ports.get(containerPort) : undefined;
      if (use === undefined) continue;
      const movable = containerPort === redirectPort ? '' : ', or choose another by --admin-port or --health-port';
      const hint = `Let the container listen elsewhere${movable}.`;
      const path = [...at, 'ports', index, 'containerPort'];
      add('port-in-use', path, `port ${String(containerPort)} is Sallyport's, for ${use}`, hint);
    }
    faults.push(...powers(spec, container.securityContext ?? null, at));
  }
  for (const [index, { name }] of (spec.volumes ?? []).entries()) {
    if (!Object.values(volumeName).includes(name as never)) continue;
    const message = `a volume is already named ${String(name)}`;
    add('name-in-use', ['spec', 'volumes', index, 'name'], message, 'Rename it.');
  }
  return faults;
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
