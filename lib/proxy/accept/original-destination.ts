import { leadsToLoopback, parseIp } from '../../ip.ts';
import type { SocketEnd } from '../socket-calls.ts';
import type { Endpoint } from '../upstream/endpoint.ts';

/** The value of `SALLYPORT_APP_HOST` that leaves a connection's destination as it was. */
const originalHost = 'original';

/**
 * Where the app is found for a redirected connection: on the port that the client meant, at the configured host.
 *
 * The default is IPv4's loopback, and stands for the loopback of the client's own family first: an app that serves IPv6
 * may well listen on ::1 alone. A port that nobody declared is looked for at the very address that the client meant: what
 * listens there could be reached without us, and what listens on loopback alone, a debugger say, could not. Where another
 * name leads is known once it is connected.
 */
export function appEndpoint(appHost: string, target: SocketEnd, isDeclared: () => boolean): Endpoint {
  const { ip, port } = target;
  if (appHost === originalHost) return { host: ip.text, port };
  if (leadsToLoopback(appHost)) {
    if (!isDeclared()) return { host: ip.text, port };
  } else if (parseIp(appHost) === undefined && !isDeclared()) {
    return { host: appHost, port, notLoopback: true };
  }
  return { host: appHost === '127.0.0.1' && ip.family === 6 ? 'localhost' : appHost, port };
}
