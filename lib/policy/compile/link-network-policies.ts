import type { IpAddress } from '../../ip.ts';
import { closedOpening, NetworkIsolation, type ResolvedIngressRule } from '../decide/network-policy.ts';
import {
  type ClusterDocument,
  type IngressPeer,
  type IngressPort,
  type IngressRule,
  type NetworkPolicyDocument,
  namespaceNameLabel,
  type PodDocument,
} from '../documents/types.ts';
import { cidrOf, type NetworkEntry, networkSet } from '../networks.ts';
import { type Labels, type Selector, selectorText, selects } from '../selectors.ts';
import type { PortRange } from '../workload.ts';
import { nameThePort } from './link-servers.ts';
import { byText, inSlices, type Linking, refOf } from './linking.ts';

/**
 * The NetworkPolicies that select the pod, with their peers resolved to addresses. Whatever cannot be resolved (a pod that
 * is not listed, a namespace whose labels are not known, a port that the pod does not name) opens nothing.
 */
export function* linkNetworkPolicies(linking: Linking): Generator<void, NetworkIsolation, void> {
  const cluster = new Cluster(linking);
  const isolating: NetworkPolicyDocument[] = [];
  const consider = (policy: NetworkPolicyDocument): void => {
    if (isolates(policy, linking, cluster)) isolating.push(policy);
  };
  // Each may be compared with every pod of the namespace.
  const weight = 1 + cluster.podsOf(linking.workload.namespace).length / 100;
  yield* inSlices(linking.index.networkPolicies, consider, () => weight);
  isolating.sort((a, b) => byText(a.name, b.name));
  const openings: ResolvedIngressRule[] = [];
  for (const policy of isolating) openings.push(...(yield* new PolicyLinker(policy, linking, cluster).openings()));
  const { workload } = linking;
  const own = cluster.pod(workload.namespace, workload.podName);
  const always = [...workload.ips, ...workload.nodeIps, ...(own?.spec.nodeIps ?? [])];
  return yield* NetworkIsolation.compile({
    policies: isolating.map(refOf),
    openings,
    alwaysAdmitted: always.map(cidrOf),
    whoHas: cluster.whoHas(),
  });
}

/** A selector that cannot be read is taken to select the pod. */
function isolates(policy: NetworkPolicyDocument, linking: Linking, cluster: Cluster): boolean {
  const { podSelector, ingress, egress } = policy.spec;
  const { labels, podName } = linking.workload;
  const selected = podSelector === null || selects(podSelector, labels);
  if (!selected) {
    const listed = cluster.podsOf(policy.namespace);
    if (listed.length === 0) {
      const hint = 'Compare it with the labels of the pod; a folder may hold NetworkPolicies of other pods too.';
      const message = `the podSelector does not select pod ${podName}`;
      linking.warn(policy, ['spec', 'podSelector'], 'selects-no-pod', message, hint);
    } else if (!listed.some((pod) => selects(podSelector, cluster.labels(pod)))) {
      const message = `the podSelector selects none of the ${listed.length} pods known in namespace ${policy.namespace}`;
      const hint = 'Compare it with the labels of the pods that it is to protect.';
      linking.warn(policy, ['spec', 'podSelector'], 'selects-no-known-pod', message, hint);
    }
    return false;
  }
  if (egress) {
    const message = ingress
      ? 'its egress rules are not enforced here, only ingress is'
      : 'it is about egress only, so it has no effect here';
    const hint = 'Egress is left to the network plugin of the cluster.';
    linking.warn(policy, ['spec', 'policyTypes'], 'egress-not-enforced', message, hint);
  }
  return ingress;
}

/** Resolves one policy, and points at what cannot be resolved. */
class PolicyLinker {
  readonly #policy: NetworkPolicyDocument;
  readonly #linking: Linking;
  readonly #cluster: Cluster;

  constructor(policy: NetworkPolicyDocument, linking: Linking, cluster: Cluster) {
    this.#policy = policy;
    this.#linking = linking;
    this.#cluster = cluster;
  }

  *openings(): Generator<void, ResolvedIngressRule[], void> {
    const { podSelector, rules } = this.#policy.spec;
    if (rules.length === 0) {
      const why = podSelector === null ? 'nobody: its podSelector cannot be read' : 'nobody: it has no ingress rules';
      return [closedOpening(refOf(this.#policy), 'spec.ingress', why)];
    }
    this.#warnOfMissingListing();
    const openings: ResolvedIngressRule[] = [];
    for (const [i, rule] of rules.entries()) openings.push(yield* this.#opening(rule, i));
    return openings;
  }

  *#opening(rule: IngressRule, i: number): Generator<void, ResolvedIngressRule, void> {
    const policy = refOf(this.#policy);
    const path = `spec.ingress[${i}]`;
    if (rule.sealed) return closedOpening(policy, path, 'nobody: the rule cannot be read');
    const ports = rule.ports?.flatMap((port, j) => this.#ranges(port, ['spec', 'ingress', i, 'ports', j])) ?? null;
    const portsText = rule.ports === null ? 'any port' : portsTextOf(rule.ports);
    if (rule.from === null) return { policy, path, ports, portsText, from: null };
    const entries: NetworkEntry[] = [];
    for (const [j, peer] of rule.from.entries()) {
      if (peer.kind === 'block') {
        entries.push(peer.block);
        continue;
      }
      const before = entries.length;
      let withoutAddress = 0;
      yield* inSlices(this.#cluster.candidates(peer, this.#policy.namespace), (pod) => {
        if (peer.pods !== null && !selects(peer.pods, this.#cluster.labels(pod))) return;
        if (pod.spec.ips.length === 0) withoutAddress += 1;
        for (const ip of pod.spec.ips) entries.push({ network: cidrOf(ip), except: [] });
      });
      if (entries.length === before) this.#warnOfNobody(peer, withoutAddress, ['spec', 'ingress', i, 'from', j]);
    }
    const text = rule.from.map((peer) => peerText(peer, this.#policy.namespace)).join(', or ');
    return { policy, path, ports, portsText, from: networkSet(entries, [], text) };
  }

  #ranges(port: IngressPort, path: readonly (string | number)[]): readonly PortRange[] {
    if ('first' in port) return [port];
    const { workload, hints } = this.#linking;
    const numbers = workload.namedPorts.get(port.name) ?? [];
    if (numbers.length === 0) {
      const message = `pod ${workload.podName} has no port named "${port.name}", so this opens none`;
      const hint = hints.for(port.name, () => workload.namedPorts.keys()) || nameThePort(port.name);
      this.#linking.warn(this.#policy, path, 'port-name-unknown', message, hint);
    }
    return numbers.map((number) => ({ first: number, last: number }));
  }

  #warnOfMissingListing(): void {
    const peers = this.#policy.spec.rules.flatMap(({ from }) => from ?? []);
    const needs = peers.some(({ kind }) => kind === 'pods');
    if (!needs || this.#cluster.listsPods) return;
    this.#linking.warn(
      this.#policy,
      ['spec', 'podSelector'],
      'no-pods-known',
      'its peers are selected by labels, but no Pod is listed in the policy files, so these let nobody in',
      listHint,
    );
  }

  #warnOfNobody(
    peer: IngressPeer & { kind: 'pods' },
    withoutAddress: number,
    path: readonly (string | number)[],
  ): void {
    if (!this.#cluster.listsPods) return;
    const text = peerText(peer, this.#policy.namespace);
    const message =
      withoutAddress === 0
        ? `${text}: no pod that is listed is selected, so this lets nobody in`
        : `${text}: the selected pods have no address of their own, so this lets nobody in`;
    const hint =
      withoutAddress > 0
        ? 'Pods that are finished, not yet started, or on the network of their node cannot be told by an address.'
        : this.#cluster.lacksLabels(peer)
          ? `The labels of namespaces are not known. ${listHint}`
          : 'Compare it with the labels of the pods and namespaces, and renew their listing if it is old.';
    this.#linking.warn(this.#policy, path, 'peer-selects-nobody', message, hint);
  }
}

const listHint = 'Put the output of `kubectl get pods,namespaces -A -o yaml` beside the policy.';

/** The pods and namespaces that the files list. */
class Cluster {
  readonly #linking: Linking;
  readonly listsPods: boolean;
  /** Every rule asks for them again. */
  readonly #labels = new Map<ClusterDocument, Labels>();

  constructor(linking: Linking) {
    this.#linking = linking;
    this.listsPods = linking.index.pods.size > 0;
  }

  labels(document: ClusterDocument): Labels {
    let labels = this.#labels.get(document);
    if (labels === undefined) {
      labels = new Map(document.labels);
      this.#labels.set(document, labels);
    }
    return labels;
  }

  podsOf(namespace: string): readonly PodDocument[] {
    return this.#linking.index.pods.get(namespace) ?? [];
  }

  pod(namespace: string, name: string): PodDocument | undefined {
    return this.podsOf(namespace).find((pod) => pod.name === name);
  }

  /** The pods of all namespaces that a peer selects. */
  *candidates({ namespaces }: IngressPeer & { kind: 'pods' }, own: string): Generator<PodDocument, void, void> {
    if (namespaces === null) {
      yield* this.podsOf(own);
      return;
    }
    for (const [name, pods] of this.#linking.index.pods) {
      if (this.#selectsNamespace(namespaces, name)) yield* pods;
    }
  }

  /**
   * Of a namespace that is not listed only the name is known: a selector that asks for more does not select it, not even
   * one that asks for the absence of a label.
   */
  #selectsNamespace(selector: Selector, name: string): boolean {
    const document = this.#linking.index.namespaces.get(name);
    if (document !== undefined) return selects(selector, this.labels(document));
    return !asksForLabels(selector) && selects(selector, new Map([[namespaceNameLabel, name]]));
  }

  lacksLabels({ namespaces }: IngressPeer & { kind: 'pods' }): boolean {
    return namespaces !== null && asksForLabels(namespaces) && this.#linking.index.namespaces.size === 0;
  }

  /** Looks addresses up among those that are listed; the table is made at the first question. */
  whoHas(): (ip: IpAddress) => string {
    const { pods } = this.#linking.index;
    let table: Map<string, string> | undefined;
    return (ip) => {
      table ??= new Map(
        [...pods.values()]
          .flat()
          .flatMap(({ namespace, name, spec }) => spec.ips.map(({ text }) => [text, `${namespace}/${name}`])),
      );
      const pod = table.get(ip.text);
      return pod === undefined ? '' : ` (Pod ${pod})`;
    };
  }
}

function asksForLabels({ matchLabels, matchExpressions }: Selector): boolean {
  return [...matchLabels.map(([key]) => key), ...matchExpressions.map(({ key }) => key)].some(
    (key) => key !== namespaceNameLabel,
  );
}

function peerText(peer: IngressPeer, own: string): string {
  if (peer.kind === 'block') {
    const { network, except } = peer.block;
    return networkSet([{ network, except }], []).text;
  }
  const pods = peer.pods === null ? 'pods' : `pods ${selectorText(peer.pods)}`;
  const where = peer.namespaces === null ? `namespace ${own}` : `namespaces ${selectorText(peer.namespaces)}`;
  return `${pods} of ${where}`;
}

function portsTextOf(ports: readonly IngressPort[]): string {
  if (ports.length === 0) return 'no TCP port';
  const texts = ports.map((port) => {
    if ('name' in port) return port.name;
    return port.first === port.last ? String(port.first) : `${port.first}-${port.last}`;
  });
  return `TCP ${texts.join(', ')}`;
}
