import type { Socket } from 'node:net';
import type { Teardown } from './children.ts';
import { startSocketApp } from './socket-app.ts';

export interface ScriptedApp {
  readonly port: number;
  readonly connections: readonly { readonly requests: number; readonly closed: boolean }[];
}

/** An app that answers every request head with the same bytes, right or wrong; `endsAfter` closes after them. */
export async function startScriptedApp(t: Teardown, answer: Buffer, endsAfter: boolean): Promise<ScriptedApp> {
  const connections: { requests: number; closed: boolean }[] = [];
  const serve = (socket: Socket): void => {
    const connection = { requests: 0, closed: false };
    let pending = '';
    connections.push(connection);
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
    socket.on('close', () => {
      connection.closed = true;
    });
  };
  const { port } = await startSocketApp(t, serve);
  return { port, connections };
}
