import type { CodedLog } from '../../errors/complaint.ts';
import type { FaultCode } from '../../errors/faults.ts';
import { type IpAddress, isUnspecified, leadsToLoopback, parseIp } from '../../ip.ts';
import type { Arrival } from '../connection-services.ts';
import type { Destination } from '../http/request-pipeline.ts';
import type { Recorder, StrayReason } from '../recorder.ts';
import { arrivedAt, type HasEnds, type SocketEnd } from '../socket-calls.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import { appEndpoint } from './original-destination.ts';
import type { OwnEndpoints } from './own-endpoints.ts';

/** Where a connection that has come to a listener was meant to go; null: it is closed. */
export type Arrive = (connected: HasEnds, client: SocketEnd) => Arrival | null;

/** At a port of the proxy that stands for one of the app. `host` null: every address of this machine. */
export function explicitArrivals(host: string | null, policyPort: number, app: Endpoint): Arrive {
  const destination: Destination = { kind: 'app', endpoint: app };
  // Bound to one address, every connection arrives there, and the kernel need not be asked each time.
  const one = parseIp(host ?? '');
  const isOne = one !== undefined && !isUnspecified(one);
  let last: Arrival = { targetIp: isOne ? one.text : '', policyPort, destination };
  return (connected) => {
    if (isOne) return last;
    const targetIp = arrivedAt(connected)?.ip.text ?? '';
    if (targetIp !== last.targetIp) last = { targetIp, policyPort, destination };
    return last;
  };
}

/** At the admin server's own port. */
export function adminArrivals(host: string | null, port: number, destination: Destination): Arrive {
  const arrival: Arrival = { targetIp: host ?? '0.0.0.0', policyPort: port, destination };
  return () => arrival;
}

export interface RedirectedOptions {
  /** Null where the kernel knows no other destination: the connection was not redirected. */
  readonly originalDestination: (connected: HasEnds, client: SocketEnd) => SocketEnd | null;
  readonly appHost: string;
  /** What is reached at the admin server's port; null where there is none. */
  readonly admin: { readonly port: number; readonly destination: Destination } | null;
  /** The pod's addresses as they are; `ipsStated`: they were set, and are all of them. */
  pod(): { readonly ips: readonly IpAddress[]; readonly ipsStated: boolean };
  /** Whether an interface of this machine has the address. */
  isLocal(ip: IpAddress): boolean;
  /** Whether somebody has said that the app serves this port. */
  isDeclared(port: number): boolean;
  readonly own: OwnEndpoints;
  readonly warn: CodedLog['warn'];
  /** For counting: one that is closed. */
  readonly strayed: Recorder['strayed'];
}

/** A warning, and what it is about. */
interface Warning {
  readonly code: FaultCode;
  readonly message: string;
}

const foreign: Warning = {
  code: 'foreign-destination',
  message: 'Connections meant for an address that is not of the pod are closed (SALLYPORT_POD_IPS)',
};

const undeclared: Warning = {
  code: 'undeclared-port',
  message: 'Nothing declares this port: what listens there on loopback alone is not reached (SALLYPORT_LOOPBACK_PORTS)',
};

const redirectedToUs: Warning = {
  code: 'own-port-redirected',
  message: 'Connections to a port on which this proxy itself listens are redirected; they are closed',
};

/** Kinds of warnings about redirected connections. */
const mostWarnings = 256;

/** At the port to which the kernel redirects whatever is sent to the pod. */
export function redirectedArrivals(options: RedirectedOptions): Arrive {
  const { admin, own, appHost } = options;
  const told = new Set<string>();
  /** Once for each; a client cannot make us write a line for each connection. */
  const warnOnce = (fields: { readonly port?: number; readonly ip?: string }, { code, message }: Warning): void => {
    const key = `${fields.port} ${fields.ip} ${code}`;
    if (told.has(key) || told.size >= mostWarnings) return;
    told.add(key);
    options.warn({ code, ...fields }, message);
  };
  const named = (ip: IpAddress): 'as ours' | 'as not ours' | 'by nobody' => {
    const { ips, ipsStated } = options.pod();
    if (!ipsStated) return 'by nobody';
    return ips.some(({ text }) => text === ip.text) ? 'as ours' : 'as not ours';
  };
  // Packets for loopback can come from a wire (CVE-2020-8558), and for any address at all: they are not this machine's.
  const isOurs = (ip: IpAddress, client: IpAddress): boolean =>
    leadsToLoopback(ip.text) ? leadsToLoopback(client.text) : named(ip) !== 'as not ours';
  const closed = (reason: StrayReason): null => {
    options.strayed(reason);
    return null;
  };
  const closedAsForeign = (ip: IpAddress): null => {
    warnOnce({ ip: ip.text }, foreign);
    return closed('foreign_destination');
  };
  return (connected, client) => {
    const target = options.originalDestination(connected, client);
    // Not redirected, or meant for this port itself: forwarding would come back here.
    if (target === null || target.port === arrivedAt(connected)?.port) return closed('not_redirected');
    const { ip, port } = target;
    if (!isOurs(ip, client.ip)) return closedAsForeign(ip);
    if (port === admin?.port) return { targetIp: ip.text, policyPort: port, destination: admin.destination };
    // The app would be this proxy. Whatever listens there should have been left out of the redirection.
    if (
      own.has(
        appEndpoint(appHost, target, () => true),
        ip,
      )
    ) {
      warnOnce({ port }, redirectedToUs);
      return closed('own_port');
    }
    let declared: boolean | null = null;
    const endpoint = appEndpoint(appHost, target, () => {
      declared = options.isDeclared(port);
      return declared;
    });
    // Sent on as it was meant, it would leave this machine, with this machine's address for its own.
    const asMeant = endpoint.host === ip.text && !leadsToLoopback(ip.text);
    const isHere = !asMeant || named(ip) === 'as ours' || options.isLocal(ip);
    if (!isHere) return closedAsForeign(ip);
    if (declared === false) warnOnce({ port }, undeclared);
    const arrival: Arrival = { targetIp: ip.text, policyPort: port, destination: { kind: 'app', endpoint } };
    return declared === true ? { ...arrival, stillLeads: options.isDeclared } : arrival;
  };
}
