import type { AddressInfo, Socket } from 'node:net';
import net from 'node:net';
import { turn } from '../fairness/turn.ts';
import { setOnListener } from '../node-internals.ts';

export interface ListenerOptions {
  /** Undefined: every address, IPv4 and IPv6. */
  readonly host: string | undefined;
  readonly port: number;
  readonly onConnection: (socket: Socket) => void;
  /** Accept errors (descriptors used up, say): logged; the listener goes on. */
  readonly onError: (error: Error) => void;
}

export interface Listener {
  readonly address: AddressInfo;
  /** Stops accepting; open connections go on. */
  close(): Promise<void>;
}

const keepAliveMs = 10_000;
const perConnection = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs };

/** @throws with the system's code (EADDRINUSE, EACCES) when the address cannot be bound. */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const inherited = process.platform === 'linux';
  const server = net.createServer({ allowHalfOpen: true, ...(inherited ? {} : perConnection) });
  server.on('connection', (socket) => {
    turn.arrival();
    options.onConnection(socket);
  });
  await new Promise<void>((resolve, reject) => {
    const bind = (host: string | undefined): void => {
      server.once('error', (error: NodeJS.ErrnoException) => {
        // A kernel without IPv6 still has IPv4.
        if (host === '::' && (error.code === 'EAFNOSUPPORT' || error.code === 'EADDRNOTAVAIL')) bind('0.0.0.0');
        else reject(error);
      });
      server.listen({ host, port: options.port, backlog: 4096 }, resolve);
    };
    bind(options.host ?? '::');
  });
  if (inherited && !setOnListener(server, keepAliveMs)) {
    server.prependListener('connection', (socket) => socket.setNoDelay(true).setKeepAlive(true, keepAliveMs));
  }
  server.removeAllListeners('error');
  server.on('error', options.onError);
  return {
    address: server.address() as AddressInfo,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
