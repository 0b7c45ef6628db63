import { type Environment, VariableReader } from '../lib/config/variables.ts';
import { compileNow, type PolicyIndex } from '../lib/policy/compile/compile.ts';
import type { Judged } from '../lib/policy/documents/allowed.ts';
import { isClusterDocument, type PolicyDocument } from '../lib/policy/documents/types.ts';
import { type Selector, selects } from '../lib/policy/selectors.ts';
import type { Workload } from '../lib/policy/workload.ts';
import type { Problem } from '../lib/problem.ts';
import type { PolicyLoad } from '../lib/reload/load.ts';
import { Review } from '../lib/review/review.ts';

/** So many supposed pods are tried; each costs a compile of all documents. Of many documents some fewer, and a few at least. */
const mostPods = 100;
const fewestPods = 10;
const mostCompiled = 100_000;
/** Labels that are tried beside those that selectors ask for. */
const mostBeside = 20;

export interface LinkingFound extends Judged {
  /** Selectors of which no pod was tried. */
  readonly untried: number;
  /** Rules of routes of which it is not known whether any request finds them. */
  readonly unexamined: number;
  /** Whether every pod was tried that the documents select. */
  readonly everyPod: boolean;
}

/**
 * How the documents point at each other, as seen from the pod; or, where the environment does not say which pod, from
 * every pod that their Servers and NetworkPolicies select. Without that, a check outside a cluster would find that nothing selects
 * anything, and no more: not two Servers on one port, not an HTTPRoute on an opaque one. `trying` is called before each pod.
 */
export function linkingProblems(
  { documents, broken }: Pick<PolicyLoad, 'documents' | 'broken'>,
  workload: Workload,
  env: Environment,
  trying: (pod: number, of: number) => void,
): LinkingFound {
  const isSet = (...names: string[]): boolean => names.some((name) => (env[name]?.trim() ?? '') !== '');
  const known = {
    namespace: isSet('SALLYPORT_POD_NAMESPACE', 'SALLYPORT_POD_MANIFEST'),
    labels: isSet('SALLYPORT_POD_LABELS', 'SALLYPORT_POD_LABELS_FILE', 'SALLYPORT_POD_MANIFEST'),
    ports: isSet('SALLYPORT_POD_PORTS', 'SALLYPORT_POD_MANIFEST'),
  };
  const namedPorts = known.ports ? workload.namedPorts : withNames(workload.namedPorts, documents);
  const policies = documents.filter((document) => !isClusterDocument(document));
  const namespaces = known.namespace
    ? [workload.namespace]
    : [...new Set([workload.namespace, ...policies.map(({ namespace }) => namespace)])];
  const pods = namespaces.flatMap((namespace) =>
    (known.labels ? [workload.labels] : labelsSelected(policies, namespace)).map((labels) => ({
      ...workload,
      namespace,
      labels,
      namedPorts,
    })),
  );
  const found = { problems: new Map<string, Problem>(), allowed: new Map<string, Problem>() };
  const most = Math.max(fewestPods, Math.min(mostPods, Math.floor(mostCompiled / Math.max(1, documents.length))));
  const tried = pods.slice(0, most);
  const review = new Review(documents);
  for (const [i, pod] of tried.entries()) {
    trying(i + 1, tried.length);
    // Of a supposed pod of another namespace it says nothing that this one is not for it.
    const isOwn = pod.namespace === workload.namespace && (known.namespace || known.labels || known.ports);
    const compiled = compileNow(documents, pod);
    review.pod(compiled.index);
    for (const part of ['problems', 'allowed'] as const) {
      for (const problem of compiled[part]) {
        if (isOwn || problem.code !== 'other-namespace') found[part].set(JSON.stringify(problem), problem);
      }
    }
  }
  // Of a supposed pod it says nothing that another Server's pod is not selected, and that no Server has a port.
  const says = ({ code, resource }: Problem): boolean =>
    known.labels || (code !== 'selects-no-pod' && resource !== null);
  const reviewed = review.findings(workload);
  const all = (part: 'problems' | 'allowed'): Problem[] =>
    [...found[part].values()].filter(says).concat(reviewed[part]);
  const problems = [...all('problems'), ...auditByDefault(workload, env)];
  // Of a broken load nobody knows which Servers are missing, and the proxy lets no default policy hold in their place.
  if (known.labels && !broken)
    problems.push(...listenersWithoutServer(compileNow(documents, pods[0] ?? workload).index, env));
  const untried = pods.length - tried.length;
  const everyPod = untried === 0 && !known.labels && !known.namespace;
  return { problems, allowed: all('allowed'), untried, unexamined: review.unexamined, everyPod };
}

/** It stands in no document. */
function auditByDefault({ defaultPolicy }: Workload, env: Environment): Problem[] {
  if (defaultPolicy !== 'audit') return [];
  const variable = 'SALLYPORT_DEFAULT_INBOUND_POLICY';
  const file = env[variable] === undefined ? 'SALLYPORT_POD_MANIFEST' : variable;
  const message = 'the default inbound policy audit lets everyone in where no Server has the port, and only says so';
  return [{ severity: 'warning', code: 'audit-left-on', message, file, line: 1, column: 1, resource: null, hint: '' }];
}

/**
 * The labels of one pod for each distinct selector, and of those that it selects and another one does not, for what it may lack;
 * at least one pod without any, and so, too, where there are NetworkPolicies: of those that do not select it is said whether they
 * select any pod that is listed.
 */
function labelsSelected(documents: readonly PolicyDocument[], namespace: string): ReadonlyMap<string, string>[] {
  const bySelector = new Map<string, ReadonlyMap<string, string>>();
  const add = (selector: Selector, labels: ReadonlyMap<string, string>): void => {
    if (selects(selector, labels)) bySelector.set(JSON.stringify([...labels].sort()), labels);
  };
  const selectors: Selector[] = [];
  for (const document of documents) {
    if (document.namespace !== namespace) continue;
    if (document.kind !== 'Server' && document.kind !== 'NetworkPolicy') continue;
    if (document.kind === 'NetworkPolicy') bySelector.set('[]', new Map());
    if (document.spec.podSelector !== null) selectors.push(document.spec.podSelector);
  }
  for (const selector of selectors) add(selector, labelsFor(selector));
  const beside = selectors.flatMap(labelsBeside);
  const more = [...new Map(beside.map((label) => [label.join('='), label])).values()].slice(0, mostBeside);
  for (const selector of selectors) {
    const labels = labelsFor(selector);
    for (const [key, value] of more) add(selector, new Map([[key, value], ...labels]));
    add(selector, new Map([...more, ...labels]));
  }
  return bySelector.size === 0 ? [new Map()] : [...bySelector.values()];
}

/** Labels that tell pods apart which have none of those that selectors ask for, or the first of several. */
function labelsBeside({ matchExpressions }: Selector): (readonly [key: string, value: string])[] {
  return matchExpressions.flatMap(({ key, operator, values }) => {
    if (operator === 'DoesNotExist') return [[key, ''] as const];
    if (operator === 'Exists') return [];
    return (values ?? []).slice(operator === 'In' ? 1 : 0).map((value) => [key, value] as const);
  });
}

function labelsFor({ matchLabels, matchExpressions }: Selector): ReadonlyMap<string, string> {
  const labels = new Map(matchLabels);
  for (const { key, operator, values } of matchExpressions) {
    if (labels.has(key)) continue;
    if (operator === 'In') labels.set(key, values?.[0] ?? '');
    if (operator === 'Exists') labels.set(key, '');
  }
  return labels;
}

/**
 * Gives every port name that a Server or an ingress rule uses a port of its own. A name of digits stays unknown: it is a
 * quoted number.
 */
function withNames(given: Workload['namedPorts'], documents: readonly PolicyDocument[]): Workload['namedPorts'] {
  const used = documents.flatMap(portsUsed);
  const taken = new Set(used);
  const ports = new Map(given);
  let next = 65_535;
  for (const port of used) {
    if (typeof port === 'number' || ports.has(port) || /^\d+$/.test(port)) continue;
    while (taken.has(next)) next -= 1;
    ports.set(port, [next]);
    next -= 1;
  }
  return ports;
}

function portsUsed(document: PolicyDocument): readonly (number | string)[] {
  if (document.kind === 'Server') return document.spec.port === null ? [] : [document.spec.port];
  if (document.kind !== 'NetworkPolicy') return [];
  return document.spec.rules
    .flatMap(({ ports }) => ports ?? [])
    .map((port) => ('name' in port ? port.name : port.first));
}

/** Explicit listeners on which no document has a say. */
function listenersWithoutServer(index: PolicyIndex, env: Environment): Problem[] {
  const listeners = new VariableReader(env).get('SALLYPORT_INBOUND_PORTS') ?? [];
  const ports = [...new Set(listeners.map(({ policyPort }) => policyPort))];
  return ports.flatMap((port): Problem[] => {
    const { server } = index.port(port);
    if (server.kind !== 'default') return [];
    const message = `no Server of this pod has port ${port}, so the default inbound policy ${server.name} holds there`;
    const place = { file: 'SALLYPORT_INBOUND_PORTS', line: 1, column: 1, resource: null };
    return [{ severity: 'warning', code: 'port-without-server', message, ...place, hint: '' }];
  });
}
