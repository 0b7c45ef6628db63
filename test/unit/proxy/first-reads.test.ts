import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { awaitReadable, forgetReadable, openFirstReads } from '../../../lib/proxy/first-reads.ts';
import { onInternalFault } from '../../../lib/proxy/guard.ts';
import { descriptorOf, handleMaker } from '../../../lib/proxy/node-handles.ts';
import { loadSocketCalls, receiveNow } from '../../../lib/proxy/socket-calls.ts';
import { until } from '../../support/until.ts';

const skip = process.platform === 'linux' ? false : 'the calls are those of Linux';
if (!skip) loadSocketCalls();

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  readonly fd: number;
}

/** Connections that nobody reads. */
async function pairs(t: Test, count: number): Promise<readonly Pair[]> {
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true });
  const made: Pair[] = [];
  t.teardown(() => {
    for (const { client, server } of made) for (const socket of [client, server]) socket.destroy();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  openFirstReads(handleMaker(server));
  const { port } = server.address() as { readonly port: number };
  for (let i = 0; i < count; i++) {
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const [socket] = (await once(server, 'connection')) as [Socket];
    made.push({ client, server: socket, fd: descriptorOf(socket) ?? -1 });
  }
  return made;
}

class Waiting {
  told = 0;
  ended = false;
  readonly #fault: Error | null;

  constructor(fault: Error | null = null) {
    this.#fault = fault;
  }

  readable(): void {
    this.told++;
    if (this.#fault !== null) throw this.#fault;
  }

  destroy(): void {
    this.ended = true;
  }
}

t.test('each of many is told once, of bytes or of an end, and only when something has come', { skip }, async (t) => {
  // More than one look finds.
  const all = await pairs(t, 150);
  const waits = all.map(() => new Waiting());
  for (const [i, { fd }] of all.entries()) t.ok(awaitReadable(fd, waits[i] as Waiting));
  const [{ client: early }, { client: late }] = all as [Pair, Pair];
  early.write('x');
  await until('the first to be told', () => waits[0]?.told === 1);
  t.equal(waits.filter(({ told }) => told > 0).length, 1, 'nobody else');
  for (const [i, { client }] of all.entries()) {
    if (i < 2) continue;
    if (i % 2 === 0) client.write('x');
    else client.end();
  }
  early.write('y');
  await until('all others to be told', () => waits.filter(({ told }) => told > 0).length === all.length - 1);
  late.write('x');
  await until('the last to be told', () => waits[1]?.told === 1);
  t.ok(
    waits.every(({ told }) => told === 1),
    'each once, though nothing was read',
  );
  const into = Buffer.alloc(8);
  for (const [i, { fd }] of all.entries()) {
    const wanted = i === 0 ? 2 : i === 1 || i % 2 === 0 ? 1 : 0;
    t.equal(receiveNow(fd, into), wanted, `what came to ${i} is still there`);
  }
});

t.test('who is forgotten is not told, nor is who has his descriptor after him', { skip }, async (t) => {
  const [forgotten, closed, other] = (await pairs(t, 3)) as [Pair, Pair, Pair];
  const waits = [new Waiting(), new Waiting(), new Waiting()] as const;
  t.ok(awaitReadable(forgotten.fd, waits[0]));
  t.ok(awaitReadable(closed.fd, waits[1]));
  t.ok(awaitReadable(other.fd, waits[2]));
  forgetReadable(forgotten.fd);
  forgetReadable(closed.fd);
  closed.server.destroy();
  await once(closed.server, 'close');
  const successors = await pairs(t, 3);
  const successor = successors.find(({ fd }) => fd === closed.fd);
  for (const { client } of [forgotten, other, ...successors]) client.write('x');
  await until('the other to be told', () => waits[2].told === 1);
  t.same([waits[0].told, waits[1].told], [0, 0]);
  if (successor === undefined) return;
  const wait = new Waiting();
  t.ok(awaitReadable(successor.fd, wait), 'one that has a descriptor of before is watched anew');
  await until('it to be told', () => wait.told === 1);
});

t.test('a fault in one ends that one, and the others are told', { skip }, async (t) => {
  const all = await pairs(t, 3);
  const fault = new Error('a fault');
  const faults: unknown[] = [];
  t.teardown(onInternalFault(({ error }) => void faults.push(error)));
  const waits = [new Waiting(), new Waiting(fault), new Waiting()];
  for (const [i, { fd }] of all.entries()) t.ok(awaitReadable(fd, waits[i] as Waiting));
  for (const { client } of all) client.write('x');
  await until('all to be told', () => waits.every(({ told }) => told === 1));
  t.same(
    waits.map(({ ended }) => ended),
    [false, true, false],
  );
  t.same(faults, [fault]);
});

t.test('what cannot be watched is said', { skip }, async (t) => {
  await pairs(t, 1);
  t.notOk(awaitReadable(-1, new Waiting()));
});
