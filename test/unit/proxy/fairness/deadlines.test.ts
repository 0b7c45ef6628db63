import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import t from 'tap';
import { peek } from '../../../../lib/proxy/detect/peek.ts';
import { Deadlines, type Expirable } from '../../../../lib/proxy/fairness/deadlines.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import { until } from '../../../support/until.ts';

// A deadline alone keeps no process alive; the sockets do that elsewhere.
const alive = setInterval(() => {}, 1000);
t.teardown(() => clearInterval(alive));

function waiting(expire: () => void): Expirable & { readonly destroyed: () => boolean } {
  let destroyed = false;
  return {
    since: performance.now(),
    expire,
    destroy: () => {
      destroyed = true;
    },
    destroyed: () => destroyed,
    line: null,
    earlier: null,
    later: null,
  };
}

t.test('one that throws ends alone, and the others have their turn', async (t) => {
  const told: unknown[] = [];
  t.teardown(onInternalFault(({ where, error }) => told.push([where, (error as Error).message])));
  const deadlines = new Deadlines(30);
  let expired = 0;
  const broken = waiting(() => {
    throw new Error('a fault of ours');
  });
  deadlines.add(broken);
  deadlines.add(waiting(() => expired++));
  await until('the other', () => expired === 1);
  t.same(told, [['a deadline', 'a fault of ours']]);
  t.ok(broken.destroyed());
  deadlines.add(waiting(() => expired++));
  await until('one that came later', () => expired === 2);
  t.pass('is waited for, too');
});

t.test('one that adds another while it expires', async (t) => {
  const deadlines = new Deadlines(20);
  const order: string[] = [];
  deadlines.add(
    waiting(() => {
      order.push('first');
      deadlines.add(waiting(() => order.push('third')));
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, 10));
  deadlines.add(waiting(() => order.push('second')));
  await until('all three', () => order.length === 3);
  t.same(order, ['first', 'second', 'third']);
});

t.test('what came while the process stood still is in time', async (t) => {
  const connected = Promise.withResolvers<Socket>();
  const server = createServer((socket) => connected.resolve(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.teardown(() => {
    client.destroy();
    server.close();
  });
  const socket = await connected.promise;
  const seen = Promise.withResolvers<string>();
  peek(
    { socket },
    Buffer.alloc(0),
    50,
    (bytes) => bytes.toString(),
    (result) => seen.resolve(result.kind),
  );
  socket.resume();
  // Written by the system at once.
  client.write('x');
  for (const until = performance.now() + 200; performance.now() < until; );
  t.equal(await seen.promise, 'seen');
});

t.test('a fault while first bytes are looked at ends the connection that it belongs to', async (t) => {
  const told: string[] = [];
  t.teardown(onInternalFault(({ where }) => told.push(where)));
  const rows: readonly (readonly [string, (stream: PassThrough) => void])[] = [
    ['in the look', (stream) => peek({ socket: stream }, Buffer.alloc(0), 60_000, fault, () => {})],
    ['in what is done with it', (stream) => peek({ socket: stream }, Buffer.alloc(0), 60_000, () => 1, fault)],
    ['at the deadline', (stream) => peek({ socket: stream }, Buffer.alloc(0), 20, () => undefined, fault)],
  ];
  for (const [name, look] of rows) {
    told.length = 0;
    const stream = new PassThrough();
    look(stream);
    stream.write('x');
    await until(name, () => stream.destroyed);
    t.equal(told.length, 1, name);
  }
});

function fault(): never {
  throw new Error('a fault of ours');
}
