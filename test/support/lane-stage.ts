import net, { type AddressInfo, type Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { Test } from 'tap';
import { type ClientOptions, type FramePeer, openClient } from './http2-peers.ts';
import { type Engine, engines, type Lane, type LaneOptions, startLane } from './lanes.ts';
import { type RawApp, type RawAppOptions, startRawApp } from './raw-app.ts';
import { latin1, parseResponses, RawClient } from './raw-http.ts';
import { until } from './until.ts';

export interface Stage {
  readonly lane: Lane;
  readonly app: RawApp;
  /** Ended with the test. */
  open(): Promise<RawClient>;
}

/** @param tls how clients connect; undefined: without it. */
export async function stage(
  t: Test,
  engine: Engine,
  app: RawAppOptions = {},
  lane: Partial<LaneOptions> = {},
  tls?: ConnectionOptions,
): Promise<Stage> {
  const started = await startRawApp(t, app);
  const proxy = await startLane(t, { engine, app: started.port, ...lane });
  return {
    lane: proxy,
    app: started,
    open: async () => {
      const client = await RawClient.open({ port: proxy.port, ...(tls === undefined ? {} : { tls }) });
      t.teardown(() => client.destroy());
      return client;
    },
  };
}

export interface Http2Stage<App> {
  readonly engine: Engine;
  readonly lane: Lane;
  readonly app: App;
  /** Ended with the test. */
  open(options?: ClientOptions): Promise<FramePeer>;
}

/** An app, a proxy that speaks HTTP/2 before it, and clients of that. */
export async function http2Stage<App extends { readonly port: number }>(
  t: Test,
  engine: Engine,
  startApp: () => Promise<App>,
  lane: Partial<LaneOptions>,
): Promise<Http2Stage<App>> {
  const app = await startApp();
  const proxy = await startLane(t, { engine: 'fast', http2Engine: engine, protocol: 'http2', app: app.port, ...lane });
  return { engine, lane: proxy, app, open: (options) => openClient(t, proxy.port, options) };
}

/** Both ends of a connection, for what is to be served by hand. Ended with the test. */
export async function connectedPair(t: Test): Promise<{ readonly client: RawClient; readonly socket: Socket }> {
  const server = net.createServer({ allowHalfOpen: true });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const arrived = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const client = await RawClient.open({ port: (server.address() as AddressInfo).port });
  const socket = await arrived;
  t.teardown(() => {
    client.destroy();
    socket.destroy();
  });
  return { client, socket };
}

export const get = (path: string, more = ''): Buffer =>
  latin1(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n${more}\r\n`);
export const post = (path: string, body: string, length = body.length): Buffer =>
  latin1(`POST ${path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: ${length}\r\n\r\n${body}`);

export const statuses = (client: RawClient, methods: readonly string[]): number[] =>
  parseResponses(client.received, methods, client.ended).responses.map(({ status }) => status);

/**
 * Whether `value` stays the same for a while: the way to see that something has come to a stop. The while is counted in looks
 * between which the event loop goes round: time alone passes also for a process that does not run.
 */
export async function still(what: string, value: () => number): Promise<number> {
  let last = -1;
  let looks = 0;
  return until(
    what,
    () => {
      const now = value();
      if (now !== last) {
        last = now;
        looks = 0;
      }
      looks++;
      // One, because a probe that yields 0 would count as a miss nowhere else.
      return looks > 30 ? now + 1 : undefined;
    },
    { everyMs: 10 },
  ).then((now) => now - 1);
}

export const megabyte = 1 << 20;

/** Far above what two kernel buffers and a handful of chunks hold, far below what is sent. */
export const bounded = 48 * megabyte;

export interface Scenario {
  readonly name: string;
  /** Where the two may legally differ, the scenario asks. */
  run(t: Test, engine: Engine): Promise<void>;
}

/** Runs every scenario against both engines. Node must have nothing to warn of, such as listeners that pile up. */
export async function runScenarios(t: Test, scenarios: readonly Scenario[]): Promise<void> {
  t.setTimeout(600_000);
  const warnings: string[] = [];
  const warned = ({ name, message }: Error): void => {
    warnings.push(`${name}: ${message}`);
  };
  process.on('warning', warned);
  for (const { name, run } of scenarios) {
    await t.test(name, async (t) => {
      for (const engine of engines) await t.test(engine, { timeout: 120_000 }, (t) => run(t, engine));
    });
  }
  process.off('warning', warned);
  t.same(warnings, [], 'no warnings');
}
