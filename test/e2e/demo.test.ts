import { cpSync, mkdirSync, readdirSync, symlinkSync, utimesSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Child, missing, runToEnd, startChild } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { bareEnvironment, checkout, type Environment } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/*
 * `npm start` as somebody runs it who has just cloned this: what it prints holds, on whatever ports, and however it is
 * ended, nothing of it stays behind.
 */
t.setTimeout(1_800_000);
const skip = await missing(t, 'npm', 'curl', 'ps');

interface Demo {
  readonly npm: Child;
  /** Where temporary files go. */
  readonly temporary: string;
  /** Processes of this copy's `main.ts`. */
  pids(): Promise<number[]>;
}

/** A copy of the checkout in which everything is installed. */
function copyOfCheckout(t: Test): string {
  const folder = temporaryFolder(t);
  for (const name of ['bin', 'lib', 'certs', 'package.json', 'package-lock.json']) {
    cpSync(join(checkout, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  // Older than what is installed, or `npm start` would install it again, through the link.
  utimesSync(join(folder, 'package-lock.json'), 0, 0);
  // With a blank in its name, which the printed lines must quote.
  mkdirSync(join(folder, 'tmp dir'));
  return folder;
}

async function npmStart(t: Test, more: Environment = {}): Promise<Demo> {
  const folder = copyOfCheckout(t);
  const temporary = join(folder, 'tmp dir');
  // What the shell has set must not bend the demo.
  const quiet = { npm_config_update_notifier: 'false' };
  const env = bareEnvironment({ TMPDIR: temporary, SALLYPORT_POLICY: '/nowhere', ...quiet, ...more });
  const npm = await startChild(t, 'npm', ['start'], { cwd: folder, env });
  const pids = async (): Promise<number[]> => {
    const { stdout } = await runToEnd(t, 'ps', ['-eo', 'pid=,args=']);
    const lines = stdout.split('\n').filter((line) => line.includes(`${folder}/bin/main.ts`));
    return lines.map((line) => Number.parseInt(line, 10));
  };
  t.teardown(async () => {
    for (const pid of await pids()) send(pid, 'SIGKILL');
  });
  return { npm, temporary, pids };
}

/** It may have ended just now. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function ready({ npm }: Demo): Promise<string> {
  await until('the demo to say what to try', () => npm.stdout().includes('Ctrl-C ends the demo'), {
    timeoutMs: 30_000,
    lastSeen: () => npm.stdout() + npm.stderr(),
  });
  return npm.stdout();
}

async function nothingIsLeft(t: Test, demo: Demo): Promise<void> {
  await until('all of its processes to end', async () => (await demo.pids()).length === 0, { timeoutMs: 15_000 });
  const left = readdirSync(demo.temporary).filter((name) => name.startsWith('sallyport-demo-'));
  t.same(left, [], 'and no file is left');
}

/** What the lines it prints are to yield, in their order. */
const outcomes: readonly RegExp[] = [
  /^HTTP\/1\.1 200 OK[\s\S]*The app got GET \/public\/hello from nobody in particular/,
  /^HTTP\/1\.1 403 Forbidden/,
  /^HTTP\/1\.1 200 OK[\s\S]*The app got GET \/orders\/1 from orders\.demo\.serviceaccount/,
  /^(?=[\s\S]*authz_name="anyone")(?:inbound_http_authz_allow_total\{.*\} \d+\n){3}inbound_http_authz_deny_total\{.*\} \d+\n$/,
  /^HTTP\/1\.1 200 OK/,
];

const wellKnown = [3000, 8080, 4191, 4192];

/** Taken by us; by somebody else is as good where they do not let it go, as another test of the demo will. */
async function held(port: number): Promise<net.Server> {
  const holder = net.createServer();
  const listens = (): Promise<boolean> =>
    new Promise((resolve) => {
      holder.once('error', () => resolve(false));
      holder.listen(port, '127.0.0.1', () => resolve(true));
    });
  await until(`port ${port}`, listens, { everyMs: 200 }).catch(() => {});
  return holder;
}

/** Nobody listens there: what curl asks of it fails. */
const webProxy = { http_proxy: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' };

t.test('what it prints holds, where its ports are taken or a web proxy is set, too', { skip }, async (t) => {
  for (const [taken, shell] of [
    [[], {}],
    [[3000], {}],
    [[8080, 4192], webProxy],
    [wellKnown, {}],
  ] as const) {
    const holders = await Promise.all(taken.map(held));
    const demo = await npmStart(t, shell);
    const printed = await ready(demo);
    await until('the log of its start', () => demo.npm.stdout().includes(' INFO Listening '));
    t.notMatch(demo.npm.stdout(), / (?:WARN|ERROR) /, 'nothing of it looks like a fault');
    for (const port of taken) {
      t.match(printed, new RegExp(`^Port ${port} is taken: the (app|proxy|admin|health) is on \\d+\\.$`, 'm'));
      t.notMatch(printed, `127.0.0.1:${port}`, `${port} is in no line to try`);
    }
    const lines = printed.match(/^ {2}curl .*$/gm) ?? [];
    t.equal(lines.length, outcomes.length);
    for (const [i, outcome] of outcomes.entries()) {
      const { stdout } = await runToEnd(t, 'sh', ['-c', lines[i] ?? 'false'], { env: bareEnvironment(shell) });
      t.match(stdout, outcome, `${taken}: ${lines[i]}`);
    }
    t.same(await demo.npm.end('SIGTERM', 15_000), { code: 0, signal: null }, 'a stop that was asked for is no failure');
    await nothingIsLeft(t, demo);
    for (const holder of holders) holder.close();
  }
});

t.test('however it ends, nothing is left', { skip }, async (t) => {
  const toNpm = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGKILL'] as const;
  for (const signal of toNpm) {
    const demo = await npmStart(t);
    await ready(demo);
    demo.npm.process.kill(signal);
    await nothingIsLeft(t, demo);
    await demo.npm.exited;
    t.pass(`npm gets ${signal}`);
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    const demo = await npmStart(t);
    await ready(demo);
    // As a terminal does it: all that runs there gets it, and npm hands on what it gets.
    for (const pid of [demo.npm.pid, ...(await demo.pids())]) send(pid, signal);
    await nothingIsLeft(t, demo);
    await demo.npm.exited;
    t.notMatch(
      demo.npm.stdout(),
      'looking at all files',
      `all of them get ${signal}, which ends them and nothing else`,
    );
  }
});

t.test('a stop in the middle of the start', { skip }, async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const demo = await npmStart(t);
    const [pid = 0] = await until('the process of the demo', async () => {
      const pids = await demo.pids();
      // Its folder is the first thing that could stay behind.
      return pids.length > 0 && readdirSync(demo.temporary).some((name) => name.startsWith('sallyport-')) && pids;
    });
    process.kill(pid, signal);
    await nothingIsLeft(t, demo);
    await demo.npm.exited;
    t.pass(signal);
  }
});
