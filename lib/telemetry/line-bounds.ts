/*
 * LineFields of lines that clients or the app can cause: whatever they hold, a line has a bound, and says what of it was cut.
 */
import { escapedJson } from '../printable.ts';

export type LineFields = Record<string, unknown>;

/** Bytes of a line as it is written. */
const maxLine = 4000;
/** Of these the time, the level, the message and what was left out take so many. */
const reserved = 250;

/** Characters of a text by the name of its field. */
const maxText = 256;
const longer: ReadonlyMap<string, number> = new Map([
  ['path', 2048],
  ['id', 2048],
  ['reason', 2048],
  ['error', 1024],
  ['detail', 512],
  ['hint', 512],
  ['stack', 4096],
]);
const maxItems = 20;
const maxLevels = 6;
/** What a character may take: an escape. */
const dearest = 6;

/** Text up to a length, and how many bytes of it are not shown. */
export function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  // Half of a pair is no character.
  const cut = /[\ud800-\udbff]/.test(text.charAt(length - 1)) ? length - 1 : length;
  return `${text.slice(0, cut)}…(+${bytesOf(text.slice(cut))} bytes)`;
}

/** Text of a client is one character a byte. */
function bytesOf(text: string): number {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0xff) return Buffer.byteLength(text);
  return text.length;
}

/** As they are, or with `cut`: the names of the fields of which a part is missing. */
export function boundedFields(fields: LineFields, most: number = maxLine): LineFields {
  for (let scale = 1; ; scale /= 2) {
    const bounding = new Bounding(scale);
    const bounded = bounding.object(fields, '', 0);
    if (bounding.cut.size > 0) bounded.cut = [...bounding.cut].slice(0, maxItems);
    if (scale < 1 / 64 || bounding.chars * dearest + reserved <= most) return bounded;
    if (Buffer.byteLength(escapedJson(JSON.stringify(bounded))) + reserved <= most) return bounded;
  }
}

class Bounding {
  readonly cut = new Set<string>();
  chars = 0;
  readonly #scale: number;

  constructor(scale: number) {
    this.#scale = scale;
  }

  object(fields: object, within: string, level: number): LineFields {
    const bounded: LineFields = {};
    for (const [name, value] of Object.entries(fields).slice(0, maxItems * 2)) {
      const path = within === '' ? name : `${within}.${name}`;
      this.chars += name.length + 6;
      bounded[name] = this.#value(value, name, path, level);
    }
    for (const [name, value] of Object.entries(fields)) {
      const omitted = Array.isArray(value) ? value.length - this.#items(value).length : 0;
      // Whoever made the fields may have omitted some, too.
      if (omitted > 0) bounded[`${name}_omitted`] = omitted + Number(bounded[`${name}_omitted`] ?? 0);
    }
    return bounded;
  }

  #items(list: readonly unknown[]): readonly unknown[] {
    return list.slice(0, Math.max(1, Math.floor(maxItems * this.#scale)));
  }

  #value(value: unknown, name: string, path: string, level: number): unknown {
    if (typeof value === 'string') return this.#text(value, name, path);
    if (typeof value !== 'object' || value === null) return value;
    if (level >= maxLevels) {
      this.cut.add(path);
      return null;
    }
    if (!Array.isArray(value)) return this.object(value, path, level + 1);
    return this.#items(value).map((each) => this.#value(each, name, path, level + 1));
  }

  #text(text: string, name: string, path: string): string {
    const most = Math.max(16, Math.floor((longer.get(name) ?? maxText) * this.#scale));
    const clipped = clip(text, most);
    if (clipped !== text) this.cut.add(path);
    this.chars += clipped.length;
    return clipped;
  }
}
