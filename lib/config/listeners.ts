import { leadsToLoopback, parseIp } from '../ip.ts';
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
  const ip = host === null || host === '::' ? undefined : parseIp(host);
  return ip === undefined ? [4, 6] : [ip.family];
}

function isEverywhere(host: string | null): boolean {
  return host === null || host === '0.0.0.0' || host === '::';
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
          (listen.host === host || isEverywhere(listen.host) || isEverywhere(host)),
      );
    return first === undefined ? [] : [{ late, first }];
  });
}

/** Whether an app on the proxy's own machine could not listen there: the proxy does already. */
export function takesPlaceOf(listen: ListenAddress, { host, port }: InboundPort['app']): boolean {
  if (listen.port !== port) return false;
  if (!isEverywhere(listen.host)) return listen.host === host;
  const ip = parseIp(host);
  return leadsToLoopback(host) && (ip === undefined || familiesOf(listen).includes(ip.family));
}
