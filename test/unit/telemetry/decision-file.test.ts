import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { DecisionFile } from '../../../lib/telemetry/decision-file.ts';
import { temporaryFolder } from '../../support/files.ts';
import { until } from '../../support/until.ts';
import { memoryLog } from './fixtures.ts';

/** The file of decisions in trouble: full, moved away, not to be written. Nobody waits, nothing grows, and it is said. */
t.setTimeout(360_000);

interface Written {
  readonly file: DecisionFile;
  /** Of the log. */
  readonly said: () => Record<string, unknown>[];
  readonly dropped: () => number;
}

function writing(t: Test, path: string, maxBytes = 1024 * 1024, keep = 2): Written {
  const { log, lines } = memoryLog();
  let dropped = 0;
  const onDropped = (count: number): void => {
    dropped += count;
  };
  const file = new DecisionFile({ path, maxBytes, keep, log: log.logger, onDropped });
  t.teardown(() => file.close());
  return { file, said: () => lines.map((line) => JSON.parse(line)), dropped: () => dropped };
}

const line = (i: number): string => `{"i":${String(i).padStart(95, ' ')}}\n`;
const lineBytes = line(0).length;

function read(path: string): number[] {
  return existsSync(path) ? parsed(readFileSync(path, 'utf8')) : [];
}

/** Of a file that is being written, and may be moved away at any moment: its whole lines. */
function readSoFar(path: string): number[] {
  try {
    const text = readFileSync(path, 'utf8');
    return parsed(text.slice(0, text.lastIndexOf('\n') + 1));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return [];
  }
}

function parsed(text: string): number[] {
  return text
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => JSON.parse(text).i ?? -JSON.parse(text).lost);
}

t.test('the number of files that may be kept costs nothing', async (t) => {
  const path = join(temporaryFolder(t), 'decisions');
  const { file } = writing(t, path, 10 * lineBytes, 1_000_000_000);
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 10; i++) file.write(line(round * 10 + i));
    await until('the lines to be written', () => readSoFar(path).at(-1) === round * 10 + 9);
  }
  t.same(
    [`${path}.2`, `${path}.1`, path].map((each) => read(each).length),
    [10, 10, 10],
  );
});

t.test('a full file is replaced, and so many are kept', async (t) => {
  const path = join(temporaryFolder(t), 'decisions');
  const { file, said } = writing(t, path, 1000 * lineBytes);
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 1000; i++) file.write(line(round * 1000 + i));
    const last = round * 1000 + 999;
    await until('the lines to be written', () => readSoFar(path).at(-1) === last);
  }
  await file.close();
  t.equal(statSync(path).mode & 0o777, 0o600);
  const kept = [`${path}.2`, `${path}.1`, path].map(read);
  t.notOk(existsSync(`${path}.3`));
  const all = kept.flat();
  t.same(
    all,
    Array.from(all, (_, i) => (all[0] ?? 0) + i),
    'no line is lost or half',
  );
  t.equal(all.at(-1), 4999);
  for (const part of kept) t.ok(part.length <= 2000, 'none is much larger than it may be');
  t.same(said(), []);
});

t.test('a pipe that nobody reads any more, with a file in its place', async (t) => {
  const path = join(temporaryFolder(t), 'decisions');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const { file, dropped } = writing(t, path);
  file.write(line(1));
  await until('the first line', () => bytesOf(reader) === lineBytes);
  closeSync(reader);
  rmSync(path);
  // More than may wait: that it is lost is the first that the pipe does not take.
  file.write('-'.repeat(5 * 1024 * 1024), 3);
  let i = 1;
  await until('a line in the file', () => {
    file.write(line(++i));
    return readSoFar(path).length > 0;
  });
  await file.close();
  const lines = read(path);
  t.equal(lines.at(-1), i);
  t.equal(
    lines.filter((each) => each < 0).reduce((sum, each) => sum - each, 0),
    dropped(),
    'what is lost is said',
  );
});

/** That a pipe has; none where there is nothing in it yet. */
function bytesOf(pipe: number): number {
  try {
    return readSync(pipe, Buffer.alloc(2 * lineBytes));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    return 0;
  }
}

t.test('what others do to the file', async (t) => {
  const folder = temporaryFolder(t);
  const rows: readonly (readonly [name: string, act: (path: string) => void])[] = [
    ['moved away', (path) => renameSync(path, `${path}.moved`)],
    ['removed', (path) => rmSync(path)],
    [
      'replaced',
      (path) => {
        renameSync(path, `${path}.moved`);
        writeFileSync(path, '');
      },
    ],
    [
      'moved away, and the clock set back',
      (path) => {
        const { now } = Date;
        Date.now = () => now() - 3_600_000;
        t.teardown(() => {
          Date.now = now;
        });
        renameSync(path, `${path}.moved`);
      },
    ],
  ];
  for (const [name, act] of rows) {
    const path = join(folder, name);
    const { file } = writing(t, path);
    file.write(line(1));
    await until('the first line', () => readSoFar(path).length === 1);
    act(path);
    let i = 1;
    await until('a line in the new file', () => {
      file.write(line(++i));
      return readSoFar(path).length > 0;
    });
    await file.close();
    t.equal(read(path).at(-1), i, name);
  }
});

t.test('a full file that cannot be moved away does not grow', async (t) => {
  const path = join(temporaryFolder(t), 'decisions');
  for (const taken of [1, 2]) mkdirSync(`${path}.${taken}/taken`, { recursive: true });
  const { file, said } = writing(t, path, 10 * lineBytes);
  for (let i = 0; i < 10; i++) file.write(line(i));
  await until('a full file', () => read(path).length === 10);
  for (let i = 10; i < 20; i++) file.write(line(i));
  await until('a line of the log', () => said().length > 0);
  // Which tries once more.
  await file.close();
  t.equal(statSync(path).size, 10 * lineBytes);
  t.match(said(), [{ msg: 'Decisions cannot be recorded' }]);
});

t.test("a file that is there keeps its mode, and one that is made is its user's alone", async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'decisions');
  writeFileSync(path, '');
  chmodSync(path, 0o640);
  const { file } = writing(t, path, lineBytes, 2);
  for (let i = 0; i < 2; i++) {
    file.write(line(i));
    await until(`line ${i}`, () => read(path).includes(i));
  }
  const modes = [`${path}.1`, path].map((each) => (statSync(each).mode & 0o777).toString(8));
  t.same(modes, ['640', '600']);
});

t.test('half a line of before stays alone', async (t) => {
  const path = join(temporaryFolder(t), 'decisions');
  writeFileSync(path, `${line(1)}{"i":`);
  const { file } = writing(t, path);
  file.write(line(2));
  await file.close();
  t.equal(readFileSync(path, 'utf8'), `${line(1)}{"i":\n${line(2)}`);
});

t.test('what cannot be written waits, within bounds, and is said once', async (t) => {
  const folder = temporaryFolder(t);
  const absent = join(folder, 'absent', 'decisions');
  const rows: readonly (readonly [path: string, errno: string, mend: (() => void) | null])[] = [
    [absent, 'ENOENT', () => mkdirSync(join(folder, 'absent'))],
    [folder, 'EISDIR', null],
    ['/dev/full', 'ENOSPC', null],
  ];
  for (const [path, errno, mend] of rows) {
    const { file, said, dropped } = writing(t, path, 1024 * 1024 * 1024);
    const before = process.memoryUsage().external + process.memoryUsage().heapUsed;
    for (let i = 0; i < 100_000; i++) file.write(line(i));
    await until('the log to say so', () => said().length > 0);
    for (let i = 0; i < 100_000; i++) file.write(line(i));
    const grown = process.memoryUsage().external + process.memoryUsage().heapUsed - before;
    t.ok(grown < 100 * 1024 * 1024, `${path}: ${grown} bytes of memory`);
    t.ok(dropped() > 100_000, `${path}: ${dropped()} dropped`);
    t.match(said(), [
      { level: 'warn', code: 'decisions-not-written', file: path, errno, msg: 'Decisions cannot be recorded' },
    ]);
    if (mend === null) continue;
    mend();
    await until('the record to go on', () => said().length === 2);
    t.match(said()[1], { level: 'info', msg: 'Decisions are recorded again' });
    const lines = read(path);
    t.equal(
      lines.filter((i) => i < 0).reduce((sum, lost) => sum - lost, 0),
      dropped(),
      'what is lost is said in the record',
    );
    t.equal(lines.filter((i) => i >= 0).length, 200_000 - dropped());
  }
});

const isRoot = process.getuid?.() === 0;

t.test('a disk that is full, and has room again', { skip: !isRoot && 'mounting takes root' }, async (t) => {
  const folder = temporaryFolder(t);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', folder]);
  t.teardown(() => execFileSync('umount', ['-l', folder]));
  const path = join(folder, 'decisions');
  const ballast = join(folder, 'ballast');
  const rows: readonly (readonly [name: string, makeRoom: () => void])[] = [
    ['another file goes', () => rmSync(ballast)],
    ['the file itself goes', () => rmSync(path)],
  ];
  for (const [name, makeRoom] of rows) {
    writeFileSync(ballast, Buffer.alloc(name.startsWith('another') ? 200 * 1024 : 0));
    const { file, said, dropped } = writing(t, path);
    let i = 0;
    await until('the disk to be full', () => {
      for (let j = 0; j < 100; j++) file.write(line(i++));
      return said().length > 0;
    });
    t.match(said()[0], { errno: 'ENOSPC' }, name);
    makeRoom();
    await until('the record to go on', () => said().length === 2);
    await file.close();
    const lines = read(path);
    t.equal(lines.filter((each) => each >= 0).at(-1), i - 1, `${name}: the last is there`);
    const lost = lines.filter((each) => each < 0).reduce((sum, each) => sum - each, 0);
    t.equal(lost, dropped(), `${name}: no half line, and what is lost is said`);
    rmSync(path);
  }
});
