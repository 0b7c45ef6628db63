import { isDeepStrictEqual } from 'node:util';
import type { SourceDocument } from '../policy/documents/read.ts';
import { type FieldPath, valueAt } from '../policy/field-path.ts';
import { kubeletPath } from '../policy/kubelet-path.ts';
import { type PodFacts, readPod } from '../policy/pod.ts';
import { probeText } from '../policy/probes.ts';
import type { Problem } from '../problem.ts';
import { readYaml } from '../yaml.ts';
import { conflicts, reasonToSkip } from './conflicts.ts';
import { type NamespaceFacts, namespaceFacts, unknownNamespace } from './namespaces.ts';
import type { PodOptions } from './options.ts';
import { type IdleAnnotation, idleAnnotations, strayAnnotations } from './other-annotations.ts';
import { type PodTemplate, podTemplates, serviceAccountOf } from './pod-template.ts';
import {
  type InjectRecord,
  injectedAnnotation,
  type ListName,
  lists,
  type PlaceName,
  places,
  readRecord,
  recordAnnotation,
  removals,
} from './record.ts';
import { type Annotations, type InjectSettings, podOptions, type TemplateFault } from './settings.ts';
import { isListable, type Sidecar, sidecar } from './sidecar.ts';
import { closedPorts, scrapeDoubts } from './what-closes.ts';
import type { Change } from './yaml-changes.ts';
import { NotEditable, type Place, YamlText } from './yaml-edit.ts';

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
  /**
   * Why it was skipped, or left out after all; the version that stood there before an update; of an injected pod, its ports that
   * nobody reaches before a Server permits it. Empty otherwise.
   */
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
  const stripped = uninject(sources, settings);
  if (hasErrors(stripped.problems)) return { ...stripped, workloads: [] };
  const problems: Problem[] = [...stripped.problems];
  const workloads: WorkloadReport[] = [];
  const stated = namespaceFacts(sources.flatMap(({ file, text }) => readYaml(text, file).documents));
  problems.push(...stated.problems);
  const texts = sources.map(({ file, text: original }, index) => {
    const text = stripped.texts[index] ?? '';
    const before = pods(readYaml(original, file).documents, settings).found;
    const { found, doubts } = pods(readYaml(text, file).documents, settings);
    problems.push(...doubts);
    const yaml = new YamlText(text);
    const changes = new Map<number, Change[]>();
    const plans = found.map((pod, position) => {
      // Where it stands in what the user wrote, which is the text before anything was taken out.
      const written = before[position] ?? pod;
      const plan = planOf(pod, yaml, settings, stated.namespaces.get(pod.namespace) ?? unknownNamespace);
      problems.push(...plan.faults.map((fault) => problemOf(written, fault)));
      changes.set(pod.document, [...(changes.get(pod.document) ?? []), ...plan.additions]);
      return { written, plan };
    });
    if (hasErrors(problems)) return text;
    const result = edited(file, problems, () => yaml.apply(changes));
    if (result === null) return text;
    // The promise of --uninject, kept before the text is handed out.
    if (uninject([{ file, text: result }], settings).texts[0] !== text) {
      problems.push(fileProblem(file, 1, 1, 'what is added here could not be taken out again as it was'));
      return text;
    }
    const after = pods(readYaml(result, file).documents, settings).found;
    for (const [position, { written, plan }] of plans.entries()) {
      const { template } = after[position] ?? written;
      workloads.push(plan.reason === null ? outcomeOf(written, template, plan) : leftOut(written, plan.reason));
    }
    return result;
  });
  return { texts, workloads, problems };
}

/** Takes Sallyport out of every pod that has it, as the record in the pod says. */
export function uninject(sources: readonly ManifestText[], settings: FindSettings): InjectResult {
  const problems: Problem[] = [];
  const workloads: WorkloadReport[] = [];
  const texts = sources.map(({ file, text }) => {
    const read = readYaml(text, file);
    problems.push(...read.problems);
    if (hasErrors(read.problems)) return text;
    const changes = new Map<number, Change[]>();
    for (const pod of pods(read.documents, settings).found) {
      const { record, fault } = readRecord(pod.template.pod);
      if (fault !== null) {
        const path = [...places.annotations, recordAnnotation];
        const message = `${recordAnnotation} cannot be read: ${fault}`;
        const hint = 'Take out by hand what an injection has added, with this annotation.';
        problems.push(problemOf(pod, { severity: 'error', code: 'record', path, message, hint }));
      }
      if (record === null) {
        if (fault === null) workloads.push(reportOf(pod, 'unchanged', ''));
        continue;
      }
      changes.set(pod.document, [...(changes.get(pod.document) ?? []), ...removals(pod.template, record)]);
      workloads.push(reportOf(pod, 'uninjected', ''));
    }
    if (hasErrors(problems) || changes.size === 0) return text;
    return edited(file, problems, () => new YamlText(text).apply(changes)) ?? text;
  });
  return { texts, workloads, problems };
}

/** What decides which pods are found in a text. */
type FindSettings = Pick<InjectSettings, 'namespace' | 'kinds' | 'unknownPods'>;

function pods(
  documents: readonly SourceDocument[],
  { namespace, kinds = [], unknownPods = 'refused' }: FindSettings,
): { readonly found: readonly Found[]; readonly doubts: readonly Problem[] } {
  const found: Found[] = [];
  const doubts: Problem[] = [];
  for (const [document, source] of documents.entries()) {
    const { templates, unknown } = podTemplates(source.value, kinds);
    for (const template of templates) {
      found.push({ source, document, template, namespace: template.workload.namespace ?? namespace });
    }
    for (const { path, kind } of unknown) {
      const { line, column } = source.position(path);
      const refused = unknownPods === 'refused';
      const message = `${kind} describes pods but is no kind that is known here; ${refused ? 'they would be' : 'they are'} left unguarded`;
      const hint =
        'Say where its pod template stands by --pod-template, or leave its pods unguarded by --allow-unguarded.';
      const severity = refused ? 'error' : 'warning';
      doubts.push({
        severity,
        code: 'unknown-workload',
        message,
        file: source.file,
        line,
        column,
        resource: null,
        hint,
      });
    }
  }
  return { found, doubts };
}

interface Plan {
  /** Ports of the pod that nobody reaches before a Server permits it. */
  readonly closed?: readonly number[];
  readonly additions: readonly Change[];
  /** Not null: the pod is left as it is. */
  readonly reason: string | null;
  readonly faults: readonly TemplateFault[];
}

/** What to add to one pod, from which an older injection has been taken out. With an error nothing is added. */
function planOf(
  { document, source, template }: Found,
  yaml: YamlText,
  settings: InjectSettings,
  namespace: NamespaceFacts,
): Plan {
  const { pod, path } = template;
  const { spec } = pod;
  const own = (valueAt(pod, places.annotations) ?? {}) as Annotations;
  const reason = reasonToSkip(pod, own, namespace);
  if (typeof reason === 'string') return { additions: [], reason, faults: [] };
  if (reason !== null) return { additions: [], reason: null, faults: [reason] };

  // As a Pod manifest is read, but for paths of probes: Linkerd knows fewer than the kubelet, and so keeps pods from being ready.
  const read = readPod({ kind: 'Pod', metadata: null, spec: spec ?? null }, kubeletPath);
  const { facts } = read;
  const names = { serviceAccount: serviceAccountOf(spec), ports: facts?.namedPorts ?? new Map() };
  const stated = podOptions(settings, own, namespace.annotations, names);
  const faults: TemplateFault[] = [
    ...read.problems,
    // What is no pod is read no further.
    ...(facts === null ? [] : conflicts(template, stated.options, own, namespace)),
    ...annotationDoubts(source.value, template, own),
    ...(facts === null ? [] : probeDoubts(facts)),
    ...stated.faults,
  ];
  if (facts === null || stated.options === null || hasErrors(faults)) return { additions: [], reason: null, faults };

  faults.push(...scrapeDoubts(own, stated.options));
  const parts = sidecar(settings, { options: stated.options, facts, spec });
  faults.push(...parts.faults);
  if (hasErrors(faults)) return { additions: [], reason: null, faults };
  try {
    const annotations = { [injectedAnnotation]: settings.version, ...scrapeAnnotations(own, stated.options) };
    const additions = additionsOf(yaml, document, path, parts.lists, annotations);
    return { additions, reason, closed: closedPorts(facts, stated.options), faults };
  } catch (error) {
    if (!(error instanceof NotEditable)) throw error;
    faults.push({ severity: 'error', code: 'not-editable', path: [], message: error.message, hint: writeOut });
    return { additions: [], reason: null, faults };
  }
}

/** Annotations that tell the sidecar nothing, on the pod and on whatever leads to it from the workload. */
function annotationDoubts(document: unknown, template: PodTemplate, own: Annotations): TemplateFault[] {
  const { path, workloadPath } = template;
  const doubt = ({ name, message, hint }: IdleAnnotation, at: FieldPath = []) =>
    ({
      severity: 'warning',
      code: 'idle-annotation',
      path: [...at, 'metadata', 'annotations', name],
      message,
      hint,
    }) as const;
  const way = path.slice(workloadPath.length);
  // A CronJob has metadata of its Jobs on the way to that of its pods.
  const stray = way.flatMap((_, length) => {
    const at = way.slice(0, length);
    const annotations = valueAt(document, [...workloadPath, ...at, 'metadata', 'annotations']);
    if (!isMapping(annotations)) return [];
    const found = strayAnnotations(annotations, String(at.at(-1) ?? 'workload'));
    return found.map((each) => ({ ...doubt(each, at), from: 'workload' as const }));
  });
  return [...idleAnnotations(own).map((each) => doubt(each)), ...stray];
}

function isMapping(value: unknown): value is Annotations {
  return typeof value === 'object' && value !== null;
}

function probeDoubts({ probes }: Pick<PodFacts, 'probes'>): TemplateFault[] {
  return [...probes].flatMap(([port, ofPort]) =>
    ofPort
      .filter((each) => !isListable(each))
      .map((probe) => ({
        severity: 'warning',
        code: 'probe-path',
        path: ['spec'],
        message: `the probe ${probeText(port, probe)} has a comma in its path and cannot be carried over`,
        hint: 'Where policy governs the port, authorize the path by a route of its own.',
      })),
  );
}

const writeOut = 'Write it out in place of the alias or merge key.';

function additionsOf(
  yaml: YamlText,
  document: number,
  path: PodTemplate['path'],
  added: Sidecar['lists'],
  annotations: Readonly<Record<string, string>>,
): readonly Change[] {
  const filled = lists.filter((name) => added[name].length > 0);
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
  for (const name of filled) look(name);
  const namesOf = (list: ListName): string[] => added[list].map(({ name }) => String(name));
  const record: InjectRecord = {
    annotations: [...Object.keys(annotations), recordAnnotation],
    initContainers: namesOf('initContainers'),
    volumes: namesOf('volumes'),
    // Left out where there is none: earlier versions then read the record as their own.
    ...(added.imagePullSecrets.length === 0 ? {} : { imagePullSecrets: namesOf('imagePullSecrets') }),
    created,
    replaced,
  };
  const entries = { ...annotations, [recordAnnotation]: JSON.stringify(record) };

  const changes: Change[] = [];
  if (created.includes('metadata'))
    changes.push({ kind: 'add', path, entries: { metadata: { annotations: entries } } });
  else if (created.includes('annotations')) {
    changes.push({ kind: 'add', path: [...path, ...places.metadata], entries: { annotations: entries } });
  } else changes.push({ kind: 'add', path: [...path, ...places.annotations], entries });
  const spec: Partial<Record<ListName, unknown>> = {};
  for (const name of filled) {
    if (created.includes(name)) spec[name] = added[name];
    else changes.push({ kind: 'add', path: [...path, ...places[name]], items: added[name] });
  }
  if (Object.keys(spec).length > 0) changes.push({ kind: 'add', path: [...path, 'spec'], entries: spec });
  return changes;
}

/** All three or none: one of ours beside one of the user's would send the scraper to a place that neither meant. */
function scrapeAnnotations(own: Annotations, options: PodOptions): Readonly<Record<string, string>> {
  const ours = {
    'prometheus.io/scrape': 'true',
    'prometheus.io/port': String(options['admin-port']),
    'prometheus.io/path': '/metrics',
  };
  return Object.keys(ours).some((name) => Object.hasOwn(own, name)) ? {} : ours;
}

function outcomeOf(written: Found, after: PodTemplate, { closed = [] }: Plan): WorkloadReport {
  const old = valueAt(written.template.pod, [...places.annotations, injectedAnnotation]);
  const closes = closed.length === 0 ? '' : `closed until a Server permits: ${closed.join(', ')}`;
  if (readRecord(written.template.pod).record === null) return reportOf(written, 'injected', closes);
  const same = isDeepStrictEqual(written.template.pod, after.pod);
  return same ? reportOf(written, 'unchanged', '') : reportOf(written, 'updated', `was ${String(old)}`);
}

/** A pod that is to have no sidecar. One of before has been taken out: applied, the text opens what was guarded. */
function leftOut(written: Found, reason: string): WorkloadReport {
  const wasInjected = readRecord(written.template.pod).record !== null;
  return reportOf(written, wasInjected ? 'uninjected' : 'skipped', reason);
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
  const { path, from, ...stated } = fault;
  const { line, column } = source.position([...(from === 'workload' ? template.workloadPath : template.path), ...path]);
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
