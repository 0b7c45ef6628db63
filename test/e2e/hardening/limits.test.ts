/**
 * Each limit, set low, from outside: what a client that reaches it is told, that it is counted, and that somebody else is served
 * all the same.
 */
import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { LimitName } from '../../../lib/proxy/limits.ts';
import { http1Outcome, http1Request, lanes } from '../../support/attacked-routes.ts';
import { tied } from '../../support/children.ts';
import { headersFrame, preface, requestFields, settingsFrame } from '../../support/http2-frames.ts';
import { growth, scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, offTheFastLane, RawClient } from '../../support/raw-http.ts';
import { type Sallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';
import { startWitness, type Witness } from '../../support/witness.ts';

interface Stage {
  readonly sallyport: Sallyport;
  readonly app: Witness;
  readonly http: number;
  readonly tcp: number;
  /** A connection that has sent so much; ended with the test. */
  open(port: number, bytes?: string, localAddress?: string): Promise<RawClient>;
}

interface Row {
  readonly limit: LimitName;
  /** Where one limit has several rows. */
  readonly title?: string;
  readonly env: Readonly<Record<string, string>>;
  /** Reaches it. */
  run(t: Test, stage: Stage): Promise<void>;
}

/** `/hang` is never answered, `/large` with 8 MB. */
const large = Buffer.alloc(8 << 20, 'x');
const get = http1Request('/');
const ok = /^HTTP\/1\.1 200 /;

async function answered(client: RawClient): Promise<string> {
  await until('a response', () => client.received.includes('\r\n\r\n') || client.ended);
  return client.received.toString('latin1').slice(0, 12);
}

const cut = async (t: Test, client: RawClient, what: string): Promise<void> => {
  t.ok(await client.ends(15_000), what);
};

const rows: readonly Row[] = [
  {
    limit: 'max_connections',
    title: 'silent ones',
    env: { SALLYPORT_MAX_CONNECTIONS: '20', SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: '1000' },
    run: async (t, { open, http }) => {
      const silent: RawClient[] = [];
      for (let i = 0; i < 20; i++) silent.push(await open(http));
      const last = await open(http, get);
      t.equal(await answered(last), 'HTTP/1.1 200', 'one more than there is room for is served');
      await cut(t, silent[0] as RawClient, 'the oldest of those that said nothing has gone');
      t.equal(silent.filter(({ ended }) => ended).length, 1, 'and only that one');
    },
  },
  {
    limit: 'max_connections',
    title: 'idle and busy ones',
    // A worker that has nobody idle refuses the new one, and another makes room for the next: test/unit/shared/counts.test.ts.
    env: {
      SALLYPORT_MAX_CONNECTIONS: '20',
      SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: '1000',
      SALLYPORT_WORKERS: '1',
    },
    run: async (t, { open, http, app }) => {
      const idle = await open(http, get);
      await answered(idle);
      for (let i = 0; i < 19; i++) await open(http, http1Request('/hang'));
      await until('them to reach the app', () => app.requests.filter(({ target }) => target === '/hang').length === 19);
      const last = await open(http, http1Request('/hang'));
      await cut(t, idle, 'who was idle has made room');
      await until('it to reach the app', () => app.requests.filter(({ target }) => target === '/hang').length === 20);
      const refused = await open(http, get);
      await cut(t, refused, 'where everybody is busy the newest is closed');
      t.equal(refused.receivedLength, 0);
      t.notOk(last.ended);
    },
  },
  {
    limit: 'max_connections_per_client',
    env: { SALLYPORT_MAX_CONNECTIONS: '100', SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: '5' },
    run: async (t, { open, http, app }) => {
      const others = [await open(http, get, '127.0.0.3'), await open(http, '', '127.0.0.3')];
      for (let i = 0; i < 5; i++) await open(http, http1Request('/hang'), '127.0.0.2');
      await until('them to reach the app', () => app.requests.filter(({ target }) => target === '/hang').length === 5);
      await cut(t, await open(http, get, '127.0.0.2'), 'its sixth is closed');
      t.equal(await answered(await open(http, get, '127.0.0.3')), 'HTTP/1.1 200', 'another client is served');
      t.notOk(
        others.some(({ ended }) => ended),
        'and pays nothing',
      );
    },
  },
  {
    limit: 'max_detecting',
    // Each worker has its part of them, and lets its own oldest go.
    env: { SALLYPORT_MAX_DETECTING: '10', SALLYPORT_WORKERS: '1' },
    run: async (t, { open, http }) => {
      const silent: RawClient[] = [];
      for (let i = 0; i < 30; i++) silent.push(await open(http));
      await until('the oldest to go', () => silent.filter(({ ended }) => ended).length === 20);
      t.ok(silent.slice(0, 20).every(({ ended }) => ended));
      t.equal(await answered(await open(http, get)), 'HTTP/1.1 200');
    },
  },
  {
    limit: 'max_in_flight',
    env: { SALLYPORT_MAX_IN_FLIGHT: '3' },
    run: async (t, { open, http, app }) => {
      for (let i = 0; i < 3; i++) await open(http, http1Request('/hang'));
      await until('them to reach the app', () => app.requests.length === 3);
      t.equal(await answered(await open(http, get)), 'HTTP/1.1 503');
    },
  },
  {
    limit: 'max_header_bytes',
    env: { SALLYPORT_MAX_HEADER_BYTES: '4KiB' },
    run: async (t, { http }) => {
      t.equal(await http1Outcome(http, http1Request('/', [`X: ${'a'.repeat(3000)}`])), '200');
      t.equal(await http1Outcome(http, http1Request('/', [`X: ${'a'.repeat(5000)}`])), '431');
      t.equal(await http1Outcome(http, http1Request(`/${'a'.repeat(5000)}`)), '431');
    },
  },
  {
    limit: 'max_header_fields',
    env: { SALLYPORT_MAX_HEADER_FIELDS: '100' },
    run: async (t, { http }) => {
      const fields = (count: number): string[] => Array.from({ length: count }, (_, i) => `X-${i}: a`);
      t.equal(await http1Outcome(http, http1Request('/', fields(99))), '200');
      t.equal(await http1Outcome(http, http1Request('/', fields(100))), '400');
    },
  },
  {
    limit: 'header_timeout',
    env: { SALLYPORT_HEADER_TIMEOUT: '1s' },
    run: async (t, { open, http }) => {
      const slow = await open(http, 'GET / HTTP/1.1\r\nHost:');
      await cut(t, slow, 'a head that does not come to its end');
      t.match(slow.received.toString(), /^HTTP\/1\.1 408 /);
    },
  },
  {
    limit: 'request_timeout',
    env: { SALLYPORT_REQUEST_TIMEOUT: '1s' },
    run: async (t, { open, http }) => {
      const waiting = await open(http, http1Request('/hang'));
      await cut(t, waiting, 'a request that is not answered');
      t.match(waiting.received.toString(), /^HTTP\/1\.1 504 /);
      const odd = await open(http, http1Request('/hang', offTheFastLane));
      await cut(t, odd, 'nor if it is an odd one');
      t.match(odd.received.toString(), /^HTTP\/1\.1 504 /);
    },
  },
  {
    limit: 'stall_timeout',
    env: { SALLYPORT_STALL_TIMEOUT: '1s' },
    run: async (t, { sallyport, open, http, app }) => {
      const upload = await open(http, http1Request('/', ['Content-Length: 10'], 'POST'));
      const chunked = await open(http, http1Request('/', ['Transfer-Encoding: chunked'], 'POST'));
      const reader = await open(http);
      reader.socket.pause();
      reader.send(latin1(http1Request('/large')));
      const patient = await open(http, http1Request('/hang'));
      for (const each of [upload, chunked]) {
        await cut(t, each, 'content that does not come');
        t.match(each.received.toString(), /^(HTTP\/1\.1 408 |HTTP\/1\.1 200 )/, 'told why, unless answered already');
      }
      // Only a client that reads sees its connection end, and one that reads too early is not cut off.
      const cutOff = async () => (await scrape(sallyport.adminPort)).sum('sallyport_limit_reached_total') >= 3;
      await until('all three to be cut off', cutOff);
      reader.socket.resume();
      await cut(t, reader, 'the reader that takes nothing');
      t.ok(reader.receivedLength < large.length, 'before it has all');
      t.notOk(patient.ended, 'who waits for the app does not stand still');
      t.ok(app.requests.some(({ target }) => target === '/hang'));
    },
  },
  {
    limit: 'http1_idle_timeout',
    env: { SALLYPORT_HTTP1_IDLE_TIMEOUT: '1s' },
    run: async (t, { open, http }) => {
      const idle = await open(http, get);
      t.equal(await answered(idle), 'HTTP/1.1 200');
      await cut(t, idle, 'who does nothing');
    },
  },
  {
    limit: 'tunnel_idle_timeout',
    env: { SALLYPORT_TUNNEL_IDLE_TIMEOUT: '3s' },
    run: async (t, { open, tcp }) => {
      const tunnel = await open(tcp, '\x00hello');
      await until('the echo', () => tunnel.received.includes('hello'));
      const started = performance.now();
      for (let i = 0; performance.now() - started < 7_500; i++) {
        tunnel.send(latin1('.'));
        await until('its echo', () => tunnel.receivedLength > 6 + i);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      t.notOk(tunnel.ended, 'something moves');
      await cut(t, tunnel, 'nothing moves any more');
    },
  },
  {
    limit: 'max_connection_age',
    env: { SALLYPORT_MAX_CONNECTION_AGE: '1s' },
    run: async (t, { open, http }) => {
      const idle = await open(http, get);
      await cut(t, idle, 'an idle connection ends');
      const busy = await open(http);
      let sent = 0;
      await until(
        'a response to say that it is the last',
        async () => {
          busy.send(latin1(get));
          sent++;
          await until('its response', () => busy.received.toString().split('HTTP/1.1 200').length > sent || busy.ended);
          return /connection: close/i.test(busy.received.toString()) || busy.ended;
        },
        { everyMs: 5 },
      );
      t.match(busy.received.toString(), ok);
      await cut(t, busy, 'and it is');
    },
  },
  {
    limit: 'max_buffered_bytes',
    env: { SALLYPORT_MAX_BUFFERED_BYTES: '256KiB' },
    run: async (t, { open, http, sallyport }) => {
      const readers: RawClient[] = [];
      for (let i = 0; i < 12; i++) {
        const reader = await open(http);
        reader.socket.pause();
        reader.send(latin1(http1Request('/large')));
        readers.push(reader);
      }
      t.equal(await answered(await open(http, get)), 'HTTP/1.1 200');
      await until('the budget to be used up', async () => {
        const { sum } = await scrape(sallyport.adminPort);
        return sum('sallyport_limit_reached_total', { limit: 'max_buffered_bytes' }) > 0;
      });
      for (const reader of readers) reader.socket.resume();
      await until(
        'all to end one way or the other',
        () => readers.every((reader) => reader.ended || reader.receivedLength > large.length),
        { timeoutMs: 20_000 },
      );
      t.ok(
        readers.some(({ receivedLength }) => receivedLength < large.length),
        'some were cut off',
      );
    },
  },
  {
    limit: 'max_buffered_bytes',
    title: 'by large heads in flight',
    // Each worker has its part of them, which the next connection's worker may have left.
    // Heads may take half of it, and each counts as two bytes a character.
    env: { SALLYPORT_MAX_BUFFERED_BYTES: '512KiB', SALLYPORT_WORKERS: '1' },
    run: async (t, { open, http, app }) => {
      const large = http1Request('/hang', [`X: ${'a'.repeat(60_000)}`]);
      for (let i = 0; i < 2; i++) await open(http, large);
      await until('them to reach the app', () => app.requests.length === 2);
      t.equal(await answered(await open(http, large)), 'HTTP/1.1 503');
      t.equal(await answered(await open(http, get)), 'HTTP/1.1 200');
    },
  },
];

t.setTimeout(1_800_000);
// Most of the time is deadlines.
t.jobs = 4;

async function setUp(t: Test, env: Readonly<Record<string, string>>): Promise<Stage> {
  const [http = 0, tcp = 0] = await freePorts(2);
  const app = await startWitness(t, (request, response) => {
    if (request.url === '/hang') return;
    response.statusCode = 200;
    (response as NodeJS.WritableStream).end(request.url === '/large' ? large : '');
  });
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('http', http) + openServer('tcp', tcp, 'opaque')),
      SALLYPORT_INBOUND_PORTS: `${http}=127.0.0.1:${app.port},${tcp}=127.0.0.1:${app.port}`,
      ...env,
    },
  });
  const open = async (port: number, bytes = '', localAddress?: string): Promise<RawClient> => {
    const client = await RawClient.open({ port, ...(localAddress === undefined ? {} : { localAddress }) });
    t.teardown(() => client.destroy());
    if (bytes !== '') client.send(latin1(bytes));
    return client;
  };
  return { sallyport, app, http, tcp, open };
}

for (const lane of lanes) {
  for (const { limit, title = '', env, run } of rows) {
    t.test(`${limit} ${title}, ${lane.name}`, async (t) => {
      const stage = await setUp(t, { ...lane.env, ...env });
      const { sallyport } = stage;
      const before = await scrape(sallyport.adminPort);
      await run(t, stage);
      const after = await scrape(sallyport.adminPort);
      t.ok(growth(before, after, 'sallyport_limit_reached_total', { limit }) > 0, 'it is counted');
      t.equal(after.sum('sallyport_internal_errors_total'), 0, 'no fault of ours');
    });
  }
}

t.test('max_pending_connects', async (t) => {
  // Listens and never accepts: once its line is full, connects to it stay under way.
  const script =
    'import socket,time;s=socket.socket();s.bind(("127.0.0.1",0));s.listen(0);print(s.getsockname()[1],flush=True);time.sleep(600)';
  const deaf = spawn(...tied('python3', ['-c', script]));
  t.teardown(() => deaf.kill());
  const port = Number(
    await new Promise<string>((resolve) => deaf.stdout.once('data', (text) => resolve(String(text)))),
  );
  const [web = 0] = await freePorts(1);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('http', web)),
      SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${port}`,
      SALLYPORT_CONNECT_TIMEOUT: '5s',
      SALLYPORT_MAX_PENDING_CONNECTS: '10',
    },
  });
  const clients: RawClient[] = [];
  for (let i = 0; i < 30; i++) {
    const client = await RawClient.open({ port: web });
    t.teardown(() => client.destroy());
    client.send(latin1(get));
    clients.push(client);
  }
  await until('some to be refused', () => clients.some(({ receivedLength }) => receivedLength > 0));
  const told = clients.filter(({ receivedLength }) => receivedLength > 0);
  for (const { received } of told) t.match(received.toString(), /^HTTP\/1\.1 503 /);
  t.ok((await scrape(sallyport.adminPort)).sum('sallyport_limit_reached_total', { limit: 'max_pending_connects' }) > 0);
});

/** An app that answers everything but `/hang`. */
const startHanging = (t: Test): Promise<Witness> =>
  startWitness(t, (request, response) => {
    if (request.url === '/hang') return;
    response.statusCode = 200;
    (response as NodeJS.WritableStream).end();
  });

t.test('the many requests of one connection leave others their descriptors', async (t) => {
  const [web = 0] = await freePorts(1);
  const app = await startHanging(t);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('http', web)),
      SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${app.port}`,
    },
    within: ['prlimit', '--nofile=200:200'],
  });
  const greedy = await RawClient.open({ port: web });
  t.teardown(() => greedy.destroy());
  const hangs = Array.from({ length: 250 }, (_, i) =>
    headersFrame(2 * i + 1, requestFields('/hang', [['l5d-orig-proto', 'HTTP/1.1']])),
  );
  greedy.send(Buffer.concat([preface, settingsFrame([]), ...hangs]));
  const limited = async (): Promise<number> =>
    (await scrape(sallyport.adminPort)).sum('sallyport_limit_reached_total', { limit: 'max_connections' });
  await until('some of them to be refused', async () => (await limited()) > 0);
  for (let i = 0; i < 20; i++) t.equal(await http1Outcome(web, get), '200', 'a new client is served');
  const { sum } = await scrape(sallyport.adminPort);
  t.equal(sum('sallyport_limit_reached_total', { limit: 'descriptors' }), 0, 'none is lacking');
  t.equal(sum('sallyport_internal_errors_total'), 0, 'no fault of ours');
});

t.test('without descriptors: the app is not dialled, nobody waits for ever, and all is well afterwards', async (t) => {
  const [web = 0] = await freePorts(1);
  const app = await startHanging(t);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('http', web)),
      SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${app.port}`,
      // As if nobody had derived it from the descriptors.
      SALLYPORT_MAX_CONNECTIONS: '10000',
    },
    within: ['prlimit', '--nofile=64:64'],
  });
  // What libuv cannot accept it closes without a word; a connect to the app that finds none left is counted. Which of the two
  // meets the last descriptor depends on their number being even or odd: an idle connection changes that.
  const idle: Socket[] = [];
  t.teardown(() => {
    for (const socket of idle) socket.destroy();
  });
  for (const round of ['even', 'odd']) {
    if (round === 'odd') idle.push((await RawClient.open({ port: sallyport.healthPort })).socket);
    const clients: Socket[] = [];
    t.teardown(() => {
      for (const client of clients) client.destroy();
    });
    const outcomes: string[] = [];
    for (let i = 0; i < 100; i++) {
      const client = await RawClient.open({ port: web });
      clients.push(client.socket);
      client.send(latin1(http1Request('/hang')));
      void until('an end', () => client.ended, { timeoutMs: 30_000 }).then(
        () => outcomes.push(client.received.toString('latin1').slice(0, 12)),
        () => outcomes.push('waits'),
      );
    }
    await until('some to be turned away', () => outcomes.length > 20, { timeoutMs: 20_000 });
    t.same(
      outcomes.filter((outcome) => outcome !== '' && outcome !== 'HTTP/1.1 503'),
      [],
      '503, or closed',
    );
    t.equal(sallyport.child.process.exitCode, null, 'it lives');
    for (const client of clients) client.destroy();
    await until('somebody to be served again', async () => (await http1Outcome(web, get).catch(() => '')) === '200');
    await until('health to answer', async () => (await sallyport.health('/ready')) === 200);
  }
  // Sockets that are closing still take descriptors for a moment.
  const { sum } = await until('the metrics', () => scrape(sallyport.adminPort).catch(() => undefined));
  t.ok(sum('sallyport_limit_reached_total', { limit: 'descriptors' }) > 0, 'it is counted');
  t.equal(sum('sallyport_internal_errors_total'), 0, 'no fault of ours');
  await sallyport.stop();
  const lines = sallyport.logs().filter(({ msg }) => /Accepting/.test(String(msg)));
  t.ok(lines.length < 5, 'and not told for each');
});
