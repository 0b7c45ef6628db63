import { type AddressInfo, createServer, type ServerOpts, type Socket } from 'node:net';
import type { Teardown } from './children.ts';

export interface SocketApp {
  readonly port: number;
  /** Those that are open. */
  readonly sockets: ReadonlySet<Socket>;
}

export interface SocketAppOptions extends ServerOpts {
  /** Where it listens: at 127.0.0.1, on a port that the system chooses, where nothing else is said. */
  readonly host?: string | undefined;
  readonly port?: number | undefined;
}

/**
 * A server of bare connections, each given to `serve`. A peer may vanish at any time, and how it does is of no account here;
 * what is open at the end of the test is destroyed.
 */
export function startSocketApp(
  t: Teardown,
  serve: (socket: Socket) => void,
  { host = '127.0.0.1', port = 0, ...options }: SocketAppOptions = {},
): Promise<SocketApp> {
  const sockets = new Set<Socket>();
  const server = createServer(options, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    serve(socket);
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve({ port: (server.address() as AddressInfo).port, sockets }));
  });
}
