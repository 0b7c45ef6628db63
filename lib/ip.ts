import ipaddr from 'ipaddr.js';

/** A canonical address: IPv4-mapped IPv6 is unwrapped to IPv4, zones are dropped, one spelling each. */
export type IpAddress =
  | { readonly family: 4; readonly value: number; readonly text: string }
  /** Four 32-bit words, most significant first. */
  | { readonly family: 6; readonly words: readonly [number, number, number, number]; readonly text: string };

/** Recently parsed texts: the same few clients connect again and again. */
const recent = new Map<string, IpAddress>();
const maxRecent = 4096;

/** Parses an address in any spelling; undefined for anything that is not one (callers treat that as "matches nothing"). */
export function parseIp(text: string): IpAddress | undefined {
  const known = recent.get(text);
  if (known !== undefined) return known;
  const ip = readIp(text);
  if (ip !== undefined) {
    if (recent.size >= maxRecent) recent.clear();
    recent.set(text, ip);
  }
  return ip;
}

function readIp(text: string): IpAddress | undefined {
  const zone = text.indexOf('%');
  const bare = zone === -1 ? text : text.slice(0, zone);
  // isValidFourPartDecimal, because ipaddr.js also takes "10.1" and "0x0a000001", which are not addresses in a policy file.
  if (bare.includes(':')) {
    if (!ipaddr.IPv6.isValid(bare)) return undefined;
    const six = ipaddr.IPv6.parse(withoutCompatible(bare));
    if (six.isIPv4MappedAddress()) return fromV4Bytes(six.toIPv4Address().toByteArray());
    const p = six.parts;
    const word = (i: number): number => (((p[i] as number) << 16) | (p[i + 1] as number)) >>> 0;
    return { family: 6, words: [word(0), word(2), word(4), word(6)], text: six.toRFC5952String() };
  }
  if (!ipaddr.IPv4.isValidFourPartDecimal(bare)) return undefined;
  return fromV4Bytes(ipaddr.IPv4.parse(bare).toByteArray());
}

/** IPv4-compatible `::a.b.c.d` (RFC 4291 section 2.5.5.1) in hexadecimal, because ipaddr.js takes it for IPv4-mapped. */
function withoutCompatible(text: string): string {
  const compatible = /^::(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (compatible === null) return text;
  const [a = 0, b = 0, c = 0, d = 0] = compatible.slice(1).map(Number);
  return `::${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

function fromV4Bytes(bytes: readonly number[]): IpAddress {
  const [a = 0, b = 0, c = 0, d = 0] = bytes;
  return { family: 4, value: ((a << 24) | (b << 16) | (c << 8) | d) >>> 0, text: `${a}.${b}.${c}.${d}` };
}

const recentV4 = new Map<number, IpAddress>();

/** @param value 32 bits. */
export function ipv4(value: number): IpAddress {
  let ip = recentV4.get(value);
  if (ip === undefined) {
    ip = fromV4Bytes([value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]);
    if (recentV4.size >= maxRecent) recentV4.clear();
    recentV4.set(value, ip);
  }
  return ip;
}

/** From four words of 32 bits, most significant first. */
export function ipv6(...words: readonly [number, number, number, number]): IpAddress {
  const [a, b, c, d] = words;
  if (a === 0 && b === 0 && c === 0xffff) return ipv4(d);
  const text = words.map((word) => `${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`).join(':');
  // Eight groups are an address.
  return parseIp(text) as IpAddress;
}

/** 127.0.0.0/8 or ::1. */
export function isLoopback(ip: IpAddress): boolean {
  if (ip.family === 4) return ip.value >>> 24 === 127;
  const [a, b, c, d] = ip.words;
  return a === 0 && b === 0 && c === 0 && d === 1;
}

/** 0.0.0.0 or ::, which stands for every address of a host. */
export function isUnspecified({ text }: IpAddress): boolean {
  return text === '0.0.0.0' || text === '::';
}

/** By its name, as anybody may write it. */
export function isLocalhost(host: string): boolean {
  return /^localhost\.?$/i.test(host);
}

/** Whether a host, by name or address, is loopback, or the unspecified address, which leads there. */
export function leadsToLoopback(host: string): boolean {
  const ip = parseIp(host);
  return isLocalhost(host) || (ip !== undefined && (isLoopback(ip) || isUnspecified(ip)));
}

/** `1.2.3.4:80` or `[::1]:80`. */
export function hostPort(ip: string, port: number): string {
  return ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`;
}
