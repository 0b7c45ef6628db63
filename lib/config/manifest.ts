import type { SourceDocument } from '../policy/documents/read.ts';
import { type PodFacts, type PodProblem, readPod } from '../policy/pod.ts';
import { readYaml } from '../yaml.ts';
import type { Parsed } from './values.ts';

export interface ManifestRead {
  /** Null where the Pod is none; then a problem is an error. */
  readonly facts: PodFacts | null;
  /** Each message begins with its place in the file. */
  readonly problems: readonly Pick<PodProblem, 'severity' | 'code' | 'message' | 'hint'>[];
}

/** The one Pod of a YAML text. `file` is for messages. */
export function readManifest(text: string, file: string): Parsed<ManifestRead> {
  const document = onePod(text, file);
  if ('fault' in document) return document;
  const { facts, problems } = readPod(document.value.value);
  const placed = problems.map(({ severity, code, path, message, hint }) => {
    const { line, column } = document.value.position(path);
    return { severity, code, message: `${file}:${line}:${column}: ${message}`, hint };
  });
  return { value: { facts, problems: placed } };
}

function onePod(text: string, file: string): Parsed<SourceDocument> {
  const { documents, problems } = readYaml(text, file);
  const [problem] = problems;
  if (problem !== undefined)
    return { code: problem.code, fault: `${problem.line}:${problem.column}: ${problem.message}`, hint: problem.hint };
  const [pod, ...more] = documents.filter(({ value }) => isPod(value));
  return pod !== undefined && more.length === 0
    ? { value: pod }
    : {
        code: 'invalid-pod',
        fault: `holds ${pod === undefined ? 'no' : 'more than one'} Pod`,
        hint: 'give one, as `kubectl get pod -o yaml` prints it',
      };
}

function isPod(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'Pod';
}
