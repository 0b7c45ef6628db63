import { escapedByte } from '../bytes.ts';

/*
 * A query is read by more grammars than one. Linkerd's, and so ours, is the form encoding of WHATWG URLs; but `;`
 * separates too (older Python, Perl, Rack), a further `?` at the start is dropped (`new URLSearchParams`), `name[]` and `name[x]` are `name` (PHP, Rails, qs), `a.b` and `a b` are
 * `a_b` (PHP), names have no case (ASP.NET), and `+` may stay what it is (decodeURIComponent). Policy looks at few names:
 * where one of these readings gives any of them another value, a request passes only if that is decided alike. Of a repeated parameter any value counts, for
 * rules that open as for rules that close (Linkerd).
 */

/** A longer query is refused where a rule looks into it, like one with more pairs, or more values of a name it looks for. */
const longestQuery = 8192;
const mostPairs = 256;
const mostValues = 32;

/** Values by name, of the names that were asked for. */
export type Parameters = ReadonlyMap<string, readonly string[]>;

export interface QueryReadings {
  /** As Linkerd reads it: any of these values. */
  readonly own: Parameters;
  /** Everything that any reading makes of it; the same object as `own` where that is all there is. */
  readonly loose: Parameters;
}

const nothing: Parameters = new Map();
const empty: QueryReadings = { own: nothing, loose: nothing };

/** The names that the rules of a port look for. */
export class QueryNames {
  /** Folded name to the names that fold so. */
  readonly #folded = new Map<string, string[]>();

  constructor(names: Iterable<string>) {
    for (const name of new Set(names)) {
      const folded = foldName(name);
      this.#folded.set(folded, [...(this.#folded.get(folded) ?? []), name]);
    }
  }

  /** The names by what servers may take for one name. */
  get folded(): ReadonlyMap<string, readonly string[]> {
    return this.#folded;
  }

  /** Whether any reading finds one of the names in a part between two `&` of a query that can be examined whole. */
  looksAt(part: string): boolean {
    return part.includes(';') ? [part, ...part.split(';')].some((pair) => this.#isPair(pair)) : this.#isPair(part);
  }

  #isPair(pair: string): boolean {
    return this.#folded.has(foldName(nameOf(pair)));
  }

  /** @returns a sentence where the query cannot be examined whole. One character per byte throughout. */
  read(query: string): QueryReadings | string {
    if (query === '') return empty;
    if (query.length > longestQuery) {
      return `the query is longer than ${longestQuery} characters and a rule must examine it`;
    }
    const own = new Map<string, string[]>();
    const loose = new Map<string, string[]>();
    let odd = false;
    let parts = 0;
    for (let at = 0; at <= query.length; ) {
      let end = query.indexOf('&', at);
      if (end === -1) end = query.length;
      if (end > at) {
        const pair = query.slice(at, end);
        parts += 1;
        if (this.#take(pair, own, loose)) odd = true;
        for (let from = pair.includes(';') ? 0 : pair.length + 1; from <= pair.length && parts <= mostPairs; parts++) {
          let to = pair.indexOf(';', from);
          if (to === -1) to = pair.length;
          if (this.#take(pair.slice(from, to), null, loose)) odd = true;
          from = to + 1;
        }
        if (parts > mostPairs) return `the query has more than ${mostPairs} parameters and a rule must examine it`;
      }
      at = end + 1;
    }
    for (const values of loose.values()) {
      if (values.length > mostValues) return `a parameter that a rule examines has more than ${mostValues} values`;
    }
    return { own, loose: odd ? loose : own };
  }

  /**
   * Takes what one pair means.
   *
   * @param own null for what is no pair in our own reading.
   * @returns whether `loose` got what `own` did not.
   */
  #take(pair: string, own: Map<string, string[]> | null, loose: Map<string, string[]>): boolean {
    const decoded = nameOf(pair);
    const names = this.#folded.get(foldName(decoded));
    if (names === undefined) return false;
    const equals = pair.indexOf('=');
    const written = equals === -1 ? '' : pair.slice(equals + 1);
    const value = formDecode(written, true);
    let odd = own === null;
    for (const name of names) {
      if (name === decoded && own !== null) add(own, name, value);
      add(loose, name, value);
      if (written.includes('+')) add(loose, name, formDecode(written, false));
      if (name !== decoded || written.includes('+')) odd = true;
    }
    return odd;
  }
}

export const noQueryNames = new QueryNames([]);

function add(to: Map<string, string[]>, name: string, value: string): void {
  const values = to.get(name);
  if (values === undefined) to.set(name, [value]);
  else values.push(value);
}

/** What servers may take for one name has one folded name. */
export function foldName(name: string): string {
  if (/^[a-z0-9_-]*$/.test(name)) return name;
  const bracket = name.indexOf('[', 1);
  const whole = bracket === -1 ? name : name.slice(0, bracket);
  return whole
    .replace(/^[?\s]+/, '')
    .toLowerCase()
    .replace(/[. ]/g, '_');
}

function nameOf(pair: string): string {
  const equals = pair.indexOf('=');
  return formDecode(equals === -1 ? pair : pair.slice(0, equals), true);
}

const scratch = Buffer.alloc(longestQuery);

/** Escapes, and `+` for a blank where `plus`, decoded to bytes; what is no escape stays. */
function formDecode(text: string, plus: boolean): string {
  if (!text.includes('%') && !(plus && text.includes('+'))) return text;
  const end = scratch.write(text, 'latin1');
  let size = 0;
  for (let at = 0; at < end; ) {
    const byte = escapedByte(scratch, at, end);
    if (byte === -1) {
      const raw = scratch[at++] as number;
      scratch[size++] = plus && raw === 0x2b ? 0x20 : raw;
    } else {
      scratch[size++] = byte;
      at += 3;
    }
  }
  return scratch.toString('latin1', 0, size);
}
