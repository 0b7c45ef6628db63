import { readFileSync } from 'node:fs';
import { connect, createSecureContext, type TLSSocket } from 'node:tls';
import t from 'tap';
import { publishedCommand } from '../../benchmarks/published.ts';
import { meshClient, workloadCertificate, workloadName } from '../support/certificates.ts';
import { startChild } from '../support/children.ts';
import { identityEnvironment, temporaryFolder } from '../support/files.ts';
import { attachHeapProbe, inspectorEnvironment } from '../support/heap.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startRawApp } from '../support/raw-app.ts';
import { bareEnvironment } from '../support/sallyport.ts';
import { mapBounded, until } from '../support/until.ts';

const skip = process.platform !== 'linux' && 'needs /proc';

/**
 * Of each connection, in KiB, once V8 has collected what it could: a fifth more than it takes (benchmarks/README.md). A second
 * buffer of TLS's is 16.
 */
const most = 50;

// The slope between two numbers of connections: what code and policy take is in both.
t.test('memory of an idle session of mutual TLS', { skip, timeout: 280_000 }, async (t) => {
  t.setTimeout(300_000);
  const folder = temporaryFolder(t);
  const app = await startRawApp(t);
  const [port = 0] = await freePorts(1);
  const inspector = await inspectorEnvironment();
  const child = await startChild(t, await publishedCommand(), ['run'], {
    env: bareEnvironment({
      ...inspector.env,
      ...policyEnvironment(folder, openServer('web', port)),
      ...identityEnvironment(folder, workloadCertificate('web', 'shop')),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      SALLYPORT_ADMIN_LISTEN: 'off',
      SALLYPORT_HEALTH_LISTEN: 'off',
    }),
  });
  await until('the proxy to listen', () => child.stdout().includes('"Listening"'), { timeoutMs: 30_000 });
  const anonymousKiB = (): number =>
    Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]);

  const { servername, ...files } = meshClient(workloadName('web', 'shop'), workloadCertificate('orders', 'shop'));
  // The key that a client sends for post-quantum agreement takes another 6, and is OpenSSL's to keep.
  const secureContext = createSecureContext({ ...files, ecdhCurve: 'X25519' });
  const sockets: TLSSocket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const open = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect({
        host: '127.0.0.1',
        port,
        servername,
        secureContext,
        checkServerIdentity: () => undefined,
      });
      socket.on('error', reject).once('data', () => resolve());
      socket.write('GET / HTTP/1.1\r\nHost: web\r\n\r\n');
      sockets.push(socket);
    });
  const openMore = (count: number): Promise<unknown> => mapBounded(Array.from({ length: count }), 16, open);

  await openMore(300);
  const heap = await attachHeapProbe(child.pid, inspector.port);
  t.teardown(() => heap.detach());
  const collectedKiB = async (): Promise<number> => {
    await heap.usedAfterCollection();
    return anonymousKiB();
  };
  const before = await collectedKiB();
  const count = 1000;
  await openMore(count);
  const each = ((await collectedKiB()) - before) / count;
  heap.detach();
  t.ok(each < most, `${each.toFixed(1)} KiB each`);
  t.ok(each > 10, 'which are measured at all');
  for (const socket of sockets) socket.destroy();
  t.equal((await child.end()).code, 0, child.stderr());
});
