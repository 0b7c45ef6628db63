import type { NamespaceFacts } from './namespaces.ts';
import { containersOf, type PodTemplate } from './pod-template.ts';
import { injectAnnotation } from './record.ts';
import type { Annotations, TemplateFault } from './settings.ts';
import { valueAt } from './yaml-edit.ts';

/** Meshes that send a pod's inbound connections to a sidecar of their own, and the containers that they put into it. */
const meshes = [
  {
    name: 'Linkerd',
    containers: ['linkerd-proxy', 'linkerd-init', 'linkerd-network-validator'],
    takeOut: 'linkerd uninject takes it out',
  },
  {
    name: 'Istio',
    containers: ['istio-proxy', 'istio-init', 'istio-validation'],
    takeOut: 'inject the YAML of before istioctl kube-inject',
  },
] as const;

/** What is in the pod already, or would be put there on its way into the cluster; one fault for each mesh at most. */
export function otherProxies(
  pod: PodTemplate['pod'],
  own: Annotations,
  { annotations, labels }: NamespaceFacts,
): TemplateFault[] {
  const faults: TemplateFault[] = [];
  for (const { name, containers, takeOut } of meshes) {
    const found = containersOf(pod.spec).find(({ own }) => containers.some((each) => each === own.name));
    if (found === undefined) continue;
    const message = `the pod has ${name}'s sidecar (${String(found.own.name)}): both would take its inbound connections`;
    const hint = `Keep one of the two: ${takeOut}, and ${injectAnnotation}: disabled leaves Sallyport out.`;
    faults.push({ severity: 'error', code: 'other-proxy', path: [...found.at, 'name'], message, hint });
  }
  const linkerd = own['linkerd.io/inject'] ?? annotations['linkerd.io/inject'];
  if (linkerd === 'enabled' || linkerd === 'ingress') {
    const message = `linkerd.io/inject is "${linkerd}": Linkerd's own proxy would take the same ports`;
    const hint = 'Inject one of the two: set linkerd.io/inject: disabled on this pod, or leave Sallyport out.';
    const path = ['metadata', 'annotations', 'linkerd.io/inject'];
    faults.push({ severity: 'error', code: 'linkerd-injects', path, message, hint });
  }
  const wish = 'sidecar.istio.io/inject';
  const label = valueAt(pod, ['metadata', 'labels', wish]) ?? own[wish];
  if (label === 'true' || (label !== 'false' && labels['istio-injection'] === 'enabled')) {
    const message = `${label === 'true' ? `${wish} is "true"` : 'the Namespace has istio-injection: enabled'}: Istio's sidecar would take the same connections`;
    const hint = `Inject one of the two: set the label ${wish}: "false" on this pod, or leave Sallyport out.`;
    const path = ['metadata', 'labels', wish];
    faults.push({ severity: 'error', code: 'istio-injects', path, message, hint });
  }
  return faults;
}
