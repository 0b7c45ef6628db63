import { listedItems, type SourceDocument } from '../policy/documents/read.ts';
import { type FieldPath, valueAt } from '../policy/field-path.ts';
import { type PodFacts, type PodProblem, readPod } from '../policy/pod.ts';
import { templatePaths } from '../policy/workload-kinds.ts';
import { readYaml } from '../yaml.ts';
import type { Parsed } from './values.ts';

export interface ManifestRead {
  /** Null where the Pod is none; then a problem is an error. */
  readonly facts: PodFacts | null;
  /** Each message begins with its place in the file. */
  readonly problems: readonly Pick<PodProblem, 'severity' | 'code' | 'message' | 'hint'>[];
  /** What an injected pod gives its sidecar, by name; empty where there is none. */
  readonly variables: ReadonlyMap<string, string>;
}

/** The one Pod of a YAML text, or the one workload with a pod template. `file` is for messages. */
export function readManifest(text: string, file: string): Parsed<ManifestRead> {
  const found = onePod(text, file);
  if ('fault' in found) return found;
  const { source, path, pod } = found.value;
  const { facts, problems } = readPod(pod);
  const placed = problems.map(({ severity, code, path: within, message, hint }) => {
    const { line, column } = source.position([...path, ...within]);
    return { severity, code, message: `${file}:${line}:${column}: ${message}`, hint };
  });
  return { value: { facts, problems: placed, variables: sidecarVariables(pod) } };
}

interface FoundPod {
  readonly source: SourceDocument;
  readonly path: FieldPath;
  /** As a Pod: a template has no kind, and is of its workload's namespace. */
  readonly pod: unknown;
}

function onePod(text: string, file: string): Parsed<FoundPod> {
  const { documents, problems } = readYaml(text, file);
  const [problem] = problems;
  if (problem !== undefined)
    return { code: problem.code, fault: `${problem.line}:${problem.column}: ${problem.message}`, hint: problem.hint };
  const [pod, ...more] = documents.flatMap((source) => podsIn(source, source.value, []));
  return pod !== undefined && more.length === 0
    ? { value: pod }
    : {
        code: 'invalid-pod',
        fault: `holds ${pod === undefined ? 'no Pod or workload' : 'more than one Pod or workload'}`,
        hint: 'give one, as `kubectl get pod -o yaml` prints it, or one workload such as a Deployment',
      };
}

function podsIn(source: SourceDocument, object: unknown, path: FieldPath): FoundPod[] {
  const items = listedItems(object);
  if (items !== null) return items.flatMap((item, i) => podsIn(source, item, [...path, 'items', i]));
  if (valueAt(object, ['kind']) === 'Pod') return [{ source, path, pod: object }];
  return (templatePaths(object) ?? []).map((template) => {
    const { metadata, spec } = valueAt(object, template) as { readonly metadata?: object; readonly spec?: unknown };
    const namespace = valueAt(metadata, ['namespace']) ?? valueAt(object, ['metadata', 'namespace']);
    const pod = { kind: 'Pod', metadata: { ...metadata, name: undefined, namespace }, spec: spec ?? null };
    return { source, path: [...path, ...template], pod };
  });
}

/** Files in the container are none here, and what is read off the running pod is not known yet. */
const ofTheContainer = /^SALLYPORT_(?:POLICY|CANDIDATE_POLICY|POD_.*|NODE_IPS|IDENTITY_.*|.*_FILE)$/;

function sidecarVariables(pod: unknown): ReadonlyMap<string, string> {
  const containers = ['initContainers', 'containers'].flatMap((list) => {
    const found = valueAt(pod, ['spec', list]);
    return Array.isArray(found) ? found : [];
  });
  const sidecar = containers.find(
    (each) => valueAt(each, ['name']) === 'sallyport' && valueAt(each, ['args', 0]) === 'run',
  );
  const env = valueAt(sidecar, ['env']);
  const variables = new Map<string, string>();
  for (const each of Array.isArray(env) ? env : []) {
    const [name, value] = [valueAt(each, ['name']), valueAt(each, ['value'])];
    if (typeof name !== 'string' || typeof value !== 'string' || !/^SALLYPORT_/.test(name)) continue;
    // The kubelet takes `$$` for one dollar sign.
    if (!ofTheContainer.test(name)) variables.set(name, value.replaceAll('$$', '$'));
  }
  return variables;
}
