import { CORE_SCHEMA, constructFromEvents, EVENT_ID, type Event, parseEvents, SCALAR_STYLE } from 'js-yaml';
import { LineCounter } from 'yaml';
import type { SourceDocument } from '../policy/documents/read.ts';
import { isOrdinary } from './ordinary-text.ts';
import { excessOf, mostDepth, mostValues, type ReadYaml } from './read.ts';

/**
 * The documents of an ordinary text; null where it is none, and where anything about it is wrong, since the other reader is
 * the one that says what and where. Empty documents are skipped.
 */
export function readOrdinaryYaml(text: string, file: string): ReadYaml | null {
  if (!isOrdinary(text)) return null;
  const read = parse(text);
  if (read === null) return null;
  const outline = outlineOf(text, read.events);
  if (outline === null || outline.roots.length !== read.values.length) return null;
  const places = new Places(text, outline);
  const budget = { values: mostValues };
  const documents: SourceDocument[] = [];
  for (const [i, root] of outline.roots.entries()) {
    const value = read.values[i];
    if (excessOf(value, budget) !== null) return null;
    if (value !== null) documents.push({ value, file, position: (path) => places.find(root, path) });
  }
  return { documents, problems: [] };
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

/** What the parser met, in the order of the text, and of each node where it ends. */
interface Outline {
  readonly events: readonly Event[];
  /** Of the event that begins a node, the one behind the node. */
  readonly behind: Int32Array;
  /** The event that begins each document's content. */
  readonly roots: readonly number[];
}

/** Null where the parser took for more than one line what the lines, each by itself, did not show to be so. */
function outlineOf(text: string, events: readonly Event[]): Outline | null {
  const behind = new Int32Array(events.length);
  const roots: number[] = [];
  const open: number[] = [];
  for (const [i, event] of events.entries()) {
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
      open.push(i);
      continue;
    }
    behind[i] = i + 1;
    const parent = events[open.at(-1) ?? -1];
    const inMapping = parent?.type === EVENT_ID.MAPPING;
    if (event.valueStart === -1) {
      if (parent?.type === EVENT_ID.SEQUENCE) return null;
    } else if (event.style === SCALAR_STYLE.LITERAL_BLOCK) {
      if (!inMapping) return null;
    } else if (text.slice(event.valueStart, event.valueEnd).includes('\n')) return null;
  }
  return open.length === 0 ? { events, behind, roots } : null;
}

/** Where fields stand, found when somebody asks. */
class Places {
  readonly #text: string;
  readonly #outline: Outline;
  /** Of a sequence, the events that begin its items: a list may be ten thousand long, and be asked for each. */
  readonly #items = new Map<number, readonly number[]>();
  #lines: LineCounter | null = null;

  constructor(text: string, outline: Outline) {
    this.#text = text;
    this.#outline = outline;
  }

  /** At a key in a mapping, at the item in a list; the deepest part that exists of a path that leads nowhere. */
  find(root: number, path: readonly (string | number)[]): { line: number; column: number } {
    let node = root;
    let offset = this.#startOf(root);
    for (const step of path) {
      const found = this.#child(node, step);
      if (found === null) break;
      node = found.node;
      offset = found.offset;
    }
    const { line, col } = this.#counted().linePos(offset);
    return { line, column: col };
  }

  #child(node: number, step: string | number): { readonly node: number; readonly offset: number } | null {
    const type = this.#outline.events[node]?.type;
    if (type === EVENT_ID.SEQUENCE) {
      const item = this.#itemsOf(node)[Number(step)];
      return item === undefined ? null : { node: item, offset: this.#startOf(item) };
    }
    if (type !== EVENT_ID.MAPPING) return null;
    const wanted = String(step);
    const parts = this.#itemsOf(node);
    for (let i = 0; i + 1 < parts.length; i += 2) {
      const [key, held] = [parts[i] as number, parts[i + 1] as number];
      if (this.#named(key) === wanted) return { node: held, offset: this.#startOf(key) };
    }
    return null;
  }

  /** The nodes right in a collection; of a mapping, keys and values in turn. */
  #itemsOf(collection: number): readonly number[] {
    const known = this.#items.get(collection);
    if (known !== undefined) return known;
    const { events, behind } = this.#outline;
    const items: number[] = [];
    let node = collection + 1;
    while (events[node]?.type !== EVENT_ID.POP) {
      items.push(node);
      node = behind[node] as number;
    }
    this.#items.set(collection, items);
    return items;
  }

  #named(key: number): string | null {
    const event = this.#outline.events[key];
    return event?.type === EVENT_ID.SCALAR ? this.#text.slice(event.valueStart, event.valueEnd) : null;
  }

  #startOf(node: number): number {
    const event = this.#outline.events[node];
    if (event?.type === EVENT_ID.SCALAR)
      return event.style === SCALAR_STYLE.PLAIN ? event.valueStart : event.valueStart - 1;
    return event !== undefined && 'start' in event ? event.start : 0;
  }

  #counted(): LineCounter {
    if (this.#lines !== null) return this.#lines;
    this.#lines = new LineCounter();
    for (let at = 0; at !== 0 || this.#lines.lineStarts.length === 0; at = this.#text.indexOf('\n', at) + 1)
      this.#lines.addNewLine(at);
    return this.#lines;
  }
}
