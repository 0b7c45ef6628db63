import type { SourceDocument } from '../policy/documents/read.ts';
import type { Problem } from '../problem.ts';
import { type ReadYaml, readYaml } from '../yaml.ts';

/*
 * `kubectl get pods,namespaces -A -o yaml` of a large cluster is a hundred megabytes, of which policy needs the labels and
 * addresses. Parsed whole it would take minutes, and more memory than a sidecar has. Its layout is kubectl's own, in block
 * style with fixed indents, so that the lines which nobody needs are known by their indent and left out before parsing.
 *
 * ```text
 * apiVersion: v1
 * items:
 * - apiVersion: v1        ← an item begins at column 0
 *   kind: Pod
 *   metadata:             ← sections at indent 2
 *     labels:             ← fields at indent 4; whatever is deeper, or a list at that indent, is theirs
 * ```
 */

/** Below this a file is parsed as it stands; nothing would be gained. */
const leastSize = 256 * 1024;

const layout = /^apiVersion: v1\nitems:\n- apiVersion: /;

/** Sections of a Pod or Namespace of which only some fields are kept. */
const keptFields: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['metadata', new Set(['name', 'namespace', 'labels'])],
  ['spec', new Set(['hostNetwork', 'serviceAccountName'])],
  ['status', new Set(['phase', 'podIP', 'podIPs', 'hostIP', 'hostIPs'])],
]);

/**
 * The items of a large listing in kubectl's own layout, one document each: Pods and Namespaces with the fields that policy
 * reads, all others whole. Null for any other text, and for a listing with something behind it: that is read as any YAML.
 * `budget`: how many characters may be parsed; a problem where they do not suffice.
 */
export function readClusterListing(text: string, file: string, budget: { left: number }): ReadYaml | null {
  if (text.length < leastSize || !layout.test(text.slice(0, 64))) return null;
  const listStart = text.indexOf('\n- ') + 1;
  const listEnd = text.indexOf('\nkind: ', listStart);
  if (listEnd === -1 || !isEndOfList(text.slice(listEnd + 1))) return null;
  const documents: SourceDocument[] = [];
  const problems: Problem[] = [];
  let before = 2;
  for (const item of text.slice(listStart, listEnd).split(/\n(?=- )/)) {
    const lines = item.split('\n');
    const read = readItem(lines, before, file, budget);
    if (read === null) return null;
    documents.push(...read.documents);
    problems.push(...read.problems);
    if (budget.left < 0) break;
    before += lines.length;
  }
  return { documents, problems };
}

/** What kubectl writes below the items. A second document would be there, too. */
function isEndOfList(text: string): boolean {
  return /^kind: (?:Pod|Namespace)?List\n(?:metadata:(?: \{\})?\n(?: {2}(?:resourceVersion|selfLink): ".*"\n)*)?$/.test(
    text,
  );
}

/** Null where the lines are more than one item. `before`: how many lines of the file stand above them. */
function readItem(lines: readonly string[], before: number, file: string, budget: { left: number }): ReadYaml | null {
  const needed = lines.some((line) => line === '  kind: Pod' || line === '  kind: Namespace')
    ? neededLines(lines)
    : null;
  const text = needed === null ? lines.join('\n') : needed.map((i) => lines[i]).join('\n');
  budget.left -= text.length;
  if (budget.left < 0) {
    const hint = 'List pods and namespaces only.';
    const message = 'the file is too large: what is needed of it exceeds what is parsed';
    const place = { file, line: before + 1, column: 1, resource: null };
    return { documents: [], problems: [{ severity: 'error', code: 'too-large', message, ...place, hint }] };
  }
  /** Of a line of that text, its number in the file. */
  const inFile = (line: number): number => before + 1 + (needed === null ? line - 1 : (needed[line - 1] ?? 0));
  const { documents, problems } = readYaml(text, file);
  const [only] = documents;
  const single = documents.length === 1 && Array.isArray(only?.value) && only.value.length === 1;
  if (problems.length === 0 && !single) return null;
  return {
    problems: problems.map((problem) => ({ ...problem, line: inFile(problem.line) })),
    documents: documents.map(({ value, position }) => ({
      value: (value as unknown[])[0],
      file,
      // Ten thousand syntax trees would be kept for positions inside items; of a reduced one the first line must do.
      position:
        needed !== null
          ? () => ({ line: before + 1, column: 3 })
          : (path) => {
              const { line, column } = position([0, ...path]);
              return { line: inFile(line), column };
            },
    })),
  };
}

/** Which lines of an item are needed; null where it is not laid out as expected. */
function neededLines(lines: readonly string[]): number[] | null {
  const needed: number[] = [];
  let fields: ReadonlySet<string> | undefined;
  let keep = true;
  for (const [i, line] of lines.entries()) {
    const [, section, rest] = /^(?:- | {2})([A-Za-z]+):(.*)$/.exec(line) ?? [];
    const field = /^ {4}([A-Za-z]+):/.exec(line)?.[1];
    if (section !== undefined) {
      fields = keptFields.get(section);
      keep = true;
      // In flow style, or with an anchor: lines inside it cannot be recognized by their indent.
      if (fields !== undefined && rest !== '' && rest !== ' {}') return null;
    } else if (field !== undefined) {
      keep = fields === undefined || fields.has(field);
    } else if (line !== '' && !line.startsWith('    ')) {
      // Among them whatever stands at the left margin.
      return null;
    }
    if (keep) needed.push(i);
  }
  return needed;
}
