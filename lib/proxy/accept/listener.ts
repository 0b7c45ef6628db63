import type { AddressInfo } from 'node:net';
import net from 'node:net';
import { turn } from '../fairness/turn.ts';
import { Incoming } from '../incoming.ts';
import {
  type AcceptedHandle,
  descriptorOf,
  handleMaker,
  letFewWait,
  type MakeStream,
  setOnListener,
  takeHandles,
} from '../node-handles.ts';
import { type Accepted, acceptNow, waitingAt } from '../socket-calls.ts';

/** Where to listen: at an address, or at what another thread has bound. */
export type ListenAt =
  /** `host` undefined: every address, IPv4 and IPv6. */
  | { readonly host: string | undefined; readonly port: number }
  /** A descriptor of a listening socket, which is the listener's from then on. */
  | { readonly fd: number };

export interface ListenerOptions {
  readonly at: ListenAt;
  readonly onConnection: (incoming: Incoming) => void;
  /** Nobody else accepts what comes there: of what has come, the others would have their part. */
  readonly isAlone: boolean;
  /** Accept errors (descriptors used up, say): logged; the listener goes on. */
  readonly onError: (error: Error) => void;
}

export interface Listener {
  readonly address: AddressInfo;
  /** Null where it is closed. */
  descriptor(): number | null;
  /** A connection that has been accepted elsewhere from what is listened to here too; null where only a stream can be made of it. */
  adopt(fd: number): Incoming | null;
  /** Stops accepting, but for who has been told by the kernel that he is connected; open connections go on. */
  close(): Promise<void>;
}

/** Connections that are accepted in one turn of the event loop, of which libuv accepts one: a fraction of a millisecond's work. */
const mostInTurn = 16;

/** Connections that wait to be accepted. */
const backlog = 4096;
/** Milliseconds for who still comes when a listener closes, and for all who wait there. */
const lastMs = 200;
export const longestLastMs = 2000;
/** The kernel lets so many wait after `letFewWait`: in a longer queue all have come before that. */
const few = 2;
const keepAliveMs = 10_000;
const perConnection = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs };

/** @throws with the system's code (EADDRINUSE, EACCES) when the address cannot be bound. */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const inherited = process.platform === 'linux';
  const server = net.createServer({ allowHalfOpen: true, ...(inherited ? {} : perConnection) });
  let arrivals = 0;
  const arrived = (incoming: Incoming): void => {
    arrivals += 1;
    turn.arrival();
    options.onConnection(incoming);
  };
  await new Promise<void>((resolve, reject) => {
    const { at } = options;
    const bind = (host: string | undefined, port: number): void => {
      server.once('error', (error: NodeJS.ErrnoException) => {
        // A kernel without IPv6 still has IPv4.
        if (host === '::' && (error.code === 'EAFNOSUPPORT' || error.code === 'EADDRNOTAVAIL')) bind('0.0.0.0', port);
        else reject(error);
      });
      server.listen({ host, port, backlog }, resolve);
    };
    if ('port' in at) bind(at.host ?? '::', at.port);
    // Of a descriptor Node takes the backlog as an argument alone; its own default would hold for all who share the socket.
    else server.once('error', reject).listen({ fd: at.fd }, backlog, resolve);
  });
  const isSet = inherited && setOnListener(server, keepAliveMs);
  const makeHandle = handleMaker(server);
  /** What has come beside the one that libuv has accepted, for as long as each is answered at once. */
  const acceptMore = (make: MakeStream): void => {
    for (let left = mostInTurn - 1; left > 0; left--) {
      const listening = descriptorOf(server);
      const accepted = listening === null ? null : acceptNow(listening);
      if (accepted === null) return;
      const incoming = Incoming.ofDescriptor(accepted, makeHandle, make);
      arrived(incoming);
      if (!incoming.isBare) return;
    }
  };
  const take = (handle: AcceptedHandle, make: MakeStream): void => {
    const incoming = Incoming.bare(handle, make);
    arrived(incoming);
    if (options.isAlone && incoming.isBare) acceptMore(make);
  };
  const make = isSet ? takeHandles(server, take) : null;
  if (make === null) {
    server.on('connection', (socket) => {
      if (inherited && !isSet) socket.setNoDelay(true).setKeepAlive(true, keepAliveMs);
      arrived(Incoming.stream(socket));
    });
  }
  server.removeAllListeners('error');
  server.on('error', options.onError);
  return {
    address: server.address() as AddressInfo,
    descriptor: () => descriptorOf(server),
    adopt: (fd) => {
      const handle = make === null ? null : makeHandle(fd);
      return handle === null || make === null ? null : Incoming.bare(handle, make);
    },
    async close() {
      if (inherited && letFewWait(server)) await acceptLast(server, () => arrivals);
      const last = make === null ? [] : whoWaits(server);
      // Its callback would wait for the connections, too.
      server.close();
      if (make !== null) for (const accepted of last) arrived(Incoming.ofDescriptor(accepted, makeHandle, make));
    },
  };
}

/** Accepts who has come since the last look: from here to the end of the listener there is no turn in which somebody can. */
function whoWaits(server: net.Server): readonly Accepted[] {
  const listening = descriptorOf(server);
  const all: Accepted[] = [];
  while (listening !== null && all.length < backlog) {
    const accepted = acceptNow(listening);
    if (accepted === null) break;
    all.push(accepted);
  }
  return all;
}

/**
 * Until a look for connections has found none. The kernel resets who still waits when a listener closes, and such a client
 * may have sent its request already.
 */
async function acceptLast(server: net.Server, arrivals: () => number): Promise<void> {
  const startedAt = performance.now();
  let endMs = startedAt + lastMs;
  for (let before = -1; before !== arrivals() && performance.now() < endMs; ) {
    before = arrivals();
    // Behind the second is a whole turn of the loop, wherever in one it began.
    for (let i = 0; i < 2; i++) await new Promise<void>((resolve) => setImmediate(resolve));
    const listening = descriptorOf(server);
    if (listening === null) return;
    if (waitingAt(listening) > few) endMs = Math.min(performance.now() + lastMs, startedAt + longestLastMs);
  }
}
