import { request } from 'node:http';
import { createInterface } from 'node:readline';
import { type SniffingApp, type SniffingAppOptions, startSniffingApp } from './sniffing-app.ts';
import { patience } from './until.ts';
import { type Exchange, runBurst, WireConnection } from './wire-exchange.ts';

// A program that runs inside a network namespace and does there what one JSON command a line tells it: it hosts the
// apps, is every client, and asks the health and admin ports. Started by wire-driver.ts; ends with its standard input.

export type Command =
  | { readonly op: 'app'; readonly options: SniffingAppOptions }
  | { readonly op: 'counts' }
  | { readonly op: 'get'; readonly port: number; readonly path: string; readonly host?: string }
  /** With `connection`, that connection is used, or opened and kept. */
  | { readonly op: 'exchange'; readonly exchange: Exchange; readonly connection?: string }
  | { readonly op: 'burst'; readonly exchange: Exchange; readonly count: number }
  | { readonly op: 'ends'; readonly connection: string; readonly timeoutMs: number }
  | { readonly op: 'close'; readonly connection: string };

export interface GetResult {
  readonly status: number | null;
  readonly body: string;
}

const apps = new Map<number, SniffingApp>();
const connections = new Map<string, WireConnection>();
/** The process ends as a whole; nothing needs undoing one by one. */
const never = { teardown: (): void => {} };

async function perform(command: Command): Promise<unknown> {
  switch (command.op) {
    case 'app': {
      const app = await startSniffingApp(never, command.options);
      apps.set(app.port, app);
      return app.port;
    }
    case 'counts':
      return Object.fromEntries([...apps].map(([port, { counts }]) => [port, counts]));
    case 'get':
      return get(command.port, command.path, command.host ?? '127.0.0.1');
    case 'exchange': {
      const kept = command.connection === undefined ? undefined : connections.get(command.connection);
      const connection = kept ?? new WireConnection(command.exchange);
      if (command.connection !== undefined) connections.set(command.connection, connection);
      try {
        return await connection.run(command.exchange);
      } finally {
        if (command.connection === undefined) connection.close();
      }
    }
    case 'burst':
      return runBurst(command.exchange, command.count);
    case 'ends':
      return (await connections.get(command.connection)?.ends(command.timeoutMs)) ?? true;
    case 'close':
      connections.get(command.connection)?.close();
      return connections.delete(command.connection);
  }
}

function get(port: number, path: string, host: string): Promise<GetResult> {
  return new Promise((resolve) => {
    const asked = request({ host, port, path, agent: false, timeout: 5_000 * patience() }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? null, body }));
      response.on('error', () => resolve({ status: null, body }));
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => resolve({ status: null, body: '' }));
    asked.end();
  });
}

const lines = createInterface({ input: process.stdin });
lines.on('line', async (line) => {
  const { id, command } = JSON.parse(line) as { id: number; command: Command };
  let reply: { id: number; value?: unknown; error?: string };
  try {
    reply = { id, value: await perform(command) };
  } catch (error) {
    reply = { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
});
lines.on('close', () => process.exit(0));
