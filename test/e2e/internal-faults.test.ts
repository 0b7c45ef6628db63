import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { scrape } from '../support/metrics.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/*
 * A fault is planted in the running program: where we begin to listen to a client at 127.0.0.66, Node throws, as a mistake
 * of ours would; and on SIGUSR2 something throws that belongs to no connection.
 */
t.setTimeout(900_000);

const faulty = '127.0.0.66';

const plant = `
import { Socket } from 'node:net';
const { on } = Socket.prototype;
Socket.prototype.on = function (event, listener) {
  const isOurs = event === 'error' && this.remoteAddress?.endsWith('${faulty}');
  if (isOurs) throw new Error('planted \\n\\u2028 fault ' + 'x'.repeat(10_000));
  return on.call(this, event, listener);
};
process.on('SIGUSR2', () => setImmediate(() => { throw new Error('planted and loose'); }));
process.on('SIGHUP', () => void Promise.reject('planted rejection'));
`;

/**
 * Ends when the connection does. A client that is to meet with the fault sends a part of a request, so that somebody has to
 * listen for the rest.
 *
 * @param connected waited for before anything is sent.
 */
function connectFrom(localAddress: string, port: number, connected: () => unknown = () => {}): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, localAddress }, async () => {
      await connected();
      socket.write(localAddress === faulty ? 'GET' : 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    });
    let got = '';
    socket.on('data', (chunk) => {
      got += chunk;
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(got));
  });
}

async function get(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      text(response).then((body) => resolve(`${response.statusCode} ${body.trim()}`), reject);
    })
      .on('error', reject)
      .end();
  });
}

t.test('a fault ends its connection, is told, and many turn /ready and then /live', async (t) => {
  const folder = t.testdir();
  const preload = join(folder, 'plant.mjs');
  writeFileSync(preload, plant);
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${await freePort()}`,
      SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
      NODE_OPTIONS: `--import ${preload}`,
    },
  });
  const { adminPort, healthPort } = sallyport;
  const faults = async (): Promise<number> => (await scrape(adminPort)).sum('sallyport_internal_errors_total');
  t.equal(await faults(), 0);

  t.equal(await connectFrom(faulty, port), '', 'closed');
  t.match(await connectFrom('127.0.0.1', port), /^HTTP\/1.1 502 /, 'others are served');
  const line = await sallyport.waitForLog('the fault', ({ msg }) => msg === 'Internal error');
  // By when its first bytes have come.
  t.match(line, { level: 'error', where: /^(a new connection|detection)$/, ended: 'connection' });
  t.match(line.stack, /^at .*\/lib\/proxy\/[\w/-]+\.ts:/s, 'with its stack');
  t.ok(String(line.error).length <= 1100, 'cut to a length');
  t.equal(await faults(), 1);
  t.equal(await get(healthPort, '/ready'), '200 ready');

  // Another connection that comes later has been answered: this one was taken before it sends anything.
  t.equal(await connectFrom(faulty, port, () => connectFrom('127.0.0.1', port)), '', 'closed, too');
  sallyport.child.process.kill('SIGHUP');
  await until('a third fault', async () => (await faults()) === 3);
  t.equal(await get(healthPort, '/ready'), '503 not ready: internal-errors');
  t.equal(await get(adminPort, '/ready'), '503 not ready: internal-errors');
  t.equal(await get(healthPort, '/live'), '200 live');

  sallyport.child.process.kill('SIGUSR2');
  await until('a fourth', async () => (await faults()) === 4);
  sallyport.child.process.kill('SIGUSR2');
  await until('a fifth', async () => (await faults()) === 5);
  t.equal(await get(healthPort, '/live'), '503 not live: internal-errors');
  t.equal(await get(adminPort, '/live'), '503 not live: internal-errors');
  t.match(await connectFrom('127.0.0.1', port), /^HTTP\/1.1 502 /, 'traffic goes on until somebody acts on it');

  for (let i = 0; i < 40; i++) await connectFrom(faulty, port);
  await until('all counted', async () => (await faults()) === 45);
  t.match(await sallyport.stop(), { code: 0 });
  const shown = sallyport.logs().filter(({ msg }) => msg === 'Internal error');
  t.equal(shown.length, 10, 'a swarm does not flood the log');
  t.match(shown, [
    {},
    { where: 'detection', ended: 'connection' },
    { where: 'an unhandled rejection', ended: 'nothing' },
    { error: 'Error: planted and loose' },
  ]);
});
