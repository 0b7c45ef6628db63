import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { securedBy } from '../../lib/proxy/tls/handshake.ts';
import { meshClient, workloadCertificate, workloadName } from './certificates.ts';

export interface SecuredPair {
  readonly client: TLSSocket;
  /** As TLS ends it, and the connection below. */
  readonly secure: TLSSocket;
  readonly raw: Socket;
}

/** Both ends of a connection over TLS, whose handshake is over. */
export async function securedPair(t: { teardown(end: () => void): void }): Promise<SecuredPair> {
  const own = workloadCertificate('web', 'shop');
  const context = createSecureContext({ cert: own.certificatePem, key: own.keyPem, minVersion: 'TLSv1.3' });
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const client = connectTls({ socket: connect(port, '127.0.0.1'), ...meshClient(workloadName('web', 'shop'), own) });
  client.on('error', () => {});
  const raw = await accepted;
  const secure = securedBy(context, raw, null);
  t.teardown(() => {
    client.destroy();
    raw.destroy();
    server.close();
  });
  // The client is through before we have its last word.
  const ends = [once(client, 'secureConnect'), once(secure, 'secure')];
  await Promise.all(ends);
  return { client, secure, raw };
}
