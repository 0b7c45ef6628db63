/**
 * The loop that policy, credentials and the pod's facts share: without a disk, and by a clock that goes on when somebody
 * waits for it.
 */
import { mock } from 'node:test';
import t from 'tap';
import type { FileLook, Look } from '../../../lib/reload/look.ts';
import { type Reading, Reloader, type ReloaderOptions } from '../../../lib/reload/reloader.ts';
import type { World } from '../../../lib/reload/world.ts';

const times = { settleMs: 1_500, quietMs: 5_000, patienceMs: 10_000 };

/** Files by name, each with what it holds; what is to happen at a time happens while somebody waits for it. */
class FakeWorld implements World {
  ms = 0;
  readonly files = new Map<string, string>();
  /** Renamed into place. */
  readonly arrived = new Set<string>();
  generation = '';
  readonly #plan: { readonly atMs: number; readonly happen: () => void }[] = [];
  #writes = 0;
  #stamps = new Map<string, number>();
  #tell = (): void => {};

  nowMs(): number {
    return this.ms;
  }
  async delay(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const endMs = this.ms + ms;
    this.#plan.sort((a, b) => a.atMs - b.atMs);
    while ((this.#plan[0]?.atMs ?? Number.POSITIVE_INFINITY) <= endMs) {
      const next = this.#plan.shift();
      this.ms = Math.max(this.ms, next?.atMs ?? 0);
      next?.happen();
    }
    this.ms = endMs;
  }
  async look(): Promise<Look> {
    const files = new Map(
      [...this.files].map(([name, text]): [string, FileLook] => [name, this.#fileLook(name, text)]),
    );
    const stamp = JSON.stringify([this.generation, ...[...files].map(([name, file]) => [name, file.stamp])]);
    return { files, generation: this.generation, stamp, takenMs: this.ms };
  }
  watch(onChange: () => void): void {
    this.#tell = onChange;
  }
  whole(file: string): boolean {
    return this.arrived.has(file);
  }
  async stop(): Promise<void> {}

  /** Something happens so many milliseconds from the beginning. */
  at(atMs: number, happen: () => void): void {
    this.#plan.push({ atMs, happen });
  }
  write(name: string, text: string, how: 'in place' | 'renamed' = 'in place'): void {
    this.files.set(name, text);
    this.#stamps.set(name, ++this.#writes);
    if (how === 'renamed') this.arrived.add(name);
    else this.arrived.delete(name);
    this.#tell();
  }
  /** An event, of which a look shows nothing. */
  stir(): void {
    this.#tell();
  }
  remove(name: string): void {
    this.files.delete(name);
    this.arrived.delete(name);
    this.#tell();
  }
  #fileLook(name: string, text: string): FileLook {
    const stamp = `${this.#stamps.get(name)}`;
    return { stamp, inode: stamp, empty: text === '', link: false, generation: this.generation };
  }
}

interface Stage {
  readonly world: FakeWorld;
  readonly reloader: Reloader<string>;
  /** What was concluded, and at what time: `text@ms`. */
  readonly concluded: string[];
  readonly reads: (string | null)[];
  readonly errors: unknown[];
  readonly overdue: (string | null)[];
}

/** Follows lists of words, one a file; a word that is in force and gone is missed. */
function stage(over: Partial<ReloaderOptions<string>> = {}, files: Record<string, string> = { a: 'one two' }): Stage {
  const world = new FakeWorld();
  for (const [name, text] of Object.entries(files)) world.write(name, text);
  const concluded: string[] = [];
  const reads: (string | null)[] = [];
  const errors: unknown[] = [];
  const overdue: (string | null)[] = [];
  let inForce: string[] = [];
  const reloader = new Reloader<string>({
    world,
    first: 'at once',
    read: async (held) => {
      reads.push(held);
      return { kind: 'read', value: [...world.files.values()].join(' '), look: null };
    },
    judge(value, now, meant) {
      const words = value.split(' ').filter((word) => word !== '');
      const lost = inForce.filter((word) => !words.includes(word));
      const isMeant = [...now.files.keys()].every(meant) && now.files.size > 0;
      return {
        missing: lost.length === 0 || isMeant ? null : { what: lost.join(), from: 'a' },
        conclude() {
          inForce = words;
          concluded.push(`${value}@${world.ms}`);
        },
      };
    },
    onOverdue: (waitingFor) => void overdue.push(waitingFor),
    onError: (error) => void errors.push(error),
    times,
    ...over,
  });
  return { world, reloader, concluded, reads, errors, overdue };
}

/** A reader that waits until it is let go, or is told to give up. */
function hanging() {
  const readers: ((reading: Reading<string>) => void)[] = [];
  return {
    readers,
    read: () => new Promise<Reading<string>>((resolve) => readers.push(resolve)),
    abandon: () => readers.at(-1)?.({ kind: 'abandoned' }),
  };
}
const turns = async (): Promise<void> => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

t.test('when what files say is believed', async (t) => {
  interface Row {
    readonly name: string;
    readonly first?: 'settled';
    /** What happens before the second reload, and during it by the clock. */
    happen(world: FakeWorld): void;
    /** What comes into force by it, and when. */
    readonly inForce: readonly string[];
  }
  const writeOnAndOn = (world: FakeWorld, text: (ms: number) => string): void => {
    world.write('a', text(0));
    for (let ms = 100; ms <= 60_000; ms += 100) world.at(ms, () => world.write('a', text(ms)));
  };
  const rows: readonly Row[] = [
    { name: 'nothing changed: as before', happen() {}, inForce: ['one two@0'] },
    { name: 'renamed: at once', happen: (w) => w.write('a', 'one two three', 'renamed'), inForce: ['one two three@0'] },
    {
      name: 'in place: when it has settled',
      happen: (w) => w.write('a', 'one two three'),
      inForce: ['one two three@1500'],
    },
    {
      name: 'in pieces: counted from the last, and never a part',
      happen(w) {
        w.write('a', 'one two thr');
        w.at(700, () => w.write('a', 'one two three'));
        w.at(1_400, () => w.write('a', 'one two three four'));
      },
      inForce: ['one two three four@2900'],
    },
    {
      name: 'a volume swapped whole: at once, what is gone included',
      happen(w) {
        w.write('a', 'one');
        w.generation = '..2';
      },
      inForce: ['one@0'],
    },
    { name: 'renamed, with a word less: meant', happen: (w) => w.write('a', 'one', 'renamed'), inForce: ['one@0'] },
    {
      name: 'in place, with a word less: when it has been quiet',
      happen: (w) => w.write('a', 'one'),
      inForce: ['one@5000'],
    },
    { name: 'a file that is gone: when it has been quiet', happen: (w) => w.remove('a'), inForce: ['@5000'] },
    {
      name: 'a file that comes back was never gone',
      happen(w) {
        w.remove('a');
        w.at(4_000, () => w.write('a', 'one two three', 'renamed'));
      },
      inForce: ['one two three@4000'],
    },
    {
      name: 'never at rest: read as it is after a while',
      happen: (w) => writeOnAndOn(w, (ms) => `one two w${ms}`),
      inForce: ['one two w10000@10000'],
    },
    {
      name: 'never at rest, with a word less: after three times the quiet',
      happen: (w) => writeOnAndOn(w, () => 'two'),
      inForce: ['two@25000'],
    },
    {
      name: 'a word less late in a long reload: the quiet is counted from its going',
      happen(w) {
        w.write('a', 'one two w0');
        for (let ms = 1_000; ms < 9_000; ms += 1_000) w.at(ms, () => w.write('a', `one two w${ms}`));
        w.at(9_000, () => w.write('a', 'one'));
        w.at(13_000, () => w.write('a', 'one'));
      },
      inForce: ['one@18000'],
    },
    {
      name: 'of two files, each by itself',
      happen(w) {
        w.write('a', 'one two three', 'renamed');
        w.write('b', 'four');
      },
      inForce: ['one two three four@1500'],
    },
  ];
  for (const { name, happen, inForce } of rows) {
    const { world, reloader, concluded } = stage();
    await reloader.reload();
    t.same(concluded.splice(0), ['one two@0'], `${name}: the first load waits for nobody`);
    happen(world);
    await reloader.reload();
    t.same(concluded, inForce, name);
    t.same(reloader.state, { kind: 'resting' }, name);
    await reloader.stop();
  }
  const { reloader, concluded } = stage({ first: 'settled' });
  await reloader.reload();
  t.same(concluded, ['one two@1500'], 'where something is in force, the first load waits, too');
});

t.test('what is held while something is missing is offered to the reader', async (t) => {
  const { world, reloader, reads } = stage();
  await reloader.reload();
  world.write('a', 'one');
  await reloader.reload();
  t.same(new Set(reads), new Set([null, 'one']));
});

t.test('files that change while they are read are read again', async (t) => {
  const { world, reloader, concluded } = stage({
    read: async () => {
      const value = world.files.get('a') ?? '';
      // On both sides of a swap.
      if (value === 'one two') world.write('a', 'one two three', 'renamed');
      return { kind: 'read', value, look: null };
    },
  });
  await reloader.reload();
  t.same(concluded, ['one two three@0']);
});

t.test('a reader that looks for itself is held to its own look', async (t) => {
  const values = ['of files that were', 'of files that are'];
  const { world, reloader, concluded } = stage({
    read: async () => {
      const look = await world.look();
      const value = values.shift() ?? '';
      return { kind: 'read', value, look: value.endsWith('were') ? { ...look, stamp: 'another' } : look };
    },
  });
  await reloader.reload();
  t.same(concluded, ['of files that are@0']);
});

t.test('a file that was made in place is not believed where its first write is told while it is read', async (t) => {
  const { world, reloader, concluded } = stage({
    read: async () => {
      world.arrived.clear();
      return { kind: 'read', value: world.files.get('a') ?? '', look: null };
    },
  });
  await reloader.reload();
  world.write('a', 'one two half', 'renamed');
  world.at(100, () => world.write('a', 'one two whole'));
  await reloader.reload();
  t.same(concluded, ['one two@0', 'one two whole@1700']);
});

t.test('what is unchanged is not judged, and from then on writers are waited for', async (t) => {
  let known = true;
  const { world, reloader, concluded } = stage({
    read: async () => (known ? { kind: 'unchanged' } : { kind: 'read', value: 'x', look: null }),
  });
  await reloader.reload();
  t.same(concluded, []);
  known = false;
  world.write('a', 'written in place');
  await reloader.reload();
  t.same(concluded, ['x@1500']);
});

t.test('a volume that was swapped is whole once', async (t) => {
  const { world, reloader, concluded } = stage();
  world.generation = '..1';
  await reloader.reload();
  world.write('a', 'one two three');
  await reloader.reload();
  t.same(concluded, ['one two@0', 'one two three@1500']);
});

t.test('whatever is told ends the quiet', async (t) => {
  const rows: [name: string, tell: (on: Stage) => void][] = [
    ['an event, of which a look shows nothing', ({ world }) => world.stir()],
    ['a request', ({ reloader }) => void reloader.reload()],
  ];
  for (const [name, tell] of rows) {
    const on = stage();
    on.reloader.watch();
    await on.reloader.reload();
    on.world.remove('a');
    on.world.at(4_000, () => tell(on));
    await on.reloader.reload();
    t.same(on.concluded.slice(0, 2), ['one two@0', '@9000'], name);
    await on.reloader.stop();
  }
});

t.test('one at a time, and one more for whatever came meanwhile', async (t) => {
  let under = 0;
  let most = 0;
  const { reloader, reads, concluded } = stage({
    read: async () => {
      most = Math.max(most, ++under);
      await new Promise((resolve) => setImmediate(resolve));
      under--;
      reads.push(null);
      return { kind: 'read', value: 'x', look: null };
    },
  });
  await Promise.all(Array.from({ length: 20 }, () => reloader.reload()));
  t.equal(most, 1);
  t.equal(reads.length, 2);
  t.equal(concluded.length, 2);
});

t.test('a reading that nobody needs any more is given up, where it is worth it', async (t) => {
  const rows: [name: string, sinceMs: number, change: 'another' | 'none', readings: number][] = [
    ['just begun', 900, 'another', 1],
    ['long since begun', 1_100, 'another', 2],
    ['long since begun, of files that are as they were', 1_100, 'none', 1],
    ['when patience is over', 10_000, 'another', 1],
  ];
  for (const [name, sinceMs, change, readings] of rows) {
    const { read, abandon, readers } = hanging();
    const { world, reloader } = stage({ read, abandon });
    reloader.watch();
    void reloader.reload();
    await turns();
    world.ms += sinceMs;
    if (change === 'another') world.write('a', 'one two', 'renamed');
    else world.stir();
    await turns();
    t.equal(readers.length, readings, name);
    await reloader.stop();
  }
});

t.test('a reload that does not end is told, by what it waits for, and once more when it has ended', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const { read, readers } = hanging();
  const { reloader, overdue, concluded } = stage({ read });
  const reloading = reloader.reload();
  await turns();
  mock.timers.tick(14_999);
  t.same(overdue, []);
  mock.timers.tick(1);
  t.same(overdue, ['the files to be read']);
  mock.timers.tick(100_000);
  t.equal(overdue.length, 1, 'once');
  readers[0]?.({ kind: 'read', value: 'x', look: null });
  await reloading;
  t.same(overdue, ['the files to be read', null]);
  t.same(concluded, ['x@0']);
});

t.test('while what is missing is looked for once more, it is what is waited for', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  for (const [tookMs, waitedFor] of [
    [0, 'what is gone from a to count as removed'],
    [999, 'what is gone from a to count as removed'],
    [1_000, 'the files to be read'],
  ] as const) {
    const { read, readers } = hanging();
    const { world, reloader, overdue, concluded } = stage({
      read: (held) => (held === null ? Promise.resolve({ kind: 'read', value: text(), look: null }) : read()),
    });
    const text = (): string => world.files.get('a') ?? '';
    await reloader.reload();
    world.write('a', 'one');
    const reloading = reloader.reload();
    while (readers.length === 0) await turns();
    world.ms += tookMs;
    mock.timers.tick(15_000);
    t.same(overdue, [waitedFor], `${tookMs} ms`);
    world.ms += 20_000;
    readers[0]?.({ kind: 'read', value: text(), look: null });
    await reloading;
    t.same(concluded.at(-1)?.split('@')[0], 'one', `${tookMs} ms`);
    t.same(overdue, [waitedFor, null], `${tookMs} ms`);
  }
});

t.test('events come in bursts: looked at once, counted from the first', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const { world, reloader, reads } = stage();
  reloader.watch();
  for (let i = 0; i < 8; i++) {
    world.write('a', `one two ${i}`, 'renamed');
    mock.timers.tick(6);
    await turns();
  }
  t.equal(reads.length, 0);
  mock.timers.tick(2);
  await turns();
  t.equal(reads.length, 1, '50 ms after the first, though the last is younger');
});

t.test('what fails by no fault of the files is tried again, ever later', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let faults = 7;
  const { reloader, errors, concluded } = stage({
    retryMs: 1_000,
    read: async () => {
      if (faults-- > 0) throw new Error('out of memory');
      return { kind: 'read', value: 'x', look: null };
    },
  });
  await reloader.reload();
  for (const [i, waitMs] of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000].entries()) {
    t.equal(errors.length, i + 1);
    mock.timers.tick(waitMs - 1);
    await turns();
    t.equal(errors.length, i + 1, `not before ${waitMs} ms`);
    mock.timers.tick(1);
    await turns();
  }
  t.same(concluded, ['x@0']);
  faults = 1;
  await reloader.reload();
  t.equal(errors.length, 8);
  mock.timers.tick(1_000);
  await turns();
  t.equal(concluded.length, 2, 'counted anew after each success');
  await reloader.stop();
});

t.test('stopped, at whatever moment: nothing is concluded any more, and nothing is waited for', async (t) => {
  const rows: [name: string, begin: (stage: Stage) => void | Promise<void>][] = [
    ['before it began', () => {}],
    ['while it reads, without end', ({ reloader }) => void reloader.reload()],
    [
      'after it was read',
      async ({ reloader }) => {
        void reloader.reload();
        await turns();
      },
    ],
  ];
  for (const [name, begin] of rows) {
    const { read, readers } = hanging();
    const on = stage({ read });
    on.reloader.watch();
    await begin(on);
    await on.reloader.stop();
    for (const each of readers) each({ kind: 'read', value: 'x', look: null });
    on.world.write('a', 'late', 'renamed');
    await on.reloader.reload();
    await turns();
    t.same([on.concluded, on.errors, on.overdue], [[], [], []], name);
    t.same(on.reloader.state, { kind: 'stopped' }, name);
  }
});

t.test('stopped while it concludes: what becomes of that is not told', async (t) => {
  let fail = (_error: Error): void => {};
  const { reloader, errors } = stage({
    judge: () => ({
      missing: null,
      conclude: () =>
        new Promise<void>((_resolve, reject) => {
          fail = reject;
        }),
    }),
  });
  void reloader.reload();
  await turns();
  t.same(reloader.state, { kind: 'concluding' });
  const stopping = reloader.stop();
  fail(new Error('the thread was ended'));
  await stopping;
  t.same(errors, []);
});
