import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import t from 'tap';
import { rehearse } from '../../../lib/app/rehearsal.ts';
import { type Config, readConfig } from '../../../lib/config/config.ts';
import { hostFor } from '../../../lib/config/host.ts';
import { onInternalFault } from '../../../lib/proxy/guard.ts';
import type { TlsTermination } from '../../../lib/proxy/tls/termination.ts';
import { workloadCertificate, workloadName } from '../../support/certificates.ts';
import { terminationOf } from '../../support/termination.ts';
import { until } from '../../support/until.ts';

async function configOf(env: Record<string, string>): Promise<Config> {
  const read = readConfig(env, await hostFor(env));
  if (!read.ok) throw new Error(JSON.stringify(read.faults));
  return read.config;
}

/** Ports at which this process listens on 127.0.0.1; others on the machine have servers of their own. */
function loopbackPorts(): number[] {
  const own = new Set(readdirSync('/proc/self/fd').map(socketOf));
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n');
  return lines.flatMap((line) => {
    const port = /^ *\d+: 0100007F:([0-9A-F]{4}) \S+ 0A /.exec(line)?.[1];
    const inode = line.trim().split(/ +/)[9];
    return port === undefined || !own.has(`socket:[${inode}]`) ? [] : [Number.parseInt(port, 16)];
  });
}

function socketOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    // It has been closed since it was listed.
    return '';
  }
}

/** What a client gets that comes by itself; resolves when its connection is closed. */
function asStranger(port: number): Promise<string> {
  return new Promise((resolve) => {
    let received = '';
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(received));
    socket.write('GET / HTTP/1.1\r\nhost: rehearsal\r\n\r\n');
  });
}

const busy = (): number => process.getActiveResourcesInfo().filter((each) => /^TCP/.test(each)).length;

// Where the machine is so busy that time runs out, there are fewer responses, and a second or third attempt.
async function whole(
  config: Config,
  secure: TlsTermination | null,
  wanted: number,
  when: 'start' | 'quiet' = 'start',
): Promise<number> {
  let most = 0;
  await until('a whole rehearsal', async () => {
    most = Math.max(most, await rehearse({ when, config, termination: secure }));
    return most >= wanted;
  });
  return most;
}

t.test('requests are answered, over TLS too where there is an identity, and nothing stays', async (t) => {
  const faults: unknown[] = [];
  t.teardown(onInternalFault((fault) => void faults.push(fault)));
  const secured = terminationOf(workloadCertificate('web', 'shop'), workloadName('web', 'shop'));
  const before = busy();
  t.equal(await whole(await configOf({}), null, 160), 160);
  t.equal(await whole(await configOf({}), secured, 172), 172);
  t.equal(await whole(await configOf({}), secured, 608, 'quiet'), 608, 'more when nobody waits for its end');
  for (const env of [{ SALLYPORT_HTTP1_FAST_LANE: 'false' }, { SALLYPORT_AUTHORIZE_LOCALHOST: 'false' }]) {
    t.equal(await whole(await configOf(env), null, 160), 160, JSON.stringify(env));
  }
  await until('no listener and no connection', () => busy() === before);
  t.same(faults, []);
});

t.test('nobody else is let in', { skip: process.platform !== 'linux' && 'needs /proc' }, async (t) => {
  const before = new Set(loopbackPorts());
  const strangers: Promise<string>[] = [];
  const rehearsed = rehearse({ when: 'start', config: await configOf({}), termination: null });
  let isOver = false;
  void rehearsed.then(() => {
    isOver = true;
  });
  while (!isOver) {
    for (const port of loopbackPorts().filter((each) => !before.has(each))) {
      before.add(port);
      strangers.push(asStranger(port));
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal(strangers.length >= 2, true, 'its door, and its app, were found');
  const received = await Promise.all(strangers);
  t.same(
    received.filter((text) => text !== ''),
    [],
  );
});

t.test('where nothing can be served, the start goes on', async (t) => {
  const config = await configOf({});
  const broken = { ...config, limits: { ...config.limits, maxConnections: 0 } };
  t.equal(await rehearse({ when: 'start', config: broken, termination: null }), 0);
});
