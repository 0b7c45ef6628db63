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
  if (length === 0) {
    return {
      code: 'every-address',
      fault: `${given} is every address`,
      hint: 'leave the rules out where nothing shall be guarded',
    };
  }
  const family = ip.family === 4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const network = family.networkAddressFromCIDR(`${ip.text}/${length}`);
  const text = network instanceof ipaddr.IPv6 ? network.toRFC5952String() : network.toString();
  return { value: { family: ip.family, cidr: `${text}/${length}` } };
};

/** `10.1.0.0/16,fd00::7`: whatever bits lie behind the prefix are cleared, as netfilter does. */
export const subnets: Parser<readonly Subnet[]> = list(subnet);

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
