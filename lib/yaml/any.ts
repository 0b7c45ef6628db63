import { createRequire } from 'node:module';
import type { Document, LineCounter, Node, Pair, ScalarTag, Tags, YAMLError } from 'yaml';
import type { CodeOf } from '../errors/problems.ts';
import type { SourceDocument } from '../policy/documents/read.ts';
import type { Problem } from '../problem.ts';
import { type IndentedText, indentContinued } from './continued-lines.ts';
import {
  aliasRemedy,
  type Fault,
  faultInText,
  faultsIn,
  isBehindEnd,
  misread,
  mostAliases,
  remedyAt,
  tagRemedy,
} from './faults.ts';
import { excessOf, mostDepth, mostValues, type ReadYaml } from './read.ts';
import { mayBeNumber, numberOrText, truthOf, truthWord } from './scalars.ts';

let loaded: typeof import('yaml') | null = null;

/** Seventy files, and a start waits for them: loaded for the first text that is not ordinary. */
function library(): typeof import('yaml') {
  loaded ??= createRequire(import.meta.url)('yaml') as typeof import('yaml');
  return loaded;
}

/** Before the library's own. */
const asKubectl: readonly ScalarTag[] = [
  { tag: 'tag:yaml.org,2002:str', default: true, test: mayBeNumber, resolve: numberOrText },
  { tag: 'tag:yaml.org,2002:bool', default: true, test: truthWord, resolve: truthOf },
];

/**
 * The documents of one YAML or JSON text. Scalars mean what they mean to kubectl (scalars.ts), and what else it
 * would read otherwise is an error (faults.ts). A key written twice is an error too: which of the two a reader believes is
 * exactly what an attacker would choose. Empty documents are skipped.
 * Never throws; the time it takes grows with the length of the text alone.
 */
export function readAnyYaml(text: string, file: string): ReadYaml {
  const unread = faultInText(text);
  if (unread !== null) return { documents: [], problems: [inText(text, unread, file)] };
  const read = readWithoutFaults(text, file);
  if (read.problems.length === 0) return read;
  const indented = indentContinued(text);
  return indented === null ? read : movedBack(readWithoutFaults(indented.text, file), indented);
}

/** As if no line had been moved to the right. */
function movedBack({ documents, problems }: ReadYaml, { blanks }: IndentedText): ReadYaml {
  const back = <T extends Spot>(place: T): T => {
    const column = place.column - (blanks[place.line - 1] ?? 0);
    return { ...place, column: Math.max(1, column) };
  };
  return {
    documents: documents.map((document) => ({ ...document, position: (path) => back(document.position(path)) })),
    problems: problems.map(back),
  };
}

interface Spot {
  readonly line: number;
  readonly column: number;
}

function readWithoutFaults(text: string, file: string): ReadYaml {
  const { LineCounter } = library();
  const lines = new LineCounter();
  const documents: SourceDocument[] = [];
  const problems: Problem[] = [];
  const budget = { values: mostValues };
  for (const document of parse(text, file, lines, problems)) {
    // Warnings are unresolved tags and the like: the value would not be what its author believes.
    const faults = [...document.errors, ...document.warnings];
    problems.push(...faults.map((fault) => syntaxProblem(fault, text, file, lines)));
    if (faults.length > 0 || document.contents === null) continue;
    const [start] = document.contents.range;
    if (!document.directives.docStart && isBehindEnd(text, start)) {
      problems.push(
        at(start, 'yaml-syntax', 'kubectl reads nothing behind "..."', 'Write --- in its place.', file, lines),
      );
      break;
    }
    try {
      const found = [...faultsIn(document.contents, text, library()), ...misread(document.contents, library())];
      for (const { offset, code, message, hint } of found) problems.push(at(offset, code, message, hint, file, lines));
      if (found.length > 0) continue;
      const value: unknown = document.toJS({ maxAliasCount: mostAliases });
      const excess = excessOf(value, budget);
      if (excess !== null)
        problems.push(at(start, 'too-large', excess, 'Split it, and write it flatter.', file, lines));
      else if (value !== null) documents.push({ value, file, position: (path) => positionOf(document, path, lines) });
    } catch (error) {
      problems.push(isTooDeep(error) ? tooDeep(file) : aliasProblem(error, document, file, lines));
    }
  }
  return { documents, problems };
}

function parse(text: string, file: string, lines: LineCounter, problems: Problem[]): Document.Parsed[] {
  try {
    // Keys are held against each other below: the library compares each with all.
    const options = {
      lineCounter: lines,
      merge: true,
      prettyErrors: false,
      logLevel: 'silent',
      uniqueKeys: false,
      keepSourceTokens: true,
      customTags: (tags: Tags) => [...asKubectl, ...tags],
    } as const;
    const parsed = library().parseAllDocuments(text, options);
    return Array.isArray(parsed) ? parsed : [];
  } catch (error) {
    if (!isTooDeep(error)) throw error;
    problems.push(tooDeep(file));
    return [];
  }
}

/** Lines are counted as everybody counts them, whatever the library takes for their ends. */
function inText(text: string, { offset, code, message, hint }: Fault, file: string): Problem {
  const before = text.slice(0, offset);
  const line = before.split('\n').length;
  const column = offset - before.lastIndexOf('\n');
  return { severity: 'error', code, message, file, line, column, resource: null, hint };
}

/** What a recursion throws that has no room left. */
function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError && /call stack/.test(error.message);
}

function tooDeep(file: string): Problem {
  const message = `values lie more than ${mostDepth} levels deep`;
  return {
    severity: 'error',
    code: 'too-deep',
    message,
    file,
    line: 1,
    column: 1,
    resource: null,
    hint: 'Write it flatter.',
  };
}

const remedies: ReadonlyMap<string, string> = new Map([
  ['TAB_AS_INDENT', 'Indent with spaces.'],
  ['BAD_INDENT', 'Check the indentation of this line.'],
  ['TAG_RESOLVE_FAILED', tagRemedy],
  ['MISSING_CHAR', 'Look for an unclosed quote or bracket, or a missing ":".'],
]);

function syntaxProblem(
  { pos: [offset], code, message }: YAMLError,
  text: string,
  file: string,
  lines: LineCounter,
): Problem {
  return at(offset, 'yaml-syntax', message, remedyAt(offset, text, remedies.get(code) ?? ''), file, lines);
}

function at(
  offset: number,
  code: CodeOf<'error'>,
  message: string,
  hint: string,
  file: string,
  lines: LineCounter,
): Problem {
  const { line, col } = lines.linePos(offset);
  return { severity: 'error', code, message, file, line, column: col, resource: null, hint };
}

/** Thrown while aliases are resolved: one is within what it stands for, or together they multiply too far. */
function aliasProblem(error: unknown, document: Document.Parsed, file: string, lines: LineCounter): Problem {
  const message = error instanceof Error ? error.message : String(error);
  return at(document.contents?.range?.[0] ?? 0, 'yaml-syntax', message, aliasRemedy, file, lines);
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
  const { isAlias, isCollection, isMap, isScalar } = library();
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
