import { isDeepStrictEqual } from 'node:util';
import type { SourceDocument } from '../policy/documents/read.ts';
import { readPod } from '../policy/pod.ts';
import { probeText } from '../policy/probes.ts';
import type { Problem } from '../problem.ts';
import { readYaml } from '../yaml.ts';
import { conflicts, reasonToSkip } from './conflicts.ts';
import { type PodTemplate, podTemplates } from './pod-template.ts';
import {
  type InjectRecord,
  injectedAnnotation,
  type PlaceName,
  places,
  readRecord,
  recordAnnotation,
  removals,
} from './record.ts';
import { type InjectSettings, podSettings, type TemplateFault } from './settings.ts';
import { isListable, sidecar } from './sidecar.ts';
import { type Change, NotEditable, type Place, valueAt, YamlText } from './yaml-edit.ts';

/** One file, or standard input. */
export interface ManifestText {
  readonly file: string;
  readonly text: string;
}

export interface WorkloadReport {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly outcome: 'injected' | 'updated' | 'unchanged' | 'uninjected' | 'skipped';
  /** Why it was skipped; the version that stood there before an update. Empty otherwise. */
  readonly detail: string;
}

export interface InjectResult {
  /** One for each source, in order. Not to be used where there is an error: a workload would be left unguarded. */
  readonly texts: readonly string[];
  readonly workloads: readonly WorkloadReport[];
  readonly problems: readonly Problem[];
}

/** One pod template with the document that holds it. */
interface Found {
  readonly source: SourceDocument;
  /** The place of the document among those of its text. */
  readonly document: number;
  readonly template: PodTemplate;
  readonly namespace: string;
}

/**
 * Puts Sallyport into every pod of the texts. An injection of before is taken out first, by its own record, so that
 * twice is as once, and another version or other flags replace it. Text that holds no pod is not touched.
 */
export function inject(sources: readonly ManifestText[], settings: InjectSettings): InjectResult {
  const stripped = uninject(sources, settings.namespace);
  if (hasErrors(stripped.problems)) return stripped;
  const problems: Problem[] = [...stripped.problems];
  const workloads: WorkloadReport[] = [];
  const namespaces = namespaceAnnotations(sources.flatMap(({ file, text }) => readYaml(text, file).documents));
  const texts = sources.map(({ file, text: original }, index) => {
    const text = stripped.texts[index] ?? '';
    const before = pods(readYaml(original, file).documents, settings.namespace).found;
    const { found, doubts } = pods(readYaml(text, file).documents, settings.namespace);
    problems.push(...doubts);
    const yaml = new YamlText(text);
    const changes = new Map<number, Change[]>();
    const plans = found.map((pod, position) => {
      // Where it stands in what the user wrote, which is the text before anything was taken out.
      const written = before[position] ?? pod;
      const plan = planOf(pod, yaml, settings, namespaces.get(pod.namespace) ?? {});
      problems.push(...plan.faults.map((fault) => problemOf(written, fault)));
      changes.set(pod.document, [...(changes.get(pod.document) ?? []), ...plan.additions]);
      return { written, reason: plan.reason };
    });
    if (hasErrors(problems)) return text;
    const result = edited(file, problems, () => yaml.apply(changes));
    if (result === null) return text;
    // The promise of --uninject, kept before the text is handed out.
    if (uninject([{ file, text: result }], settings.namespace).texts[0] !== text) {
      problems.push(fileProblem(file, 1, 1, 'what is added here could not be taken out again as it was'));
      return text;
    }
    const after = pods(readYaml(result, file).documents, settings.namespace).found;
    for (const [position, { written, reason }] of plans.entries()) {
      const { template } = after[position] ?? written;
      workloads.push(reason === null ? outcomeOf(written, template) : reportOf(written, 'skipped', reason));
    }
    return result;
  });
  return { texts, workloads, problems };
}

/** Takes Sallyport out of every pod that has it, as the record in the pod says. */
export function uninject(sources: readonly ManifestText[], namespace: string): InjectResult {
  const problems: Problem[] = [];
  const workloads: WorkloadReport[] = [];
  const texts = sources.map(({ file, text }) => {
    const read = readYaml(text, file);
    problems.push(...read.problems);
    if (hasErrors(read.problems)) return text;
    const changes = new Map<number, Change[]>();
    for (const pod of pods(read.documents, namespace).found) {
      const { record, fault } = readRecord(pod.template.pod);
      if (fault !== null) {
        const path = [...places.annotations, recordAnnotation];
        const message = `${recordAnnotation} cannot be read: ${fault}`;
        const hint = 'Take out by hand what an injection has added, with this annotation.';
        problems.push(problemOf(pod, { severity: 'error', code: 'record', path, message, hint }));
      }
      if (record === null) continue;
      changes.set(pod.document, [...(changes.get(pod.document) ?? []), ...removals(pod.template, record)]);
      workloads.push(reportOf(pod, 'uninjected', ''));
    }
    if (hasErrors(problems) || changes.size === 0) return text;
    return edited(file, problems, () => new YamlText(text).apply(changes)) ?? text;
  });
  return { texts, workloads, problems };
}

/** `config.linkerd.io/*` and `linkerd.io/*` of the Namespaces in the stream: what Linkerd's injector would hand on. */
function namespaceAnnotations(
  documents: readonly SourceDocument[],
): ReadonlyMap<string, Readonly<Record<string, unknown>>> {
  const found = new Map<string, Readonly<Record<string, unknown>>>();
  const visit = (value: unknown): void => {
    const items = valueAt(value, ['items']);
    if (Array.isArray(items)) for (const item of items) visit(item);
    if (valueAt(value, ['kind']) !== 'Namespace') return;
    const annotations = valueAt(value, ['metadata', 'annotations']);
    if (typeof annotations !== 'object' || annotations === null) return;
    found.set(String(valueAt(value, ['metadata', 'name'])), annotations as Record<string, unknown>);
  };
  for (const { value } of documents) visit(value);
  return found;
}

function pods(
  documents: readonly SourceDocument[],
  namespace: string,
): { readonly found: readonly Found[]; readonly doubts: readonly Problem[] } {
  const found: Found[] = [];
  const doubts: Problem[] = [];
  for (const [document, source] of documents.entries()) {
    const { templates, unknown } = podTemplates(source.value);
    for (const template of templates) {
      found.push({ source, document, template, namespace: template.workload.namespace ?? namespace });
    }
    for (const { path, kind } of unknown) {
      const { line, column } = source.position(path);
      const message = `${kind} has a pod template but is no kind that is known here; its pods are left unguarded`;
      const hint = 'Guard its pods by hand, or let another kind make them.';
      const { file } = source;
      doubts.push({ severity: 'warning', code: 'unknown-workload', message, file, line, column, resource: null, hint });
    }
  }
  return { found, doubts };
}

interface Plan {
  readonly additions: readonly Change[];
  /** Not null: the pod is left as it is. */
  readonly reason: string | null;
  readonly faults: readonly TemplateFault[];
}

/** What to add to one pod, from which an older injection has been taken out. With an error nothing is added. */
function planOf(
  { document, template }: Found,
  yaml: YamlText,
  settings: InjectSettings,
  ofNamespace: Readonly<Record<string, unknown>>,
): Plan {
  const { pod, path } = template;
  const own = (valueAt(pod, places.annotations) ?? {}) as Readonly<Record<string, unknown>>;
  const reason = reasonToSkip(pod, own, ofNamespace);
  if (reason !== null) return { additions: [], reason, faults: [] };

  // The very reading that a Pod manifest gets, so that what is carried over cannot differ from it.
  const read = readPod({ kind: 'Pod', metadata: null, spec: pod.spec ?? null });
  const { facts } = read;
  const faults: TemplateFault[] = [...read.problems, ...conflicts(template, settings, own, ofNamespace)];
  if (facts === null) return { additions: [], reason: null, faults };
  for (const [port, ofPort] of facts.probes) {
    for (const probe of ofPort.filter((each) => !isListable(each))) {
      const message = `the probe ${probeText(port, probe)} has a comma in its path and cannot be carried over`;
      const hint = 'Where policy governs the port, authorize the path by a route of its own.';
      faults.push({ severity: 'warning', code: 'probe-path', path: ['spec'], message, hint });
    }
  }
  const stated = podSettings(settings, own, ofNamespace, facts.namedPorts);
  faults.push(...stated.faults);
  if (hasErrors(faults)) return { additions: [], reason: null, faults };

  const { terminationGracePeriodSeconds } = pod.spec ?? {};
  const parts = sidecar(settings, { settings: stated.settings, facts, terminationGracePeriodSeconds });
  try {
    return {
      additions: additionsOf(yaml, document, path, parts, scrapeAnnotations(own, settings), settings),
      reason,
      faults,
    };
  } catch (error) {
    if (!(error instanceof NotEditable)) throw error;
    faults.push({ severity: 'error', code: 'not-editable', path: [], message: error.message, hint: writeOut });
    return { additions: [], reason: null, faults };
  }
}

const writeOut = 'Write it out in place of the alias or merge key.';

function additionsOf(
  yaml: YamlText,
  document: number,
  path: PodTemplate['path'],
  { initContainers, volumes }: ReturnType<typeof sidecar>,
  scrape: Readonly<Record<string, string>>,
  settings: InjectSettings,
): Change[] {
  const created: PlaceName[] = [];
  const replaced: Partial<Record<PlaceName, string>> = {};
  const look = (name: PlaceName): Place['kind'] => {
    const place = yaml.place(document, [...path, ...places[name]]);
    if (place.kind === 'absent') created.push(name);
    if (place.kind === 'void') replaced[name] = place.source;
    return place.kind;
  };
  if (look('metadata') === 'filled') look('annotations');
  else created.push('annotations');
  look('initContainers');
  look('volumes');
  const annotations: Record<string, string> = { [injectedAnnotation]: settings.version, ...scrape };
  const record: InjectRecord = {
    annotations: [...Object.keys(annotations), recordAnnotation],
    initContainers: initContainers.map(({ name }) => String(name)),
    volumes: volumes.map(({ name }) => String(name)),
    created,
    replaced,
  };
  annotations[recordAnnotation] = JSON.stringify(record);

  const changes: Change[] = [];
  const spec: Record<string, unknown> = {};
  const add = (name: 'initContainers' | 'volumes', items: readonly unknown[]): void => {
    if (created.includes(name)) spec[name] = items;
    else changes.push({ kind: 'add', path: [...path, ...places[name]], items });
  };
  if (created.includes('metadata')) changes.push({ kind: 'add', path, entries: { metadata: { annotations } } });
  else if (created.includes('annotations')) {
    changes.push({ kind: 'add', path: [...path, ...places.metadata], entries: { annotations } });
  } else changes.push({ kind: 'add', path: [...path, ...places.annotations], entries: annotations });
  add('initContainers', initContainers);
  add('volumes', volumes);
  if (Object.keys(spec).length > 0) changes.push({ kind: 'add', path: [...path, 'spec'], entries: spec });
  return changes;
}

/** All three or none: one of ours beside one of the user's would send the scraper to a place that neither meant. */
function scrapeAnnotations(
  own: Readonly<Record<string, unknown>>,
  { adminPort }: InjectSettings,
): Readonly<Record<string, string>> {
  const ours = {
    'prometheus.io/scrape': 'true',
    'prometheus.io/port': String(adminPort),
    'prometheus.io/path': '/metrics',
  };
  return Object.keys(ours).some((name) => Object.hasOwn(own, name)) ? {} : ours;
}

function outcomeOf(written: Found, after: PodTemplate): WorkloadReport {
  const old = valueAt(written.template.pod, [...places.annotations, injectedAnnotation]);
  if (readRecord(written.template.pod).record === null) return reportOf(written, 'injected', '');
  const same = isDeepStrictEqual(written.template.pod, after.pod);
  return same ? reportOf(written, 'unchanged', '') : reportOf(written, 'updated', `was ${String(old)}`);
}

function reportOf(
  { source, template: { workload, workloadPath }, namespace }: Found,
  outcome: WorkloadReport['outcome'],
  detail: string,
): WorkloadReport {
  const { line } = source.position(workloadPath);
  return { kind: workload.kind, namespace, name: workload.name, file: source.file, line, outcome, detail };
}

function problemOf({ source, template, namespace }: Found, fault: TemplateFault): Problem {
  const { path, ...stated } = fault;
  const { line, column } = source.position([...template.path, ...path]);
  const { kind, name } = template.workload;
  return { ...stated, file: source.file, line, column, resource: { kind, namespace, name } };
}

function fileProblem(file: string, line: number, column: number, message: string): Problem {
  return { severity: 'error', code: 'not-editable', message, file, line, column, resource: null, hint: writeOut };
}

/** Null, with a problem, where the text cannot be changed as it is written. */
function edited(file: string, problems: Problem[], edit: () => string): string | null {
  try {
    return edit();
  } catch (error) {
    if (!(error instanceof NotEditable)) throw error;
    problems.push(fileProblem(file, error.line, error.column, error.message));
    return null;
  }
}

function hasErrors(problems: readonly { readonly severity: Problem['severity'] }[]): boolean {
  return problems.some(({ severity }) => severity === 'error');
}
