import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Teardown } from './children.ts';

export interface ScriptedApp {
  readonly port: number;
  readonly connections: readonly { readonly requests: number; readonly closed: boolean }[];
}

/** An app that answers every request head with the same bytes, right or wrong; `endsAfter` closes after them. */
export function startScriptedApp(t: Teardown, answer: Buffer, endsAfter: boolean): Promise<ScriptedApp> {
  const connections: { requests: number; closed: boolean }[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const connection = { requests: 0, closed: false };
    let pending = '';
    connections.push(connection);
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      pending += chunk.toString('latin1');
      for (let end = pending.indexOf('\r\n\r\n'); end !== -1; end = pending.indexOf('\r\n\r\n')) {
        pending = pending.slice(end + 4);
        connection.requests += 1;
        if (endsAfter) socket.end(answer);
        else socket.write(answer);
      }
    });
    // The proxy may well reset a connection on which such bytes arrived.
    socket.on('error', () => {});
    socket.on('close', () => {
      connection.closed = true;
      sockets.delete(socket);
    });
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve({ port: (server.address() as AddressInfo).port, connections }));
  });
}
