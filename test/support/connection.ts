import { once } from 'node:events';
import net from 'node:net';
import type { Teardown } from './children.ts';

/** Two ends of one connection over the loopback interface. */
export async function connection(t: Teardown): Promise<readonly [near: net.Socket, far: net.Socket]> {
  const server = net.createServer({ allowHalfOpen: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as net.AddressInfo;
  const near = net.connect({ host: '127.0.0.1', port, allowHalfOpen: true });
  const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'connect')])) as [[net.Socket], []];
  server.close();
  t.teardown(() => {
    near.destroy();
    far.destroy();
  });
  return [near, far];
}

/** All that comes of a socket, as text. */
export function receivedBy(far: net.Socket): () => string {
  let text = '';
  far.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
  });
  return () => text;
}

/** Of the event loop: what was put off until then has happened. */
export const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
