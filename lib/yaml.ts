import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  visit,
  type YAMLError,
} from 'yaml';
import type { SourceDocument } from './policy/documents.ts';
import type { Problem } from './problem.ts';

export interface ReadYaml {
  readonly documents: readonly SourceDocument[];
  /** Anything here means that the file is not YAML, and none of its documents is to be believed. */
  readonly problems: readonly Problem[];
}

/** Aliases that one document may resolve, counted with what they multiply to: ten lines must not become a gigabyte. */
const maxAliasCount = 1000;

/**
 * The documents of one YAML or JSON text. YAML 1.2's core schema, as the API server's JSON needs: timestamps stay
 * strings, and a tag of one's own is an error because nothing here could give it a meaning. A key written twice is an
 * error too: which of the two a reader believes is exactly what an attacker would choose. Empty documents are skipped.
 */
export function readYaml(text: string, file: string): ReadYaml {
  const lines = new LineCounter();
  const parsed = parseAllDocuments(text, { lineCounter: lines, merge: true, prettyErrors: false, logLevel: 'silent' });
  const documents: SourceDocument[] = [];
  const problems: Problem[] = [];
  for (const document of parsed) {
    // Warnings are unresolved tags and the like: the value would not be what its author believes.
    const faults = [...document.errors, ...document.warnings];
    problems.push(...faults.map((fault) => syntaxProblem(fault, file, lines)));
    if (faults.length > 0 || document.contents === null) continue;
    try {
      const value: unknown = document.toJS({ maxAliasCount });
      if (value !== null) documents.push({ value, file, position: (path) => positionOf(document, path, lines) });
    } catch (error) {
      problems.push(aliasProblem(error, document, file, lines));
    }
  }
  return { documents, problems };
}

const remedies: ReadonlyMap<string, string> = new Map([
  ['DUPLICATE_KEY', 'Keep one of the two.'],
  ['TAB_AS_INDENT', 'Indent with spaces.'],
  ['BAD_INDENT', 'Check the indentation of this line.'],
  ['TAG_RESOLVE_FAILED', 'Remove the tag; quote the value if it is to be a string.'],
  ['MISSING_CHAR', 'Look for an unclosed quote or bracket, or a missing ":".'],
]);

function syntaxProblem(fault: YAMLError, file: string, lines: LineCounter): Problem {
  const { line, col } = lines.linePos(fault.pos[0]);
  const code = fault.code === 'DUPLICATE_KEY' ? 'duplicate-key' : 'yaml-syntax';
  const hint = remedies.get(fault.code) ?? '';
  return { severity: 'error', code, message: fault.message, file, line, column: col, resource: null, hint };
}

/** Thrown while aliases are resolved: one names no anchor (it is pointed at), or together they multiply too far. */
function aliasProblem(error: unknown, document: Document.Parsed, file: string, lines: LineCounter): Problem {
  let offset = document.contents?.range?.[0] ?? 0;
  visit(document, {
    Alias(_key, alias) {
      if (alias.resolve(document) !== undefined) return undefined;
      offset = alias.range?.[0] ?? offset;
      return visit.BREAK;
    },
  });
  const { line, col } = lines.linePos(offset);
  const message = error instanceof Error ? error.message : String(error);
  const hint = 'Write the value out in place of the alias.';
  return { severity: 'error', code: 'yaml-syntax', message, file, line, column: col, resource: null, hint };
}

/**
 * Where a field stands: at its key in a mapping, at the item in a list. A path that leads nowhere (a field that is
 * missing) yields the deepest part that exists, so that the line is one to look at.
 */
function positionOf(
  document: Document.Parsed,
  path: readonly (string | number)[],
  lines: LineCounter,
): { line: number; column: number } {
  let node: unknown = document.contents;
  let offset = (document.contents as Node | null)?.range?.[0] ?? 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (!isCollection(node)) break;
    if (isMap(node)) {
      const pair: Pair | undefined = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
      if (pair === undefined) break;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value;
    } else {
      const item: unknown = node.items[Number(step)];
      if (item === undefined || item === null) break;
      offset = (item as Node).range?.[0] ?? offset;
      node = item;
    }
  }
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}
