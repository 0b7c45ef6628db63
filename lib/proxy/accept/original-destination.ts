import { parseIp } from '../../ip.ts';
import type { SocketEnd } from '../socket-calls.ts';
import type { Endpoint } from '../upstream/endpoint.ts';

/** The value of `SALLYPORT_APP_HOST` that leaves a connection's destination as it was. */
const originalHost = 'original';

/**
 * Where the app is found for a redirected connection: on the port that the client meant, at the configured host.
 *
 * The default is IPv4's loopback, and stands for the loopback of the client's own family first: an app that serves IPv6
 * may well listen on ::1 alone. A port that nobody declared is looked for at the very address that the client meant: what
 * listens there could be reached without us, and what listens on loopback alone, a debugger say, could not.
 */
export function appEndpoint(appHost: string, target: SocketEnd, isDeclared: () => boolean): Endpoint {
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
