import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment } from '../../support/files.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

/*
 * What goes through a tunnel on a port of unknown protocol without request rules, piece by piece. The app is silent, as
 * an HTTP server is before a request, or greets. In none of these may a silent app get a line that completes a request.
 */

const detectTimeoutMs = 700;
const ownName = workloadName('web', 'shop');
const request = 'GET /secret HTTP/1.1\r\nHost: web\r\nl5d-client-id: root\r\n\r\n';

t.setTimeout(900_000);

interface App {
  readonly port: number;
  readonly received: () => string;
  readonly connections: () => number;
}

async function startApp(greeting: string): Promise<App> {
  const sockets: Socket[] = [];
  let received = '';
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    if (greeting !== '') socket.write(greeting);
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { port, received: () => received, connections: () => sockets.length };
}

const silent = await startApp('');
const greeting = await startApp('220 mail.example ready\r\n');
const [silentPort, greetingPort] = [await freePort(), await freePort()];
const folder = t.testdir();
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(folder, openServer('silent', silentPort) + openServer('greeting', greetingPort)),
    SALLYPORT_INBOUND_PORTS: `${silentPort}=127.0.0.1:${silent.port},${greetingPort}=127.0.0.1:${greeting.port}`,
    SALLYPORT_DETECT_TIMEOUT: `${detectTimeoutMs}ms`,
    ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
  },
});
const tls = meshClient(ownName, workloadCertificate('orders', 'shop'));

interface Row {
  readonly title: string;
  /** Each is sent when the app has what went on of those before. */
  readonly pieces: readonly string[];
  /** What the app may get in all; it is cut off then. */
  readonly goesOn: string;
  /** Nothing is sent until the detection has given up, and the app was dialled. */
  readonly late?: boolean;
  readonly ends?: boolean;
}

const rows: readonly Row[] = [
  { title: 'a request behind a binary byte', pieces: ['\x01', ` /secret HTTP/1.1${'\n\n'}`], goesOn: '\x01' },
  { title: 'cut in its version', pieces: ['(GET ', '/secret HT', 'TP/1.1\n'], goesOn: '(GET ' },
  {
    title: 'the empty line behind a line that is none',
    pieces: ['nonsense\r\nl5d-client-id: root\r\n', '\r\n'],
    goesOn: 'nonsense\r\nl5d-client-id: root\r\n',
  },
  { title: 'the JDK’s three words', pieces: ['\x01\n /secret y', '\r\n'], goesOn: '\x01\n /secret y' },
  { title: 'a request after silence', pieces: [request], goesOn: '', late: true },
  {
    title: 'a request after silence, in pieces',
    pieces: ['G', 'ET /sec', 'ret HTTP/1.1\r\n'],
    goesOn: 'G',
    late: true,
  },
  { title: 'HTTP/0.9 without a line end', pieces: ['\xa0GET', ' /secret'], goesOn: '\xa0GET', ends: true },
  { title: 'HTTP/2 after silence', pieces: ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'], goesOn: '', late: true },
];

for (const row of rows) {
  t.test(`a silent app, ${row.title}`, async (t) => {
    const [before, connections] = [silent.received(), silent.connections()];
    const client = await RawClient.open({ port: silentPort, tls });
    const got = (): string => silent.received().slice(before.length);
    if (row.late === true) await until('the app to be dialled', () => silent.connections() > connections);
    let sent = '';
    for (const piece of row.pieces) {
      client.send(latin1(piece));
      sent += piece;
      const reached = row.goesOn.startsWith(sent) ? sent : row.goesOn;
      await until('what may go on', () => got() === reached || client.ended, { lastSeen: () => JSON.stringify(got()) });
    }
    if (row.ends === true) client.halfClose();
    t.ok(await client.ends(detectTimeoutMs + 5_000), 'the client is cut off');
    t.equal(got(), row.goesOn, 'and the rest never came');
    client.destroy();
  });
}

t.test('an app that greets may be told anything', async (t) => {
  const client = await RawClient.open({ port: greetingPort, tls });
  t.ok(
    await client.reaches(() => client.received.toString().startsWith('220 '), detectTimeoutMs + 5_000),
    'it is heard',
  );
  const words = `EHLO me\r\n${request}`;
  client.send(latin1(words));
  await until('all to arrive', () => greeting.received() === words);
  client.destroy();
  t.pass('and all of it arrives');
});

t.test('another protocol goes on as it comes', async (t) => {
  const before = silent.received();
  const client = await RawClient.open({ port: silentPort });
  for (const piece of ['\0\0\0\x08', '\x04\xd2\x16\x2f', 'SELECT 1;\0', 'x'.repeat(100_000)])
    client.send(latin1(piece));
  const all = () => silent.received().length - before.length;
  await until('all to arrive', () => all() === 8 + 10 + 100_000, { lastSeen: () => String(all()) });
  client.destroy();
  t.pass('whole');
});

t.test('TLS for another name goes on, but no request in its hello', async (t) => {
  const before = silent.received();
  const name = 'db.example.com';
  const sni = `\0\0\0${String.fromCharCode(name.length + 5)}\0${String.fromCharCode(name.length + 3)}\0\0${String.fromCharCode(name.length)}${name}`;
  const hello = (padding: string): Buffer => {
    const extensions = `${sni}\0\x15\0${String.fromCharCode(padding.length)}${padding}`;
    const two = (n: number): string => String.fromCharCode(n >> 8, n & 255);
    const body = `\x03\x03${'r'.repeat(32)}\0\0\x02\x13\x01\x01\0${two(extensions.length)}${extensions}`;
    const message = `\x01\0${two(body.length)}${body}`;
    return latin1(`\x16\x03\x01${two(message.length)}${message}`);
  };
  const attack = await RawClient.open({ port: silentPort });
  attack.send(hello(' /secret HTTP/1.1\n\n'));
  t.ok(await attack.ends(5_000), 'with a request in it it ends');
  t.equal(silent.received(), before);
  const honest = await RawClient.open({ port: silentPort });
  const bytes = hello('\0'.repeat(20));
  honest.send(bytes);
  await until('the hello to arrive', () => silent.received() === before + bytes.toString('latin1'));
  honest.destroy();
});

t.test('the proxy is well', async (t) => t.match(await sallyport.stop(), { code: 0 }));
