import { type AddressInfo, Socket } from 'node:net';
import { CodedError, isWantOfDescriptors } from '../../errors/coded-error.ts';
import type { CodedLog } from '../../errors/complaint.ts';
import { beginMoment, endMoment } from '../../moment.ts';
import { serveConnection } from '../connection.ts';
import type { ConnectionServices } from '../connection-services.ts';
import { turn } from '../fairness/turn.ts';
import { internalFault } from '../guard.ts';
import { Incoming } from '../incoming.ts';
import { peerOf } from '../socket-calls.ts';
import type { Arrive } from './arrivals.ts';
import type { Descriptors } from './descriptors.ts';
import { type ListenAt, type Listener, listen } from './listener.ts';
import type { OwnEndpoints } from './own-endpoints.ts';

/** `host` null: every address of this machine. */
export interface DoorAddress {
  readonly host: string | null;
  readonly port: number;
}

/** The other workers of this process, which listen at the same client doors. */
export interface OtherWorkers {
  /** Whose a connection should be that has just come; null: ours. */
  owner(): number | null;
  /** Hands a connection over: `fd` is theirs from then on. */
  give(worker: number, door: number, fd: number): void;
  readonly descriptors: Descriptors;
}

/** A door that all workers have; the listeners that one of them has alone have none. */
export interface SharedDoor {
  readonly number: number;
  readonly others: OtherWorkers;
}

/** Every port on which this proxy listens. */
export class Doors {
  readonly #services: ConnectionServices;
  readonly #own: OwnEndpoints;
  readonly #error: CodedLog['error'];
  readonly #listeners: Listener[] = [];
  #stage: 'open' | 'closed' = 'open';
  /** Those of all workers. */
  readonly #shared = new Map<number, { readonly arrive: Arrive; readonly listener: Listener }>();

  constructor(services: ConnectionServices, own: OwnEndpoints, error: CodedLog['error']) {
    this.#services = services;
    this.#own = own;
    this.#error = error;
  }

  /** Takes connections there. @throws as `bind`. */
  open(variable: string, address: DoorAddress, arrive: Arrive, shared: SharedDoor | null = null): Promise<Listener> {
    const at = { host: address.host ?? undefined, port: address.port };
    return this.#bound(variable, address, () => this.listen(variable, at, arrive, shared));
  }

  /** Takes connections at a port that is bound already, or will be. */
  async listen(variable: string, at: ListenAt, arrive: Arrive, shared: SharedDoor | null): Promise<Listener> {
    const listener = await listen({
      at,
      isAlone: shared === null,
      onConnection: (incoming) => {
        if (shared === null || !handOver(incoming, shared)) this.#arrived(incoming, arrive);
      },
      onError: (error) => {
        // Node has closed what it could not accept, and goes on listening; the next ones find room if there is any.
        if (isWantOfDescriptors(error)) this.#services.live.outOfDescriptors();
        else this.#error({ code: 'accept-failed', error: error.message }, `Accepting on ${variable} failed`);
      },
    });
    this.#listeners.push(listener);
    if (shared !== null) this.#shared.set(shared.number, { arrive, listener });
    // A stop may begin while a door is being opened.
    if (this.#stage === 'closed') await listener.close();
    return listener;
  }

  /** A connection that another worker has accepted at a door of all. */
  take(door: number, fd: number): void {
    turn.arrival();
    try {
      const through = this.#shared.get(door);
      const incoming = through?.listener.adopt(fd) ?? Incoming.stream(new Socket({ fd, allowHalfOpen: true }));
      if (through === undefined) incoming.destroy();
      else this.#arrived(incoming, through.arrive);
    } catch (error) {
      internalFault('a connection that was handed over', null, error);
    }
  }

  #arrived(incoming: Incoming, arrive: Arrive): void {
    beginMoment();
    try {
      const client = peerOf(incoming);
      // One that is gone already has no address any more.
      const arrival = client === null ? null : arrive(incoming, client);
      if (client === null || arrival === null) incoming.destroy();
      else serveConnection(this.#services, incoming, client, arrival);
    } catch (error) {
      internalFault('a new connection', incoming, error);
    } finally {
      endMoment();
    }
  }

  /** For what listens by itself: its port counts as our own at every address. @throws naming the variable and the remedy. */
  async bind(variable: string, address: DoorAddress, bind: () => Promise<AddressInfo>): Promise<AddressInfo> {
    const bound = await this.#bound(variable, address, async () => ({ address: await bind() }));
    return bound.address;
  }

  async #bound<T extends { readonly address: AddressInfo }>(
    variable: string,
    address: DoorAddress,
    bind: () => Promise<T>,
  ): Promise<T> {
    try {
      const bound = await bind();
      // Explicit ports alone may be an app's at another address: behind the admin server's everybody would be a local client.
      const isExplicit = variable === 'SALLYPORT_INBOUND_PORTS';
      this.#own.add(bound.address.port, isExplicit ? bound.address.address : null);
      return bound;
    } catch (error) {
      const where = `${address.host ?? '*'}:${address.port}`;
      throw new CodedError('ERR_SALLYPORT_LISTEN', `${variable}: cannot listen on ${where}: ${whyNot(error)}`, {
        cause: error,
      });
    }
  }

  /** Stops accepting at once; resolves when all are closed. Open connections go on. */
  async close(): Promise<void> {
    this.#stage = 'closed';
    await Promise.allSettled(this.#listeners.map((listener) => listener.close()));
  }
}

/** False: it is ours. Nothing of it has been read. */
function handOver(incoming: Incoming, { number, others }: SharedDoor): boolean {
  const owner = others.owner();
  const fd = owner === null ? null : incoming.descriptor;
  const copy = fd === null ? null : others.descriptors.duplicate(fd);
  if (owner === null || copy === null) return false;
  // Closes this descriptor of it alone: the connection stays, with the other.
  incoming.destroy();
  others.give(owner, number, copy);
  return true;
}

function whyNot(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return 'something else listens there; stop it or choose another port';
  if (code === 'EACCES') return 'ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one';
  if (code === 'EADDRNOTAVAIL')
    return 'no interface of this machine has that address; name one that it has, or 0.0.0.0';
  if (code === 'EAFNOSUPPORT') return 'this machine has no IPv6; name an IPv4 address, such as 0.0.0.0';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'the name leads to no address; write an address';
  if (isWantOfDescriptors(error)) return 'no file descriptor is left; raise the limit (ulimit -n)';
  return message;
}
