import type { Test } from 'tap';
import {
  goawayFrame,
  headersFrame,
  requestFields,
  resetFrame,
  setting,
  settingsFrame,
  windowFrame,
} from './http2-frames.ts';
import { type FrameAppOptions, okFields, openClient, startFrameApp } from './http2-peers.ts';
import type { Lane } from './lanes.ts';
import { http1App, type Wait } from './late-requests.ts';
import { ok } from './raw-app.ts';
import { until } from './until.ts';

/*
 * The same over HTTP/2, before an app of either version.
 */

/** An HTTP/2 app, and what it has got of `/late` since `changed` was called. */
async function http2App(t: Test, options: FrameAppOptions = {}) {
  const sent: string[] = [];
  let counts = false;
  const app = await startFrameApp(t, {
    ...options,
    onRequest: (request) => {
      if (counts && request.path === '/late') sent.push(request.fields.find(([name]) => name === 'x-by')?.[1] ?? '');
      options.onRequest?.(request);
    },
  });
  const changed = (): void => {
    counts = true;
  };
  return { app, sent, changed };
}

export async function http2Client(t: Test, lane: Lane) {
  const client = await openClient(t, lane.port);
  const outcome = async (id: number): Promise<string> => {
    const word = await client.over(id);
    return word === 'nothing' || word === 'CANCEL' ? 'closed' : word;
  };
  return { client, outcome };
}

const marker = [['l5d-orig-proto', 'HTTP/1.1']] as const;

export const http2Waits: readonly Wait[] = [
  {
    name: 'a connect',
    protocol: 'HTTP/2',
    engine: 'fast',
    async run(t, begin) {
      const { app, sent, changed } = await http2App(t);
      const { lane, changeOnceDecided } = await begin(app.port);
      const { client, outcome } = await http2Client(t, lane);
      changed();
      changeOnceDecided();
      client.send(headersFrame(1, requestFields('/late')));
      return { outcome: await outcome(1), sent };
    },
  },
  {
    name: "the app's SETTINGS",
    protocol: 'HTTP/2',
    engine: 'fast',
    async run(t, begin) {
      const { app, sent, changed } = await http2App(t, {
        settings: null,
        onConnection: ({ socket }) => void socket.pause(),
      });
      const { lane, change, isDecided } = await begin(app.port);
      const { client, outcome } = await http2Client(t, lane);
      client.send(headersFrame(1, requestFields('/late')));
      await until('a session to the app', () => app.connections.length === 1 && isDecided());
      change();
      changed();
      app.connections[0]?.send(settingsFrame([]));
      app.connections[0]?.socket.resume();
      return { outcome: await outcome(1), sent };
    },
  },
  {
    name: 'a stream',
    protocol: 'HTTP/2',
    engine: 'fast',
    async run(t, begin) {
      let answer = (): void => {};
      const { app, sent, changed } = await http2App(t, {
        settings: null,
        // One session takes one stream at a time, and there is no other.
        onConnection: (connection) => {
          const { number, socket } = connection;
          if (number === 0) connection.send(settingsFrame([[setting.maxConcurrentStreams, 1]]));
          else socket.pause();
        },
        onEnd: ({ connection, id, path }) => {
          const respond = (): void => connection.send(headersFrame(id, okFields, true));
          if (path === '/first') answer = respond;
          else respond();
        },
      });
      const { lane, change, isDecided } = await begin(app.port);
      const { client, outcome } = await http2Client(t, lane);
      client.send(headersFrame(1, requestFields('/first')));
      await until('the first', () => app.requests.length === 1);
      client.send(headersFrame(3, requestFields('/late')));
      await until('the decision', isDecided);
      change();
      changed();
      answer();
      return { outcome: await outcome(3), sent };
    },
  },
  {
    name: 'room behind uploads of its own client',
    protocol: 'HTTP/2',
    engine: 'fast',
    async run(t, begin) {
      const { app, sent, changed } = await http2App(t, {
        consumes: false,
        settings: [[setting.initialWindowSize, 1 << 20]],
      });
      const { lane, change, isDecided } = await begin(app.port);
      const { client, outcome } = await http2Client(t, lane);
      client.send(headersFrame(1, requestFields('/first', [], 'POST'), false));
      // As much as there is room for on the session, and more to come.
      for (let left = 65_535; left > 0; left -= 15_000) client.data(1, Buffer.alloc(Math.min(left, 15_000)));
      await until('the upload', () => app.requests[0]?.message.bytes === 65_535);
      client.send(headersFrame(3, requestFields('/late', [], 'POST'), false));
      client.data(3, Buffer.from('hello'), true);
      await until('the decision', isDecided);
      await client.lives();
      t.equal(app.requests.length, 1, 'it waits');
      change();
      changed();
      client.send(resetFrame(1, 8));
      app.connections[0]?.send(windowFrame(0, 65_535));
      return { outcome: await outcome(3), sent };
    },
  },
  ...(['REFUSED_STREAM', 'GOAWAY'] as const).map(
    (said): Wait => ({
      name: `being sent again after ${said}`,
      protocol: 'HTTP/2',
      engine: 'fast',
      async run(t, begin) {
        let change = (): void => {};
        let lost = false;
        const { app, sent, changed } = await http2App(t, {
          onRequest: ({ connection, id }) => {
            if (lost) return;
            lost = true;
            change();
            connection.send(said === 'GOAWAY' ? goawayFrame(0) : resetFrame(id, 7));
          },
          onEnd: ({ connection, id }) => {
            // The first has been refused.
            if (app.requests.length > 1) connection.send(headersFrame(id, okFields, true));
          },
        });
        const world = await begin(app.port);
        change = () => {
          world.change();
          changed();
        };
        const { client, outcome } = await http2Client(t, world.lane);
        client.send(headersFrame(1, requestFields('/late')));
        return { outcome: await outcome(1), sent };
      },
    }),
  ),
  {
    name: 'a connect to an HTTP/1 app',
    protocol: 'HTTP/2',
    engine: 'fast',
    async run(t, begin) {
      const { app, sent, changed } = await http1App(t);
      const { lane, changeOnceDecided } = await begin(app.port);
      const { client, outcome } = await http2Client(t, lane);
      changed();
      changeOnceDecided();
      client.send(headersFrame(1, requestFields('/late', marker)));
      const word = await outcome(1);
      if (word !== '403') return { outcome: word, sent };
      client.send(headersFrame(3, requestFields('/first', marker)));
      return { outcome: word, sent, another: { status: await outcome(3), connections: app.sockets.length } };
    },
  },
  {
    name: 'being sent again to an HTTP/1 app',
    protocol: 'HTTP/2',
    engine: 'fast',
    async run(t, begin) {
      let change = (): void => {};
      let lost = false;
      const { app, sent, changed } = await http1App(t, {
        answer: ({ target }, { socket }) => {
          if (target !== '/late' || lost) return void socket.write(ok);
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
      const { client, outcome } = await http2Client(t, world.lane);
      client.send(headersFrame(1, requestFields('/first', marker)));
      t.equal(await outcome(1), '200');
      client.send(headersFrame(3, requestFields('/late', marker)));
      return { outcome: await outcome(3), sent };
    },
  },
];
