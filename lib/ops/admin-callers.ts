/**
 * Who may use what the admin server keeps to its own machine. A connection from loopback is no proof of a local user:
 * any page in a browser there can send requests to it, by address or by a name of its own that resolves to it.
 */
import { type IpAddress, parseIp } from '../ip.ts';

/** On what changes something. A page may add it to requests of its own origin only (Fetch standard, 4.9). */
export const adminHeader = 'sallyport-admin';

/** Where the record of decisions is asked for. */
export const decisionsPath = '/decisions';

/** On what answers there: the version of the record. */
export const decisionsHeader = 'sallyport-decisions';

/** Every header that the admin server reads: what hands a request on to it from another thread sends these. */
export const adminFields = ['host', 'origin', 'sec-fetch-site', 'accept', 'accept-encoding', adminHeader] as const;
export type AdminField = (typeof adminFields)[number];

/** What a request says of its sender. */
export interface AdminCaller {
  /** Whom the client means: the target's authority, or Host; empty where it names nobody. */
  readonly host: string;
  /** Of the connection, IPv4-mapped addresses already unwrapped; never from a header. */
  readonly clientIp: IpAddress;
  /** Every value of a header; empty where absent. */
  header(name: AdminField): readonly string[];
}

const localhost: readonly string[] = ['127.0.0.1', '::1'];

/**
 * Why a request is refused; null when it is a local caller's. Nothing is said about the resource.
 *
 * - The peer is 127.0.0.1 or ::1.
 * - Every host it names, and it must name one, is `localhost` or an address: other names may be an attacker's own, made
 *   to resolve to this machine (DNS rebinding).
 * - Its Origin, if any, is this very host and port, and Sec-Fetch-Site, if any, says that no other site is behind it.
 */
export function foreignCaller(request: AdminCaller): string | null {
  if (!localhost.includes(request.clientIp.text)) return 'Requests are only permitted from localhost.';
  const hosts = [request.host, ...request.header('host')];
  if (!hosts.every(namesThisMachine)) return 'Requests are only permitted to localhost or an address.';
  if (!request.header('origin').every((origin) => isOriginOf(request.host, origin))) {
    return 'Requests of other origins are not permitted.';
  }
  if (!request.header('sec-fetch-site').every((site) => site === 'same-origin' || site === 'none')) {
    return 'Requests of other sites are not permitted.';
  }
  return null;
}

/** Whether the header that no page of another origin can send is there, once, as `1`. */
export function isDeliberate(request: AdminCaller): boolean {
  const values = request.header(adminHeader);
  return values.length === 1 && values[0] === '1';
}

/** `localhost`, or an address as URLs write it, each with any port. */
function namesThisMachine(host: string): boolean {
  const [, name = '', six] = /^(localhost|\d+\.\d+\.\d+\.\d+|\[([\da-f:.]+)\])(?::\d{1,5})?$/i.exec(host) ?? [];
  return name.toLowerCase() === 'localhost' || parseIp(six ?? name) !== undefined;
}

/** `null`, lists and anything else that is no `scheme://host[:port]` are origins of nobody. */
function isOriginOf(host: string, origin: string): boolean {
  const [, scheme = '', authority = ''] = /^(https?):\/\/([^/?#@\s]+)$/i.exec(origin) ?? [];
  if (authority === '') return false;
  const port = `:${scheme.toLowerCase() === 'https' ? 443 : 80}`;
  const full = (text: string): string => (/:\d+$/.test(text) ? text : text + port).toLowerCase();
  return full(authority) === full(host);
}
