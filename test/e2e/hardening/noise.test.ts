import { createHash } from 'node:crypto';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { connect as tlsConnect } from 'node:tls';
import t from 'tap';
import { http1Outcome, http1Request } from '../../support/attacked-routes.ts';
import { testCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment } from '../../support/files.ts';
import { FrameClient, headersFrame, http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { mapBounded } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/** Random, and the same in every run. */
function noise(seed: string, length: number): Buffer {
  const blocks: Buffer[] = [];
  for (let i = 0; blocks.length * 32 < length; i++) blocks.push(createHash('sha256').update(`${seed} ${i}`).digest());
  return Buffer.concat(blocks).subarray(0, length);
}

/** Beginnings that bring noise past the first check of each parser. */
const beginnings: readonly Buffer[] = [
  Buffer.alloc(0),
  latin1('GET / HTTP/1.1\r\n'),
  latin1('GET / HTTP/1.1\r\nHost: web\r\nX: '),
  latin1('POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n'),
  latin1('POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 100\r\n\r\n'),
  latin1('GET / HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
  latin1('CONNECT web:80 HTTP/1.1\r\nHost: web:80\r\n\r\n'),
  latin1('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  latin1('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x40\x01\x05\0\0\0\x01'),
  latin1('\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03'),
  latin1('\x16\x03\x03'),
  latin1('transport.l5d.io/v1\r\n\r\n'),
];

const ownName = workloadName('web', 'shop');

t.setTimeout(900_000);

const folder = t.testdir();
const app = await startWitness(t);
// Behind opaque bytes: an app that ends when its client does, whatever the bytes are.
const echo = createServer((socket) => {
  socket.on('error', () => {});
  socket.pipe(socket);
});
await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
t.teardown(() => echo.close());
const echoPort = (echo.address() as AddressInfo).port;
const [detected = 0, declared = 0, http2 = 0, opaque = 0, inbound = 0] = await freePorts(5);
const own = testCertificate({ dnsNames: [ownName] });
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(
      folder,
      openServer('detected', detected) +
        openServer('declared', declared, 'HTTP/1') +
        openServer('http2', http2, 'HTTP/2') +
        openServer('opaque', opaque, 'opaque'),
    ),
    SALLYPORT_INBOUND_PORTS: [
      ...[detected, declared, http2].map((port) => `${port}=127.0.0.1:${app.port}`),
      `${opaque}=127.0.0.1:${echoPort}`,
    ].join(),
    SALLYPORT_INBOUND_LISTEN: `127.0.0.1:${inbound}`,
    SALLYPORT_DETECT_TIMEOUT: '1s',
    ...identityEnvironment(join(folder, 'identity'), own),
  },
});
const unexpected = (): number => sallyport.logs().filter(({ msg }) => /^Unexpected/.test(String(msg))).length;

t.test('random bytes on every port', async (t) => {
  const ports: readonly (readonly [string, number])[] = [
    ['detected', detected],
    ['declared HTTP/1', declared],
    ['declared HTTP/2', http2],
    ['opaque', opaque],
    ['admin', sallyport.adminPort],
    ['health', sallyport.healthPort],
    ['redirected', inbound],
  ];
  const tries = ports.flatMap(([name, port]) =>
    beginnings.flatMap((beginning, b) =>
      Array.from({ length: 12 }, (_, i) => ({ port, beginning, seed: `${name} ${b} ${i}` })),
    ),
  );
  await mapBounded(tries, 32, async ({ port, beginning, seed }) => {
    const size = [1, 7, 63, 400, 3_000, 30_000][noise(seed, 1).readUInt8(0) % 6] as number;
    const client = await RawClient.open({ port });
    client.send(Buffer.concat([beginning, noise(seed, size)]));
    // The proxy ends most of it itself; what waits for more is given up.
    await client.waits(() => client.ended, 20);
    if (size % 2 === 0) client.reset();
    else client.destroy();
  });
  t.equal(sallyport.child.process.exitCode, null, `alive after ${tries.length} connections`);
  t.equal(sallyport.child.process.signalCode, null);
  t.equal(unexpected(), 0, 'no error that nobody expected');
  t.equal(await http1Outcome(detected, http1Request('/')), '200', 'serving HTTP/1');
  t.equal(await http2Outcome(http2, requestFields('/')), '200', 'serving HTTP/2');
  t.equal(await sallyport.health('/ready'), 200, 'and ready');
  const metrics = await scrape(sallyport.adminPort);
  t.ok(metrics.samples.length > 0, 'metrics can be read');
});

t.test('random names make no series (CVE-2025-43915)', async (t) => {
  const word = (seed: string): string => noise(seed, 9).toString('hex');
  const series = async (): Promise<number> => (await scrape(sallyport.adminPort)).samples.length;
  const serverNames = async (from: number, count: number): Promise<void> => {
    await mapBounded(
      Array.from({ length: count }, (_, i) => from + i),
      16,
      async (i) => {
        const hello = await clientHello(`${word(`sni ${i}`)}.example`);
        const client = await RawClient.open({ port: detected });
        client.send(hello);
        await client.reaches(() => client.receivedLength > 0, 2_000);
        client.destroy();
      },
    );
  };
  const http1 = async (from: number, count: number): Promise<void> => {
    // Pipelined in batches: the names matter here, not the connections.
    for (let at = 0; at < count; at += 250) {
      const client = await RawClient.open({ port: detected });
      const batch = Array.from({ length: Math.min(250, count - at) }, (_, i) => {
        const w = word(`h1 ${from + at + i}`);
        const method = ['GET', 'DELETE', 'OPTIONS', 'PATCH', 'REPORT'][i % 5] as string;
        return http1Request(`/${w}?${w}=1`, [`Host: ${w}.example`, `User-Agent: ${w}`, `X-${w}: ${w}`], method);
      });
      client.send(latin1(batch.join('')));
      await client.reaches(() => count200(client.received) >= batch.length, 20_000);
      if (count200(client.received) !== batch.length)
        t.fail(`${count200(client.received)} of ${batch.length} were answered`);
      client.destroy();
    }
  };
  const second = async (from: number, count: number): Promise<void> => {
    const client = await FrameClient.open({ port: http2 });
    for (let i = 0; i < count; i++) {
      const w = word(`h2 ${from + i}`);
      const id = 2 * i + 1;
      client.send(
        headersFrame(id, requestFields(`/${w}`, [[`x-${w}`, w]], w.toUpperCase().replace(/\d/g, 'X'), `${w}.example`)),
      );
      if (i % 50 === 49) await client.outcome(id);
    }
    client.destroy();
  };
  await Promise.all([http1(0, 500), second(0, 100), serverNames(0, 64)]);
  const before = await series();
  await Promise.all([http1(1_000, 5_000), second(1_000, 1_000), serverNames(1_000, 200)]);
  const after = await series();
  // A label that a request was the first to use (a status, a result) may still appear; none of the names does.
  t.ok(after - before <= 40, `${before} series before, ${after} after`);
  const { text } = await scrape(sallyport.adminPort);
  for (const name of [word('h1 1500'), word('h2 1500'), word('sni 1150')]) {
    t.notOk(text.includes(name), 'no name of a client is in the metrics');
  }
  t.equal(unexpected(), 0);
});

function count200(bytes: Buffer): number {
  return bytes.toString('latin1').split('HTTP/1.1 200 OK\r\n').length - 1;
}

function clientHello(servername: string): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _encoding, done) => {
        resolve(chunk);
        done();
      },
    });
    tlsConnect({ servername, socket: wire }).on('error', () => {});
  });
}

t.test('the proxy is well', async (t) => {
  t.match(await sallyport.stop(), { code: 0 });
});
