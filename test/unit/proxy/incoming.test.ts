import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { byThemselves } from '../../../lib/drained.ts';
import { loadDescriptors } from '../../../lib/proxy/accept/descriptors.ts';
import { type Listener, listen } from '../../../lib/proxy/accept/listener.ts';
import type { Incoming } from '../../../lib/proxy/incoming.ts';
import { hasUnread, loadSocketCalls } from '../../../lib/proxy/socket-calls.ts';
import { stage } from '../../support/lane-stage.ts';
import { ok } from '../../support/raw-app.ts';
import { latin1 } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';

const skip = process.platform === 'linux' ? false : 'the calls are those of Linux';
if (!skip) loadSocketCalls();

interface Pair {
  readonly client: Socket;
  readonly incoming: Incoming;
  readonly listener: Listener;
  /** What the connection's follower was told. */
  readonly told: readonly string[];
  received(): string;
}

/** Who has accepted it: libuv the first one of a turn of the event loop, we those that have come beside it. */
const ways = ['by libuv', 'by us'] as const;
type Way = (typeof ways)[number];
type Accept = (t: Test, first: string) => Promise<Pair>;

function each(name: string, run: (t: Test, accepted: Accept) => Promise<void>): void {
  for (const way of ways) {
    t.test(`${name} (accepted ${way})`, { skip }, (t) => run(t, (t, first) => accepted(t, first, way)));
  }
}

/** An accepted connection, once `first` has come from its client. */
async function accepted(t: Test, first: string, way: Way): Promise<Pair> {
  const arrived = Promise.withResolvers<Incoming>();
  const before = Promise.withResolvers<Incoming>();
  const waiting = way === 'by us' ? [before, arrived] : [arrived];
  const listener = await listen({
    at: { host: '127.0.0.1', port: 0 },
    isAlone: true,
    onConnection: (incoming) => waiting.shift()?.resolve(incoming),
    onError: (error) => t.fail(error.message),
  });
  if (way === 'by us') {
    const other = connect({ port: listener.address.port, host: '127.0.0.1' }).on('error', () => {});
    t.teardown(() => {
      other.destroy();
      void before.promise.then((incoming) => incoming.destroy());
    });
  }
  const client = connect({ port: listener.address.port, host: '127.0.0.1', allowHalfOpen: true });
  client.on('error', () => {});
  let text = '';
  client.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
  });
  if (first !== '') client.write(first);
  const incoming = await arrived.promise;
  t.equal(incoming.peer !== null, way === 'by us', `accepted ${way}`);
  if (first !== '') await until('the first bytes', () => hasUnread(incoming.descriptor ?? -1));
  const told: string[] = [];
  incoming.follow({ streamed: () => void told.push('streamed'), ended: () => void told.push('ended') });
  t.teardown(async () => {
    client.destroy();
    incoming.destroy();
    await listener.close();
  });
  return { client, incoming, listener, told, received: () => text };
}

each('a connection is answered and ended without a stream', async (t, accepted) => {
  const { client, incoming, told, received } = await accepted(t, 'one and all');
  t.equal(incoming.receive().toString(), 'one and all');
  t.ok(incoming.sendLast('head ', Buffer.from('and body')));
  t.equal(received(), '', 'which waits for the end');
  t.ok(incoming.endQuietly());
  await once(client, 'end');
  t.equal(received(), 'head and body');
  t.same([incoming.bytesRead, incoming.bytesWritten], [11, 13]);
  t.same(told, ['ended']);
  t.equal(incoming.descriptor, null);
  t.ok(incoming.socket.destroyed, 'who asks for its stream all the same');
});

each('what is not to be done without a stream is left to it', async (t, accepted) => {
  const rows: readonly (readonly [name: string, first: string, run: (pair: Pair) => void | Promise<void>])[] = [
    ['nothing has come', '', ({ incoming }) => t.equal(incoming.receive().length, 0)],
    [
      'more has come behind what was read',
      'x'.repeat(5000),
      ({ incoming }) => {
        t.equal(incoming.receive().length, 4095);
        t.notOk(incoming.endQuietly());
      },
    ],
    ['a long response', 'x', ({ incoming }) => t.notOk(incoming.sendLast('h', Buffer.alloc(8 * 1024)))],
    [
      'a client that has reset it',
      'x',
      async ({ incoming, client }) => {
        incoming.receive();
        client.resetAndDestroy();
        await until('the reset', () => !incoming.sendLast('h', Buffer.alloc(0)));
      },
    ],
  ];
  for (const [name, first, run] of rows) {
    const pair = await accepted(t, first);
    await run(pair);
    t.ok(pair.incoming.isBare, name);
    t.same(pair.told, []);
    const { socket } = pair.incoming;
    t.same(pair.told, ['streamed'], `${name}: told once`);
    t.notOk(socket.destroyed, name);
    socket.on('error', () => {});
    t.equal(pair.incoming.socket, socket);
    const closed = once(socket, 'close').catch(() => {});
    pair.incoming.destroy();
    await closed;
  }
});

each('bytes that come before it is a stream and after, are all read, and counted once', async (t, accepted) => {
  const { client, incoming } = await accepted(t, 'x'.repeat(5000));
  const early = incoming.receive();
  let length = early.length;
  incoming.socket.on('data', (bytes: Buffer) => {
    length += bytes.length;
  });
  client.write('y'.repeat(1000));
  await until('all of it', () => length === 6000);
  t.equal(incoming.bytesRead, 6000);
});

each('a client that reads slowly gets all of it, in order', async (t, accepted) => {
  const { client, incoming } = await accepted(t, 'x');
  incoming.receive();
  client.pause();
  let sent = '';
  const letters = 'abcdefghijklmnopqrstuvwxyz';
  for (let i = 0; incoming.isBare && i < 10_000; i++) {
    const part = (letters[i % letters.length] as string).repeat(8000);
    if (!incoming.sendLast(part, Buffer.alloc(0))) incoming.socket.write(part);
    sent += part;
  }
  t.notOk(incoming.isBare, 'the rest waits in a stream');
  incoming.socket.end();
  let got = '';
  client.removeAllListeners('data').on('data', (bytes: Buffer) => {
    got += bytes.toString('latin1');
  });
  client.resume();
  await once(client, 'end');
  t.ok(got === sent, `${got.length} of ${sent.length}`);
  t.equal(incoming.bytesWritten, sent.length);
});

each('a connection outlives its listener', async (t, accepted) => {
  const { client, incoming, listener, received } = await accepted(t, 'asked');
  t.equal(incoming.receive().toString(), 'asked');
  void listener.close();
  incoming.socket.end('told');
  await once(client, 'end');
  t.equal(received(), 'told');
});

each('who follows one that is destroyed hears of it', async (t, accepted) => {
  const { client, incoming, told } = await accepted(t, '');
  incoming.destroy();
  incoming.destroy();
  t.same(told, ['ended']);
  const late: string[] = [];
  incoming.follow({ streamed: () => void late.push('streamed'), ended: () => void late.push('ended') });
  t.same(late, ['ended'], 'and who comes too late');
  await once(client, 'end');
});

t.test('one that comes while a stop is under way is closed, and not waited for', { skip }, async (t) => {
  const { lane, open } = await stage(t, 'fast');
  const held = await open();
  await until('one that is open', () => lane.live.size === 1);
  const drained = lane.live.drain(60_000);
  const late = await open();
  await until('both to be closed', () => held.ended && late.ended);
  t.same(await drained, byThemselves);
  t.equal(lane.live.size, 0);
});

each('what comes first is waited for without a stream', async (t, accepted) => {
  const rows: readonly (readonly [
    name: string,
    happens: (pair: Pair) => unknown,
    told: readonly string[],
    bytesRead: number,
  ])[] = [
    ['bytes', ({ client }) => client.write('first'), ['came first'], 5],
    ['many bytes', ({ client }) => client.write('x'.repeat(9000)), [`came ${'x'.repeat(9000)}`], 9000],
    ['its end', ({ client }) => client.end(), ['ended'], 0],
    ['its reset', ({ client }) => client.resetAndDestroy(), ['ended'], 0],
    ['it is destroyed', ({ incoming }) => incoming.destroy(), ['follower ended', 'ended'], 0],
    ['somebody makes a stream', ({ incoming }) => incoming.socket, ['follower streamed', 'streamed'], 0],
    [
      'it is forgotten',
      ({ client, incoming }) => {
        incoming.forgetFirst();
        client.write('first');
        return once(incoming.socket, 'data');
      },
      ['follower streamed'],
      5,
    ],
  ];
  for (const [name, happens, wanted, bytesRead] of rows) {
    const pair = await accepted(t, '');
    const { incoming } = pair;
    const told: string[] = [];
    incoming.follow({
      streamed: () => void told.push('follower streamed'),
      ended: () => void told.push('follower ended'),
    });
    const reader = {
      came: (bytes: Buffer) => void told.push(`came ${bytes}`),
      ended: () => void told.push('ended'),
      streamed: () => void told.push('streamed'),
    };
    t.ok(incoming.awaitFirst(reader), name);
    await happens(pair);
    await until(name, () => told.length >= wanted.length);
    t.same(told, wanted, name);
    t.equal(incoming.bytesRead, bytesRead, `${name}: bytes read`);
  }
});

each('a connection that was accepted elsewhere is as bare, and as good a stream', async (t, accepted) => {
  const here = await listen({
    at: { host: '127.0.0.1', port: 0 },
    isAlone: true,
    onConnection: () => t.fail('nobody connects here'),
    onError: (error) => t.fail(error.message),
  });
  t.teardown(() => here.close());
  const descriptors = loadDescriptors();
  for (const way of ['bare', 'stream']) {
    const { client, incoming, received } = await accepted(t, 'asked');
    const copy = descriptors.duplicate(incoming.descriptor ?? -1) ?? -1;
    incoming.destroy();
    const adopted = here.adopt(copy);
    if (adopted === null) throw new Error('it was not taken');
    t.ok(adopted.isBare, way);
    if (way === 'bare') {
      t.equal(adopted.receive().toString(), 'asked');
      t.ok(adopted.sendLast('told', Buffer.alloc(0)) && adopted.endQuietly());
    } else {
      const [bytes] = await once(adopted.socket, 'data');
      t.equal(String(bytes), 'asked');
      adopted.socket.end('told');
    }
    await once(client, 'end');
    t.equal(received(), 'told', way);
    client.destroy();
    adopted.destroy();
  }
  t.equal(here.adopt(-1), null, 'what is no descriptor');
});

each('a long first read is told as long as it was', async (t, accepted) => {
  for (const length of [4095, 4096, 32_767, 32_768, 50_000, 65_535, 65_536, 100_000]) {
    const { client, incoming } = await accepted(t, '');
    const sent = Buffer.alloc(length, 'x');
    client.write(sent);
    await until('all of it, or a good part', () => hasUnread(incoming.descriptor ?? -1));
    const first = Promise.withResolvers<Buffer>();
    const other = (): void => void t.fail('there were bytes');
    incoming.awaitFirst({ came: first.resolve, ended: other, streamed: other });
    const came = await first.promise;
    t.equal(incoming.bytesRead, came.length, `${length}`);
    t.ok(came.length > 0 && came.length <= length && came.equals(sent.subarray(0, came.length)), `${came.length}`);
  }
});

each('what comes behind the first bytes, and its end, is the stream’s', async (t, accepted) => {
  const { client, incoming } = await accepted(t, '');
  const first = Promise.withResolvers<string>();
  const noEnd = (): void => void t.fail('there were bytes');
  const came = (bytes: Buffer): void => first.resolve(bytes.toString());
  t.ok(incoming.awaitFirst({ came, ended: noEnd, streamed: noEnd }));
  client.write('one');
  t.equal(await first.promise, 'one');
  client.end('two');
  const parts: string[] = [];
  incoming.socket.on('data', (bytes: Buffer) => void parts.push(bytes.toString()));
  await once(incoming.socket, 'end');
  t.equal(parts.join(''), 'two');
  t.equal(incoming.bytesRead, 6);
  t.notOk(incoming.awaitFirst({ came, ended: noEnd, streamed: noEnd }), 'a stream tells by itself');
});

const last = latin1('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');

/** Streams that Node makes meanwhile of connections that were accepted at this port. */
async function streamsMade(port: number, run: () => Promise<void>): Promise<number> {
  let made = 0;
  const count = (message: unknown): void => {
    if ((message as { readonly socket: Socket }).socket.localPort === port) made++;
  };
  subscribe('net.server.socket', count);
  await run();
  unsubscribe('net.server.socket', count);
  return made;
}

t.test('a request that is the last of its connection takes no stream, though it may come late', { skip }, async (t) => {
  const s = await stage(t, 'fast');
  const ask = async (request: Buffer): Promise<string> => {
    const client = await s.open();
    client.send(request);
    await until('the end of the connection', () => client.ended);
    return client.received.toString('latin1');
  };
  const rows: readonly (readonly [name: string, request: Buffer, status: number])[] = [
    ['a last request', last, 200],
    ['content that is all there', latin1('POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab'), 200],
    ['a refusal', latin1('GET /DENIED HTTP/1.0\r\n\r\n'), 403],
  ];
  for (const [name, request, status] of rows) {
    const made = await streamsMade(s.lane.port, async () => {
      for (let i = 0; i < 20; i++)
        t.match(await ask(request), new RegExp(`^HTTP/1.1 ${status} [^]*connection: close\r\n`, 'i'));
    });
    // Every second waits for its first bytes; a look at all connections may meet with one or the other.
    t.ok(made <= 5, `${name}: ${made} of 20`);
  }
});

t.test('a client that leaves before its response takes its request along', { skip }, async (t) => {
  const s = await stage(t, 'fast', { answer: () => {} });
  await s.open();
  const client = await s.open();
  client.send(last);
  await until('the request', () => s.lane.counts.started === 1);
  client.socket.resetAndDestroy();
  await until('its end', () => s.lane.counts.ended === 1);
});

t.test('bytes behind the last request cost nobody the response', { skip }, async (t) => {
  const held = Promise.withResolvers<void>();
  const s = await stage(t, 'fast', {
    answer: (_request, { socket }) => void held.promise.then(() => socket.write(ok)),
  });
  await s.open();
  const client = await s.open();
  client.send(last);
  await until('the request', () => s.lane.counts.started === 1);
  client.send(latin1('GET /more HTTP/1.1\r\n'));
  held.resolve();
  await until('the end of the connection', () => client.ended);
  t.match(client.received.toString('latin1'), /^HTTP\/1\.1 200 /);
});
