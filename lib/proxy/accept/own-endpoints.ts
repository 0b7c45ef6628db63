import { type IpAddress, parseIp } from '../../ip.ts';
import { type Endpoint, leadsToLoopback } from '../upstream/endpoint.ts';

/** Both as Node says them: nothing, once the connection has been reset. */
type ConnectedEnds = { readonly [end in 'localAddress' | 'remoteAddress']?: string | undefined };

/** The ports on which this proxy itself listens: whatever is sent to one on this host comes back here, without end. */
export class OwnEndpoints {
  readonly #ports = new Set<number>();
  readonly #podIps: () => readonly IpAddress[];

  constructor(podIps: () => readonly IpAddress[]) {
    this.#podIps = podIps;
  }

  add(port: number): void {
    this.#ports.add(port);
  }

  get ports(): readonly number[] {
    return [...this.#ports];
  }

  /** Its host is this one: loopback, unspecified, an address of the pod, or `arrivedAt`, where a client has reached it. */
  has(endpoint: Endpoint, arrivedAt: IpAddress | null = null): boolean {
    if (!this.#ports.has(endpoint.port)) return false;
    if (leadsToLoopback(endpoint.host)) return true;
    const text = parseIp(endpoint.host)?.text;
    return text !== undefined && (text === arrivedAt?.text || this.#podIps().some((ip) => ip.text === text));
  }

  /** The same of a connection that has been made: only then is it known where a name has led. */
  isReachedBy(connected: ConnectedEnds, port: number): boolean {
    if (!this.#ports.has(port)) return false;
    const { localAddress = '', remoteAddress } = connected;
    // It has been reset already, and may have led here.
    if (remoteAddress === undefined) return true;
    // Only who dials an address of this very host has the same at both ends.
    return this.has({ host: remoteAddress, port }, parseIp(localAddress) ?? null);
  }
}
