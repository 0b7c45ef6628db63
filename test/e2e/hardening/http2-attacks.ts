import { parentPort, workerData } from 'node:worker_threads';
import type { Teardown } from '../../support/children.ts';
import {
  dataFrame,
  type Fields,
  frame,
  type as frameType,
  headerBlock,
  headersFrame,
  requestFields,
  resetFrame,
  setting,
  settingsFrame,
  windowFrame,
} from '../../support/http2-frames.ts';
import { type FramePeer, okFields, openClient, startFrameApp } from '../../support/http2-peers.ts';

/*
 * The app, and those who attack a neighbour of theirs, each on a thread of its own: what they burn there is not what the
 * neighbour waits for.
 */

export interface WorkerJob {
  /** Empty for the app. */
  readonly attack: string;
  readonly port: number;
}

const get = (id: number, path: string, more: Fields = []): Buffer => headersFrame(id, requestFields(path, more));
const post = (id: number, path: string): Buffer => headersFrame(id, requestFields(path, [], 'POST'), false);
const id = (i: number): number => 2 * i + 1;
const times = (count: number, make: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const forever: Teardown = { teardown: () => {} };

/** Its connections live until the thread is ended. */
type Attack = (port: number) => Promise<void>;

const zeroWindows = { consumes: false, settings: [[setting.initialWindowSize, 0]] } as const;

async function unread(port: number, connections: number, streams: number, path: string): Promise<void> {
  for (let i = 0; i < connections; i++) {
    const client = await openClient(forever, port, zeroWindows);
    client.send(times(streams, (n) => get(id(n), path)));
    await pause(20);
  }
}

/** Sends the same worst on connection after connection, as each is ended. */
async function again(port: number, worst: (client: FramePeer) => Promise<void> | void): Promise<void> {
  for (;;) {
    const client = await openClient(forever, port);
    await worst(client);
    await Promise.race([client.until('the end', () => client.ended, 500).catch(() => {}), pause(500)]);
    client.destroy();
    // Otherwise it would be the processor's time that the neighbour misses.
    await pause(100);
  }
}

/** As dear to decide as 8 KB can be. */
const dear = `/%41;b//c\\d/${'a%25ff'.repeat(1300)}`.replace('\\', '%5c');

export const attacks: Readonly<Record<string, Attack>> = {
  '129 answers unread': (port) => unread(port, 1, 129, '/large'),
  '255 answers unread, four times': (port) => unread(port, 4, 255, '/large'),
  '48 connections of 250 streams without windows': (port) => unread(port, 48, 250, '/small'),
  'honest readers, slow': async (port) => {
    const client = await openClient(forever, port, zeroWindows);
    client.send(times(200, (n) => get(id(n), '/large')));
    for (;;) {
      await pause(100);
      client.send(times(200, (n) => windowFrame(id(n), 100)));
    }
  },
  'uploads unread': async (port) => {
    for (let i = 0; i < 4; i++) {
      const client = await openClient(forever, port);
      for (let n = 0; n < 10; n++) {
        client.send(
          post(id(n), '/unread'),
          times(4, () => dataFrame(id(n), Buffer.alloc(16_000))),
        );
      }
      await pause(50);
    }
  },
  'uploads that wait by the thousand': async (port) => {
    for (let i = 0; i < 20; i++) {
      const client = await openClient(forever, port);
      const begun = times(4, (n) => times(4, () => dataFrame(id(n), Buffer.alloc(16_000))));
      client.send(
        times(250, (n) => post(id(n), '/unread')),
        begun,
      );
      await pause(20);
    }
    const other = await openClient(forever, port);
    for (let from = 0; ; from += 100) {
      other.send(times(100, (n) => get(id(from + n), '/')));
      await pause(100);
    }
  },
  'windows of many streams resized, again and again': async (port) => {
    const sizes = Array.from(
      { length: 2700 },
      (_, i) => [setting.initialWindowSize, i % 2 === 0 ? 1000 : 65_535] as const,
    );
    for (;;) {
      const clients = await Promise.all(Array.from({ length: 20 }, () => openClient(forever, port)));
      for (const client of clients) client.send(times(250, (n) => post(id(n), '/')));
      await pause(200);
      for (const client of clients) client.send(times(3, () => settingsFrame(sizes)));
      await pause(100);
      for (const client of clients) client.destroy();
    }
  },
  'rapid resets': (port) =>
    again(port, (client) => client.send(times(3000, (n) => Buffer.concat([get(id(n), '/'), resetFrame(id(n), 8)])))),
  'resets that we must make': (port) =>
    again(port, (client) => client.send(times(3000, (n) => Buffer.concat([post(id(n), '/'), windowFrame(id(n), 0)])))),
  'many dear heads in one read': (port) =>
    again(port, (client) => client.send(times(256, (n) => get(id(n), `${dear}${n}`)))),
  'CONTINUATION without end': (port) =>
    again(port, (client) =>
      client.send(
        frame(frameType.headers, 0, 1, headerBlock(requestFields('/'))),
        times(70, () => frame(frameType.continuation, 0, 1, Buffer.alloc(1_500))),
      ),
    ),
  'a bomb of header compression': (port) =>
    again(port, (client) => {
      // An entry of 4,000 bytes, and then as often as a block can say so.
      const name = Buffer.concat([Buffer.of(0x40, 1, 0x78, 0x7f, 0xa1, 0x1e), Buffer.alloc(4000, 'a')]);
      const bomb = Buffer.concat([headerBlock(requestFields('/')), name, Buffer.alloc(10_000, 0xbe)]);
      client.send(times(40, (n) => frame(frameType.headers, 5, id(n), bomb)));
    }),
  PINGs: (port) =>
    again(port, (client) => client.send(times(20_000, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))))),
  'empty DATA': (port) =>
    again(port, (client) =>
      client.send(
        post(1, '/'),
        times(20_000, () => dataFrame(1, '')),
      ),
    ),
};

const large = Buffer.alloc(100_000);
const small = Buffer.alloc(4000);

/** Answers `/large` with 100 kB, `/small` with 4 and others with nothing; reads all but the content of `/unread`. */
async function serve(): Promise<number> {
  const { port } = await startFrameApp(forever, {
    consumes: false,
    settings: [[setting.maxConcurrentStreams, 1000]],
    onConnection: (connection) => {
      const inner = connection.onFrame;
      connection.onFrame = (received) => {
        const { type, streamId, payload } = received;
        if (type === frameType.data && payload.length > 0) {
          const path = connection.message(streamId).blocks[0]?.find(([name]) => name === ':path')?.[1];
          if (path !== '/unread')
            connection.send(windowFrame(0, payload.length), windowFrame(streamId, payload.length));
        }
        inner?.(received);
        connection.frames.length = 0;
        if (connection.message(streamId).reset !== null) connection.messages.delete(streamId);
      };
    },
    onEnd: ({ connection, id, path }) => {
      const content = path === '/large' ? large : path === '/small' ? small : null;
      connection.send(headersFrame(id, okFields, content === null));
      if (content !== null) void connection.body(id, content).catch(() => {});
      else connection.messages.delete(id);
    },
  });
  return port;
}

if (parentPort !== null) {
  const { attack, port } = workerData as WorkerJob;
  if (attack === '') parentPort.postMessage(await serve());
  else {
    parentPort.postMessage(0);
    await attacks[attack]?.(port);
  }
}
