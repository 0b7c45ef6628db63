import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect, createSecureContext } from 'node:tls';
import t from 'tap';
import { publishedCommand } from '../../benchmarks/published.ts';
import { meshClient, workloadCertificate, workloadName } from '../support/certificates.ts';
import { startChild, type Teardown } from '../support/children.ts';
import { identityEnvironment, temporaryFolder } from '../support/files.ts';
import { attachHeapProbe, inspectorEnvironment } from '../support/heap.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startRawApp } from '../support/raw-app.ts';
import { bareEnvironment } from '../support/sallyport.ts';
import { mapBounded, until } from '../support/until.ts';

const skip = process.platform !== 'linux' && 'needs /proc';

/**
 * Of each connection, in KiB, once V8 has collected what it could: what V8 takes, with what a thousand more requests teach
 * it, and a tenth; and what the whole process takes, and a fifth (benchmarks/README.md). A second buffer of TLS's is 16, and the functions of a plain connection whose
 * listeners are its own are 1.
 */
const rows = [
  { name: 'a plain connection', mutualTls: false, mostOfV8: 3.9, most: null },
  { name: 'a session of mutual TLS', mutualTls: true, mostOfV8: 6, most: 50 },
];

const count = 1000;

// The slope between two numbers of connections: what code and policy take is in both.
for (const { name, mutualTls, mostOfV8, most } of rows) {
  t.test(`memory of ${name} that is idle`, { skip, timeout: 840_000 }, async (t) => {
    t.setTimeout(900_000);
    const { child, inspectorPort, open, close } = await start(t, mutualTls);
    const openMore = (wanted: number): Promise<unknown> => mapBounded(Array.from({ length: wanted }), 16, open);
    const anonymousKiB = (): number =>
      Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]);
    // By then most of what is run has been compiled: of the thousand that count, code would be as much as a kilobyte each.
    await openMore(2000);
    const heap = await attachHeapProbe(child.pid, inspectorPort);
    t.teardown(() => heap.detach());
    const usedBefore = await heap.usedAfterCollection();
    const before = anonymousKiB();
    await openMore(count);
    const used = ((await heap.usedAfterCollection()) - usedBefore) / 1024 / count;
    t.ok(used < mostOfV8, `${used.toFixed(2)} KiB each of V8's`);
    t.ok(used > 1, 'which are measured at all');
    // The little that a plain connection has outside of V8 is lost in what the process gives back meanwhile.
    if (most !== null) {
      const inAll = async (): Promise<number> => {
        await heap.usedAfterCollection();
        return (anonymousKiB() - before) / count;
      };
      // What malloc keeps of the load is given back a few seconds later.
      t.ok(await until(`${name} to take less than ${most} KiB`, async () => (await inAll()) < most));
      t.ok((await inAll()) > 10, 'which is measured at all');
    }
    heap.detach();
    close();
    t.equal((await child.end()).code, 0, child.stderr());
  });
}

async function start(t: Teardown, mutualTls: boolean) {
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
  const { servername, ...files } = meshClient(workloadName('web', 'shop'), workloadCertificate('orders', 'shop'));
  // The key that a client sends for post-quantum agreement takes another 6, and is OpenSSL's to keep.
  const secureContext = createSecureContext({ ...files, ecdhCurve: 'X25519' });
  const sockets: Socket[] = [];
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  t.teardown(close);
  const dial = (): Socket => {
    const to = { host: '127.0.0.1', port };
    if (!mutualTls) return connectTcp(to);
    return connect({ ...to, servername, secureContext, checkServerIdentity: () => undefined });
  };
  const open = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = dial();
      socket.on('error', reject).once('data', () => resolve());
      socket.write('GET / HTTP/1.1\r\nHost: web\r\n\r\n');
      sockets.push(socket);
    });
  return { child, inspectorPort: inspector.port, open, close };
}
