import { once } from 'node:events';
import { connect as http2Connect } from 'node:http2';
import { createServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, connect as tlsConnect } from 'node:tls';
import t, { type Test } from 'tap';
import { testCertificate } from '../../support/certificates.ts';
import { freePorts } from '../../support/ports.ts';
import { type Sallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

/*
 * HTTPS probes may come from everybody, and each is a connection in TLS to the app: what bounds the requests and connections
 * of others bounds them, too.
 */

t.setTimeout(900_000);

/** Not 127.0.0.1, which is let in by another authorization. */
const localAddress = '127.0.0.9';

interface App {
  readonly port: number;
  /** `Host` of each request. */
  readonly hosts: readonly (string | undefined)[];
  mostOpen(): number;
  release(): void;
}

function certificate(): { readonly cert: string; readonly key: string } {
  const { certificatePem: cert, keyPem: key } = testCertificate({ dnsNames: ['app.test'] });
  return { cert, key };
}

/** Answers when it is told to. */
async function startHolding(t: Test): Promise<App> {
  const hosts: (string | undefined)[] = [];
  const held = new Set<() => void>();
  let [open, most, released] = [0, 0, false];
  const app = createServer(certificate(), ({ headers }, response) => {
    hosts.push(headers.host);
    const answer = (): void => void response.end('well\n');
    if (released) answer();
    else held.add(answer);
  });
  app.on('connection', (socket) => {
    most = Math.max(most, ++open);
    socket.once('close', () => open--);
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    app.closeAllConnections();
    app.close();
  });
  return {
    port: (app.address() as AddressInfo).port,
    hosts,
    mostOpen: () => most,
    release() {
      released = true;
      for (const answer of held) answer();
    },
  };
}

interface Proxy {
  readonly port: number;
  readonly sallyport: Sallyport;
}

async function proxyFor(t: Test, appPort: number, env: Record<string, string>): Promise<Proxy> {
  const [port = 0] = await freePorts(1);
  const inbound = { SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${appPort}` };
  const probes = { SALLYPORT_PROBES: `https:${port}/healthz` };
  return { port, sallyport: await startSallyport(t, { env: { ...probes, ...inbound, ...env } }) };
}

async function setUp(t: Test, env: Record<string, string>): Promise<Proxy & { readonly app: App }> {
  const app = await startHolding(t);
  return { app, ...(await proxyFor(t, app.port, env)) };
}

function connectTls(port: number, ALPNProtocols: string[] = []): TLSSocket {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  return tlsConnect({ socket, rejectUnauthorized: false, ALPNProtocols });
}

/** Many at once on one connection: the statuses, as they come; 0 for a stream without one. */
function manyProbes(t: Test, port: number, count: number): number[] {
  const statuses: number[] = [];
  const socket = connectTls(port, ['h2']);
  const session = http2Connect(`https://app.test:${port}`, { createConnection: () => socket });
  t.teardown(() => session.destroy());
  session.on('error', () => {});
  for (let i = 0; i < count; i++) {
    const stream = session.request({ ':path': '/healthz' });
    let status = 0;
    stream.on('response', (headers) => {
      status = headers[':status'] ?? 0;
    });
    stream.on('error', () => {});
    stream.on('close', () => statuses.push(status));
    stream.resume();
  }
  return statuses;
}

const answers: readonly (readonly [title: string, response: string, status: string])[] = [
  ['breaks off', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', '502'],
  ['switches protocols', 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n', '502'],
  ['ends with its connection', 'HTTP/1.1 200 OK\r\n\r\nwell', '200'],
  ['is none', 'hello\r\n\r\n', '502'],
  [
    'has fields of its own connection',
    'HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nHTTP2-Settings: x\r\nContent-Length: 4\r\n\r\nwell',
    '200',
  ],
];

t.test('what the app may answer', async (t) => {
  let response = '';
  const app = createTlsServer(certificate(), (socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(response, 'latin1'));
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  t.teardown(() => app.close());
  const { port, sallyport } = await proxyFor(t, (app.address() as AddressInfo).port, {});
  for (const [title, text, status] of answers) {
    response = text;
    const socket = connectTls(port);
    socket.write('GET /healthz HTTP/1.1\r\nHost: web\r\n\r\n');
    const [first] = await once(socket, 'data');
    t.equal(/^HTTP\/1\.1 (\d+)/.exec(String(first))?.[1], status, `a response that ${title}`);
    t.notMatch(String(first), /^(?:x-hop|http2-settings):/im, 'what is of the connection to the app stays there');
    socket.destroy();
  }
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('requests in flight', async (t) => {
  const { app, port, sallyport } = await setUp(t, { SALLYPORT_MAX_IN_FLIGHT: '4' });
  const statuses = manyProbes(t, port, 12);
  await until('those beyond the bound', () => statuses.length >= 8);
  t.equal(statuses[0], 503, 'beyond the bound');
  t.notOk(statuses.includes(200));
  await until('the first of the others', () => app.hosts.length === 1);
  app.release();
  await until('all', () => statuses.length === 12);
  t.same(statuses.slice(8), Array(4).fill(200), 'within it');
  t.same(new Set(app.hosts), new Set([`app.test:${port}`]), 'the app is told for whom');
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('connections to the app', async (t) => {
  const { app, port, sallyport } = await setUp(t, {});
  const statuses = manyProbes(t, port, 40);
  await until('the first', () => app.hosts.length === 1);
  app.release();
  await until('all', () => statuses.length === 40);
  t.same(new Set(statuses), new Set([200]));
  // The app may hear of the end of one after the beginning of the next.
  t.ok(app.mostOpen() <= 2, 'one at a time for each connection of a client');
  t.match(await sallyport.stop(), { code: 0 });
});
