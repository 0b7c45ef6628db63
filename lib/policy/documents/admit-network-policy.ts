import type * as z from 'zod';
import { didYouMean } from '../nearest.ts';
import { type Cidr, contains, parseCidr } from '../networks.ts';
import { isLabelKey, isLabelValue, type Selector } from '../selectors.ts';
import { readSelector } from './admit.ts';
import { warnOfNetwork } from './admit-networks.ts';
import { type AdmissionReport, type Path, pathText, withInput } from './report.ts';
import { fieldsAt } from './shape-fields.ts';
import { type IngressPeerShape, type IngressPortShape, networkPolicyParts, type SelectorShape } from './shapes.ts';
import type { IngressPeer, IngressPort, IngressRule, NetworkPolicyDocument } from './types.ts';

/*
 * NetworkPolicy, networking.k8s.io/v1, with the API server's validation (pkg/apis/networking/validation of Kubernetes).
 * Such a document closes what it selects and its rules open it again, so that a document without effect would be an open
 * door. A fault therefore never takes it away: a rule that holds one opens nothing, and one outside the rules leaves a
 * policy that selects what it may have been meant to select and opens nothing at all.
 */

/** Stands for a NetworkPolicy that cannot be read: every pod of its namespace is closed. */
export const unreadablePolicy: NetworkPolicyDocument['spec'] = Object.freeze({
  podSelector: null,
  ingress: true,
  egress: false,
  rules: [],
});

/** Without a spec it selects every pod and has no rules, as the empty one. */
export function admitNetworkPolicy(spec: unknown, report: AdmissionReport): NetworkPolicyDocument['spec'] {
  const value = spec ?? {};
  const parts = networkPolicyParts.spec.safeParse(value, withInput);
  if (!parts.success) {
    const effect = 'the policy opens nothing';
    explainIssues(parts.error.issues, networkPolicyParts.spec, ['spec'], effect, report);
    return { ...unreadablePolicy, podSelector: readPodSelector(value, report) };
  }
  const { policyTypes, ingress, egress } = parts.data;
  const podSelector = readPodSelector(value, report);
  // A document that names no type means ingress, and egress where there are such rules.
  const isolates = policyTypes.length === 0 || policyTypes.includes('Ingress');
  if (!isolates && ingress.length > 0) {
    report.warn(
      'ingress-not-enforced',
      ['spec', 'policyTypes'],
      'policyTypes leaves out Ingress, so the ingress rules have no effect and no pod is closed by them',
      'Add Ingress to policyTypes.',
    );
  }
  return {
    podSelector,
    ingress: isolates,
    egress: policyTypes.includes('Egress') || egress.length > 0,
    rules: podSelector === null ? [] : ingress.map((rule, i) => readRule(rule, ['spec', 'ingress', i], report)),
  };
}

/** Absent, it selects every pod, as the empty one does (Kubernetes); null where it cannot be read. */
function readPodSelector(spec: unknown, report: AdmissionReport): Selector | null {
  if (typeof spec !== 'object' || spec === null) return null;
  const path: Path = ['spec', 'podSelector'];
  const shape = networkPolicyParts.podSelector.safeParse('podSelector' in spec ? spec.podSelector : {}, withInput);
  if (!shape.success) {
    const effect = 'the policy closes every pod of the namespace';
    explainIssues(shape.error.issues, networkPolicyParts.podSelector, path, effect, report);
    return null;
  }
  return selectorOf(shape.data, path, report);
}

/** Null, with the fault reported, for a selector that the API server would refuse. */
function selectorOf(shape: SelectorShape, path: Path, report: AdmissionReport): Selector | null {
  const expressions = shape.matchExpressions ?? [];
  let sound = true;
  const fault = (at: Path, message: string): void => {
    report.fault('selector', [...path, ...at], `${pathText([...path, ...at])} ${message}`);
    sound = false;
  };
  expressions.forEach(({ key, operator, values = [] }, i) => {
    const at: Path = ['matchExpressions', i];
    const takesValues = operator === 'In' || operator === 'NotIn';
    if (takesValues !== values.length > 0) fault(at, `${operator} ${takesValues ? 'needs' : 'must have no'} values`);
    if (!isLabelKey(key)) fault(at, `has key "${key}", which no label can have`);
    for (const one of values) if (!isLabelValue(one)) fault(at, `has value "${one}", which no label can have`);
  });
  for (const [key, one] of shape.matchLabels ?? []) {
    if (!isLabelKey(key) || !isLabelValue(one)) fault(['matchLabels', key], `"${one}" is not what a label can be`);
  }
  if (!sound) return null;
  // An empty list is no list here, unlike to Linkerd, in whose terms selectors are evaluated.
  const normal = expressions.map(({ values, ...rest }) => (values?.length ? { ...rest, values } : rest));
  return readSelector({ ...shape, matchExpressions: normal }, path, report);
}

const sealedRule: IngressRule = Object.freeze({ ports: [], from: [], sealed: true });

function readRule(value: unknown, path: Path, report: AdmissionReport): IngressRule {
  const shape = networkPolicyParts.rule.safeParse(value, withInput);
  if (!shape.success) {
    explainIssues(shape.error.issues, networkPolicyParts.rule, path, 'the rule opens nothing', report);
    return sealedRule;
  }
  const { ports, from } = shape.data;
  const openPorts = ports.map((port, i) => readPort(port, [...path, 'ports', i], report));
  const peers = from.map((peer, i) => readPeer(peer, [...path, 'from', i], report));
  if (openPorts.includes('faulty') || peers.includes('faulty')) return sealedRule;
  return {
    // An empty list says as little as none: every port, and everyone.
    ports: ports.length === 0 ? null : openPorts.filter((port) => typeof port === 'object'),
    from: from.length === 0 ? null : peers.filter((peer) => typeof peer === 'object'),
    sealed: false,
  };
}

function readPort(
  { protocol, port, endPort }: IngressPortShape,
  path: Path,
  report: AdmissionReport,
): IngressPort | 'not TCP' | 'faulty' {
  if (endPort !== undefined && (typeof port !== 'number' || endPort < port)) {
    const hint = 'Write port and endPort as numbers, the lower one first.';
    const at = [...path, 'endPort'];
    report.fault('end-port', at, `${pathText(at)} ends a range that has no numeric port below it`, hint);
    return 'faulty';
  }
  if (protocol !== 'TCP') return 'not TCP';
  if (port === undefined) return { first: 1, last: 65_535 };
  return typeof port === 'string' ? { name: port } : { first: port, last: endPort ?? port };
}

function readPeer(peer: IngressPeerShape, path: Path, report: AdmissionReport): IngressPeer | 'faulty' {
  const { podSelector, namespaceSelector, ipBlock } = peer;
  const selects = podSelector !== undefined || namespaceSelector !== undefined;
  if (selects === (ipBlock !== undefined)) {
    const hint = selects
      ? 'Make two items of it; either then opens.'
      : 'Leave out `from` to mean everyone; podSelector: {} means every pod of the namespace.';
    const what = selects ? 'has an ipBlock beside a selector' : 'names no peer';
    report.fault('peer', path, `${pathText(path)} ${what}`, hint);
    return 'faulty';
  }
  if (ipBlock !== undefined) return readBlock(ipBlock, [...path, 'ipBlock'], report);
  const pods = podSelector && selectorOf(podSelector, [...path, 'podSelector'], report);
  const namespaces = namespaceSelector && selectorOf(namespaceSelector, [...path, 'namespaceSelector'], report);
  if (pods === null || namespaces === null) return 'faulty';
  return { kind: 'pods', pods: pods ?? null, namespaces: namespaces ?? null };
}

/** An exception must lie inside its block and leave something of it. */
function readBlock(
  { cidr, except }: NonNullable<IngressPeerShape['ipBlock']>,
  path: Path,
  report: AdmissionReport,
): IngressPeer | 'faulty' {
  const network = readCidr(cidr, [...path, 'cidr'], report);
  const holes = except.map((text, i) => readCidr(text, [...path, 'except', i], report));
  if (network === null || holes.includes(null)) return 'faulty';
  const outside = holes.findIndex((hole) => hole === null || !contains(network, hole) || contains(hole, network));
  if (outside !== -1) {
    const hint = `An exception must lie inside ${network.text} and leave something of it.`;
    const wrong = holes[outside] as Cidr;
    const how = contains(wrong, network) ? 'covers the whole of' : 'is outside';
    report.fault('except', [...path, 'except', outside], `exception ${wrong.text} ${how} ${network.text}`, hint);
    return 'faulty';
  }
  return { kind: 'block', block: { network, except: holes as readonly Cidr[] } };
}

function readCidr(text: string, path: Path, report: AdmissionReport): Cidr | null {
  const cidr = parseCidr(text);
  if (typeof cidr !== 'string' && text.includes('/')) {
    warnOfNetwork(cidr, path, report);
    return cidr;
  }
  const message = typeof cidr === 'string' ? cidr : `"${text}" has no prefix length`;
  report.fault('cidr', path, message, `Write it as 10.0.0.0/8; one address is ${text.includes(':') ? '/128' : '/32'}.`);
  return null;
}

/** An unknown field is a fault too: without it the rule might open more than was meant. */
function explainIssues(
  issues: readonly z.core.$ZodIssue[],
  shape: z.ZodType,
  base: Path,
  effect: string,
  report: AdmissionReport,
): void {
  report.issues(
    issues.filter(({ code }) => code !== 'unrecognized_keys'),
    base,
    'fault',
  );
  for (const issue of issues) {
    if (issue.code !== 'unrecognized_keys') continue;
    const known = fieldsAt(shape, issue.path as Path);
    for (const key of issue.keys) {
      const at = [...base, ...(issue.path as Path), key];
      const hint = didYouMean(key, known, `Known here: ${known.join(', ')}.`);
      report.fault('unknown-field', at, `unknown field ${pathText(at)}: ${effect}`, hint);
    }
  }
}

/** Fields that linking may have to point at; tolerant of any value, for it is asked before the value is validated. */
export function networkPolicyMarks(spec: unknown): readonly Path[] {
  const marks: Path[] = [
    ['spec', 'podSelector'],
    ['spec', 'policyTypes'],
  ];
  list(field(spec, 'ingress')).forEach((rule, i) => {
    for (const name of ['ports', 'from']) {
      list(field(rule, name)).forEach((_, j) => void marks.push(['spec', 'ingress', i, name, j]));
    }
  });
  return marks;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
