import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { availableParallelism } from 'node:os';
import t from 'tap';
import { publishedCommand } from '../../benchmarks/published.ts';
import { type Child, missing, startChild, type Teardown } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { startRawApp } from '../support/raw-app.ts';
import { bareEnvironment, startSallyport } from '../support/sallyport.ts';
import { mapBounded, until } from '../support/until.ts';

/** glibc is asked to hand memory back; what /proc says is Linux's. */
const glibc = (process.report.getReport() as { header: { glibcVersionRuntime?: string } }).header.glibcVersionRuntime;
const skip = glibc === undefined && 'needs Linux with glibc';

const cores = availableParallelism();

interface Started {
  readonly port: number;
  readonly child: Child;
  /** MiB: now, and at most since the start. */
  resident(): { readonly now: number; readonly most: number };
  falls(what: string, mebibytes: number): Promise<boolean>;
}

/** The published form, whose memory benchmarks/README.md tells. */
async function start(t: Teardown, workers: number): Promise<Started> {
  const app = await startRawApp(t);
  const [port = 0, admin = 0] = await freePorts(2);
  const child = await startChild(t, await publishedCommand(), ['run'], {
    env: bareEnvironment({
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${admin}`,
      SALLYPORT_HEALTH_LISTEN: 'off',
      SALLYPORT_WORKERS: String(workers),
    }),
  });
  const resident: Started['resident'] = () => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    const of = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
    return { now: of('VmRSS'), most: of('VmHWM') };
  };
  await until('the proxy to listen', () => child.stdout().includes('"Listening"'), { timeoutMs: 30_000 });
  const falls: Started['falls'] = (what, mebibytes) =>
    until(`${what} to take less than ${mebibytes} MiB`, () => resident().now < mebibytes, {
      timeoutMs: 60_000,
      lastSeen: () => `${resident().now} MiB`,
    });
  return { port, child, resident, falls };
}

t.test('a new process that has work at once', { skip, timeout: 840_000 }, async (t) => {
  t.setTimeout(900_000);
  const { port, child, resident } = await start(t, 1);
  const { now, most } = resident();
  t.ok(
    most - now > 10,
    `what the start alone has used is given back before the first client: ${most} MiB, then ${now}`,
  );
  await mapBounded(Array.from({ length: 6000 }), 32, async () => (await answered(port)).destroy());
  t.ok(resident().most < 130, `it never has 130 MiB: ${resident().most}`);
  t.equal((await child.end()).code, 0, child.stderr());
});

const noNamespace = (process.getuid?.() !== 0 && 'needs root') || (await missing(t, 'unshare'));

t.test('where there is no /proc it serves all the same', { skip: skip || noNamespace }, async (t) => {
  const app = await startRawApp(t);
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
    },
    within: ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh'],
  });
  (await answered(port)).destroy();
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('resident memory of a quiet process', { skip, timeout: 840_000 }, async (t) => {
  t.setTimeout(900_000);
  const { port, child, falls } = await start(t, 1);
  t.ok(await falls('an idle process', 60));

  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const open = async (): Promise<void> => void sockets.push(await answered(port));
  await mapBounded(Array.from({ length: 1500 }), 32, open);
  t.ok(await falls('a process with 1500 idle connections', 85));
  for (const socket of sockets) socket.destroy();
  (await answered(port)).destroy();
  t.pass('which still serves');
  t.equal((await child.end()).code, 0, child.stderr());
});

t.test(
  'and of one with two workers',
  { skip: skip || (cores < 2 && 'needs two cores'), timeout: 840_000 },
  async (t) => {
    const { port, child, falls } = await start(t, 2);
    t.ok(await falls('an idle process', 95));
    for (let i = 0; i < 8; i++) (await answered(port)).destroy();
    t.equal((await child.end()).code, 0, child.stderr());
  },
);

/** A connection with one request behind it. */
function answered(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', reject).once('connect', () => socket.write('GET / HTTP/1.1\r\nHost: web\r\n\r\n'));
    socket.once('data', () => resolve(socket));
  });
}
