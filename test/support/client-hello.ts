import { type AddressInfo, createServer } from 'node:net';
import tls from 'node:tls';
import { type HelloResult, HelloScan } from '../../lib/proxy/detect/client-hello.ts';
import type { Teardown } from './children.ts';

/** `HelloScan` for bytes that are all there. */
export function parseClientHello(stream: Buffer): HelloResult {
  return new HelloScan().look(stream);
}

/** The ClientHello of a real client, to be sent by one that will not go on as it should. */
export async function helloBytes(t: Teardown, servername: string): Promise<Buffer> {
  const server = createServer();
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const first = new Promise<Buffer>((resolve) =>
    server.once('connection', (socket) => socket.once('data', (bytes: Buffer) => resolve(bytes))),
  );
  const client = tls.connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', servername });
  client.on('error', () => {});
  const bytes = await first;
  client.destroy();
  return bytes;
}
