import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Child, type Exit, type Finished, runToEnd, startChild, type Teardown } from './children.ts';
import { freePort } from './ports.ts';
import { patience, until } from './until.ts';

export const checkout = fileURLToPath(new URL('../..', import.meta.url));
export const sallyportCommand = fileURLToPath(new URL('../../bin/sallyport', import.meta.url));

export type LogLine = Readonly<Record<string, unknown>>;
export type Environment = Readonly<Record<string, string>>;

export interface SallyportOptions {
  /** `SALLYPORT_*` variables; none is inherited from the test's own environment. Admin and health ports are chosen if absent. */
  readonly env: Environment;
  /** Runs the command inside something, for example `['ip', 'netns', 'exec', name]`. */
  readonly within?: readonly string[];
  /** Another than that of the checkout: the published form, say. */
  readonly command?: string;
  /** How to ask the health port, where it cannot be reached from here. Yields a status, or undefined where nothing answers. */
  readonly health?: (path: string, port: number) => Promise<number | undefined>;
  /** False: return as soon as `/live` answers. For a proxy that is not expected to become ready. */
  readonly awaitReady?: boolean;
  readonly timeoutMs?: number;
}

export interface Sallyport {
  readonly child: Child;
  readonly pid: number;
  readonly adminPort: number;
  readonly healthPort: number;
  /** Status of `/live` or `/ready` on the health port; undefined where nothing answers. */
  health(path: string): Promise<number | undefined>;
  /**
   * Every complete line of stdout so far; a line that is not a JSON object fails the caller. A line leaves the proxy up to a
   * tenth of a second behind its event: whoever counts lines, or wants none, stops the proxy first.
   */
  logs(): LogLine[];
  /** Waits for a line; bounded. */
  waitForLog(what: string, wanted: (line: LogLine) => boolean, timeoutMs?: number): Promise<LogLine>;
  residentBytes(): number;
  /** SIGTERM, then the exit. */
  stop(graceMs?: number): Promise<Exit>;
}

/** Only what a program needs to run; tests say the rest themselves. */
export function bareEnvironment(env: Environment): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR } = process.env;
  return {
    ...(PATH === undefined ? {} : { PATH }),
    ...(HOME === undefined ? {} : { HOME }),
    ...(TMPDIR === undefined ? {} : { TMPDIR }),
    // Some files start a hundred proxies; without the cache each would compile the same modules again.
    NODE_COMPILE_CACHE: join(tmpdir(), 'sallyport-test-compile-cache'),
    ...env,
    ...lateOptions(env),
  };
}

/** Where a test is made late (late/run.ts), so is the proxy under it. */
function lateOptions({ NODE_OPTIONS: own = '' }: Environment): Environment {
  const { LATE_SEED, NODE_OPTIONS = '' } = process.env;
  return LATE_SEED === undefined ? {} : { LATE_SEED, NODE_OPTIONS: `${NODE_OPTIONS} ${own}` };
}

/**
 * Every test of a running proxy can be run with several workers: `SALLYPORT_TEST_WORKERS=2 node test/e2e/….test.ts`. It is
 * one otherwise, whatever CPU limit the tests themselves run under.
 */
function workersUnderTest(): Environment {
  const { SALLYPORT_TEST_WORKERS: workers } = process.env;
  return { SALLYPORT_WORKERS: workers ?? '1' };
}

/** Runs `sallyport ARGS…` to its end. */
export function runSallyport(t: Teardown, args: readonly string[], env: Environment = {}): Promise<Finished> {
  return runToEnd(t, sallyportCommand, args, { env: bareEnvironment(env) });
}

/** Starts `sallyport run` and waits until it is ready; when it ends instead, the error carries what it printed. */
export async function startSallyport(t: Teardown, options: SallyportOptions): Promise<Sallyport> {
  const adminPort = portOf(options.env.SALLYPORT_ADMIN_LISTEN) ?? (await freePort());
  const healthPort = portOf(options.env.SALLYPORT_HEALTH_LISTEN) ?? (await freePort());
  const env = {
    SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
    ...workersUnderTest(),
    ...options.env,
  };
  const [command = sallyportCommand, ...args] = [...(options.within ?? []), options.command ?? sallyportCommand, 'run'];
  const child = await startChild(t, command, args, { env: bareEnvironment(env) });
  const ask = options.health ?? statusOf;
  const awaited = options.awaitReady === false ? '/live' : '/ready';
  let last: number | undefined;
  let ended: Exit | undefined;
  void child.exited.then((exit) => {
    ended = exit;
  });
  try {
    await until(
      `${awaited} of sallyport on port ${healthPort}`,
      async () => {
        if (ended !== undefined) throw new Error(`sallyport ended with ${JSON.stringify(ended)}`);
        last = await ask(awaited, healthPort);
        return last === 200;
      },
      { timeoutMs: options.timeoutMs ?? 20_000, lastSeen: () => String(last) },
    );
  } catch (error) {
    await child.end('SIGKILL');
    const printed = `stdout:\n${child.stdout().slice(-4_000)}\nstderr:\n${child.stderr().slice(-4_000)}`;
    throw new Error(`sallyport did not start: ${(error as Error).message}\n${printed}`, { cause: error });
  }
  const logs = (): LogLine[] => parseLogLines(child.stdout());
  return {
    child,
    pid: child.pid,
    adminPort,
    healthPort,
    health: (path) => ask(path, healthPort),
    logs,
    waitForLog: (what, wanted, timeoutMs = 5_000) =>
      until(`log line: ${what}`, () => logs().find(wanted), {
        timeoutMs,
        lastSeen: () => child.stdout().slice(-2_000),
      }),
    residentBytes: () => residentBytes(child.pid),
    stop: (graceMs = 10_000) => child.end('SIGTERM', graceMs),
  };
}

/** Complete lines only: the last one may still be under way. */
export function parseLogLines(text: string): LogLine[] {
  const lines = text.split('\n');
  lines.pop();
  return lines.filter((line) => line !== '').map(parseLogLine);
}

function parseLogLine(line: string): LogLine {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new Error(`a log line is not JSON: ${line}`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`a log line is not an object: ${line}`);
  }
  return value as LogLine;
}

function portOf(listen: string | undefined): number | undefined {
  const port = /:(\d+)$/.exec(listen ?? '')?.[1];
  return port === undefined ? undefined : Number(port);
}

function statusOf(path: string, port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const probe = request({ host: '127.0.0.1', port, path, agent: false, timeout: 2_000 * patience() }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    probe.on('timeout', () => probe.destroy());
    probe.on('error', () => resolve(undefined));
    probe.end();
  });
}

/** Resident set of a process. Linux only, as are the tests that call it. */
export function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kilobytes === undefined) throw new Error(`process ${pid} has no resident set`);
  return Number(kilobytes) * 1024;
}
