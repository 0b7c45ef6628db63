import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { parseIp } from '../../../lib/ip.ts';
import { type LiveConnection, LiveConnections, type Spareable } from '../../../lib/proxy/fairness/live-connections.ts';
import { Sources } from '../../../lib/proxy/fairness/sources.ts';
import { type Limits, shareOf } from '../../../lib/proxy/limits.ts';
import { countMemory, forgetCount, SharedCount, SharedWanted } from '../../../lib/shared/counts.ts';
import { SharedSources, sourceMemory } from '../../../lib/shared/sources.ts';
import { until, within } from '../../support/until.ts';
import type { Counting } from './counting-thread.ts';

const key = { hi: 77, lo: -3 };

t.test('four threads count together what each of them has', async (t) => {
  const threads = 4;
  const rows: readonly (readonly [name: string, askers: number, most: number])[] = [
    ['a few sources, and the bound is met all the time', 3, 40],
    ['many sources, that come and go', 400, 100_000],
  ];
  for (const [name, sources, most] of rows) {
    // One more, who only looks.
    const memory = { count: countMemory(threads), sources: sourceMemory(key, threads + 1, 1000) };
    const admitted = new Int32Array(new SharedArrayBuffer(8));
    const bySource = new Int32Array(new SharedArrayBuffer(8 * sources));
    const askers = Array.from({ length: sources }, (_, i) => i * 7);
    const workers = Array.from({ length: threads }, (_, worker) => {
      const workerData: Counting = { worker, ...memory, askers, rounds: 60_000, most, admitted, bySource };
      return new Worker(new URL('./counting-thread.ts', import.meta.url), { workerData });
    });
    await within('the threads', 20_000, Promise.all(workers.map((worker) => once(worker, 'exit'))));
    const table = new SharedSources(memory.sources, threads);
    const open = () => askers.map((asker) => openOf(table, asker));
    const counts = new Int32Array(memory.count);
    t.same(
      open(),
      askers.map((_, i) => bySource[i * 2]),
      `${name}: by source`,
    );
    t.equal(
      counts.reduce((sum, own) => sum + own, 0),
      admitted[0],
      'in all',
    );
    t.ok((admitted[1] as number) <= most, 'never more than the bound');
    t.ok(
      askers.every((_, i) => (bySource[i * 2 + 1] as number) <= most / 4),
      'nor of one source',
    );
    for (let worker = 0; worker < threads; worker++) {
      table.forget(worker);
      forgetCount(memory.count, worker);
    }
    t.ok(
      open().every((own) => own === 0),
      'of workers that are gone nothing is left',
    );
    t.ok(counts.every((own) => own === 0));
  }
});

/** As a worker sees it that has no connection. */
function openOf(table: SharedSources, asker: number): number {
  const source = table.of(asker);
  source.add();
  const open = source.open - 1;
  source.remove();
  return open;
}

t.test('a source without a slot is counted by each worker as if the others had as many', async (t) => {
  const memory = sourceMemory(key, 3, 1);
  const table = new SharedSources(memory, 0);
  const all = Array.from({ length: 1500 }, (_, i) => table.of(i));
  for (const source of all) source.add();
  const counted = all.map(({ open }) => open);
  t.ok(counted.includes(3), 'some have found none');
  t.ok(counted.includes(1), 'and most have');
  for (const source of all) source.remove();
  const late = table.of(99_999);
  late.add();
  t.equal(late.open, 1, 'there is room again');
});

class Connection implements LiveConnection {
  rosterPlace = -1;
  line = null;
  earlier = null;
  later = null;
  source = null;
  isInternal = false;
  readonly isStranger = true;
  weight = 0;
  readonly ip;
  state: Spareable = { kind: 'busy' };
  ended = false;
  readonly #live: LiveConnections;

  constructor(live: LiveConnections, address: string) {
    const ip = parseIp(address);
    if (ip === undefined) throw new Error(address);
    this.ip = ip;
    this.#live = live;
  }

  spareable(): Spareable {
    return this.state;
  }
  sweep(): void {}
  recheck(): 'done' {
    return 'done';
  }
  announceDrain(): void {}
  drain(): void {}
  destroy(): void {
    this.ended = true;
    this.#live.remove(this);
  }
}

t.test('limits on connections hold over two workers, and one makes room for the other', async (t) => {
  const memory = {
    count: countMemory(2),
    wanted: countMemory(2),
    sources: sourceMemory(key, 2, 8),
  };
  const limits = {
    maxConnections: 8,
    maxConnectionsPerClient: 6,
    maxConnectionBytes: 2 ** 30,
    maxDetecting: 100,
    maxHandshakes: 100,
  };
  const reached: string[] = [];
  const recorder = { limitReached: (limit: string) => void reached.push(limit) };
  const workers = [0, 1].map((worker) => {
    const table = new SharedSources(memory.sources, worker);
    return new LiveConnections(limits, recorder, {
      connections: new SharedCount(memory.count, worker),
      sources: new Sources((asker) => table.of(asker)),
      wanted: new SharedWanted(memory.wanted, worker),
    });
  }) as [LiveConnections, LiveConnections];
  t.teardown(() => workers.forEach((live) => void live.close()));
  const admit = (worker: 0 | 1, address: string): Connection | null => {
    const connection = new Connection(workers[worker], address);
    if (!workers[worker].admit(connection)) return null;
    workers[worker].settled(connection);
    return connection;
  };
  const mine = [0, 1, 0, 1, 0, 1].map((worker) => admit(worker as 0 | 1, '127.0.0.1'));
  t.notOk(mine.includes(null), 'six of one source, over both');
  t.equal(admit(0, '127.0.0.1'), null, 'and no seventh');
  t.equal(admit(1, '127.0.0.1'), null, 'wherever');
  t.ok(admit(1, '127.0.0.2'));
  t.ok(admit(1, '127.0.0.3'));
  t.equal(admit(1, '127.0.0.4'), null, 'eight in all');
  t.same(reached, ['max_connections_per_client', 'max_connections_per_client', 'max_connections']);

  const idle = mine[0] as Connection;
  idle.state = { kind: 'idle', sinceMs: 0 };
  t.equal(admit(1, '127.0.0.4'), null, 'its own are all busy');
  await until('the other worker has made room', () => idle.ended);
  t.ok(admit(1, '127.0.0.4'), 'for the next that asks');
  (mine[1] as Connection).destroy();
  t.ok(admit(0, '127.0.0.1'), 'what has ended in one worker is room in the other');
});

t.test("what is not counted together is divided, and nobody's part is nothing", async (t) => {
  const limits = {
    maxConnections: 100,
    maxConnectionsPerClient: 50,
    maxConnectionBytes: 4000,
    maxDetecting: 10,
    maxHandshakes: 3,
    maxPendingConnects: 1,
    maxInFlight: 100,
    maxHeaderBytes: 65_536,
    maxBufferedBytes: 8 * 1024 * 1024,
  } as Limits;
  t.same(shareOf(limits, 1), limits);
  t.match(shareOf(limits, 4), {
    maxConnections: 100,
    maxConnectionsPerClient: 50,
    maxDetecting: 2,
    maxHandshakes: 1,
    maxPendingConnects: 1,
    maxInFlight: 100,
    maxBufferedBytes: 2 * 1024 * 1024,
  });
  t.equal(shareOf({ ...limits, maxBufferedBytes: 100_000 }, 4).maxBufferedBytes, 65_536, 'a whole head');
  t.equal(shareOf({ ...limits, maxBufferedBytes: 1000 }, 4).maxBufferedBytes, 1000, 'never more than in all');
});
