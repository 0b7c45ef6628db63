import { escapedByte } from './bytes.ts';

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
  readonly #exact: ReadonlySet<string>;
  /** Folded name to the names that fold so. */
  readonly #folded = new Map<string, string[]>();

  constructor(names: Iterable<string>) {
    this.#exact = new Set(names);
    for (const name of this.#exact) {
      const folded = foldName(name);
      this.#folded.set(folded, [...(this.#folded.get(folded) ?? []), name]);
    }
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
        this.#own(pair, own);
        if (this.#loose(pair, pair, loose)) odd = true;
        for (let from = pair.includes(';') ? 0 : pair.length + 1; from <= pair.length && parts <= mostPairs; parts++) {
          let to = pair.indexOf(';', from);
          if (to === -1) to = pair.length;
          if (this.#loose(pair.slice(from, to), pair, loose)) odd = true;
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

  #own(pair: string, into: Map<string, string[]>): void {
    const equals = pair.indexOf('=');
    const name = formDecode(equals === -1 ? pair : pair.slice(0, equals), true);
    if (this.#exact.has(name)) add(into, name, equals === -1 ? '' : formDecode(pair.slice(equals + 1), true));
  }

  /** @returns whether it found what `own` does not. */
  #loose(part: string, pair: string, into: Map<string, string[]>): boolean {
    const equals = part.indexOf('=');
    const decoded = formDecode(equals === -1 ? part : part.slice(0, equals), true);
    const names = this.#folded.get(foldName(decoded));
    if (names === undefined) return false;
    let odd = part !== pair;
    const value = equals === -1 ? '' : part.slice(equals + 1);
    for (const name of names) {
      add(into, name, formDecode(value, true));
      if (value.includes('+')) add(into, name, formDecode(value, false));
      if (name !== decoded || value.includes('+')) odd = true;
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

function foldName(name: string): string {
  if (/^[a-z0-9_-]*$/.test(name)) return name;
  const bracket = name.indexOf('[', 1);
  const whole = bracket === -1 ? name : name.slice(0, bracket);
  return whole
    .replace(/^[?\s]+/, '')
    .toLowerCase()
    .replace(/[. ]/g, '_');
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
