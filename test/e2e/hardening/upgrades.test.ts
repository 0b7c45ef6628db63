import { type AddressInfo, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { closedServer, http1Outcome, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import type { Teardown } from '../../support/children.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { headerValues, latin1, parseResponses, RawClient } from '../../support/raw-http.ts';
import { type Sallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/** An app that answers each head with fixed bytes and keeps what it gets, connection by connection. */
interface Script {
  readonly port: number;
  readonly connections: readonly { received: string; closed: boolean; readonly socket: Socket }[];
}

/** `answer` gets the head of a request and yields the bytes to say, or null to say nothing yet. */
function startScript(t: Teardown, answer: (head: string) => string | null): Promise<Script> {
  const connections: { received: string; closed: boolean; socket: Socket }[] = [];
  const server = createServer((socket) => {
    const connection = { received: '', closed: false, socket };
    connections.push(connection);
    let switched = false;
    let from = 0;
    socket.on('data', (chunk: Buffer) => {
      connection.received += chunk.toString('latin1');
      for (let end = connection.received.indexOf('\r\n\r\n', from); end !== -1 && !switched; ) {
        const said = answer(connection.received.slice(from, end + 4));
        from = end + 4;
        end = connection.received.indexOf('\r\n\r\n', from);
        if (said === null) continue;
        switched = / 101 |^HTTP\/1\.1 200 Connection/.test(said);
        socket.write(said);
      }
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      connection.closed = true;
    });
  });
  t.teardown(() => {
    for (const { socket } of connections) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve({ port: (server.address() as AddressInfo).port, connections }));
  });
}

/** Connections to the app on which a request for that target came. */
function carrying(app: Script, target: string): Script['connections'] {
  return app.connections.filter(({ received }) => received.includes(` ${target} HTTP/1.1`));
}

const webSocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAA'];
const other = ['Connection: Upgrade', 'Upgrade: chat/1'];
const protocols = [
  ['WebSocket', webSocket, 'websocket'],
  ['another protocol', other, 'chat/1'],
] as const;

const switching = (protocol: string): string =>
  `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;

async function startStage(
  t: Test,
  app: number,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly open: number; readonly routed: number; readonly sallyport: Sallyport }> {
  const [open = 0, routed = 0] = await freePorts(2);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(
        t.testdir(),
        openServer('open', open) +
          closedServer('routed', routed) +
          route('public', 'routed', '/public') +
          openRoute('public'),
      ),
      SALLYPORT_INBOUND_PORTS: `${open}=127.0.0.1:${app},${routed}=127.0.0.1:${app}`,
      ...env,
    },
  });
  return { open, routed, sallyport };
}

t.setTimeout(900_000);

for (const { name, env } of lanes) {
  t.test(
    `h2c, and whatever else carries requests, is never offered to the app (BishopFox/h2csmuggler), ${name}`,
    async (t) => {
      const app = await startWitness(t);
      const { open, routed } = await startStage(t, app.port, env);
      const rows: readonly (readonly [title: string, fields: readonly string[]])[] = [
        ['as specified', ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__']],
        ['without the settings', ['Connection: Upgrade', 'Upgrade: h2c']],
        ['without naming it in Connection', ['Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__']],
        ['in capitals', ['Connection: UPGRADE', 'UPGRADE: H2C', 'http2-settings: AAMAAABkAAQAAP__']],
        ['among others', ['Connection: Upgrade', 'Upgrade: websocket, h2c']],
        ['first among others', ['Connection: Upgrade', 'Upgrade: h2c, websocket']],
        ['in a second line', ['Connection: Upgrade', 'Upgrade: websocket', 'Upgrade: h2c']],
        ['with a version', ['Connection: Upgrade', 'Upgrade: h2c-14']],
        ['settings alone', ['HTTP2-Settings: AAMAAABkAAQAAP__']],
        ['HTTP/2 by its version', ['Connection: Upgrade', 'Upgrade: HTTP/2.0']],
        ['TLS, and HTTP inside (RFC 2817)', ['Connection: Upgrade', 'Upgrade: TLS/1.0, HTTP/1.1']],
      ];
      for (const [title, fields] of rows) {
        const before = app.requests.length;
        t.equal(await http1Outcome(open, http1Request('/public', fields)), '200', `${title}: an ordinary answer`);
        t.equal(app.requests.length, before + 1);
        const names = app.requests.at(-1)?.headers.map(([field]) => field.toLowerCase()) ?? [];
        t.same(
          names.filter((field) => field === 'upgrade' || field === 'http2-settings'),
          [],
          title,
        );
        t.equal(await http1Outcome(routed, http1Request('/admin', fields)), '404', `${title}: judged like any request`);
      }
      t.same(app.malformed, []);
    },
  );

  t.test(`CONNECT and denied upgrades, ${name}`, async (t) => {
    const app = await startScript(t, () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    const { routed } = await startStage(t, app.port, env);
    const early = 'GET /SMUGGLED HTTP/1.1\r\nHost: web\r\n\r\n';
    const rows: readonly (readonly [title: string, bytes: string, method: string, status: string])[] = [
      // Refused by default: the target has no path, so only a rule for every path could let it in (CVE-2026-73547).
      ['CONNECT', 'CONNECT web:80 HTTP/1.1\r\nHost: web:80\r\n\r\n', 'CONNECT', '404'],
      ['CONNECT with a path', 'CONNECT /public HTTP/1.1\r\nHost: web\r\n\r\n', 'CONNECT', '400'],
      ['CONNECT with a URL', 'CONNECT http://web/public HTTP/1.1\r\nHost: web\r\n\r\n', 'CONNECT', '400'],
      ['CONNECT without a port', 'CONNECT web HTTP/1.1\r\nHost: web\r\n\r\n', 'CONNECT', '400'],
      ['CONNECT in HTTP/1.0', 'CONNECT web:80 HTTP/1.0\r\nHost: web:80\r\n\r\n', 'CONNECT', '404'],
      ['a denied WebSocket', http1Request('/admin', webSocket), 'GET', '404'],
      ['a denied upgrade', http1Request('/admin', other), 'GET', '404'],
      ['an upgrade by a way around', http1Request('/public/../admin', webSocket), 'GET', '400'],
    ];
    for (const [title, bytes, method, status] of rows) {
      const client = await RawClient.open({ port: routed });
      client.send(latin1(bytes + early));
      const [response] = await client.responses([method]);
      t.equal(String(response?.status), status, title);
      t.ok(await client.ends(5_000), `${title}: the connection ends, and with it what followed`);
      const after = parseResponses(client.received, [method, 'GET'], true);
      t.equal(after.responses.length, 1, `${title}: one response`);
      client.destroy();
    }
    t.same(app.connections, [], 'the app was never called');
  });
}

for (const [title, fields, protocol] of protocols) {
  t.test(`early bytes wait for 101: ${title} (CVE-2026-73548)`, async (t) => {
    let agree: (() => void) | null = null;
    const app = await startScript(t, (head) => {
      if (!head.includes('/chat')) return 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
      agree = () => carrying(app, '/chat')[0]?.socket.write(`${switching(protocol)}hello`);
      return null;
    });
    const { open } = await startStage(t, app.port);
    const client = await RawClient.open({ port: open });
    client.send(latin1(`${http1Request('/chat', fields)}EARLY`));
    await until('the app to have the request', () => agree !== null);
    // Another request all the way through and back: had the early bytes been sent on, they would be there by now.
    t.equal(await http1Outcome(open, http1Request('/between')), '200');
    t.notMatch(carrying(app, '/chat')[0]?.received ?? '', /EARLY/, 'not before the app has agreed');
    (agree as (() => void) | null)?.();
    t.ok(
      await client.reaches(() => client.received.includes('\r\n\r\nhello'), 5_000),
      'the first bytes of the app arrive',
    );
    await until('the early bytes', () => carrying(app, '/chat')[0]?.received.endsWith('\r\n\r\nEARLY'));
    t.match(client.received.toString('latin1'), /^HTTP\/1\.1 101 /);

    client.halfClose();
    await until('the end to pass on', () => carrying(app, '/chat')[0]?.closed);
    t.equal(await http1Outcome(open, http1Request('/after')), '200');
    t.equal(
      carrying(app, '/chat').filter(({ received }) => received.includes('/after')).length,
      0,
      'never pooled (CVE-2026-71324)',
    );
    client.destroy();
  });

  t.test(`no tunnel without 101: ${title} (CVE-2024-23326, CVE-2025-64763)`, async (t) => {
    for (const [what, answer, status] of [
      ['200', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno', '200'],
      [
        '200 that says it switches',
        `HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\nContent-Length: 2\r\n\r\nno`,
        '200',
      ],
      ['200 for CONNECT', 'HTTP/1.1 200 Connection Established\r\nContent-Length: 0\r\n\r\n', '200'],
      ['403 and keep-alive', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n', '403'],
      ['426', 'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n', '426'],
    ] as const) {
      const app = await startScript(t, (head) =>
        head.includes('/chat') ? answer : 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
      );
      const { open, sallyport } = await startStage(t, app.port);
      const client = await RawClient.open({ port: open });
      client.send(latin1(`${http1Request('/chat', fields)}GET /SMUGGLED HTTP/1.1\r\nHost: web\r\n\r\n`));
      const [response] = await client.responses(['GET']);
      t.equal(String(response?.status), status, `${what}: the app's response is passed on`);
      client.send(latin1('GET /SMUGGLED HTTP/1.1\r\nHost: web\r\n\r\n'));
      t.ok(await client.ends(5_000), `${what}: then the connection ends`);
      t.equal(await http1Outcome(open, http1Request('/after')), '200', 'the next client is served');
      t.same(carrying(app, '/SMUGGLED'), [], `${what}: what followed never reached the app`);
      // The client never ends its side; that costs the proxy a second, not a socket.
      await until('the proxy to be rid of the client', async () => {
        return (await scrape(sallyport.adminPort)).sum('tcp_open_connections', { peer: 'src', srv_name: 'open' }) === 0;
      });
      client.destroy();
      t.match(await sallyport.stop(3_000), { code: 0 }, `${what}: nothing is left to wait for`);
    }
  });

  t.test(`101 that nobody asked for, or with a body: ${title}`, async (t) => {
    const app = await startScript(t, () => switching(protocol));
    const { open } = await startStage(t, app.port);
    t.equal(await http1Outcome(open, http1Request('/plain')), '502', 'to a plain request');
    const body = http1Request('/chat', [...fields, 'Content-Length: 5'], 'POST');
    const client = await RawClient.open({ port: open });
    client.send(latin1(`${body}hello`));
    await client.reaches(() => client.received.includes('\r\n\r\n'), 5_000);
    const text = client.received.toString('latin1');
    // Either it is no upgrade, or the body stays the body: five bytes, before anything of the tunnel.
    const received = carrying(app, '/chat')[0]?.received ?? '';
    t.notMatch(received, /content-length: 5[\s\S]*\r\n\r\n[\s\S]{6,}/i, 'no byte is both body and tunnel');
    t.match(text, /^HTTP\/1\.1 (101|400|502) /);
    client.destroy();
  });
}

t.test('WebSocket responses are framed afresh', async (t) => {
  const app = await startScript(
    t,
    () =>
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, x-secret\r\nX-Secret: 1\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\n`,
  );
  const { open } = await startStage(t, app.port);
  const client = await RawClient.open({ port: open });
  client.send(latin1(http1Request('/chat', webSocket)));
  await client.reaches(() => client.received.includes('\r\n\r\n'), 5_000);
  const [answer] = parseResponses(client.received, ['GET'], false).responses;
  t.equal(answer?.status, 101);
  t.same(answer === undefined ? [] : headerValues(answer, 'sec-websocket-accept'), ['b']);
  client.destroy();
});
