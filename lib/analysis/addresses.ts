import { type IpAddress, ipv4, ipv6 } from '../ip.ts';
import type { Interval, NetworkSet } from '../policy/networks.ts';

/*
 * All addresses, in classes: two addresses are in one class where every set of networks holds both of them or neither. A
 * class is a list of intervals.
 */

export interface AddressRange {
  readonly family: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
}

export interface AddressClass {
  readonly ranges: readonly AddressRange[];
  /** One of them. */
  readonly sample: IpAddress;
}

const ends: Readonly<Record<4 | 6, bigint>> = { 4: (1n << 32n) - 1n, 6: (1n << 128n) - 1n };
/** `::ffff:0:0/96`: clients from there are IPv4 (RFC 4291 section 2.5.5.2). */
const mapped: Interval = [0xffff_0000_0000n, 0xffff_ffff_ffffn];

/** Addresses that a person would take for an example, where the class has one of them. */
const examples = [0xc0000201n, 0x0a000001n, 0xc6336401n, 0xcb007101n];

export class AddressClasses {
  readonly classes: readonly AddressClass[];
  readonly #of = new Map<NetworkSet, number[]>();

  /** `only`: one address in place of all. */
  constructor(sets: Iterable<NetworkSet>, only: IpAddress | null = null) {
    // Many documents name the same networks.
    const byText = new Map<string, { readonly set: NetworkSet; readonly classes: number[] }>();
    for (const set of new Set(sets)) {
      const text = `${set.intervals(4).join(';')} ${set.intervals(6).join(';')}`;
      const known = byText.get(text) ?? { set, classes: [] };
      byText.set(text, known);
      this.#of.set(set, known.classes);
    }
    const distinct = [...byText.values()].map(({ set }) => set);
    if (only !== null) {
      for (const set of distinct) if (set.contains(only)) this.#of.get(set)?.push(0);
      const value = addressValue(only);
      this.classes = [{ ranges: [{ family: only.family, first: value, last: value }], sample: only }];
      return;
    }
    const found = new Map<string, { readonly ranges: AddressRange[]; readonly within: readonly number[] }>();
    for (const family of [4, 6] as const) divide(family, distinct, found);
    const classes = [...found.values()];
    classes.forEach(({ within }, i) => {
      for (const set of within) this.#of.get(distinct[set] as NetworkSet)?.push(i);
    });
    this.classes = classes.map(({ ranges }) => ({ ranges, sample: sampleOf(ranges) }));
  }

  /** The classes that a set holds, which is one of those given. */
  within(set: NetworkSet): readonly number[] {
    return this.#of.get(set) ?? [];
  }

  rangesOf(classes: Iterable<number>): AddressRange[] {
    return joined([...classes].flatMap((i) => this.classes[i]?.ranges ?? []));
  }
}

export function addressValue(ip: IpAddress): bigint {
  return ip.family === 4 ? BigInt(ip.value) : ip.words.reduce((sum, word) => (sum << 32n) | BigInt(word), 0n);
}

function addressOf(family: 4 | 6, value: bigint): IpAddress {
  if (family === 4) return ipv4(Number(value));
  const word = (shift: bigint): number => Number((value >> shift) & 0xffff_ffffn);
  return ipv6(word(96n), word(64n), word(32n), word(0n));
}

/** Goes over the addresses of one family from the first to the last, and files each stretch under the sets that hold it. */
function divide(
  family: 4 | 6,
  sets: readonly NetworkSet[],
  found: Map<string, { readonly ranges: AddressRange[]; readonly within: readonly number[] }>,
): void {
  const events: (readonly [at: bigint, set: number, enters: boolean])[] = [];
  const end = ends[family];
  sets.forEach((set, i) => {
    for (const [first, last] of set.intervals(family)) {
      events.push([first, i, true]);
      if (last < end) events.push([last + 1n, i, false]);
    }
  });
  if (family === 6) events.push([mapped[0], -1, true], [mapped[1] + 1n, -1, false]);
  events.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
  const active = new Set<number>();
  let from = 0n;
  const close = (to: bigint): void => {
    if (to < from || active.has(-1)) return;
    const within = [...active].sort((a, b) => a - b);
    const key = within.join();
    const known = found.get(key);
    const range = { family, first: from, last: to };
    if (known === undefined) found.set(key, { ranges: [range], within });
    else known.ranges.push(range);
  };
  for (const [at, set, enters] of events) {
    if (at > from) {
      close(at - 1n);
      from = at;
    }
    if (enters) active.add(set);
    else active.delete(set);
  }
  close(end);
}

function sampleOf(ranges: readonly AddressRange[]): IpAddress {
  for (const value of examples) {
    if (ranges.some(({ family, first, last }) => family === 4 && first <= value && value <= last)) {
      return addressOf(4, value);
    }
  }
  const { family, first, last } = ranges.find((range) => range.family === 4) ?? (ranges[0] as AddressRange);
  // The first address of a network is rarely a client's.
  return addressOf(family, last > first ? first + 1n : first);
}

/** Sorted; neighbours made one, also those that only mapped addresses keep apart. */
function joined(ranges: readonly AddressRange[]): AddressRange[] {
  const sorted = [...ranges].sort(
    (a, b) => a.family - b.family || (a.first < b.first ? -1 : a.first > b.first ? 1 : 0),
  );
  const merged: AddressRange[] = [];
  for (const range of sorted) {
    const previous = merged.at(-1);
    if (previous !== undefined && previous.family === range.family && touches(previous.last, range.first)) {
      merged[merged.length - 1] = { ...previous, last: later(previous.last, range.last) };
    } else merged.push(range);
  }
  return merged;
}

function later(a: bigint, b: bigint): bigint {
  return a < b ? b : a;
}

function touches(last: bigint, first: bigint): boolean {
  return first <= last + 1n || (last + 1n === mapped[0] && first === mapped[1] + 1n);
}

/** As CIDRs; in place of a list that is longer, what it leaves out. Null for all addresses. */
export function rangesText(
  ranges: readonly AddressRange[],
): { readonly only: string[] } | { readonly but: string[] } | null {
  const outside = complement(ranges);
  if (outside.length === 0) return null;
  const only = ranges.flatMap(cidrsOf);
  if (outside.length >= ranges.length) return { only };
  const but = outside.flatMap(cidrsOf);
  return but.length < only.length ? { but } : { only };
}

function complement(ranges: readonly AddressRange[]): AddressRange[] {
  const rest: AddressRange[] = [];
  for (const family of [4, 6] as const) {
    let from = 0n;
    for (const { first, last } of ranges.filter((range) => range.family === family)) {
      if (first > from) rest.push({ family, first: from, last: first - 1n });
      from = last + 1n;
    }
    if (from <= ends[family]) rest.push({ family, first: from, last: ends[family] });
  }
  return rest.filter(({ family, first, last }) => family === 4 || first < mapped[0] || last > mapped[1]);
}

function cidrsOf({ family, first, last }: AddressRange): string[] {
  const width = family === 4 ? 32 : 128;
  const texts: string[] = [];
  for (let at = first; at <= last; ) {
    let bits = 0;
    while (
      bits < width &&
      (at & ((1n << BigInt(bits + 1)) - 1n)) === 0n &&
      at + (1n << BigInt(bits + 1)) - 1n <= last
    ) {
      bits += 1;
    }
    texts.push(`${addressOf(family, at).text}${bits === 0 ? '' : `/${width - bits}`}`);
    at += 1n << BigInt(bits);
  }
  return texts;
}
