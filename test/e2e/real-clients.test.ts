import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { createAuthority } from '../../certs/authority.ts';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { missing, runToEnd, startChild } from '../support/children.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { GrpcClient, type Payload, type StreamLog, startStreamService } from '../support/grpc-shop.ts';
import { scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { until, within } from '../support/until.ts';

// Programs that people really use, through the proxy and back.

const ownName = workloadName('web', 'shop');

t.setTimeout(900_000);

t.test('gRPC streams both ways (grpc-js)', { timeout: 840_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const log: StreamLog = { cancelled: 0 };
  const app = await startStreamService(t, log);
  const [detected = 0, declared = 0] = await freePorts(2);
  await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, openServer('detected', detected) + openServer('declared', declared, 'gRPC')),
      SALLYPORT_INBOUND_PORTS: `${detected}=127.0.0.1:${app},${declared}=127.0.0.1:${app}`,
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const mesh = { certificate: workloadCertificate('orders', 'shop'), servername: ownName };
  for (const [name, target] of [
    ['plain text, detected', { port: detected }],
    ['plain text, declared', { port: declared }],
    ['mesh, detected', { port: detected, mesh }],
    ['mesh, declared', { port: declared, mesh }],
  ] as const) {
    await t.test(name, async (t) => {
      const client = new GrpcClient(t, 'StreamService', target);
      const cancelledBefore = log.cancelled;

      const call = client.bidi('Echo');
      for (let number = 1; number <= 20; number++) {
        // The answer to each message arrives before the next is sent: nothing waits for the end of the stream.
        const answered = once(call, 'data') as Promise<[Payload]>;
        const data = randomBytes(number * 1_000);
        call.write({ number, data });
        const [answer] = await within(`echo ${number}`, 5_000, answered);
        if (answer.number !== number || !answer.data.equals(data)) t.fail(`echo ${number} differs`);
      }
      const ended = new Promise<{ code: number }>((resolve) => call.once('status', resolve));
      call.resume();
      call.end();
      t.match(await within('the end of the echo', 5_000, ended), { code: status.OK });

      let received = 0;
      const counting = client.serverStream('Count', { number: 1_000 });
      const counted = new Promise<{ code: number }>((resolve) => counting.once('status', resolve));
      counting.on('data', () => {
        received += 1;
      });
      t.match(await within('the count', 10_000, counted), { code: status.OK });
      t.equal(received, 1_000, 'server streaming');

      const numbers = Array.from({ length: 100 }, (_, number) => ({ number }));
      t.match(await client.clientStream('Sum', numbers), { ok: true, reply: { number: 4_950 } }, 'client streaming');

      const cancelled = client.bidi('Echo');
      const told = new Promise<{ code: number }>((resolve) => cancelled.once('status', resolve));
      // grpc-js reports the client's own cancellation as an error, too.
      cancelled.on('error', () => {});
      cancelled.once('data', () => cancelled.cancel());
      cancelled.write({ number: 1 });
      t.match(await within('the cancellation', 5_000, told), { code: status.CANCELLED });
      await until('the service to see the cancellation', () => log.cancelled > cancelledBefore);
    });
  }
});

t.test('a WebSocket echo of 1 MB (ws)', { timeout: 840_000 }, async (t) => {
  const http = createHttpServer();
  const sockets = new WebSocketServer({ server: http });
  let upgrades = 0;
  sockets.on('connection', (socket) => {
    upgrades++;
    socket.on('message', (data, binary) => socket.send(data, { binary }));
  });
  t.teardown(() => {
    for (const socket of sockets.clients) socket.terminate();
    http.closeAllConnections();
    http.close();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const [open = 0, closed = 0] = await freePorts(2);
  const app = (http.address() as AddressInfo).port;
  await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', open)),
      SALLYPORT_INBOUND_PORTS: `${open}=127.0.0.1:${app},${closed}=127.0.0.1:${app}`,
    },
  });
  const client = new WebSocket(`ws://127.0.0.1:${open}/echo`);
  t.teardown(() => client.terminate());
  await within(
    'the upgrade',
    5_000,
    new Promise((resolve, reject) => client.once('open', resolve).once('error', reject)),
  );
  for (const size of [1, 125, 65_536, 2 ** 20]) {
    const sent = randomBytes(size);
    const answered = new Promise<Buffer>((resolve) => client.once('message', (data) => resolve(data as Buffer)));
    client.send(sent);
    const received = await within(`an echo of ${size} bytes`, 10_000, answered);
    t.ok(received.equals(sent), `${size} bytes came back unchanged`);
  }
  const closing = new Promise<number>((resolve) => client.once('close', resolve));
  client.close(4_001, 'done');
  t.equal(await within('the closing handshake', 5_000, closing), 4_001);

  const refused = new WebSocket(`ws://127.0.0.1:${closed}/echo`);
  const answer = new Promise<number>((resolve, reject) => {
    refused.once('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
    refused.once('open', () => reject(new Error('an upgrade that no policy allows')));
    refused.on('error', () => {});
  });
  t.equal(await within('the refusal', 5_000, answer), 403, 'an upgrade is a request: 403 without a policy');
  t.equal(upgrades, 1, 'which the app never saw');
});

const redis = { timeout: 840_000, skip: await missing(t, 'redis-server', 'redis-cli') };
t.test('Redis through an opaque port (redis-server, redis-cli)', redis, async (t) => {
  const folder = temporaryFolder(t);
  const [redisPort = 0, open = 0, closed = 0] = await freePorts(3);
  await startChild(t, 'redis-server', [
    '--bind',
    '127.0.0.1',
    '--port',
    String(redisPort),
    '--save',
    '',
    '--dir',
    folder,
  ]);
  const cli = (port: number, ...args: string[]): ReturnType<typeof runToEnd> =>
    runToEnd(t, 'redis-cli', ['-p', String(port), ...args], { timeoutMs: 10_000 });
  await until('redis-server', async () => (await cli(redisPort, 'ping')).stdout === 'PONG\n');
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, openServer('redis', open, 'opaque')),
      SALLYPORT_INBOUND_PORTS: `${open}=127.0.0.1:${redisPort},${closed}=127.0.0.1:${redisPort}`,
      SALLYPORT_OPAQUE_PORTS: String(closed),
    },
  });
  t.equal((await cli(open, 'ping')).stdout, 'PONG\n');
  const value = randomBytes(50_000).toString('hex');
  t.equal((await cli(open, 'set', 'key', value)).stdout, 'OK\n');
  t.equal((await cli(open, 'get', 'key')).stdout, `${value}\n`, '100 kB there and back');
  t.match((await cli(open, 'subscribe-nothing')).stdout, /ERR unknown command/, "redis' own errors come through");
  const refused = await cli(closed, 'ping');
  t.notMatch(refused.stdout, /PONG/, 'no policy, no Redis');
  const metrics = await scrape(sallyport.adminPort);
  t.ok(metrics.sum('inbound_tcp_authz_deny_total', { srv_port: String(closed), no_tls_reason: 'port_skipped' }) >= 1);
  t.ok(metrics.sum('inbound_tcp_authz_allow_total', { srv_name: 'redis', authz_name: 'redis' }) >= 4);
});

const passthrough = { timeout: 840_000, skip: await missing(t, 'curl') };
t.test("TLS passthrough to the app's own TLS (curl)", passthrough, async (t) => {
  const folder = temporaryFolder(t);
  // Another authority than the mesh's: if the proxy terminated this, curl would not believe it.
  const shopAuthority = createAuthority({ commonName: 'The shop', days: 1 });
  const app = testCertificate({ dnsNames: ['shop.example.com'] }, shopAuthority);
  const https = createHttpsServer({ cert: app.certificatePem, key: app.keyPem }, (_request, response) => {
    response.end("the app's own TLS");
  });
  t.teardown(() => {
    https.closeAllConnections();
    https.close();
  });
  await new Promise<void>((resolve) => https.listen(0, '127.0.0.1', resolve));
  const [open = 0, closed = 0] = await freePorts(2);
  const appPort = (https.address() as AddressInfo).port;
  replaceFile(join(folder, 'shop-ca.crt'), shopAuthority.certificatePem);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, openServer('web', open)),
      SALLYPORT_INBOUND_PORTS: `${open}=127.0.0.1:${appPort},${closed}=127.0.0.1:${appPort}`,
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const curl = (port: number): ReturnType<typeof runToEnd> =>
    runToEnd(t, 'curl', [
      ...['--silent', '--show-error', '--max-time', '10', '--cacert', join(folder, 'shop-ca.crt')],
      ...['--resolve', `shop.example.com:${port}:127.0.0.1`, `https://shop.example.com:${port}/`],
    ]);
  t.match(await curl(open), { code: 0, stdout: "the app's own TLS" });
  const refused = await curl(closed);
  t.not(refused.code, 0, 'no policy: closed');
  t.equal(refused.stdout, '');
  const metrics = await scrape(sallyport.adminPort);
  const sni = { tls: 'opaque', sni: 'shop.example.com' };
  t.equal(metrics.sum('inbound_tcp_authz_allow_total', { ...sni, authz_name: 'web' }), 1);
  t.equal(metrics.sum('inbound_tcp_authz_deny_total', sni), 1);
});

const noProc = process.platform === 'linux' ? false : 'the resident set is read from /proc';
const upload = { timeout: 840_000, skip: noProc || (await missing(t, 'curl')) };
t.test('a chunked upload of 1 GB in constant memory (curl)', upload, async (t) => {
  const size = 2 ** 30;
  let chunked = false;
  const http = createHttpServer((request, response) => {
    let received = 0;
    chunked = request.headers['transfer-encoding'] === 'chunked' && request.headers['content-length'] === undefined;
    request.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    request.on('end', () => response.end(String(received)));
  });
  t.teardown(() => {
    http.closeAllConnections();
    http.close();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${(http.address() as AddressInfo).port}`,
    },
  });
  const send = (bytes: number): ReturnType<typeof runToEnd> =>
    runToEnd(
      t,
      '/bin/sh',
      [
        '-c',
        'head -c "$1" /dev/zero | exec curl --silent --show-error --max-time 100 --upload-file - "$2"',
        ...['sh', String(bytes), `http://127.0.0.1:${port}/upload`],
      ],
      { timeoutMs: 110_000 },
    );
  t.match(await send(2 ** 25), { code: 0, stdout: String(2 ** 25) }, 'a first, to grow what grows once');
  const before = sallyport.residentBytes();
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, sallyport.residentBytes());
  }, 50);
  t.teardown(() => clearInterval(sampling));
  t.match(await send(size), { code: 0, stdout: String(size) }, 'every byte arrived');
  clearInterval(sampling);
  t.ok(chunked, 'chunked on both sides');
  const growth = most - before;
  t.ok(growth < 96 * 2 ** 20, `the proxy grew by at most ${Math.round(growth / 2 ** 20)} MiB`);
  t.match(await sallyport.stop(), { code: 0 });
});
