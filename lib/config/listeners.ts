import { type IpAddress, isLocalhost, isUnspecified, leadsToLoopback, parseIp } from '../ip.ts';
import type { InboundPort, ListenAddress } from './values.ts';
import { type Environment, VariableReader } from './variables.ts';

/** Where the proxy listens for clients. */
export interface Listeners {
  /** For redirected connections. Null: only the explicit ports listen. */
  readonly inboundListen: ListenAddress | null;
  readonly inboundPorts: readonly InboundPort[];
  readonly adminListen: ListenAddress | null;
}

/** Faults go to the reader. */
export function listenersOf(reader: VariableReader): Listeners {
  const inboundListen = reader.get('SALLYPORT_INBOUND_LISTEN');
  const redirected = reader.isSet('SALLYPORT_INBOUND_LISTEN') || !reader.isSet('SALLYPORT_INBOUND_PORTS');
  return {
    inboundListen: redirected ? inboundListen : null,
    inboundPorts: reader.get('SALLYPORT_INBOUND_PORTS') ?? [],
    adminListen: reader.get('SALLYPORT_ADMIN_LISTEN'),
  };
}

/** Null where the environment does not say it without a fault. */
export function readListeners(env: Environment): Listeners | null {
  const reader = new VariableReader(env);
  const listeners = listenersOf(reader);
  return reader.faults.length > 0 ? null : listeners;
}

/** The listener that a client of a port comes to, by its variable; null where there is none. */
export function listenerFor(
  { inboundListen, inboundPorts, adminListen }: Listeners,
  port: number,
): { readonly variable: string; readonly listen: ListenAddress } | null {
  if (adminListen?.port === port) return { variable: 'SALLYPORT_ADMIN_LISTEN', listen: adminListen };
  const explicit = inboundPorts.find(({ policyPort }) => policyPort === port);
  if (explicit !== undefined) return { variable: 'SALLYPORT_INBOUND_PORTS', listen: explicit.listen };
  return inboundListen === null ? null : { variable: 'SALLYPORT_INBOUND_LISTEN', listen: inboundListen };
}

/** The address families that a listener takes; both where its host is a name, or every address. */
export function familiesOf({ host }: ListenAddress): readonly (4 | 6)[] {
  const ip = host === null ? undefined : parseIp(host);
  return ip === undefined || ip.text === '::' ? [4, 6] : [ip.family];
}

function isEverywhere(host: string | null): boolean {
  const ip = parseIp(host ?? '::');
  return ip !== undefined && isUnspecified(ip);
}

/** One spelling of an address or a name. A zone makes another address of it. */
function spelling(host: string): string {
  const ip = host.includes('%') ? undefined : parseIp(host);
  return ip?.text ?? host.toLowerCase().replace(/\.$/, '');
}

function isSameHost(one: string | null, other: string | null): boolean {
  return one !== null && other !== null && spelling(one) === spelling(other);
}

/** Listeners that could not all be bound: each that comes too late, with the one before it that has its port. */
export function clashesOf<Named extends { readonly listen: ListenAddress }>(
  listeners: readonly Named[],
): readonly { readonly late: Named; readonly first: Named }[] {
  return listeners.flatMap((late, index) => {
    const { host, port } = late.listen;
    const first = listeners
      .slice(0, index)
      .find(
        ({ listen }) =>
          port !== 0 &&
          listen.port === port &&
          (isSameHost(listen.host, host) || isEverywhere(listen.host) || isEverywhere(host)),
      );
    return first === undefined ? [] : [{ late, first }];
  });
}

/** What is known of this host before anything is bound. */
export interface Here {
  /** Whatever is sent to a port, at any address, may be led to the listener that has it. */
  readonly isRedirected: boolean;
  readonly ips: readonly IpAddress[];
}

/**
 * The listener to which an app's address leads, so that the proxy would be its own app; undefined where none is known to be. All
 * that is found here every connection is refused for (lib/proxy/accept/own-endpoints.ts), which knows what names lead to,
 * too. The port of an explicit listener alone may be an app's at another address.
 */
export function listenerOfOurs<Listening extends { readonly listen: ListenAddress; readonly isExplicit: boolean }>(
  listeners: readonly Listening[],
  { host, port }: InboundPort['app'],
  { isRedirected, ips }: Here,
): Listening | undefined {
  const ip = parseIp(host);
  return listeners.find(({ listen, isExplicit }) => {
    if (listen.port !== port) return false;
    if (isSameHost(listen.host, host)) return true;
    if (!isExplicit || isRedirected || isEverywhere(listen.host))
      return leadsToLoopback(host) || ips.some(({ text }) => text === ip?.text);
    if (isLocalhost(host)) return ['127.0.0.1', '::1'].includes(spelling(listen.host ?? ''));
    // Which address of this host the unspecified one leads to is the system's choice.
    return ip !== undefined && isUnspecified(ip);
  });
}
