import { request } from 'node:http';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import type { TestCertificate } from '../certificates.ts';
import { runToEnd, type Teardown } from '../children.ts';
import { until } from '../until.ts';
import { outside, type Stage } from './stage.ts';

/** GET over plain HTTP. Yields the status. */
export function get(port: number, path: string, localAddress = outside): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, localAddress, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asked.on('error', reject);
    asked.end();
  });
}

/** GET over TLS, with a client certificate or none. Yields what came of it: a response's first line, or how it ended. */
export async function getOverTls(
  stage: Stage,
  path: string,
  client: TestCertificate | null,
  options: ConnectionOptions = {},
): Promise<string> {
  let received = '';
  let ended = '';
  const socket = connect({
    host: '127.0.0.1',
    port: stage.port,
    localAddress: outside,
    servername: stage.ownName,
    rejectUnauthorized: false,
    ...(client === null ? {} : { cert: client.certificatePem, key: client.keyPem }),
    ...options,
  } as ConnectionOptions);
  socket.on('data', (bytes: Buffer) => {
    received += bytes.toString('latin1');
  });
  socket.on('error', (error) => {
    ended = error.message;
  });
  socket.on('close', () => {
    ended ||= 'closed';
  });
  socket.write(`GET ${path} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n`);
  await until('a response or an end', () => ended !== '' || received.includes('\r\n'), { timeoutMs: 20_000 });
  socket.destroy();
  return received === '' ? ended : (received.split('\r\n')[0] as string);
}

/** A handshake by OpenSSL's own client, which sends an alert where it does not like our certificate. */
export async function handshakeByOpenssl(
  t: Teardown,
  stage: Stage,
  client: TestCertificate,
  anchorsPem: string,
): Promise<void> {
  stage.write('client/crt.pem', client.certificatePem);
  stage.write('client/key.pem', client.keyPem);
  stage.write('client/anchors.pem', anchorsPem);
  const files = ['-cert', 'crt.pem', '-key', 'key.pem', '-CAfile', 'anchors.pem'];
  const address = ['-connect', `127.0.0.1:${stage.port}`, '-bind', outside, '-servername', stage.ownName];
  await runToEnd(t, 'openssl', ['s_client', ...address, ...files, '-verify_return_error'], {
    cwd: join(stage.folder, 'client'),
  });
}
