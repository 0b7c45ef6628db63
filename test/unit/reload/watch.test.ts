import { mkdirSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { watchPaths } from '../../../lib/reload/watch.ts';
import { until } from '../../support/until.ts';

/** Counts calls; waits for one that comes after now. */
function counter(t: { teardown(clean: () => unknown): void }, paths: string[], pollMs: number) {
  let changes = 0;
  const watcher = watchPaths({
    paths,
    pollMs,
    onChange: () => void changes++,
    onError: (error) => {
      throw error;
    },
  });
  t.teardown(() => watcher.close());
  return {
    /** @param everyMs how often it happens again until it is seen; once where it is not given. */
    async after(what: string, act: () => void, everyMs = Number.POSITIVE_INFINITY): Promise<void> {
      const before = changes;
      act();
      const again = everyMs === Number.POSITIVE_INFINITY ? undefined : setInterval(act, everyMs);
      try {
        await until(what, () => changes > before, { timeoutMs: 10_000 });
      } finally {
        // Before the test is over, and its folder with it.
        clearInterval(again);
      }
    },
  };
}

const neverPoll = 3_600_000;

t.test('a ConfigMap swap is seen by the watch of the folder and of the file, without polling', async (t) => {
  for (const watched of ['.', 'p.yaml']) {
    const volume = t.testdir({ '..1': { 'p.yaml': 'one' }, '..2': { 'p.yaml': 'two' } });
    symlinkSync('..1', join(volume, '..data'));
    symlinkSync('..data/p.yaml', join(volume, 'p.yaml'));
    const watch = counter(t, [join(volume, watched)], neverPoll);
    let generation = 0;
    const swap = (): void => {
      symlinkSync(`..${(generation++ % 2) + 1}`, join(volume, '..data_tmp'));
      renameSync(join(volume, '..data_tmp'), join(volume, '..data'));
    };
    await watch.after(`the swap, watching ${watched}`, swap, 250);
  }
});

t.test("an editor's rename over the file", async (t) => {
  const folder = t.testdir({ 'p.yaml': 'one' });
  const watch = counter(t, [join(folder, 'p.yaml')], neverPoll);
  const save = (): void => {
    writeFileSync(join(folder, '.p.yaml.tmp'), `two ${Date.now()}`);
    renameSync(join(folder, '.p.yaml.tmp'), join(folder, 'p.yaml'));
  };
  await watch.after('the rename', save, 250);
});

t.test('the poll sees what no event tells: an edit of the file that a link leads to', async (t) => {
  const folder = t.testdir({ watched: {}, elsewhere: { 'p.yaml': 'one' } });
  symlinkSync('../elsewhere/p.yaml', join(folder, 'watched', 'p.yaml'));
  const watch = counter(t, [join(folder, 'watched')], 20);
  let second = 1;
  const edit = (): void => utimesSync(join(folder, 'elsewhere', 'p.yaml'), second, second++);
  await watch.after('the edit behind the link', edit, 250);
});

t.test('a folder that does not exist yet', async (t) => {
  const folder = t.testdir({});
  const watch = counter(t, [join(folder, 'later')], 20);
  await watch.after('its making', () => mkdirSync(join(folder, 'later')));
  await watch.after('a file in it', () => writeFileSync(join(folder, 'later', 'p.yaml'), 'x'));
});
