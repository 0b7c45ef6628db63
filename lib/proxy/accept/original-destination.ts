import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { type IpAddress, parseIp } from '../../ip.ts';
import { descriptorOf } from '../node-internals.ts';
import type { Endpoint } from '../upstream/endpoint.ts';

export interface OriginalDestination {
  readonly ip: IpAddress;
  readonly port: number;
}

/** Reads where a redirected connection was meant to go (netfilter's SO_ORIGINAL_DST). */
export type ReadOriginalDestination = (socket: Socket) => OriginalDestination | null;

const SOL_IP = 0;
const SOL_IPV6 = 41;
const SO_ORIGINAL_DST = 80;

/**
 * Node has no getsockopt, so this is a foreign call (about 12 microseconds a connection).
 * Returns null where the kernel knows no other destination: the connection was not redirected.
 *
 * @throws when koffi or the C library cannot be loaded; called once, at start.
 */
export function loadOriginalDestination(): ReadOriginalDestination {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  const getsockopt = koffi
    .load('libc.so.6')
    .func('int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ uint32_t *length)');
  return (socket) => {
    const fd = descriptorOf(socket);
    if (fd === null) return null;
    const address = Buffer.alloc(28);
    // An IPv4 connection on a dual-stack listener shows as ::ffff:a.b.c.d and needs the IPv4 call.
    const v4 = parseIp(socket.remoteAddress ?? '')?.family === 4;
    if (getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, SO_ORIGINAL_DST, address, [v4 ? 16 : 28]) !== 0) return null;
    const port = address.readUInt16BE(2);
    const words: string[] = [];
    for (let at = 8; at < 24; at += 2) words.push(address.readUInt16BE(at).toString(16));
    const ip = parseIp(v4 ? address.subarray(4, 8).join('.') : words.join(':'));
    return ip === undefined ? null : { ip, port };
  };
}

/** The value of `SALLYPORT_APP_HOST` that leaves a connection's destination as it was. */
const originalHost = 'original';

/**
 * Where the app is found for a redirected connection: on the port that the client meant, at the configured host.
 *
 * The default is IPv4's loopback, and stands for the loopback of the client's own family first: an app that serves IPv6
 * may well listen on ::1 alone. A port that nobody declared is looked for at the very address that the client meant: what
 * listens there could be reached without us, and what listens on loopback alone, a debugger say, could not.
 */
export function appEndpoint(appHost: string, target: OriginalDestination, isDeclared: () => boolean): Endpoint {
  const { ip, port } = target;
  if (appHost === originalHost) return { host: ip.text, port };
  if (leadsToLoopback(appHost) && !isDeclared()) return { host: ip.text, port };
  return { host: appHost === '127.0.0.1' && ip.family === 6 ? 'localhost' : appHost, port };
}

/** Loopback, or the unspecified address, which leads there. */
export function leadsToLoopback(host: string): boolean {
  if (host === 'localhost') return true;
  const ip = parseIp(host);
  if (ip === undefined) return false;
  if (ip.family === 4) return ip.value >>> 24 === 127 || ip.value === 0;
  return ip.words[0] === 0 && ip.words[1] === 0 && ip.words[2] === 0 && ip.words[3] <= 1;
}
