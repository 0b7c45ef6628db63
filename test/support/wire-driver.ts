import { fileURLToPath } from 'node:url';
import { startChild, type Teardown } from './children.ts';
import { parseExposition, type Scrape } from './metrics.ts';
import type { SniffingAppOptions } from './sniffing-app.ts';
import { within } from './until.ts';
import type { Command, GetResult } from './wire-agent.ts';
import type { BurstResult, Exchange, ExchangeResult } from './wire-exchange.ts';

export type AppCounts = Readonly<Record<string, { readonly connections: number; readonly requests: number }>>;

/** The near end of a wire agent: one process inside a namespace, however many exchanges it performs. */
export interface WireDriver {
  startApp(options?: SniffingAppOptions): Promise<number>;
  counts(): Promise<AppCounts>;
  get(port: number, path: string, host?: string): Promise<GetResult>;
  scrape(port: number): Promise<Scrape>;
  exchange(exchange: Exchange, connection?: string): Promise<ExchangeResult>;
  burst(exchange: Exchange, count: number): Promise<BurstResult>;
  ends(connection: string, timeoutMs: number): Promise<boolean>;
  close(connection: string): Promise<void>;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

const agent = fileURLToPath(new URL('./wire-agent.ts', import.meta.url));

/** Starts the agent behind `prefix`, a namespace's `within` or nothing. */
export async function startDriver(t: Teardown, prefix: readonly string[] = []): Promise<WireDriver> {
  const waiting = new Map<number, Waiting>();
  let nextId = 1;
  let unfinished = '';
  const [command = process.execPath, ...args] = [...prefix, process.execPath, agent];
  const child = await startChild(t, command, args, {
    stdin: 'pipe',
    onStdout: (text) => {
      const lines = (unfinished + text).split('\n');
      unfinished = lines.pop() ?? '';
      for (const line of lines) {
        const reply = JSON.parse(line) as { id: number; value?: unknown; error?: string };
        const waiter = waiting.get(reply.id);
        waiting.delete(reply.id);
        if (reply.error === undefined) waiter?.resolve(reply.value);
        else waiter?.reject(new Error(`the wire agent failed: ${reply.error}`));
      }
    },
  });
  void child.exited.then(() => {
    for (const waiter of waiting.values()) waiter.reject(new Error(`the wire agent ended: ${child.stderr()}`));
    waiting.clear();
  });
  const call = <T>(command: Command): Promise<T> => {
    const id = nextId++;
    const reply = new Promise<unknown>((resolve, reject) => waiting.set(id, { resolve, reject }));
    child.process.stdin?.write(`${JSON.stringify({ id, command })}\n`);
    return within(`the wire agent's answer to ${command.op}`, 30_000, reply) as Promise<T>;
  };
  const get = (port: number, path: string, host?: string): Promise<GetResult> =>
    call({ op: 'get', port, path, ...(host === undefined ? {} : { host }) });
  return {
    startApp: (options = {}) => call({ op: 'app', options }),
    counts: () => call({ op: 'counts' }),
    get,
    scrape: async (port) => {
      const { status, body } = await get(port, '/metrics');
      if (status !== 200) throw new Error(`/metrics answered ${status}`);
      return parseExposition(body);
    },
    exchange: (exchange, connection) =>
      call({ op: 'exchange', exchange, ...(connection === undefined ? {} : { connection }) }),
    burst: (exchange, count) => call({ op: 'burst', exchange, count }),
    ends: (connection, timeoutMs) => call({ op: 'ends', connection, timeoutMs }),
    close: async (connection) => {
      await call({ op: 'close', connection });
    },
  };
}
