import type { Test } from 'tap';
import type { World } from './changing-policy.ts';
import { holdStarts } from './held-starts.ts';
import { type Engine, engines, type LaneOptions } from './lanes.ts';
import { ok, type RawAppOptions, startRawApp } from './raw-app.ts';
import { latin1, RawClient, webSocketLines } from './raw-http.ts';
import { until } from './until.ts';

/*
 * Every wait of a request between its decision and its first byte to the app, over HTTP/1, with a change of policy in it.
 */

/** What has become of the request. */
export interface Result {
  readonly outcome: string;
  /** Those that the app has got since the change, by the values of `x-by`. */
  readonly sent: readonly string[];
  /** Connections that the app has seen, and those that one more request has needed. */
  readonly another?: { readonly status: string; readonly connections: number };
}

export interface Wait {
  readonly name: string;
  readonly protocol: 'HTTP/1' | 'HTTP/2';
  readonly engine: Engine;
  /** Where what is to be sent late cannot be given other fields any more: it is not sent at all. */
  readonly otherFields?: { readonly outcome: string; readonly sent: 'never' };
  run(t: Test, begin: (app: number, options?: Partial<LaneOptions>) => Promise<World>): Promise<Result>;
}

export function lateHead(method: string, lines = ''): Buffer {
  return latin1(`${method} /late HTTP/1.1\r\nHost: web\r\n${lines}\r\n`);
}

/** The final status of the last response, or the end. */
export async function lastStatus(client: RawClient, count: number): Promise<string> {
  const statuses = (): string[] =>
    [...client.received.toString('latin1').matchAll(/HTTP\/1\.1 ([2-5]\d\d|101) /g)].map(([, status = '']) => status);
  const found = await client.reaches(() => statuses().length >= count, 5000);
  if (found) return statuses()[count - 1] ?? '';
  return client.ended ? 'closed' : 'nothing';
}

async function anotherStatus(t: Test, port: number): Promise<string> {
  const client = await RawClient.open({ port });
  t.teardown(() => client.destroy());
  client.send(latin1('GET /first HTTP/1.1\r\nHost: web\r\n\r\n'));
  return lastStatus(client, 1);
}

/** An HTTP/1 app, and what it has got of `/late` since `changed` was called. */
export async function http1App(t: Test, options: RawAppOptions = {}) {
  const sent: string[] = [];
  let counts = false;
  const app = await startRawApp(t, {
    ...options,
    answer: (request, connection) => {
      if (counts && request.target.startsWith('/late')) {
        sent.push(request.headers.find(([name]) => name.toLowerCase() === 'x-by')?.[1] ?? '');
      }
      if (options.answer === undefined) connection.socket.write(ok);
      else options.answer(request, connection);
    },
  });
  const changed = (): void => {
    counts = true;
  };
  return { app, sent, changed };
}

/** A request that has to wait for a connect, of which the change comes first. */
function connecting(engine: Engine, name: string, head: Buffer, isKept: 'kept' | 'one-off' = 'kept'): Wait {
  return {
    name,
    protocol: 'HTTP/1',
    engine,
    async run(t, begin) {
      const { app, sent, changed } = await http1App(t);
      const { lane, changeOnceDecided } = await begin(app.port);
      changed();
      const client = await RawClient.open({ port: lane.port });
      t.teardown(() => client.destroy());
      changeOnceDecided();
      client.send(head);
      const outcome = await lastStatus(client, 1);
      if (outcome !== '403' || isKept === 'one-off') return { outcome, sent };
      const status = await anotherStatus(t, lane.port);
      return { outcome, sent, another: { status, connections: app.sockets.length } };
    },
  };
}

const eachEngine = engines.flatMap((engine): readonly Wait[] => [
  connecting(engine, 'a connect', lateHead('GET')),
  connecting(
    engine,
    'a connect, with content',
    Buffer.concat([lateHead('POST', 'Content-Length: 5\r\n'), latin1('hello')]),
  ),
  {
    name: 'a turn to connect',
    protocol: 'HTTP/1',
    engine,
    async run(t, begin) {
      const { app, sent, changed } = await http1App(t);
      const { lane, changeOnceDecided, isDecided } = await begin(app.port);
      const client = await RawClient.open({ port: lane.port });
      t.teardown(() => client.destroy());
      // On the library lane what begins is a connection, too: it must have begun.
      client.send(latin1('GET /first HTTP/1.1\r\nHost: web\r\nConnection: x\r\n\r\n'));
      t.equal(await lastStatus(client, 1), '200');
      for (const { socket } of app.sockets) socket.destroy();
      await until('no connection to the app', () => lane.counts.destinations === 0);
      const release = holdStarts();
      t.teardown(release);
      changed();
      changeOnceDecided();
      client.send(lateHead('GET'));
      await until('the decision', isDecided);
      release();
      return { outcome: await lastStatus(client, 2), sent };
    },
  },
  {
    name: 'being sent again',
    protocol: 'HTTP/1',
    engine,
    async run(t, begin) {
      let lost = false;
      let change = (): void => {};
      const { app, sent, changed } = await http1App(t, {
        answer: ({ target }, { socket }) => {
          if (target !== '/late' || lost) return void socket.write(ok);
          // It was idle, and ends just as it is taken.
          lost = true;
          change();
          socket.destroy();
        },
      });
      const world = await begin(app.port);
      change = () => {
        world.change();
        setImmediate(changed);
      };
      const client = await RawClient.open({ port: world.lane.port });
      t.teardown(() => client.destroy());
      client.send(latin1('GET /first HTTP/1.1\r\nHost: web\r\n\r\n'));
      t.equal(await lastStatus(client, 1), '200');
      client.send(lateHead('GET'));
      return { outcome: await lastStatus(client, 2), sent };
    },
  },
  {
    name: 'content that it has been asked for',
    protocol: 'HTTP/1',
    engine,
    ...(engine === 'library' ? { otherFields: { outcome: '503', sent: 'never' } } : {}),
    async run(t, begin) {
      const { app, sent, changed } = await http1App(t);
      const { lane, change } = await begin(app.port);
      const client = await RawClient.open({ port: lane.port });
      t.teardown(() => client.destroy());
      client.send(lateHead('POST', 'Content-Length: 5\r\nExpect: 100-continue\r\n'));
      await client.reaches(() => client.received.includes('100 Continue'), 5000);
      change();
      changed();
      client.send(latin1('hello'));
      return { outcome: await lastStatus(client, 1), sent };
    },
  },
]);

export const http1Waits: readonly Wait[] = [
  ...eachEngine,
  connecting('library', 'a connect, for a WebSocket', lateHead('GET', `${webSocketLines}Connection: x\r\n`), 'one-off'),
  connecting('library', 'a connect, for another upgrade', lateHead('GET', 'Connection: Upgrade\r\nUpgrade: chat\r\n')),
  connecting('fast', 'a connect, for a WebSocket', lateHead('GET', webSocketLines)),
];
