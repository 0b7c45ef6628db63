import ipaddr from 'ipaddr.js';
import { list, type Parser, type PortRange } from '../config/values.ts';
import { parseIp } from '../ip.ts';

/** What netfilter calls IPv4 and IPv6: each has tables and programs of its own. */
export type Family = 4 | 6;

export interface Subnet {
  readonly family: Family;
  /** Network address and prefix length, as `iptables-save` prints them. */
  readonly cidr: string;
}

function everyAddress(fault: string): { code: 'every-address'; fault: string; hint: string } {
  return { code: 'every-address', fault, hint: 'leave the rules out where nothing shall be guarded' };
}

const subnet: Parser<Subnet> = (given) => {
  const [address = '', prefix, ...rest] = given.split('/');
  const ip = parseIp(address);
  const bits = ip?.family === 4 ? 32 : 128;
  const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
  // An IPv4-mapped network would need its prefix counted anew; nobody writes one for netfilter.
  const mapped = ip?.family === 4 && address.includes(':');
  if (ip === undefined || mapped || rest.length > 0 || !(length <= bits)) {
    return {
      code: 'bad-network',
      fault: `${JSON.stringify(given)} is not a network`,
      hint: 'write a network such as 10.0.0.0/8 or fd00::/8, or one address',
    };
  }
  if (length === 0) return everyAddress(`${given} is every address`);
  const family = ip.family === 4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const network = family.networkAddressFromCIDR(`${ip.text}/${length}`);
  const text = network instanceof ipaddr.IPv6 ? network.toRFC5952String() : network.toString();
  return { value: { family: ip.family, cidr: `${text}/${length}` } };
};

/**
 * `10.1.0.0/16,fd00::7`: whatever bits lie behind the prefix are cleared, as netfilter does. Refused where the networks
 * together hold every address that a client can have: no connection would be redirected.
 */
export const subnets: Parser<readonly Subnet[]> = (given) => {
  const read = list(subnet)(given);
  if ('fault' in read) return read;
  const all = ([4, 6] as const).find((family) => isEveryClient(read.value.filter((each) => each.family === family)));
  return all === undefined ? read : everyAddress(`${given} is, all together, every IPv${all} address of a client`);
};

/** Addresses that a client can have. First and last of each block: unicast (RFC 6890; RFC 4291 section 2.4, RFC 4193). */
const clients: Readonly<Record<Family, readonly Extent[]>> = {
  4: [
    [blockOf('1.0.0.0/8')[0], blockOf('126.0.0.0/8')[1]],
    [blockOf('128.0.0.0/8')[0], blockOf('223.0.0.0/8')[1]],
  ],
  6: [blockOf('2000::/3'), blockOf('fc00::/7')],
};

type Extent = readonly [first: bigint, last: bigint];

function blockOf(cidr: string): Extent {
  const [address, prefix] = ipaddr.parseCIDR(cidr);
  const bytes = address.toByteArray();
  const first = bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  return [first, first + (1n << BigInt(bytes.length * 8 - prefix)) - 1n];
}

function isEveryClient(networks: readonly Subnet[]): boolean {
  const [one] = networks;
  if (one === undefined) return false;
  const blocks = networks.map(({ cidr }) => blockOf(cidr)).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return clients[one.family].every(([first, last]) => {
    let free = first;
    for (const [from, to] of blocks) if (from <= free && free <= to) free = to + 1n;
    return free > last;
  });
}

/** In order, none touching another: the same ports in any spelling become the same rules. */
export function mergeRanges(ranges: readonly PortRange[]): PortRange[] {
  const merged: PortRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && range.first <= before.last + 1) {
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
    } else {
      merged.push(range);
    }
  }
  return merged;
}

/** Every port but the inbound one is left alone: no policy governs any port of the app. */
export function isEveryPort(ranges: readonly PortRange[], inboundPort: number): boolean {
  const [all, ...others] = mergeRanges([...ranges, { first: inboundPort, last: inboundPort }]);
  return others.length === 0 && all?.first === 1 && all.last === 65_535;
}

export function includesPort(ranges: readonly PortRange[], port: number): boolean {
  return ranges.some(({ first, last }) => first <= port && port <= last);
}

/** iptables-extensions(8), multiport: "Up to 15 ports can be specified. A port range (port:port) counts as two ports." */
const multiportSlots = 15;

/** The arguments of `--dports`, one for each rule that is needed to name all the ports. */
export function multiportLists(ranges: readonly PortRange[]): string[] {
  const lists: string[] = [];
  let items: string[] = [];
  let used = 0;
  for (const { first, last } of ranges) {
    const slots = first === last ? 1 : 2;
    if (used + slots > multiportSlots) {
      lists.push(items.join(','));
      [items, used] = [[], 0];
    }
    items.push(first === last ? String(first) : `${first}:${last}`);
    used += slots;
  }
  if (items.length > 0) lists.push(items.join(','));
  return lists;
}
