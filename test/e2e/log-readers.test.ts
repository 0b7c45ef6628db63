import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { parseLogLines, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';

/*
 * Who reads the logs may stop reading, go away, or have no room left. Traffic goes on, a stop ends, and a second signal
 * ends at once.
 */
t.setTimeout(900_000);

/** A pipe with a name: its reading end is open from the beginning. */
function pipe(t: Test, name: string): { readonly path: string; readonly reader: number } {
  const path = join(t.testdirName, name);
  execFileSync('mkfifo', [path]);
  return { path, reader: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK) };
}

/** Requests in one connection, each answered. */
async function ask(port: number, count: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  let got = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    got += chunk;
  });
  const last = `GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
  socket.end(`GET /${'x'.repeat(1000)} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(count - 1) + last);
  const answers = (): number => got.split('HTTP/1.1 200 ').length - 1;
  await until('answers', () => answers() === count, { timeoutMs: 20_000, lastSeen: () => got.slice(-200) });
  socket.destroy();
}

type Fate = 'unread' | 'gone' | 'full';

async function started(t: Test, fates: { stdout: Fate | null; stderr: Fate | null }): Promise<[Sallyport, number]> {
  t.testdir();
  const readers: number[] = [];
  const place = (fate: Fate | null, name: string): string | null => {
    if (fate === null) return null;
    if (fate === 'full') return '/dev/full';
    const { path, reader } = pipe(t, name);
    readers.push(reader);
    t.teardown(() => closeSync(reader));
    return path;
  };
  const [out, err] = [place(fates.stdout, 'out'), place(fates.stderr, 'err')];
  const redirects = `${out === null ? '' : `>'${out}'`} ${err === null ? '' : `2>'${err}'`}`;
  return startLogging(t, redirects);
}

/** A proxy that writes two lines for each request: one to stdout, one to stderr. */
async function startLogging(
  t: Test,
  redirects: string,
  env: Readonly<Record<string, string>> = {},
): Promise<[Sallyport, number]> {
  const port = await freePort();
  const app = await startSniffingApp(t, {}, (url) =>
    url.startsWith('/slow') ? new Promise(() => {}) : Promise.resolve(),
  );
  const sallyport = await startSallyport(t, {
    within: ['sh', '-c', `exec "$@" ${redirects}`, 'sh'],
    env: {
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
      SALLYPORT_LOG: 'debug',
      SALLYPORT_ACCESS_LOG: 'json',
      SALLYPORT_SHUTDOWN_GRACE_PERIOD: '60s',
      ...env,
    },
  });
  return [sallyport, port];
}

const rows: readonly { readonly stdout: Fate | null; readonly stderr: Fate | null }[] = [
  { stdout: 'unread', stderr: null },
  { stdout: null, stderr: 'unread' },
  { stdout: 'unread', stderr: 'unread' },
  { stdout: 'full', stderr: 'full' },
];
for (const row of rows) {
  t.test(`stdout ${row.stdout ?? 'read'}, stderr ${row.stderr ?? 'read'}`, async (t) => {
    const [sallyport, port] = await started(t, row);
    // More than a pipe holds.
    await ask(port, 400);
    const asked = performance.now();
    t.match(await sallyport.stop(30_000), { code: 0, signal: null }, 'one signal ends it');
    t.ok(performance.now() - asked < 20_000, `after ${Math.round(performance.now() - asked)} ms`);

    const [again, port2] = await started(t, row);
    await ask(port2, 400);
    const slow = connect(port2, '127.0.0.1').on('error', () => {});
    slow.write('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n');
    await until('a request in flight', async () => (await scrape(again.adminPort)).sum('tcp_open_connections') >= 2);
    again.child.process.kill('SIGTERM');
    await until('the drain', async () => (await again.health('/ready')) === 503);
    const second = performance.now();
    t.match(await again.child.end('SIGTERM', 20_000), { code: 1, signal: null }, 'a second ends it');
    t.ok(performance.now() - second < 10_000, `after ${Math.round(performance.now() - second)} ms`);
    slow.destroy();
  });
}

t.test('policy is followed while nobody reads', async (t) => {
  t.testdir();
  const folder = temporaryFolder(t);
  const [out, err] = [pipe(t, 'out'), pipe(t, 'err')];
  t.teardown(() => {
    closeSync(out.reader);
    closeSync(err.reader);
  });
  const policy = policyEnvironment(folder, '');
  const [sallyport, port] = await startLogging(t, `>'${out.path}' 2>'${err.path}'`, policy);
  await ask(port, 600);
  const generation = async () => (await scrape(sallyport.adminPort)).sum('sallyport_policy_generation');
  const before = await generation();
  const waiting = (await scrape(sallyport.adminPort)).sum('sallyport_log_waiting_lines');
  t.ok(waiting > 100, `it shows: ${waiting} lines wait`);
  policyEnvironment(folder, openServer('web', port));
  await until('the new policy', async () => (await generation()) > before);
  await ask(port, 100);
  t.match(await sallyport.stop(30_000), { code: 0, signal: null });
});

t.test('readers that go away', async (t) => {
  t.testdir();
  const { path, reader } = pipe(t, 'out');
  const [sallyport, port] = await startLogging(t, `>'${path}' 2>&1`);
  closeSync(reader);
  await ask(port, 200);
  await ask(port, 200);
  const scraped = await scrape(sallyport.adminPort);
  t.ok(scraped.sum('sallyport_log_lines_dropped_total') > 0, 'what nobody can get is counted');
  t.equal(
    scraped.sum('sallyport_log_write_failures_total', { errno: 'EPIPE' }),
    2,
    'of each output that nobody is there',
  );
  t.equal(scraped.sum('sallyport_log_waiting_lines'), 0, 'nothing waits for nobody');
  t.equal(scraped.sum('sallyport_internal_errors_total'), 0);
  t.match(await sallyport.stop(), { code: 0, signal: null });
});

t.test('a reader that stops and comes back gets whole lines, in order', async (t) => {
  t.testdir();
  const { path, reader } = pipe(t, 'out');
  const [sallyport, port] = await startLogging(t, `>'${path}'`);
  await ask(port, 300);
  let got = '';
  const chunk = Buffer.alloc(64 * 1024);
  const read = (): number => {
    try {
      const length = readSync(reader, chunk);
      got += chunk.toString('latin1', 0, length);
      return length;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return -1;
      throw error;
    }
  };
  const allowed = (): number => got.split('"msg":"Request allowed"').length - 1;
  await until('all lines', () => read() >= 0 && allowed() >= 300, {
    timeoutMs: 20_000,
    lastSeen: () => `${allowed()}`,
  });
  const stopped = sallyport.stop();
  await until('the end', () => read() === 0);
  await stopped;
  closeSync(reader);
  const lines = parseLogLines(got);
  t.equal(lines.filter(({ msg }) => msg === 'Request allowed').length, 300);
  t.match(lines.at(-1), { msg: 'Stopped' }, 'to the last');
  const times = lines.map(({ time }) => String(time));
  t.same(times, times.toSorted(), 'in order');
});

const root = process.getuid?.() === 0 && process.platform === 'linux';
t.test(
  'a full disk costs lines only when there is no room in memory either',
  { skip: !root && 'takes root' },
  async (t) => {
    const disk = mkdtempSync(join(tmpdir(), 'sallyport-disk-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=192k', 'tmpfs', disk]);
    t.teardown(() => {
      execFileSync('umount', ['-l', disk]);
      rmdirSync(disk);
    });
    const log = join(disk, 'log');
    const ballast = join(disk, 'ballast');
    writeFileSync(ballast, Buffer.alloc(128 * 1024));
    const [sallyport, port] = await startLogging(t, `>>'${log}'`);
    await ask(port, 80);
    await until('the disk to be full', () => readFileSync(log).length > 60_000);
    t.equal(await sallyport.health('/ready'), 200, 'it goes on');
    rmSync(ballast);
    const lines = () => parseLogLines(readFileSync(log, 'utf8'));
    const written = (): number => lines().filter(({ msg }) => msg === 'Request allowed').length;
    await until('what had no room', () => written() === 80, { timeoutMs: 20_000, lastSeen: () => `${written()}` });
    t.match(await sallyport.stop(), { code: 0, signal: null });
  },
);
