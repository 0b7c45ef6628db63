import { CORE_SCHEMA, constructFromEvents, EVENT_ID, type Event, parseEvents, SCALAR_STYLE } from 'js-yaml';
import type { SourceDocument } from '../policy/documents/read.ts';
import { isOrdinary } from './ordinary-text.ts';
import { excessOf, mostDepth, mostValues, type ReadYaml } from './read.ts';

/**
 * The documents of an ordinary text; null where it is none, and where anything about it is wrong, since the other reader is
 * the one that says what and where. Empty documents are skipped.
 *
 * @param partLength characters that are parsed at once, and more up to the end of a document.
 */
export function readOrdinaryYaml(text: string, file: string, partLength = usualPart): ReadYaml | null {
  if (!isOrdinary(text)) return null;
  const lines = new Lines(text);
  const budget = { values: mostValues };
  const documents: SourceDocument[] = [];
  for (const { start, end } of partsOf(text, partLength)) {
    const part = text.slice(start, end);
    const read = parse(part);
    if (read === null) return null;
    const outline = outlineOf(part, read.events);
    if (outline === null || outline.roots.length !== read.values.length) return null;
    const places = new Places(part, outline);
    for (const [i, root] of outline.roots.entries()) {
      const value = read.values[i];
      if (excessOf(value, budget) !== null) return null;
      if (value !== null)
        documents.push({ value, file, position: (path) => lines.at(start + places.find(root, path)) });
    }
  }
  return { documents, problems: [] };
}

/** What the parser says of so little is garbage before there is much of it. */
const usualPart = 65_536;

/** Whole documents each. In an ordinary text a line that begins so is the beginning of a document, and nothing else. */
function* partsOf(text: string, partLength: number): Generator<{ readonly start: number; readonly end: number }> {
  for (let start = 0; start < text.length; ) {
    const next = text.indexOf('\n---', start + partLength);
    const end = next === -1 ? text.length : next + 1;
    yield { start, end };
    start = end;
  }
}

function parse(text: string): { readonly events: readonly Event[]; readonly values: readonly unknown[] } | null {
  try {
    const events = parseEvents(text, { maxDepth: mostDepth });
    return { events, values: constructFromEvents(events, { source: text, schema: CORE_SCHEMA, maxAliases: 0 }) };
  } catch {
    // Whatever it is, the other reader finds it, and has the words for it: a key twice, an indent that fits nothing.
    return null;
  }
}

/** What the parser met, in the order of the text, and of each node where it ends. By event: */
interface Outline {
  /** What it is. */
  readonly types: Uint8Array;
  /** Where the node stands that begins with it. */
  readonly starts: Int32Array;
  /** Of a scalar, where its text is. */
  readonly valueStarts: Int32Array;
  readonly valueEnds: Int32Array;
  /** Of one that begins a node, the one behind the node. */
  readonly behind: Int32Array;
  /** The event that begins each document's content. */
  readonly roots: readonly number[];
}

/** Null where the parser took for more than one line what the lines, each by itself, did not show to be so. */
function outlineOf(text: string, events: readonly Event[]): Outline | null {
  const [starts, valueStarts, valueEnds, behind] = Array.from({ length: 4 }, () => new Int32Array(events.length)) as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const types = new Uint8Array(events.length);
  const roots: number[] = [];
  const open: number[] = [];
  for (const [i, event] of events.entries()) {
    types[i] = event.type;
    if (event.type === EVENT_ID.POP) {
      const begun = open.pop();
      if (begun === undefined) return null;
      behind[begun] = i + 1;
      continue;
    }
    if (event.type === EVENT_ID.ALIAS) return null;
    if (event.type === EVENT_ID.DOCUMENT) {
      if (event.directives.length > 0) return null;
      roots.push(i + 1);
      open.push(i);
      continue;
    }
    if (event.anchorStart !== -1 || event.tagStart !== -1) return null;
    if (event.type !== EVENT_ID.SCALAR) {
      starts[i] = event.start;
      open.push(i);
      continue;
    }
    const { valueStart, valueEnd, style } = event;
    starts[i] = style === SCALAR_STYLE.PLAIN ? valueStart : valueStart - 1;
    valueStarts[i] = valueStart;
    valueEnds[i] = valueEnd;
    behind[i] = i + 1;
    const parent = types[open.at(-1) ?? -1];
    if (valueStart === -1) {
      if (parent === EVENT_ID.SEQUENCE) return null;
    } else if (style === SCALAR_STYLE.LITERAL_BLOCK) {
      if (parent !== EVENT_ID.MAPPING) return null;
    } else if (text.slice(valueStart, valueEnd).includes('\n')) return null;
  }
  return open.length === 0 ? { types, starts, valueStarts, valueEnds, behind, roots } : null;
}

/** Where fields stand, found when somebody asks. */
class Places {
  readonly #text: string;
  readonly #outline: Outline;
  /** Of a sequence, the events that begin its items: a list may be ten thousand long, and be asked for each. */
  readonly #items = new Map<number, readonly number[]>();

  constructor(text: string, outline: Outline) {
    this.#text = text;
    this.#outline = outline;
  }

  /** At a key in a mapping, at the item in a list; the deepest part that exists of a path that leads nowhere. */
  find(root: number, path: readonly (string | number)[]): number {
    let node = root;
    let offset = this.#startOf(root);
    for (const step of path) {
      const found = this.#child(node, step);
      if (found === null) break;
      node = found.node;
      offset = found.offset;
    }
    return offset;
  }

  #child(node: number, step: string | number): { readonly node: number; readonly offset: number } | null {
    const type = this.#outline.types[node];
    if (type === EVENT_ID.SEQUENCE) {
      const item = this.#itemsOf(node)[Number(step)];
      return item === undefined ? null : { node: item, offset: this.#startOf(item) };
    }
    if (type !== EVENT_ID.MAPPING) return null;
    const wanted = String(step);
    const { types, behind } = this.#outline;
    for (let key = node + 1; types[key] !== EVENT_ID.POP; ) {
      const held = behind[key] as number;
      if (this.#isNamed(key, wanted)) return { node: held, offset: this.#startOf(key) };
      key = behind[held] as number;
    }
    return null;
  }

  #itemsOf(sequence: number): readonly number[] {
    const known = this.#items.get(sequence);
    if (known !== undefined) return known;
    const { types, behind } = this.#outline;
    const items: number[] = [];
    for (let node = sequence + 1; types[node] !== EVENT_ID.POP; node = behind[node] as number) items.push(node);
    this.#items.set(sequence, items);
    return items;
  }

  #isNamed(key: number, wanted: string): boolean {
    const { types, valueStarts, valueEnds } = this.#outline;
    const start = valueStarts[key] as number;
    return (
      types[key] === EVENT_ID.SCALAR &&
      (valueEnds[key] as number) - start === wanted.length &&
      this.#text.startsWith(wanted, start)
    );
  }

  #startOf(node: number): number {
    return this.#outline.starts[node] ?? 0;
  }
}

/** Lines and columns of a text, from 1, counted when somebody asks. */
class Lines {
  readonly #text: string;
  #starts: readonly number[] | null = null;

  constructor(text: string) {
    this.#text = text;
  }

  at(offset: number): { readonly line: number; readonly column: number } {
    this.#starts ??= startsOf(this.#text);
    let low = 0;
    for (let high = this.#starts.length - 1; low < high; ) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] as number) + 1 };
  }
}

function startsOf(text: string): number[] {
  const starts = [0];
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', end + 1)) starts.push(end + 1);
  return starts;
}
