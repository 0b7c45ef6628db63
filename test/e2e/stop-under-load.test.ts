import { Agent, request } from 'node:http';
import { connect as http2Connect } from 'node:http2';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until, within } from '../support/until.ts';
import { WireConnection } from '../support/wire-exchange.ts';

/** A promise and its resolver; the app holds its answers until the test lets them go. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

async function stopUnderLoad(t: Test): Promise<void> {
  const answers = gate();
  let held = 0;
  const app = await startSniffingApp(t, {}, (url) => {
    if (!url.startsWith('/slow')) return Promise.resolve();
    held += 1;
    return answers.opened;
  });
  const [port = 0, tcpPort = 0] = await freePorts(2);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port) + openServer('raw', tcpPort, 'opaque')),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port},${tcpPort}=127.0.0.1:${app.port}`,
    },
  });

  // In flight when the signal comes: one request of each kind, a tunnel, and clients that never pause.
  const slow1 = await RawClient.open({ port });
  slow1.send(latin1('GET /slow/1 HTTP/1.1\r\nHost: web\r\n\r\n'));
  const session = http2Connect(`http://127.0.0.1:${port}`);
  t.teardown(() => session.destroy());
  const goaway = new Promise<void>((resolve) => session.once('goaway', () => resolve()));
  const sessionClosed = new Promise<void>((resolve) => session.once('close', () => resolve()));
  const slow2 = h2Get(session.request({ ':path': '/slow/2' }));
  const tunnel = await RawClient.open({ port: tcpPort });
  tunnel.send(latin1('before\n'));
  t.ok(await tunnel.reaches(() => tunnel.receivedLength >= 7, 5_000), 'the tunnel echoes');
  const load = Array.from({ length: 4 }, () => keepBusy(t, port));
  await until('both slow requests to reach the app', () => held === 2);
  await until('every client to have been served', () => load.every(({ served }) => served() >= 20));

  sallyport.child.process.kill('SIGTERM');
  await until('/ready to turn 503', async () => (await sallyport.health('/ready')) === 503);
  t.equal(await sallyport.health('/live'), 200, '/live goes on');
  await within('GOAWAY', 5_000, goaway);
  await until('new connections to be refused', () => refused(port));

  const outcomes = await within('the busy clients to end', 10_000, Promise.all(load.map(({ ended }) => ended)));
  for (const outcome of outcomes) t.equal(outcome, 'refused', 'no answer was cut; then the port was closed');

  t.equal(sallyport.child.process.exitCode, null, 'it waits for what is in flight');
  tunnel.send(latin1('during\n'));
  t.ok(await tunnel.reaches(() => tunnel.receivedLength >= 14, 5_000), 'the tunnel still echoes');

  answers.open();
  const [first] = await slow1.responses(['GET']);
  t.match(first, { status: 200 });
  t.match(first?.body.toString(), /"\/slow\/1"/, 'the HTTP/1 answer is whole');
  t.ok(await slow1.ends(5_000), 'and its connection then ends');
  const second = await within('the HTTP/2 answer', 5_000, slow2);
  t.match(second, { status: 200, body: /"\/slow\/2"/ }, 'the HTTP/2 answer is whole');
  await within('the session to close', 5_000, sessionClosed);
  t.equal(sallyport.child.process.exitCode, null, 'the tunnel is not cut');
  tunnel.halfClose();
  t.ok(await tunnel.ends(5_000), 'the tunnel ends when its client is done');
  t.match(await within('the exit', 10_000, sallyport.child.exited), { code: 0, signal: null });
}

function h2Get(
  stream: ReturnType<ReturnType<typeof http2Connect>['request']>,
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let body = '';
    stream.on('response', (headers) => {
      status = Number(headers[':status']);
    });
    stream.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    stream.on('end', () => resolve({ status, body }));
    stream.on('error', reject);
  });
}

/** A keep-alive client that asks again as soon as it is answered, until the port refuses it. */
function keepBusy(t: Test, port: number): { served(): number; readonly ended: Promise<string> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  let served = 0;
  const ended = (async () => {
    // Bounded: a proxy that never stops fails the test instead of hanging it.
    for (let n = 0; n < 200_000; n++) {
      const outcome = await get(agent, port);
      if (outcome !== 'served') return outcome;
      served += 1;
    }
    return 'never refused';
  })();
  return { served: () => served, ended };
}

/** `refused` is the only end that a draining proxy may make of a fresh connection; an answer once begun must be whole. */
function get(agent: Agent, port: number): Promise<'served' | 'refused' | string> {
  return new Promise((resolve) => {
    let begun = false;
    const asked = request({ host: '127.0.0.1', port, path: '/fast', agent }, (response) => {
      begun = true;
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => resolve(response.statusCode === 200 && body.endsWith('}') ? 'served' : `cut: ${body}`));
      response.on('error', (error) => resolve(`cut: ${error.message}`));
    });
    asked.on('error', (error: NodeJS.ErrnoException) => {
      if (begun) return;
      if (error.code === 'ECONNREFUSED') resolve('refused');
      // A kept connection may end between two requests (RFC 9112 section 9.5); the client then simply asks again.
      else if (asked.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE')) resolve(get(agent, port));
      else resolve(`failed: ${error.code} ${error.message}`);
    });
    asked.end();
  });
}

function refused(port: number): Promise<boolean> {
  return RawClient.open({ port }).then(
    (client) => {
      client.destroy();
      return false;
    },
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
  );
}

/** A stop meets connections in every state of going away; none of them may keep it from ending. */
async function stopWhileClientsVanish(t: Test): Promise<void> {
  const app = await startSniffingApp(t);
  const [port = 0, down = 0, nobody = 0] = await freePorts(3);
  const environment = policyEnvironment(temporaryFolder(t), openServer('web', port) + openServer('down', down));
  for (let round = 1; round <= 5; round++) {
    const sallyport = await startSallyport(t, {
      env: {
        ...environment,
        SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port},${down}=127.0.0.1:${nobody}`,
      },
    });
    const connections: WireConnection[] = [];
    for (const proto of ['http/1.1', 'http/2', 'grpc'] as const) {
      for (const to of [port, port, down, down]) {
        const exchange = { host: '127.0.0.1', port: to, proto, path: '/', method: proto === 'grpc' ? 'POST' : 'GET' };
        const connection = new WireConnection(exchange);
        connections.push(connection);
        // Port `down` answers 502, and ends the connection after it.
        await connection.run(exchange);
      }
    }
    for (const connection of connections) connection.close();
    sallyport.child.process.kill('SIGTERM');
    const exit = await within('the exit', 10_000, sallyport.child.exited);
    t.match(exit, { code: 0, signal: null }, `round ${round}: stops`);
  }
}

await t.test('SIGTERM drains', { timeout: 840_000 }, stopUnderLoad);
await t.test('SIGTERM while clients vanish', { timeout: 840_000 }, stopWhileClientsVanish);
