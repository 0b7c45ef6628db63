import { type IpAddress, isLocalhost, isUnspecified, leadsToLoopback, parseIp } from '../../ip.ts';
import type { Endpoint } from '../upstream/endpoint.ts';

/** Both as Node says them: nothing, once the connection has been reset. */
type ConnectedEnds = { readonly [end in 'localAddress' | 'remoteAddress']?: string | undefined };

export interface OwnListener {
  readonly port: number;
  /** Null: whatever is sent to the port at any address of this host comes here. */
  readonly address: string | null;
}

/** Where this proxy itself listens: whatever is sent there comes back here, without end. Doubt counts as yes. */
export class OwnEndpoints {
  readonly #podIps: () => readonly IpAddress[];
  readonly #isRedirected: boolean;
  /** By port; null: at every address of this host. */
  readonly #bound = new Map<number, ReadonlySet<string> | null>();

  /** @param isRedirected there is a listener for what the kernel redirects, and so may what is sent to any address be. */
  constructor(podIps: () => readonly IpAddress[], isRedirected: boolean) {
    this.#podIps = podIps;
    this.#isRedirected = isRedirected;
  }

  /** @param address as it is bound; null for a port that no app shall have at another. */
  add(port: number, address: string | null): void {
    const ip = address === null || this.#isRedirected ? undefined : parseIp(address);
    const known = this.#bound.get(port);
    if (ip === undefined || isUnspecified(ip)) this.#bound.set(port, null);
    else if (known !== null) this.#bound.set(port, new Set(known).add(ip.text));
  }

  get listeners(): readonly OwnListener[] {
    return [...this.#bound].flatMap(([port, addresses]): OwnListener[] =>
      addresses === null ? [{ port, address: null }] : [...addresses].map((address) => ({ port, address })),
    );
  }

  /** A name is known once it is connected. Of this host is loopback, an address of the pod, and `arrivedAt`, where a client has reached it. */
  has({ host, port }: Endpoint, arrivedAt: IpAddress | null = null): boolean {
    const bound = this.#bound.get(port);
    if (bound === undefined) return false;
    if (isLocalhost(host)) return bound === null || bound.has('127.0.0.1') || bound.has('::1');
    const ip = parseIp(host);
    if (ip === undefined) return false;
    // Which address of this host the unspecified one leads to is the system's choice.
    if (bound !== null) return isUnspecified(ip) || bound.has(ip.text);
    return leadsToLoopback(host) || ip.text === arrivedAt?.text || this.#podIps().some(({ text }) => text === ip.text);
  }

  /** The same of a connection that has been made: only then is it known where a name has led. */
  isReachedBy({ localAddress = '', remoteAddress = '' }: ConnectedEnds, port: number): boolean {
    if (!this.#bound.has(port)) return false;
    const [local, remote] = [parseIp(localAddress), parseIp(remoteAddress)];
    // It has been reset already, and may have led here.
    if (local === undefined || remote === undefined) return true;
    // Only who dials an address of this very host has the same at both ends.
    return this.has({ host: remote.text, port }, local);
  }
}
