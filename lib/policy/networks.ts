import { type IpAddress, parseIp } from '../ip.ts';

/** A block of addresses of one family, first and last included. Plain data: it crosses threads inside documents. */
export interface Cidr {
  readonly family: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
  /** As written. */
  readonly text: string;
}

/** Sallyport's symbol for the pod's own addresses, resolved when a policy is compiled for a workload. */
export const podClusterIp = 'podClusterIp';
export type NetworkSource = Cidr | typeof podClusterIp;

/** One entry of a list of networks: addresses inside `network` and inside none of `except`. */
export interface NetworkEntry {
  readonly network: NetworkSource;
  readonly except: readonly NetworkSource[];
}

function bits(ip: IpAddress): bigint {
  if (ip.family === 4) return BigInt(ip.value);
  return ip.words.reduce((sum, word) => (sum << 32n) | BigInt(word), 0n);
}

export function cidrOf(ip: IpAddress): Cidr {
  const value = bits(ip);
  return { family: ip.family, first: value, last: value, text: ip.text };
}

/**
 * `10.0.0.0/8`, `fd00::/8`, or a bare address (one host). Yields a sentence for anything else; callers must then refuse
 * the whole document, because a network that cannot be read must not become a wider or a missing one.
 *
 * An IPv4-mapped block (`::ffff:10.0.0.0/104`) is one of IPv6 like any other, as in Linkerd: it holds no client, since mapped
 * clients are IPv4 from accept on. `isMapped` tells it, so that the reader of documents can say so.
 */
export function parseCidr(text: string): Cidr | string {
  const slash = text.indexOf('/');
  const address = slash === -1 ? text : text.slice(0, slash);
  // A zone names an interface of one host; it has no meaning in a policy.
  const ip = address.includes('%') ? undefined : parseIp(address);
  if (ip === undefined) return `"${text}" is neither a CIDR nor an IP address`;
  const width = address.includes(':') ? 128 : 32;
  let prefix = width;
  if (slash !== -1) {
    const digits = text.slice(slash + 1);
    if (!/^(?:0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > width) {
      return `"${text}" has no prefix length between 0 and ${width}`;
    }
    prefix = Number(digits);
  }
  const size = 1n << BigInt(width - prefix);
  const value = ip.family === 4 && width === 128 ? firstMapped | bits(ip) : bits(ip);
  const first = value & ~(size - 1n);
  return { family: width === 128 ? 6 : 4, first, last: first + size - 1n, text };
}

/** `::ffff:0:0/96` (RFC 4291 section 2.5.5.2). */
const firstMapped = 0xffff_0000_0000n;
const lastMapped = 0xffff_ffff_ffffn;

/** Whether a block holds nothing but IPv4-mapped addresses, hence no client. */
export function isMapped({ family, first, last }: Cidr): boolean {
  return family === 6 && first >= firstMapped && last <= lastMapped;
}

/** The network in whose middle the address of a CIDR lies: `10.0.0.0/8` of `10.1.2.3/8`; null where it begins there. */
export function withoutHostBits({ family, first, text }: Cidr): string | null {
  const [address = '', prefix] = text.split('/');
  const ip = parseIp(address);
  if (prefix === undefined || ip === undefined || ip.family !== family || bits(ip) === first) return null;
  return `${addressText(family, first)}/${prefix}`;
}

function addressText(family: 4 | 6, value: bigint): string {
  const parts = (count: number, size: bigint, base: number): string[] =>
    Array.from({ length: count }, (_, i) =>
      ((value >> (BigInt(count - 1 - i) * size)) & ((1n << size) - 1n)).toString(base),
    );
  const text = family === 4 ? parts(4, 8n, 10).join('.') : parts(8, 16n, 16).join(':');
  return parseIp(text)?.text ?? text;
}

export function contains(outer: Cidr, inner: Cidr): boolean {
  return outer.family === inner.family && outer.first <= inner.first && inner.last <= outer.last;
}

/** Whether `cidr` and `other` share an address. */
export function overlaps(cidr: Cidr, other: Cidr): boolean {
  return cidr.family === other.family && cidr.first <= other.last && other.first <= cidr.last;
}

/** Addresses as sorted, disjoint intervals, prepared for a binary search. An empty set contains nobody. */
export class NetworkSet {
  /** Pairs of first and last. */
  readonly #v4: Uint32Array;
  /** Eight words an interval: four of the first address, four of the last. */
  readonly #v6: Uint32Array;
  /** The sources as written, for reasons and the policy view. */
  readonly text: string;

  constructor(v4: readonly Interval[], v6: readonly Interval[], text: string) {
    this.#v4 = Uint32Array.from(v4.flatMap(([first, last]) => [Number(first), Number(last)]));
    this.#v6 = Uint32Array.from(v6.flatMap(([first, last]) => [...words(first), ...words(last)]));
    this.text = text;
  }

  /** Everything that any of the sets contains. Of no sets: nobody. */
  static union(sets: readonly NetworkSet[]): NetworkSet {
    const [only] = sets;
    if (only !== undefined && sets.length === 1) return only;
    const v4 = union(sets.flatMap((set) => set.#intervals4()));
    const v6 = union(sets.flatMap((set) => set.#intervals6()));
    return new NetworkSet(v4, v6, sets.map(({ text }) => text).join(', '));
  }

  #intervals4(): Interval[] {
    return Array.from({ length: this.#v4.length / 2 }, (_, i) => [
      BigInt(this.#v4[i * 2] as number),
      BigInt(this.#v4[i * 2 + 1] as number),
    ]);
  }

  #intervals6(): Interval[] {
    const at = (offset: number): bigint =>
      this.#v6.subarray(offset, offset + 4).reduce((sum, word) => (sum << 32n) | BigInt(word), 0n);
    return Array.from({ length: this.#v6.length / 8 }, (_, i) => [at(i * 8), at(i * 8 + 4)]);
  }

  /** Sorted and disjoint. */
  intervals(family: 4 | 6): readonly Interval[] {
    return family === 4 ? this.#intervals4() : this.#intervals6();
  }

  contains(ip: IpAddress): boolean {
    return ip.family === 4 ? this.#contains4(ip.value) : this.#contains6(ip.words);
  }

  #contains4(value: number): boolean {
    const intervals = this.#v4;
    let low = 0;
    let high = intervals.length / 2 - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      if (value < (intervals[middle * 2] as number)) high = middle - 1;
      else if (value > (intervals[middle * 2 + 1] as number)) low = middle + 1;
      else return true;
    }
    return false;
  }

  #contains6(value: readonly number[]): boolean {
    const intervals = this.#v6;
    let low = 0;
    let high = intervals.length / 8 - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      if (compareWords(value, intervals, middle * 8) < 0) high = middle - 1;
      else if (compareWords(value, intervals, middle * 8 + 4) > 0) low = middle + 1;
      else return true;
    }
    return false;
  }
}

export type Interval = readonly [first: bigint, last: bigint];

function words(value: bigint): number[] {
  return [96n, 64n, 32n, 0n].map((shift) => Number((value >> shift) & 0xffff_ffffn));
}

function compareWords(value: readonly number[], intervals: Uint32Array, offset: number): number {
  for (let i = 0; i < 4; i++) {
    const difference = (value[i] as number) - (intervals[offset + i] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

function subtract(from: readonly Interval[], [first, last]: Interval): Interval[] {
  const rest: Interval[] = [];
  for (const [a, b] of from) {
    if (last < a || b < first) {
      rest.push([a, b]);
      continue;
    }
    if (a < first) rest.push([a, first - 1n]);
    if (last < b) rest.push([last + 1n, b]);
  }
  return rest;
}

function union(intervals: readonly Interval[]): Interval[] {
  const sorted = [...intervals].sort((x, y) => (x[0] < y[0] ? -1 : x[0] > y[0] ? 1 : 0));
  const merged: [bigint, bigint][] = [];
  for (const [first, last] of sorted) {
    const previous = merged.at(-1);
    if (previous !== undefined && first <= previous[1] + 1n) {
      if (last > previous[1]) previous[1] = last;
    } else merged.push([first, last]);
  }
  return merged;
}

/**
 * The union, over the entries, of each network minus its own exceptions. An empty list contains nobody.
 * With no pod address known, `podClusterIp` as a network is empty; as an exception it makes its entry empty, because
 * leaving the hole out would let in what the policy keeps out.
 */
export function networkSet(
  entries: readonly NetworkEntry[],
  podIps: readonly IpAddress[],
  text = networksText(entries),
): NetworkSet {
  const own = podIps.map(cidrOf);
  const resolve = (source: NetworkSource): readonly Cidr[] => (source === podClusterIp ? own : [source]);
  const byFamily: Record<4 | 6, Interval[]> = { 4: [], 6: [] };
  for (const { network, except } of entries) {
    if (own.length === 0 && except.includes(podClusterIp)) continue;
    const holes = except.flatMap(resolve);
    for (const cidr of resolve(network)) {
      let intervals: Interval[] = [[cidr.first, cidr.last]];
      for (const hole of holes) {
        if (hole.family === cidr.family) intervals = subtract(intervals, [hole.first, hole.last]);
      }
      byFamily[cidr.family].push(...intervals);
    }
  }
  return new NetworkSet(union(byFamily[4]), union(byFamily[6]), text);
}

const mostListed = 8;

function networksText(entries: readonly NetworkEntry[]): string {
  const name = (source: NetworkSource): string => (source === podClusterIp ? podClusterIp : source.text);
  const shown = entries
    .slice(0, mostListed)
    .map(({ network, except }) =>
      except.length === 0
        ? name(network)
        : `${name(network)} except ${except.slice(0, mostListed).map(name).join(' and ')}`,
    );
  if (entries.length > mostListed) shown.push(`${entries.length - mostListed} more`);
  return shown.length === 0 ? 'no network' : shown.join(', ');
}

/** The set of a list of CIDRs; entries that do not parse contain nobody. */
export function networkSetOf(cidrs: readonly string[]): NetworkSet {
  const parsed = cidrs.map(parseCidr).filter((cidr): cidr is Cidr => typeof cidr !== 'string');
  return networkSet(
    parsed.map((network) => ({ network, except: [] })),
    [],
  );
}
