import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { WebSocketServer } from 'ws';
import type { Teardown } from '../support/children.ts';

/** Echoes every message. */
export function startWebSocketApp(t: Teardown): Promise<number> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  t.teardown(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  return new Promise((resolve) => server.once('listening', () => resolve((server.address() as AddressInfo).port)));
}

export interface FaultyApp {
  readonly port: number;
  /** Gone for a moment, with every connection. */
  restart(): Promise<void>;
}

/** What it does with a request depends on its target: `/reset`, `/cut` (within the answer), `/silent`, else an answer. */
export async function startFaultyApp(t: Teardown): Promise<FaultyApp> {
  const sockets = new Set<Socket>();
  const listen = (port: number): Promise<Server> => {
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
      socket.on('data', (chunk: Buffer) => {
        const target = chunk.toString('latin1').split(' ')[1] ?? '';
        if (target.startsWith('/reset')) {
          socket.resetAndDestroy();
        } else if (target.startsWith('/cut')) {
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', () => socket.destroy());
        } else if (!target.startsWith('/silent')) {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${target.length}\r\n\r\n${target}`);
        }
      });
    });
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => resolve(server));
    });
  };
  const end = (server: Server): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.resetAndDestroy();
    });
  let server = await listen(0);
  const { port } = server.address() as AddressInfo;
  t.teardown(() => end(server));
  return {
    port,
    restart: async () => {
      await end(server);
      server = await listen(port);
    },
  };
}
