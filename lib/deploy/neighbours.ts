import { valueAt } from '../policy/field-path.ts';
import type { NamespaceFacts } from './namespaces.ts';
import { containersOf, type PodTemplate } from './pod-template.ts';
import { injectAnnotation } from './record.ts';
import type { Annotations, TemplateFault } from './settings.ts';

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
    takeOut: 'inject the YAML without what istioctl kube-inject adds',
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
  const istio = istioWishes(valueAt(pod, ['metadata', 'labels']), own, labels);
  if (istio !== null) {
    const { label, said, taker, against } = istio;
    const message = `${said}: Istio's ${taker} would take the same connections`;
    const hint = `Inject one of the two: set the label ${label}: ${against} on this pod, or leave Sallyport out.`;
    faults.push({ severity: 'error', code: 'istio-injects', path: ['metadata', 'labels', label], message, hint });
  }
  return faults;
}

interface IstioWish {
  /** The pod's label that decides, whether the pod has it or not, and its value against Istio. */
  readonly label: string;
  readonly against: string;
  readonly said: string;
  readonly taker: 'sidecar' | 'ztunnel';
}

/** By the labels of the pod, and of the Namespace where the pod has none; null where Istio leaves the pod alone. */
function istioWishes(ofPod: unknown, own: Annotations, ofNamespace: NamespaceFacts['labels']): IstioWish | null {
  const wish = 'sidecar.istio.io/inject';
  const stated = valueAt(ofPod, [wish]) ?? own[wish];
  const sidecar = (said: string): IstioWish => ({ label: wish, against: '"false"', said, taker: 'sidecar' });
  if (stated === 'true') return sidecar(`${wish} is "true"`);
  if (stated !== 'false') {
    const injection = ofNamespace['istio-injection'];
    if (injection === 'enabled') return sidecar('the Namespace has istio-injection: enabled');
    // A Namespace that says anything of injection has said it against every revision.
    const revised = [ofNamespace, ofPod].find((labels) => (valueAt(labels, ['istio.io/rev']) ?? null) !== null);
    if (injection === undefined && revised !== undefined) {
      const whose = revised === ofNamespace ? 'the Namespace' : 'the pod';
      return sidecar(`${whose} has istio.io/rev: ${String(valueAt(revised, ['istio.io/rev']))}`);
    }
  }
  const label = 'istio.io/dataplane-mode';
  const ofThePod = valueAt(ofPod, [label]);
  if ((ofThePod ?? ofNamespace[label]) !== 'ambient') return null;
  const whose = ofThePod === undefined ? 'the Namespace' : 'the pod';
  return { label, against: 'none', said: `${whose} has ${label}: ambient`, taker: 'ztunnel' };
}
