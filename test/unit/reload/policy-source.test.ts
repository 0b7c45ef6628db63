import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { readWorkload } from '../../../lib/config/config.ts';
import type { PolicyDocument } from '../../../lib/policy/documents/types.ts';
import type { Workload } from '../../../lib/policy/workload.ts';
import type { Problem } from '../../../lib/problem.ts';
import { loadPolicy } from '../../../lib/reload/load.ts';
import { lookNow } from '../../../lib/reload/look.ts';
import { createPolicySource, type LoadedPolicy, type PolicySource } from '../../../lib/reload/policy-source.ts';
import type { Times } from '../../../lib/reload/settling.ts';
import { until } from '../../support/until.ts';

const neverPoll = 3_600_000;

function workload(): Workload {
  const read = readWorkload({ SALLYPORT_POD_LABELS: 'app=web', SALLYPORT_POD_IPS: '10.0.0.7' });
  if (!read.ok) throw new Error('the environment of this test is faulty');
  return read.workload;
}

function server(name: string, port = 8080, extra = ''): string {
  return `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: ${name} }
spec:
  podSelector: { matchLabels: { app: web } }
  port: ${port}
${extra}`;
}

interface Seen {
  readonly source: PolicySource;
  /** Names of the documents of each swap, in order. */
  readonly swaps: string[][];
  readonly loads: LoadedPolicy[];
  readonly failures: string[];
  /** Codes of each report. */
  readonly problems: string[][];
}

function follow(
  t: { teardown(clean: () => unknown): void },
  path: string | null,
  options: {
    pollMs?: number;
    retryMs?: number;
    times?: Times;
    workload?: () => Workload;
    beforeSwap?: () => void;
  } = {},
): Seen {
  const seen = {
    swaps: [] as string[][],
    loads: [] as Seen['loads'],
    failures: [] as string[],
    problems: [] as string[][],
  };
  const source = createPolicySource({
    path,
    workload: options.workload ?? workload,
    swap: (_index, documents: readonly PolicyDocument[]) => {
      options.beforeSwap?.();
      seen.swaps.push(documents.map(({ name }) => name));
    },
    onProblems: (problems: readonly Problem[]) => void seen.problems.push(problems.map(({ code }) => code)),
    onLoaded: (load) => void seen.loads.push(load),
    onFailed: (reason) => void seen.failures.push(reason),
    log: {
      warn: (fields, message) => {
        throw new Error(`${message} ${JSON.stringify(fields)}`);
      },
    },
    debounceMs: 10,
    times: options.times ?? { settleMs: 300, quietMs: 600, patienceMs: 3_000 },
    pollMs: options.pollMs ?? neverPoll,
    retryMs: options.retryMs ?? neverPoll,
  });
  t.teardown(() => source.stop());
  return { source, ...seen };
}

/** A writer's pauses are shorter than this, however long a busy machine makes them. */
const slowlySettled = { settleMs: 2_500, quietMs: 2_500, patienceMs: 60_000 };

const last = <T>(list: readonly T[]): T | undefined => list.at(-1);

t.test('without a path the empty set is in force at once', async (t) => {
  const seen = follow(t, null);
  await seen.source.start();
  t.same(seen.swaps, [[]]);
  t.same(seen.loads, [{ documents: 0, changes: 'first' }]);
});

t.test('the first load', async (t) => {
  const rows: [string, string, { swaps: string[][]; failed: boolean; codes: string[] }][] = [
    ['clean', server('web'), { swaps: [['web']], failed: false, codes: [] }],
    [
      'a refused document grants nothing, and stands to refuse; the rest is in force',
      server('web') + server('bad', 8081, '  proxyProtocol: SPDY'),
      { swaps: [['web', 'bad']], failed: false, codes: ['error'] },
    ],
    [
      'what is not YAML keeps everything out',
      `${server('web')}---\na: [`,
      { swaps: [], failed: true, codes: ['error'] },
    ],
  ];
  for (const [name, text, expected] of rows) {
    const folder = t.testdir({ 'p.yaml': text });
    const seen = follow(t, join(folder, 'p.yaml'));
    await seen.source.start();
    t.same(seen.swaps, expected.swaps, name);
    t.equal(seen.failures.length, expected.failed ? 1 : 0, `${name}: failures`);
    t.equal(seen.loads.length, expected.failed ? 0 : 1, `${name}: loads`);
    t.equal((seen.problems[0] ?? []).length > 0, expected.codes.length > 0, `${name}: problems`);
    await seen.source.stop();
  }
});

t.test('a missing file: nothing is in force until it appears', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'p.yaml');
  const seen = follow(t, path);
  await seen.source.start();
  t.same(seen.swaps, []);
  t.same(seen.problems, [['unreadable']]);
  writeFileSync(path, server('web'));
  await until('the first good load', () => seen.swaps.length > 0);
  t.same(last(seen.swaps), ['web']);
});

t.test('a reload', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web') });
  const path = join(folder, 'p.yaml');
  const seen = follow(t, path);
  await seen.source.start();

  // An editor's way: a temporary file, renamed over.
  writeFileSync(join(folder, '.p.yaml.swp'), server('web') + server('api', 8081));
  renameSync(join(folder, '.p.yaml.swp'), path);
  await until('the renamed file', () => seen.swaps.length === 2);
  t.same(last(seen.swaps), ['web', 'api']);

  writeFileSync(path, server('web') + server('api', 8081, '  proxyProtocol: SPDY'));
  await until('the refusal of a document', () => seen.failures.length === 1);
  t.equal(seen.swaps.length, 2, 'the last good policy stays whole');

  writeFileSync(path, `${server('web')}---\nhalf: [`);
  await until('the refusal of half a file', () => seen.failures.length === 2);
  rmSync(path);
  await until('the refusal of no file', () => seen.failures.length === 3);
  t.equal(seen.swaps.length, 2);

  writeFileSync(path, server('web') + server('api', 8081));
  await until('the repair', () => seen.loads.length === 3);
  t.same(last(seen.loads), { documents: 2, changes: 'same' }, 'repaired to what was in force: no swap');
  t.equal(seen.swaps.length, 2);

  writeFileSync(path, server('other'));
  await until('the next good one', () => seen.swaps.length === 3);
  t.same(last(seen.swaps), ['other']);
});

t.test('a file that is written in place is waited for', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web') });
  const path = join(folder, 'p.yaml');
  const seen = follow(t, path, { times: slowlySettled });
  await seen.source.start();
  await until('a file older than its next write', () => Date.now() - statSync(path).birthtimeMs > 300);
  // As a shell does it, but slowly: emptied, half written (a whole document, as it happens), then the rest.
  const file = openSync(path, 'w');
  const loading = seen.source.reload();
  for (const part of [server('one'), server('two'), server('three')]) {
    await new Promise((resolve) => setTimeout(resolve, 40));
    writeSync(file, part);
  }
  closeSync(file);
  await loading;
  await until('the whole file', () => seen.swaps.length > 1);
  t.same(seen.swaps, [['web'], ['one', 'two', 'three']], 'neither nothing nor half of it was ever in force');
});

t.test('unchanged contents are not swapped, nor reported again', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web', 8080, '  nonsense: 1') });
  const seen = follow(t, join(folder, 'p.yaml'));
  await seen.source.start();
  const reports = seen.problems.length;
  writeFileSync(join(folder, 'p.yaml'), server('web', 8080, '  nonsense: 1'));
  await seen.source.reload();
  await seen.source.reload();
  t.equal(seen.swaps.length, 1);
  t.equal(seen.problems.length, reports);
});

t.test('a ConfigMap volume swaps its files as a whole', async (t) => {
  const volume = t.testdir({
    '..1': { 'a.yaml': server('a1', 1), 'b.yaml': server('b1', 2) },
    '..2': { 'a.yaml': server('a2', 1), 'b.yaml': server('b2', 2) },
  });
  symlinkSync('..1', join(volume, '..data'));
  for (const file of ['a.yaml', 'b.yaml']) symlinkSync(`..data/${file}`, join(volume, file));
  const seen = follow(t, volume);
  await seen.source.start();
  t.same(seen.swaps, [['a1', 'b1']]);
  symlinkSync('..2', join(volume, '..data_tmp'));
  renameSync(join(volume, '..data_tmp'), join(volume, '..data'));
  await until('the swap', () => seen.swaps.length > 1);
  t.same(seen.swaps, [
    ['a1', 'b1'],
    ['a2', 'b2'],
  ]);
});

t.test('a burst of changes ends with the last state, whatever was skipped between', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web0') });
  const seen = follow(t, join(folder, 'p.yaml'));
  await seen.source.start();
  for (let i = 1; i <= 50; i++) {
    writeFileSync(join(folder, 'p.yaml'), server(`web${i}`));
    if (i % 10 === 0) void seen.source.reload();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until('the last one', () => last(seen.swaps)?.[0] === 'web50');
  t.same(
    seen.failures.filter((reason) => !reason.includes('error') && !reason.includes('read')),
    [],
  );
  t.ok(seen.swaps.length <= 51);
});

t.test('a changed workload recompiles the documents in force', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web') });
  let namespace = 'default';
  const seen = follow(t, join(folder, 'p.yaml'), { workload: () => ({ ...workload(), namespace }) });
  await seen.source.start();
  namespace = 'elsewhere';
  await Promise.all([seen.source.workloadChanged(), seen.source.workloadChanged()]);
  t.same(seen.swaps, [['web'], ['web']], 'two requests at once are one compile');
});

t.test('an unexpected error is told, ends nothing, and is followed by another attempt', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web') });
  let faults = 2;
  const seen = follow(t, join(folder, 'p.yaml'), {
    retryMs: 5,
    workload() {
      if (faults-- > 0) throw new Error('no workload');
      return workload();
    },
  });
  await seen.source.start();
  t.same(seen.failures, ['unexpected error: no workload']);
  await until('the attempt that succeeds', () => seen.swaps.length === 1);
  t.equal(seen.failures.length, 2);
});

t.test('what could not come into force is not taken for what is', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web') });
  let faults = 0;
  const seen = follow(t, join(folder, 'p.yaml'), {
    retryMs: 5,
    beforeSwap() {
      if (faults-- > 0) throw new Error('no swap');
    },
  });
  await seen.source.start();
  faults = 2;
  writeFileSync(join(folder, 'next'), server('api'));
  renameSync(join(folder, 'next'), join(folder, 'p.yaml'));
  await until('the attempt that succeeds', () => last(seen.swaps)?.join() === 'api');
  t.same(seen.failures, ['unexpected error: no swap', 'unexpected error: no swap']);
});

t.test('stopped: nothing is swapped any more', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web') });
  const seen = follow(t, join(folder, 'p.yaml'));
  const starting = seen.source.start();
  await seen.source.stop();
  await starting;
  await seen.source.reload();
  t.same(seen.swaps, []);
  t.same(seen.failures, []);
});

t.test('10,000 documents never hold the event loop', async (t) => {
  const documents: string[] = [];
  for (let i = 0; i < 2_500; i++) {
    documents.push(
      server(`s${i}`, 10_000 + i),
      `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: p${i} }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: s${i} }
  requiredAuthenticationRefs:
    - { group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m${i} }
    - { group: policy.linkerd.io, kind: NetworkAuthentication, name: n${i} }
`,
      `---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: { name: m${i} }
spec: { identities: ["*.ns${i}.example"] }
`,
      `---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: { name: n${i} }
spec: { networks: [{ cidr: 10.${i % 256}.0.0/16 }] }
`,
    );
  }
  const folder = t.testdir({ 'p.yaml': documents.join('') });
  const seen = follow(t, join(folder, 'p.yaml'));
  // Time on the processor between two turns, so that a busy machine does not count against us.
  let longest = 0;
  let before = process.threadCpuUsage();
  let watching = true;
  const tick = (): void => {
    const used = process.threadCpuUsage(before);
    longest = Math.max(longest, (used.user + used.system) / 1000);
    before = process.threadCpuUsage();
    if (watching) setImmediate(tick);
  };
  setImmediate(tick);
  await seen.source.start();
  watching = false;
  t.same(seen.loads, [{ documents: 10_000, changes: 'first' }]);
  t.ok(longest < 50, `the longest turn took ${longest.toFixed(1)} ms`);
});

t.test(
  'a reload lets the traffic go first',
  { skip: process.platform === 'linux' ? false : 'needs /proc' },
  async (t) => {
    const many = (edition: string): string =>
      Array.from({ length: 1_000 }, (_, i) => server(`${edition}${i}`, 10_000 + i)).join('');
    const folder = t.testdir({ 'p.yaml': many('a') });
    const path = join(folder, 'p.yaml');
    const own = getPriority();
    const lowered = Math.min(19, own + 10);
    const seen = follow(t, path);
    await seen.source.start();
    writeFileSync(path, many('b'));
    const reloading = seen.source.reload();
    await until('a thread of low priority', () => nicenessOfThreads().includes(lowered), { everyMs: 1 });
    await reloading;
    t.equal(last(seen.swaps)?.[0], 'b0');
    t.equal(getPriority(), own, 'the thread with the traffic keeps its own');
  },
);

t.test('a file that was made in place is not believed where its first write is told while it is read', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('a') });
  const path = join(folder, 'p.yaml');
  let nowMs = 0;
  /** That a name appeared was told, and not yet that it is written to. */
  let arrived = false;
  let resting = (): void => {};
  const swaps: string[][] = [];
  const source = createPolicySource({
    path,
    workload,
    swap: (_index, documents) => void swaps.push(documents.map(({ name }) => name)),
    onProblems() {},
    onLoaded() {},
    onFailed() {},
    log: { warn() {} },
    world: {
      nowMs: () => nowMs,
      async delay(ms) {
        nowMs += ms;
        resting();
      },
      look: async () => lookNow(path),
      async load(request, known) {
        arrived = false;
        return loadPolicy({ ...request, paths: [path] }, known);
      },
      abandon() {},
      watch() {},
      whole: () => arrived,
      async stop() {},
    },
  });
  await source.start();
  rmSync(path);
  writeFileSync(path, server('a') + server('half', 7070));
  arrived = true;
  resting = () => {
    resting = () => {};
    writeFileSync(path, server('a') + server('half', 7070) + server('whole', 9090));
  };
  await source.reload();
  t.same(swaps, [['a'], ['a', 'half', 'whole']]);
  await source.stop();
});

/** Of every thread of this process; the nineteenth field of proc(5)'s stat, the second being a name in parentheses. */
function nicenessOfThreads(): number[] {
  return readdirSync('/proc/self/task').flatMap((thread) => {
    try {
      const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
    } catch {
      // It has ended since it was listed.
      return [];
    }
  });
}
