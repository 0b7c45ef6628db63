import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { http1Request } from '../support/attacked-routes.ts';
import { missing, runToEnd } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { type LogLine, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/* Where the app was looked for, and what the system said, is in the log, on every way to it; the client is told neither. */

t.setTimeout(900_000);

const needed = { skip: await missing(t, 'curl') };

/** An app that ends each connection once anything has come. */
async function startEndingApp(t: Test, end: (socket: Socket) => void): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => end(socket));
  });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const ways: readonly {
  readonly name: string;
  readonly protocol: 'unknown' | 'HTTP/2';
  readonly args: readonly string[];
}[] = [
  { name: 'HTTP/1, plain', protocol: 'unknown', args: [] },
  { name: 'HTTP/1, chunked', protocol: 'unknown', args: ['-H', 'Transfer-Encoding: chunked', '-d', 'content'] },
  { name: 'HTTP/1, an upgrade', protocol: 'unknown', args: ['-H', 'Connection: Upgrade', '-H', 'Upgrade: chat'] },
  { name: 'HTTP/1, a method that nobody knows', protocol: 'unknown', args: ['-X', 'BREW'] },
  { name: 'HTTP/2', protocol: 'HTTP/2', args: ['--http2-prior-knowledge'] },
];

interface Stage {
  readonly sallyport: Sallyport;
  readonly http: number;
  readonly http2: number;
  readonly opaque: number;
}

async function started(t: Test, appPort: number, env: Readonly<Record<string, string>> = {}): Promise<Stage> {
  const [http = 0, http2 = 0, opaque = 0] = await freePorts(3);
  const documents =
    openServer('web', http) + openServer('http2', http2, 'HTTP/2') + openServer('tcp', opaque, 'opaque');
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), documents),
      SALLYPORT_INBOUND_PORTS: [http, http2, opaque].map((port) => `${port}=127.0.0.1:${appPort}`).join(),
      ...env,
    },
  });
  return { sallyport, http, http2, opaque };
}

async function lineAfter({ sallyport }: Stage, count: number, msg: string): Promise<LogLine> {
  const lines = (): LogLine[] => sallyport.logs().filter((line) => line.msg === msg);
  return until(msg, () => lines()[count], { lastSeen: () => JSON.stringify(sallyport.logs().slice(-3)) });
}

t.test('requests', needed, async (t) => {
  const apps = [
    {
      what: 'nobody listens',
      port: await freePort(),
      errno: 'ECONNREFUSED',
      code: 'ERR_SALLYPORT_UNREACHABLE',
      detail: /cannot be connected to/,
      leastMs: 0,
    },
    {
      what: 'the app resets',
      port: await startEndingApp(t, (socket) => socket.resetAndDestroy()),
      errno: 'ECONNRESET',
      code: 'ERR_SALLYPORT_APP_CLOSED',
      detail: /ended the connection before it had answered/,
      leastMs: 0,
    },
    {
      what: 'the app hangs, and is then ended',
      port: await startEndingApp(t, (socket) => void setTimeout(() => socket.end(), 500)),
      errno: 'EOF',
      code: 'ERR_SALLYPORT_APP_CLOSED',
      detail: /ended the connection before it had answered/,
      leastMs: 400,
    },
  ];
  for (const { what, port, errno, code, detail, leastMs } of apps) {
    const stage = await started(t, port);
    for (const [index, { name, protocol, args }] of ways.entries()) {
      const asked = protocol === 'HTTP/2' ? stage.http2 : stage.http;
      const answer = await runToEnd(t, 'curl', ['-si', ...args, `http://127.0.0.1:${asked}/x`]);
      t.match(answer.stdout, /^HTTP\/[12](\.1)? 502/, `${what}: ${name}`);
      t.notMatch(answer.stdout, /ECONN|127\.0\.0\.1/, 'the client is not told');
      const line = await lineAfter(stage, index, 'Request failed');
      t.match(
        line,
        { level: 'warn', code, detail, error: 'i/o', app: `127.0.0.1:${port}`, errno, path: '/x' },
        `${what}: ${name}`,
      );
      t.ok(Number(line.waitedMs) >= leastMs, `${what}: ${name}: after ${line.waitedMs} ms`);
    }
  }
});

t.test('an app that answers late, and one that never does', needed, async (t) => {
  const held: Socket[] = [];
  const app = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      const answer = () => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      if (bytes.includes('/late')) setTimeout(answer, 400);
      else if (bytes.includes('/held')) held.push(socket);
      else answer();
    });
  });
  t.teardown(() => app.close());
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  const { port } = app.address() as AddressInfo;
  for (const fast of ['true', 'false']) {
    const stage = await started(t, port, { SALLYPORT_SLOW_REQUEST: '300ms', SALLYPORT_HTTP1_FAST_LANE: fast });
    const get = (path: string, ...more: string[]) =>
      runToEnd(t, 'curl', ['-si', ...more, `http://127.0.0.1:${stage.http}${path}`]);
    t.match((await get('/quick')).stdout, /^HTTP\/1.1 200/);
    t.match((await get('/late?a=b')).stdout, /^HTTP\/1.1 200/);
    const late = await lineAfter(stage, 0, 'Slow request');
    t.match(late, {
      level: 'info',
      code: 'slow-request',
      status: 200,
      path: '/late',
      method: 'GET',
      version: 'HTTP/1.1',
    });
    t.match(late, { server: { name: 'web' }, client: { ip: '127.0.0.1' } });
    t.ok(Number(late.waitedMs) >= 300, `${late.waitedMs}`);

    const sentAt = performance.now();
    const leaving = connect(stage.http, '127.0.0.1', () => leaving.write(http1Request('/held')));
    leaving.on('error', () => {});
    const inFlight = async (): Promise<number> =>
      (await scrape(stage.sallyport.adminPort)).sum('sallyport_requests_in_flight', { srv_name: 'web' });
    await until('a request in flight', async () => (await inFlight()) === 1);
    await until('it to have waited', () => performance.now() - sentAt > 400);
    // Who only ends its side may still read its answer.
    leaving.resetAndDestroy();
    t.match(await lineAfter(stage, 1, 'Slow request'), { status: null, path: '/held' }, 'its client has given up');
    await until('none in flight', async () => (await inFlight()) === 0);
    for (const socket of held.splice(0)) socket.destroy();
    await stage.sallyport.stop();
    t.equal(stage.sallyport.logs().filter(({ msg }) => msg === 'Slow request').length, 2, 'and nothing of others');
  }
});

t.test('an app that speaks no HTTP', needed, async (t) => {
  for (const { what, bytes, closes } of [
    { what: 'a TLS alert, and the end', bytes: '\x15\x03\x01\x00\x02\x02\x46', closes: true },
    { what: 'a line, and the end', bytes: '-ERR unknown command\r\n', closes: true },
    { what: 'a line, and silence', bytes: 'SSH-2.0-app\r\n', closes: false },
  ]) {
    const app = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => (closes ? socket.end(bytes, 'latin1') : socket.write(bytes, 'latin1')));
    });
    t.teardown(() => app.close());
    await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
    const { port } = app.address() as AddressInfo;
    const stage = await started(t, port);
    for (const [index, { name, protocol, args }] of ways.entries()) {
      const asked = protocol === 'HTTP/2' ? stage.http2 : stage.http;
      const answer = await runToEnd(t, 'curl', ['-si', '-m', '20', ...args, `http://127.0.0.1:${asked}/x`]);
      t.match(answer.stdout, /^HTTP\/[12](\.1)? 502/, `${what}: ${name}`);
      const line = await lineAfter(stage, index, 'Request failed');
      t.match(line, { code: 'ERR_SALLYPORT_BAD_RESPONSE', error: 'i/o', app: `127.0.0.1:${port}` }, `${what}: ${name}`);
    }
  }
});

t.test('HTTP/2 to an app that speaks HTTP/1 alone', needed, async (t) => {
  const app = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.write('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'));
  });
  t.teardown(() => app.close());
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  const { port } = app.address() as AddressInfo;
  const stage = await started(t, port);
  const answer = await runToEnd(t, 'curl', ['-si', '--http2-prior-knowledge', `http://127.0.0.1:${stage.http2}/x`]);
  t.match(answer.stdout, /^HTTP\/2 502/);
  t.match(await lineAfter(stage, 0, 'Request failed'), {
    code: 'ERR_SALLYPORT_BAD_RESPONSE',
    error: 'i/o',
    app: `127.0.0.1:${port}`,
    version: 'HTTP/2.0',
  });
});

t.test('connections', async (t) => {
  for (const [port, errno] of [
    [await freePort(), 'ECONNREFUSED'],
    [await startEndingApp(t, (socket) => socket.resetAndDestroy()), 'ECONNRESET'],
  ] as const) {
    const stage = await started(t, port);
    const socket = connect(stage.opaque, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('hello');
    t.match(await lineAfter(stage, 0, 'Connection failed'), { error: 'i/o', app: `127.0.0.1:${port}`, errno });
    socket.destroy();
  }
});

t.test('localhost, which is two addresses', needed, async (t) => {
  const [port, gone] = [await freePort(), await freePort()];
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=localhost:${gone}`,
    },
  });
  await runToEnd(t, 'curl', ['-s', `http://127.0.0.1:${port}/`]);
  const line = await sallyport.waitForLog('the failure', ({ msg }) => msg === 'Request failed');
  t.match(line, { app: `localhost:${gone}`, errno: 'ECONNREFUSED' });
});
