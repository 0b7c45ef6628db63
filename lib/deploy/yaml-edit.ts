import { isDeepStrictEqual } from 'node:util';
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  stringify,
} from 'yaml';
import { type FieldPath, valueAt } from '../policy/field-path.ts';
import { type IndentedText, indentContinued } from '../yaml.ts';
import { type Addition, applyToValue, bare, type Change, type Removal } from './yaml-changes.ts';

/** For `stringify`: each string on one line. Folded ones it writes wrong where a line begins or ends with blanks. */
export const unfolded = { lineWidth: 0, doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER };

/** What stands at a path. `void`: null or an empty `{}`, `[]`, to be replaced; `source` is what stands after the colon. */
export type Place =
  | { readonly kind: 'absent' }
  | { readonly kind: 'blank' }
  | { readonly kind: 'void'; readonly source: string }
  | { readonly kind: 'filled' };

/** The text is written in a way in which it cannot be changed without changing more than was asked for. */
export class NotEditable extends Error {
  readonly line: number;
  readonly column: number;
  constructor(message: string, line: number, column: number) {
    super(message);
    this.name = 'NotEditable';
    this.line = line;
    this.column = column;
  }
}

interface Splice {
  readonly start: number;
  readonly end: number;
  readonly insert: string;
}

/** How the author of a text indents. */
interface Style {
  readonly step: number;
  readonly indentSeq: boolean;
}

const maxAliasCount = 1000;

/**
 * YAML or JSON text that is changed by splicing lines into it, so that everything else (comments, order, quoting,
 * anchors, line ends, other documents) stays as it is, byte for byte. A YAML library that writes a document anew keeps
 * its meaning but not its looks. The price is that not every spelling can be spliced; `apply` therefore reads its own
 * result again and throws rather than return a text that says anything but what was asked for.
 *
 * The text must have been read without errors before (`readYaml`); documents are counted as it counts them.
 */
export class YamlText {
  /** As it was, and as it is read: lines that go on may stand further to the right (lib/yaml/continued-lines.ts). */
  readonly #original: string;
  readonly #indented: IndentedText | null;
  readonly #text: string;
  readonly #documents: readonly Document.Parsed[];
  readonly #lines: LineCounter = new LineCounter();
  readonly #eol: string;

  constructor(text: string) {
    this.#original = text;
    const read = parsed(text, this.#lines);
    const isBroken = read.some(({ errors }) => errors.length > 0);
    this.#indented = isBroken ? indentContinued(text) : null;
    this.#text = this.#indented?.text ?? text;
    if (this.#indented !== null) this.#lines = new LineCounter();
    const documents = this.#indented === null ? read : parsed(this.#text, this.#lines);
    this.#documents = documents.filter(
      (document) => document.contents !== null && document.toJS({ maxAliasCount }) !== null,
    );
    this.#eol = /\r?\n/.exec(text)?.[0] ?? '\n';
  }

  /** What stands at a path whose parent is a mapping. Throws where an alias or a merge key stands in the way. */
  place(document: number, path: FieldPath): Place {
    const { pair } = this.#find(document, path);
    if (pair === null) return { kind: 'absent' };
    const value = pair.value as Node | null;
    if (isAlias(value)) throw this.#notEditable(value.range?.[0] ?? 0, `${path.join('.')} is an alias`);
    if (value === null || (isScalar(value) && value.value === null)) {
      const source = this.#afterColon(pair);
      return source.trim() === '' ? { kind: 'blank' } : { kind: 'void', source };
    }
    if (!isCollection(value)) {
      throw this.#notEditable(value.range?.[0] ?? 0, `${path.join('.')} is neither a mapping nor a list`);
    }
    return value.items.length === 0 ? { kind: 'void', source: this.#afterColon(pair) } : { kind: 'filled' };
  }

  /** The text with the changes of each document made. */
  apply(changes: ReadonlyMap<number, readonly Change[]>): string {
    const splices: Splice[] = [];
    for (const [document, list] of changes) {
      for (const change of list) {
        splices.push(...(change.kind === 'add' ? [this.#add(document, change)] : this.#remove(document, change)));
      }
    }
    const original = (offset: number): number => this.#indented?.original(offset) ?? offset;
    let result = this.#original;
    for (const { start, end, insert } of splices.sort((a, b) => b.start - a.start)) {
      result = result.slice(0, original(start)) + insert + result.slice(original(end));
    }
    this.#verify(result, changes);
    return result;
  }

  #add(document: number, { path, entries = {}, items = [] }: Addition): Splice {
    const { pair, parent } = this.#find(document, path);
    if (pair === null) throw new Error(`${path.join('.')} is absent`);
    const value = pair.value as Node | null;
    const added = items.length > 0 ? items : entries;
    if (isCollection(value) && value.items.length > 0) {
      if (value.flow) return this.#addToFlow(value.range?.[0] ?? 0, value.items[0], added);
      const column = this.#columnOf(value.range?.[0] ?? 0);
      const at = this.#endOfLine((pair.key as Node).range?.[1] ?? 0);
      return { start: at, end: at, insert: this.#blockLines(added, column, this.#styleOf(document)) };
    }
    const colon = this.#colonOf(pair);
    const end = value?.range?.[1] ?? colon;
    // Within { } and [ ] there are no lines to write on.
    if (parent.flow) return { start: colon, end: Math.max(end, colon), insert: ` ${JSON.stringify(added)}` };
    const style = this.#styleOf(document);
    const own = this.#columnOf((pair.key as Node).range?.[0] ?? 0);
    const column = own + (Array.isArray(added) && !style.indentSeq ? 0 : style.step);
    const lines = this.#blockLines(added, column, style);
    // `annotations: {}  # none`: the braces go, the rest of the line stays.
    const kept = this.#afterColon(pair).trim() === '' ? colon : end;
    const lineEnd = this.#endOfLine(kept);
    return { start: colon, end: lineEnd, insert: this.#text.slice(kept, lineEnd) + lines };
  }

  /** `opening` is where the bracket stands. Items on lines of their own get company that is written like them. */
  #addToFlow(opening: number, first: unknown, added: object): Splice {
    const at = startOf(first);
    const ownLine = this.#text.slice(this.#startOfLine(at), at).trim() === '';
    const column = this.#columnOf(at);
    const openingLine = this.#text.slice(this.#startOfLine(opening), opening);
    const step = column - (openingLine.length - openingLine.trimStart().length);
    const json = ownLine ? JSON.stringify(added, null, Math.max(step, 1)) : JSON.stringify(added);
    // Without its brackets: the items join those that are there.
    const inner = ownLine
      ? json
          .split('\n')
          .slice(1, -1)
          .map((line) => line.slice(Math.max(step, 1)))
          .join(this.#eol + ' '.repeat(column))
      : json.slice(1, -1);
    return { start: at, end: at, insert: `${inner},${ownLine ? this.#eol + ' '.repeat(column) : ' '}` };
  }

  #remove(document: number, { path, keys = [], indices = [], restore }: Removal): Splice[] {
    const { node, pair } = this.#find(document, path);
    if (!isCollection(node)) throw new Error(`${path.join('.')} is no collection`);
    const gone = (item: unknown, index: number): boolean =>
      isMap(node) ? keys.includes(String(keyOf(item as Pair))) : indices.includes(index);
    if (restore !== undefined && pair !== null) {
      const colon = this.#colonOf(pair);
      if (node.flow) return [{ start: colon, end: node.range?.[1] ?? colon, insert: restore }];
      const opened = { start: colon, end: colon, insert: restore };
      return [opened, ...node.items.map((item) => this.#linesOf(item))];
    }
    if (!node.flow) return node.items.filter(gone).map((item) => this.#linesOf(item));
    return this.#flowRuns(node.items, gone);
  }

  /** Runs of items between the brackets, each with the comma that leads to the next item, or else to the one before. */
  #flowRuns(items: readonly unknown[], gone: (item: unknown, index: number) => boolean): Splice[] {
    const splices: Splice[] = [];
    for (let first = 0; first < items.length; first++) {
      if (!gone(items[first], first)) continue;
      let last = first;
      while (last + 1 < items.length && gone(items[last + 1], last + 1)) last++;
      const next = items[last + 1];
      const before = items[first - 1];
      const start = next === undefined && before !== undefined ? endOf(before) : startOf(items[first]);
      splices.push({ start, end: next === undefined ? endOf(items[last]) : startOf(next), insert: '' });
      first = last;
    }
    return splices;
  }

  /** The whole lines of one entry or item of a block collection. */
  #linesOf(item: unknown): Splice {
    const from = startOf(item);
    const lineStart = this.#startOfLine(from);
    const lead = this.#text.slice(lineStart, from).trim();
    if (lead !== (isNode(item) ? '-' : '')) throw this.#notEditable(from, 'does not stand on lines of its own');
    const end = this.#endOfLine(endOf(item));
    if (end < this.#text.length) {
      return { start: lineStart, end: end + (this.#text[end] === '\r' ? 2 : 1), insert: '' };
    }
    // The last line of a text that does not end in a line end: the one before it goes instead.
    return { start: Math.max(0, lineStart - this.#eol.length), end, insert: '' };
  }

  /** Starts with the line end of the line after which these lines go. */
  #blockLines(added: object, column: number, { step, indentSeq }: Style): string {
    // YAML 1.1's quoting: kubectl and Helm read `yes` and `1:20` as anything but strings.
    const text = stringify(added, {
      ...unfolded,
      blockQuote: false,
      indent: step,
      indentSeq,
      version: '1.1',
      aliasDuplicateObjects: false,
    });
    const lines = text.trimEnd().split('\n');
    return lines.map((line) => this.#eol + ' '.repeat(column) + line).join('');
  }

  /** Found by the pod's own `containers`, which every pod has; two columns and no extra indentation elsewhere. */
  #styleOf(document: number): Style {
    const contents = this.#documents[document]?.contents ?? null;
    const found = { step: 0, indentSeq: false };
    const look = (node: unknown, keyColumn: number | null): void => {
      if (!isCollection(node) || node.flow) return;
      const column = this.#columnOf(node.range?.[0] ?? 0);
      if (isMap(node)) {
        if (keyColumn !== null && found.step === 0) found.step = column - keyColumn;
        for (const { key, value } of node.items) look(value, this.#columnOf((key as Node).range?.[0] ?? 0));
      } else {
        if (keyColumn !== null && column > keyColumn) found.indentSeq = true;
        for (const item of node.items) look(item, null);
      }
    };
    look(contents, null);
    return { step: Math.max(found.step, 2), indentSeq: found.indentSeq };
  }

  /** Follows mappings and lists as they are written. A pair that is missing is null; its parent must be there. */
  #find(document: number, path: FieldPath): { node: Node | null; pair: Pair | null; parent: { flow?: boolean } } {
    let node: Node | null = this.#documents[document]?.contents ?? null;
    let pair: Pair | null = null;
    let parent: Node | null = null;
    for (const [depth, step] of path.entries()) {
      const at = path.slice(0, depth).join('.') || 'the document';
      const offset: number = node?.range?.[0] ?? 0;
      if (isAlias(node)) throw this.#notEditable(offset, `${at} is an alias`);
      parent = node;
      if (isSeq(node)) {
        node = (node.items[Number(step)] as Node | undefined) ?? null;
        pair = null;
      } else if (isMap(node)) {
        pair = node.items.find((item) => keyOf(item) === step) ?? null;
        // The library's key of a merge (`<<`) is a symbol.
        if (
          pair === null &&
          node.items.some((item) => typeof keyOf(item) === 'symbol') &&
          this.#merged(document, path, depth)
        ) {
          throw this.#notEditable(offset, `${path.slice(0, depth + 1).join('.')} comes from a merge key`);
        }
        node = (pair?.value as Node | null | undefined) ?? null;
      } else {
        throw this.#notEditable(offset, `${at} is neither a mapping nor a list`);
      }
    }
    return { node, pair, parent: isCollection(parent) ? { flow: parent.flow === true } : {} };
  }

  #merged(document: number, path: FieldPath, depth: number): boolean {
    return valueAt(this.#documents[document]?.toJS({ maxAliasCount }), path.slice(0, depth + 1)) !== undefined;
  }

  /** Compares what the new text says with what the changes make of the values of the old one. */
  #verify(result: string, changes: ReadonlyMap<number, readonly Change[]>): void {
    const after = new YamlText(result);
    for (const [index, document] of this.#documents.entries()) {
      const expected = plain(document);
      for (const change of changes.get(index) ?? []) applyToValue(expected, change);
      const found = after.#documents[index];
      if (found?.errors.length === 0 && isDeepStrictEqual(bare(plain(found)), bare(expected))) continue;
      const [path] = (changes.get(index) ?? []).map((change) => change.path);
      const { pair } = path === undefined ? { pair: null } : this.#find(index, path);
      const offset = (pair?.key as Node | undefined)?.range?.[0] ?? document.range[0];
      throw this.#notEditable(offset, 'changing this would also change something else (an alias repeats it, perhaps)');
    }
    if (after.#documents.length !== this.#documents.length) throw this.#notEditable(0, 'the documents run together');
  }

  /** Between the colon and the end of the value. */
  #afterColon(pair: Pair): string {
    const colon = this.#colonOf(pair);
    return this.#text.slice(colon, Math.max(colon, (pair.value as Node | null)?.range?.[1] ?? colon));
  }

  /** Just behind the colon of a pair. */
  #colonOf(pair: Pair): number {
    const end = (pair.key as Node).range?.[1] ?? 0;
    const colon = this.#text.indexOf(':', end);
    if (colon === -1 || this.#text.slice(end, colon).trim() !== '') throw this.#notEditable(end, 'has no plain colon');
    return colon + 1;
  }

  #startOfLine(offset: number): number {
    return this.#text.lastIndexOf('\n', offset - 1) + 1;
  }
  #endOfLine(offset: number): number {
    const end = this.#text.indexOf('\n', offset);
    if (end === -1) return this.#text.length;
    return this.#text[end - 1] === '\r' ? end - 1 : end;
  }
  #columnOf(offset: number): number {
    return offset - this.#startOfLine(offset);
  }

  #notEditable(offset: number, message: string): NotEditable {
    const { line, col } = this.#lines.linePos(offset);
    return new NotEditable(message, line, col);
  }
}

function parsed(text: string, lineCounter: LineCounter): readonly Document.Parsed[] {
  return [...parseAllDocuments(text, { lineCounter, merge: true, prettyErrors: false, logLevel: 'silent' })];
}

function isNode(item: unknown): item is Node {
  return isCollection(item) || isScalar(item) || isAlias(item);
}

function keyOf(pair: Pair): unknown {
  return isScalar(pair.key) ? pair.key.value : pair.key;
}

function startOf(item: unknown): number {
  return (isNode(item) ? item : ((item as Pair).key as Node)).range?.[0] ?? 0;
}

/** Where the last thing that an entry or item says ends, comments after it not counted. */
function endOf(item: unknown): number {
  if (isNode(item)) {
    if (isCollection(item) && !item.flow && item.items.length > 0) return endOf(item.items.at(-1));
    const end = item.range?.[1] ?? 0;
    // A block scalar's range takes in its last line end.
    return isScalar(item) && /^BLOCK/.test(item.type ?? '') ? end - 1 : end;
  }
  const { key, value } = item as Pair;
  const keyEnd = (key as Node).range?.[1] ?? 0;
  const empty = isScalar(value) && value.value === null && value.range?.[0] === value.range?.[1];
  return isNode(value) && !empty ? endOf(value) : keyEnd;
}

/** Without anything shared, so that a change in one place stays there. */
function plain(document: Document.Parsed): unknown {
  return JSON.parse(JSON.stringify(document.toJS({ maxAliasCount })));
}
