/**
 * What may happen to files under a running proxy. Whatever it is, the policy in force is the old one whole or the new one
 * whole, the trouble is said, and the repair is taken.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { readWorkload } from '../../../lib/config/config.ts';
import type { PolicyIndex } from '../../../lib/policy/decide/policy-index.ts';
import type { PolicyDocument } from '../../../lib/policy/documents/types.ts';
import type { Problem } from '../../../lib/problem.ts';
import { Abandoned, type PolicyWorld, policyOnDisk } from '../../../lib/reload/policy-disk.ts';
import { createPolicySource, type RemovedDocuments } from '../../../lib/reload/policy-source.ts';
import { heldTime } from '../../support/clock.ts';
import { temporaryFolder } from '../../support/files.ts';
import { until } from '../../support/until.ts';

const times = { settleMs: 400, quietMs: 1_200, patienceMs: 4_000 };
/** Where what is gone would not count before any condition is given up: whatever happens does so without waiting for that. */
const neverQuiet = { ...times, quietMs: 3_600_000 };

function server(name: string, port: number, access = 'deny'): string {
  return `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: ${name} }
spec: { podSelector: {}, port: ${port}, accessPolicy: ${access} }
`;
}

interface Followed {
  readonly folder: string;
  /** Names in force, in the order of their ports. */
  inForce(): string;
  readonly swaps: string[];
  readonly failures: string[];
  readonly problems: Problem[];
  readonly removals: RemovedDocuments[];
  readonly overdue: (string | null)[];
  loads(): number;
  reload(): Promise<void>;
}

interface Over {
  readonly overdueMs?: number;
  readonly times?: typeof times;
  readonly path?: (folder: string) => string;
  /** What of the world of files on the disk is another. */
  readonly world?: (disk: PolicyWorld) => Partial<PolicyWorld>;
}

async function follow(
  t: Test,
  files: Record<string, string>,
  { path: pathIn, world, ...over }: Over = {},
): Promise<Followed> {
  const folder = join(temporaryFolder(t), 'policy');
  mkdirSync(folder);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const read = readWorkload({ SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated' });
  if (!read.ok) throw new Error('the environment of this test is faulty');
  const swaps: string[] = [];
  const failures: string[] = [];
  const problems: Problem[] = [];
  const removals: RemovedDocuments[] = [];
  const overdue: (string | null)[] = [];
  let loads = 0;
  const path = pathIn?.(folder) ?? folder;
  const disk = policyOnDisk({ paths: [path], onWatchError() {}, pollMs: 300 });
  const source = createPolicySource({
    workload: () => read.workload,
    swap: (_index: PolicyIndex, documents: readonly PolicyDocument[]) =>
      void swaps.push(
        documents
          .map(({ name }) => name)
          .sort()
          .join(),
      ),
    onProblems: (found) => void problems.push(...found.filter(({ severity }) => severity === 'error')),
    onLoaded: () => void loads++,
    onFailed: (reason) => void failures.push(reason),
    onRemoved: (removal) => void removals.push(removal),
    onWaiting: (from, ms) => void overdue.push(`${from} for ${ms} ms`),
    onOverdue: (waitingFor) => void overdue.push(waitingFor),
    log: { warn() {} },
    times,
    world: { ...disk, ...world?.(disk) },
    ...over,
    path,
  });
  t.teardown(() => source.stop());
  await source.start();
  return {
    folder,
    inForce: () => swaps.at(-1) ?? '',
    swaps,
    failures,
    problems,
    removals,
    overdue,
    loads: () => loads,
    reload: () => source.reload(),
  };
}

/** Renamed into place from outside the folder. */
function replace(folder: string, name: string, text: string): void {
  writeFileSync(`${folder}.draft`, text);
  renameSync(`${folder}.draft`, join(folder, name));
}

t.test('a file that is emptied, or misspelt, in whatever way, changes nothing and is an error', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1), 'b.yaml': server('b', 2) });
  const slip = (from: string, to: string): string => server('a', 1).replace(from, to);
  const rows: [title: string, text: string, code: string][] = [
    ['truncated', '', 'emptied'],
    ['blanks', ' \n\n', 'emptied'],
    ['a comment', '# later\n', 'emptied'],
    ['a separator', '---\n', 'emptied'],
    ['null', 'null\n', 'emptied'],
    ['an empty List', 'apiVersion: v1\nkind: List\nitems: []\n', 'emptied'],
    ['a List without items', 'apiVersion: v1\nkind: List\n', 'not-a-list'],
    ['another kind', 'apiVersion: v1\nkind: Service\nmetadata: {name: a}\n', 'emptied'],
    ['a slip in the kind', slip('kind: Server', 'kind: Sever'), 'near-miss'],
    ['a kind in lower case', slip('kind: Server', 'kind: server'), 'near-miss'],
    ['a slip in the group', slip('policy.linkerd.io', 'policy.linkerd.oi'), 'near-miss'],
    ['a version that there is not', slip('v1beta3', 'v1beta33'), 'unknown-version'],
    ['no kind', slip('kind: Server\n', ''), 'not-a-document'],
  ];
  for (const [title, text, code] of rows) {
    for (const how of ['in place', 'by a rename'] as const) {
      const before = f.failures.length;
      f.problems.length = 0;
      if (how === 'in place') writeFileSync(join(f.folder, 'a.yaml'), text);
      else replace(f.folder, 'a.yaml', text);
      await until(`${title}, ${how}: the refusal`, () => f.failures.length > before);
      t.equal(f.inForce(), 'a,b', `${title}, ${how}: the last good stays`);
      const found = f.problems.find((problem) => problem.code === code);
      t.match(found, { code, file: join(f.folder, 'a.yaml'), hint: /./ }, `${title}, ${how}: ${code}`);
      const loads = f.loads();
      replace(f.folder, 'a.yaml', server('a', 1));
      await until('the repair', () => f.loads() > loads);
    }
  }
  t.same(new Set(f.swaps), new Set(['a,b']));
  t.same(f.removals, []);
});

t.test('removal counts when it has settled, and says what is wider', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1), 'b.yaml': server('b', 2) });
  const removedAt = performance.now();
  rmSync(join(f.folder, 'b.yaml'));
  await until('the removal', () => f.removals.length === 1);
  t.equal(f.inForce(), 'a');
  t.ok(performance.now() - removedAt >= times.quietMs, 'not before the folder was quiet');
  t.match(f.removals, [
    {
      files: [join(f.folder, 'b.yaml')],
      documents: ['policy.linkerd.io/Server/default/b'],
      wider: [
        /^port 2: \/default\/all-unauthenticated in place of policy.linkerd.io\/server\/b: open to anybody from anywhere/,
      ],
    },
  ]);

  replace(f.folder, 'a.yaml', server('c', 3) + server('d', 4) + server('a', 1));
  await until('the new document', () => f.inForce() === 'a,c,d');
  const writtenAt = performance.now();
  writeFileSync(join(f.folder, 'a.yaml'), server('c', 3));
  await until('the file that was cut in place', () => f.inForce() === 'c');
  t.ok(performance.now() - writtenAt >= times.quietMs, 'perhaps it was being written');

  renameSync(join(f.folder, 'a.yaml'), join(f.folder, 'z.yaml'));
  const swaps = f.swaps.length;
  await until('the file by its other name', () => f.swaps.length > swaps);
  t.equal(f.inForce(), 'c');
  t.equal(f.removals.length, 2, 'nothing went');
});

t.test('a rename is meant as it is, at once', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) }, { times: neverQuiet });
  replace(f.folder, 'a.yaml', server('a', 1) + server('c', 3));
  await until('the new document', () => f.inForce() === 'a,c');
  replace(f.folder, 'a.yaml', server('c', 3));
  await until('the shorter file', () => f.removals.length === 1);
  t.equal(f.inForce(), 'c');
});

t.test('a file that is away for a moment was never gone', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1), 'b.yaml': server('b', 2) }, { times: neverQuiet });
  for (let i = 0; i < 3; i++) {
    renameSync(join(f.folder, 'b.yaml'), `${f.folder}.away`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    renameSync(`${f.folder}.away`, join(f.folder, 'b.yaml'));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  replace(f.folder, 'c.yaml', server('c', 3));
  await until('what came after', () => f.inForce() === 'a,b,c');
  t.same(f.swaps, ['a,b', 'a,b,c']);
  t.same(f.failures, []);
});

t.test('a volume that is swapped whole means what it says, at once, removals included', async (t) => {
  const folder = temporaryFolder(t);
  const f = await follow(t, {}, { times: neverQuiet });
  mkdirSync(join(f.folder, '..1'));
  mkdirSync(join(f.folder, '..2'));
  writeFileSync(join(f.folder, '..1', 'a.yaml'), server('a', 1));
  writeFileSync(join(f.folder, '..1', 'b.yaml'), server('b', 2));
  writeFileSync(join(f.folder, '..2', 'a.yaml'), server('a', 1));
  symlinkSync('..1', join(f.folder, '..data'));
  for (const name of ['a.yaml', 'b.yaml']) symlinkSync(`..data/${name}`, join(f.folder, name));
  await until('the volume', () => f.inForce() === 'a,b');
  symlinkSync('..2', join(folder, 'link'));
  rmSync(join(f.folder, 'b.yaml'));
  renameSync(join(folder, 'link'), join(f.folder, '..data'));
  await until('the swap', () => f.inForce() === 'a');
});

t.test('times of files mean nothing: a future, a past, a clock that was set back', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) });
  const inAnHour = new Date(Date.now() + 3_600_000);
  for (const [i, time] of [inAnHour, new Date(0), new Date('2200-01-01')].entries()) {
    writeFileSync(join(f.folder, 'a.yaml'), server('a', 1) + server(`n${i}`, 10));
    utimesSync(join(f.folder, 'a.yaml'), time, time);
    await until('the file', () => f.inForce() === `a,n${i}`);
  }
  t.same(f.failures, []);
});

t.test('a writer that pauses is waited for', async (t) => {
  const settling = { settleMs: 2_500, quietMs: 2_500, patienceMs: 60_000 };
  const f = await follow(t, { 'a.yaml': server('a', 1) + server('b', 2) }, { times: settling });
  const file = join(f.folder, 'a.yaml');
  writeFileSync(file, '');
  for (const part of [server('a', 1), server('b', 2), server('c', 3)]) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    writeFileSync(file, part, { flag: 'a' });
  }
  await until('the whole file', () => f.inForce() === 'a,b,c');
  t.same(f.swaps, ['a,b', 'a,b,c']);
  t.same(f.failures, []);
});

t.test('a writer that never ends is not waited for', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) });
  const file = join(f.folder, 'a.yaml');
  const writing = setInterval(() => writeFileSync(file, '# more\n', { flag: 'a' }), 50);
  t.teardown(() => clearInterval(writing));
  writeFileSync(file, server('d', 4), { flag: 'a' });
  await until('the file that is never at rest', () => f.inForce() === 'a,d', { timeoutMs: 15_000 });
});

t.test('what is no regular file is named, and blocks nothing', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) });
  const socket = createServer().listen(join(f.folder, 's.yaml'));
  t.teardown(() => socket.close());
  execFileSync('mkfifo', [join(f.folder, 'p.yaml')]);
  symlinkSync('/dev/zero', join(f.folder, 'z.yaml'));
  await until('the refusal', () => f.problems.length >= 3);
  const named = new Set(f.problems.map(({ file, code }) => `${code} ${file}`));
  t.same(
    [...named].sort(),
    ['p.yaml', 's.yaml', 'z.yaml'].map((name) => `unreadable ${join(f.folder, name)}`),
  );
  t.match(f.problems[0]?.message, /no regular file/);
  socket.close();
  for (const name of ['p.yaml', 'z.yaml']) rmSync(join(f.folder, name));
  rmSync(join(f.folder, 's.yaml'), { force: true });
  replace(f.folder, 'b.yaml', server('b', 2));
  await until('the repair', () => f.inForce() === 'a,b');
});

t.test('files that are too large are refused before they are read, and the repair does not wait', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) }, { times: { ...neverQuiet, patienceMs: 3_600_000 } });
  const big = join(f.folder, 'big.yaml');
  writeFileSync(big, '');
  truncateSync(big, 200 * 1024 * 1024);
  const before = process.memoryUsage().rss;
  await until('the refusal', () => f.problems.some(({ code }) => code === 'too-large'));
  t.ok(process.memoryUsage().rss - before < 100 * 1024 * 1024, 'no room is made for it');

  // Small enough to be read, too large to be parsed.
  replace(f.folder, 'big.yaml', `# x\n${'a: b\n'.repeat(4 * 1024 * 1024)}`);
  const failures = f.failures.length;
  await until('the other refusal', () => f.failures.length > failures);
  rmSync(big);
  replace(f.folder, 'b.yaml', server('b', 2));
  await until('the repair', () => f.inForce() === 'a,b');
});

t.test('a load that is under way is given up when its files change', async (t) => {
  const time = heldTime(Number.POSITIVE_INFINITY);
  const outcomes: ('under way' | 'ended' | 'given up')[] = [];
  let changed = (): void => {};
  const world = (disk: PolicyWorld): Partial<PolicyWorld> => ({
    ...time,
    // No event of its own: it would be unknown which load reads the slow file.
    watch: (onChange) => {
      changed = onChange;
    },
    async load(request, known) {
      const at = outcomes.push('under way') - 1;
      try {
        const load = await disk.load(request, known);
        outcomes[at] = 'ended';
        return load;
      } catch (error) {
        if (error instanceof Abandoned) outcomes[at] = 'given up';
        throw error;
      }
    },
  });
  const f = await follow(t, { 'a.yaml': server('a', 1) }, { world });
  // No ordinary text, of which the quick reader would be done too soon: it takes many seconds to parse.
  replace(f.folder, 'slow.yaml', `${'---\n'.repeat(800_000)}&a {}\n`);
  changed();
  await until('the slow load', () => outcomes.length === 2);
  // The slow file stays: nobody knows whether it has been read by now.
  time.pass(1_000);
  replace(f.folder, 'b.yaml', server('b', 2));
  changed();
  await until('the end of the slow load', () => outcomes[1] !== 'under way');
  t.equal(outcomes[1], 'given up');
  await until('the one after it', () => outcomes.length === 3);
  time.pass(1_000);
  rmSync(join(f.folder, 'slow.yaml'));
  changed();
  await until('the repair', () => f.inForce() === 'a,b');
  t.equal(f.loads(), 2, 'the ones with the slow file never ended');
  t.same(f.failures, []);
});

t.test('a wait for what is gone is told of at once, and is not overdue', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const time = heldTime(0);
  const files = { 'a.yaml': server('a', 1), 'b.yaml': server('b', 2) };
  const f = await follow(t, files, { overdueMs: 2_000, world: () => ({ ...time, watch() {} }) });
  rmSync(join(f.folder, 'b.yaml'));
  const reloading = f.reload();
  await until('the wait for what is gone', () => time.waitedFor);
  mock.timers.tick(10_000);
  t.equal(f.inForce(), 'a,b');
  time.mayGo(Number.POSITIVE_INFINITY);
  await reloading;
  t.match(f.overdue, [/b\.yaml for \d+ ms$/]);
  t.equal(f.overdue.length, 1, 'once, and nothing else');
  t.equal(f.inForce(), 'a');
});

t.test('links in a circle, permissions, a folder that is removed and made again', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) });
  symlinkSync('loop.yaml', join(f.folder, 'loop.yaml'));
  await until('the circle', () => f.problems.some(({ message }) => message.includes('circle')));
  rmSync(join(f.folder, 'loop.yaml'));
  await until('its end', () => f.loads() === 2);

  if (process.getuid?.() !== 0) {
    chmodSync(join(f.folder, 'a.yaml'), 0);
    await until('the lack of permission', () => f.problems.some(({ message }) => message.includes('permission')));
    chmodSync(join(f.folder, 'a.yaml'), 0o600);
    await until('the permission', () => f.loads() === 3);
  }

  const failures = f.failures.length;
  rmSync(f.folder, { recursive: true });
  await until('the folder that is gone', () => f.failures.length > failures);
  t.equal(f.inForce(), 'a');
  mkdirSync(f.folder);
  writeFileSync(join(f.folder, 'a.yaml'), server('a', 1) + server('n', 9));
  await until('the folder that is back', () => f.inForce() === 'a,n');
  t.ok(statSync(f.folder).isDirectory());
});

t.test('a file in whose place there is a folder without any is not taken away', async (t) => {
  const f = await follow(t, { 'a.yaml': server('a', 1) }, { path: (folder) => join(folder, 'a.yaml') });
  const path = join(f.folder, 'a.yaml');
  rmSync(path);
  mkdirSync(path);
  await until('the refusal', () => f.failures.some((reason) => reason.includes('is a folder')));
  t.same(f.swaps, ['a']);
  rmSync(path, { recursive: true });
  replace(f.folder, 'a.yaml', server('b', 1));
  await until('the repair', () => f.inForce() === 'b');
});
