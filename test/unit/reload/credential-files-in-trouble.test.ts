/**
 * What may happen to an identity's files under a running proxy. Whatever it is, the set in use is the old one whole or the
 * new one whole, the trouble is said, and the repair is taken. The siblings of policy-files-in-trouble.test.ts.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { createAuthority } from '../../../certs/authority.ts';
import { createCredentialSource } from '../../../lib/reload/credential-source.ts';
import { credentialFaultText } from '../../../lib/reload/credentials.ts';
import { filesOnDisk, type World } from '../../../lib/reload/world.ts';
import { strangerCertificate, testAuthority, testCertificate } from '../../support/certificates.ts';
import { heldTime } from '../../support/clock.ts';
import { temporaryFolder } from '../../support/files.ts';
import { until } from '../../support/until.ts';

const times = { settleMs: 400, quietMs: 1_200, patienceMs: 4_000 };
/** Longer than any condition is waited for on a machine that has nothing else to do. */
const foreverMs = 60_000;
const own = testAuthority().certificatePem;
const second = createAuthority({ commonName: 'the second root', days: 1 }).certificatePem;
const third = createAuthority({ commonName: 'the third root', days: 1 }).certificatePem;
const certificate = testCertificate({ dnsNames: ['web.test'] });
const names = ['tls.crt', 'tls.key', 'ca.crt'] as const;
type Name = (typeof names)[number];
const good: Readonly<Record<Name, string>> = {
  'tls.crt': certificate.certificatePem,
  'tls.key': certificate.keyPem,
  'ca.crt': own + second,
};

interface Followed {
  readonly folder: string;
  /** How many anchors each set in use has had, in order. */
  readonly anchors: number[];
  readonly failures: string[];
  readonly overdue: (string | null)[];
  file(name: Name): string;
  /** By a rename from outside the folder. */
  replace(name: Name, text: string): void;
  reload(): void;
}

interface Over {
  readonly overdueMs?: number;
  readonly times?: typeof times;
  readonly under?: Partial<Record<Name, string>>;
  /** What of the world of files on the disk is another. */
  readonly world?: Partial<World>;
}

async function follow(
  t: Test,
  { under = {}, world, ...over }: Over = {},
  prepare?: (folder: string) => void,
): Promise<Followed> {
  const folder = join(temporaryFolder(t), 'identity');
  mkdirSync(folder);
  const file = (name: Name): string => join(folder, under[name] ?? '', name);
  if (prepare !== undefined) prepare(folder);
  else for (const name of names) writeFileSync(file(name), good[name]);
  const anchors: number[] = [];
  const failures: string[] = [];
  const overdue: (string | null)[] = [];
  const source = createCredentialSource({
    certFile: file('tls.crt'),
    keyFile: file('tls.key'),
    trustAnchorsFile: file('ca.crt'),
    onLoaded: ({ anchorIds }) => void anchors.push(anchorIds.length),
    onFailed: (faults) => void failures.push(faults.map(credentialFaultText).join('\n')),
    onOverdue: (waitingFor) => void overdue.push(waitingFor),
    log: { info() {}, warn() {}, error() {} },
    times,
    world: { ...filesOnDisk({ paths: names.map(file), onWatchError() {} }), ...world },
    ...over,
  });
  t.teardown(() => source.stop());
  await source.start();
  const replace = (name: Name, text: string): void => {
    writeFileSync(`${folder}.draft`, text);
    renameSync(`${folder}.draft`, file(name));
  };
  return { folder, anchors, failures, overdue, file, replace, reload: () => source.reload() };
}

t.test('a file that is emptied, cut or spoilt, in whatever way, changes nothing and is an error', async (t) => {
  const f = await follow(t);
  const rows: readonly [name: Name, text: string, fault: RegExp][] = names.flatMap((name): [Name, string, RegExp][] => [
    [name, '', name === 'tls.key' ? /no readable private key/ : /is empty/],
    [name, good[name].slice(0, 150), name === 'tls.key' ? /no readable private key/ : /cannot be parsed/],
    [name, '# later\n', name === 'tls.key' ? /no readable private key/ : /no PEM certificate/],
  ]);
  let anchors = 2;
  for (const [name, text, fault] of rows) {
    for (const how of ['in place', 'by a rename'] as const) {
      const before = f.failures.length;
      if (how === 'in place') writeFileSync(f.file(name), text);
      else f.replace(name, text);
      const title = `${name}, ${how}: ${JSON.stringify(text.slice(0, 12))}`;
      await until(title, () => f.failures.length > before);
      t.match(f.failures.at(-1), fault, title);
      t.ok(f.failures.at(-1)?.startsWith(f.file(name)), `${title}: the file is named`);
      const sets = f.anchors.length;
      t.equal(f.anchors.at(-1), anchors, `${title}: the last good set stays`);
      anchors = 5 - anchors;
      f.replace(name, good[name]);
      f.replace('ca.crt', anchors === 2 ? own + second : own + second + third);
      await until(`${title}: the repair`, () => f.anchors.length > sets);
    }
  }
  t.same(new Set(f.anchors), new Set([2, 3]));
});

t.test('anchors that are written in pieces are never used in part', async (t) => {
  const f = await follow(t, { times: { settleMs: 2_500, quietMs: 2_500, patienceMs: foreverMs } });
  writeFileSync(f.file('ca.crt'), '');
  for (const part of [own, second, third]) {
    await new Promise((resolve) => setTimeout(resolve, 150));
    writeFileSync(f.file('ca.crt'), part, { flag: 'a' });
  }
  await until('all three', () => f.anchors.length > 1);
  t.same(f.anchors, [2, 3]);
  t.same(f.failures, []);
});

t.test('an anchor that is gone counts when that has settled', async (t) => {
  const f = await follow(t);
  const cutAt = performance.now();
  writeFileSync(f.file('ca.crt'), own);
  await until('the anchor that is left', () => f.anchors.length === 2);
  t.ok(performance.now() - cutAt >= times.quietMs, 'perhaps it was being written');
  t.same([f.anchors, f.failures], [[2, 1], []]);
});

t.test('an anchor that is away for a moment was never gone; a rename is meant as it is', async (t) => {
  const f = await follow(t, { times: { ...times, quietMs: foreverMs } });
  writeFileSync(f.file('ca.crt'), own);
  await new Promise((resolve) => setTimeout(resolve, 2 * times.settleMs));
  writeFileSync(f.file('ca.crt'), own + second);
  const next = testCertificate({ dnsNames: ['web.test'] });
  f.replace('tls.key', next.keyPem);
  f.replace('tls.crt', next.certificatePem);
  await until('the next certificate', () => f.anchors.length === 2);
  t.same(f.anchors, [2, 2]);
  f.replace('ca.crt', own);
  await until('the shorter bundle', () => f.anchors.length === 3);
  t.same(f.failures, []);
});

/** The next contents of a volume as the kubelet mounts it. */
function version(folder: string, name: string, contents: Partial<Record<Name, string>>): void {
  mkdirSync(join(folder, name));
  for (const [file, text] of Object.entries(contents)) writeFileSync(join(folder, name, file), text);
  symlinkSync(name, join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
}

t.test('a volume that is swapped says nothing of files elsewhere', async (t) => {
  const under = { 'tls.crt': 'volume', 'tls.key': 'volume' };
  const f = await follow(t, { times: { ...times, quietMs: foreverMs }, under }, (folder) => {
    const volume = join(folder, 'volume');
    mkdirSync(volume);
    version(volume, '..1', { 'tls.crt': good['tls.crt'], 'tls.key': good['tls.key'] });
    for (const name of ['tls.crt', 'tls.key'] as const) symlinkSync(join('..data', name), join(volume, name));
    writeFileSync(join(folder, 'ca.crt'), good['ca.crt']);
  });
  writeFileSync(f.file('ca.crt'), own);
  const next = testCertificate({ dnsNames: ['web.test'] });
  version(join(f.folder, 'volume'), '..2', { 'tls.crt': next.certificatePem, 'tls.key': next.keyPem });
  await new Promise((resolve) => setTimeout(resolve, 2 * times.settleMs));
  t.same(f.anchors, [2], 'the anchors are still being written');
  writeFileSync(f.file('ca.crt'), own + second);
  await until('both', () => f.anchors.length === 2);
  t.same([f.anchors, f.failures], [[2, 2], []]);
});

t.test('a volume that is swapped whole means what it says, at once', async (t) => {
  const f = await follow(t, { times: { ...times, quietMs: foreverMs } }, (folder) => {
    version(folder, '..1', good);
    for (const name of names) symlinkSync(join('..data', name), join(folder, name));
  });
  const next = testCertificate({ dnsNames: ['web.test'] });
  version(f.folder, '..2', { 'tls.crt': next.certificatePem, 'tls.key': next.keyPem, 'ca.crt': own });
  await until('the swap', () => f.anchors.length === 2);
  t.same([f.anchors, f.failures], [[2, 1], []]);
});

t.test('times of files mean nothing: a future, a past, a clock that was set back', async (t) => {
  const f = await follow(t);
  for (const [i, time] of [new Date(Date.now() + 3_600_000), new Date(0), new Date('2200-01-01')].entries()) {
    const more = createAuthority({ commonName: `root ${i}`, days: 1 }).certificatePem;
    writeFileSync(f.file('ca.crt'), own + second + more);
    utimesSync(f.file('ca.crt'), time, time);
    await until('the file', () => f.anchors.length === i + 2);
  }
  t.same(f.failures, []);
});

t.test('what is no regular file is named, and blocks nothing', async (t) => {
  const f = await follow(t);
  const made = join(f.folder, '..', 'made');
  const rows: [what: string, make: () => (() => void) | undefined, fault: RegExp][] = [
    ['a pipe', () => void execFileSync('mkfifo', [made]), /no regular file/],
    ['a device', () => void symlinkSync('/dev/zero', made), /no regular file/],
    ['a folder', () => void symlinkSync('/', made), /a folder/],
    ['a circle', () => void symlinkSync('ca.crt', made), /circle/],
    [
      'a socket',
      () => {
        const server = createServer().listen(made);
        return () => void server.close();
      },
      /no regular file/,
    ],
  ];
  let anchors = 2;
  for (const [what, make, fault] of rows) {
    rmSync(made, { force: true });
    const undo = make();
    const before = f.failures.length;
    const sets = f.anchors.length;
    renameSync(made, f.file('ca.crt'));
    await until(`${what}: the refusal`, () => f.failures.length > before);
    t.match(f.failures.at(-1), fault, what);
    undo?.();
    rmSync(f.file('ca.crt'), { force: true });
    anchors = 5 - anchors;
    f.replace('ca.crt', anchors === 2 ? own + second : own + second + third);
    await until(`${what}: the repair`, () => f.anchors.length > sets);
  }
  t.same(new Set(f.anchors), new Set([2, 3]));
});

t.test('files that are never at rest are read as they are', async (t) => {
  const f = await follow(t);
  const writing = setInterval(() => writeFileSync(f.file('ca.crt'), '# a note\n', { flag: 'a' }), 50);
  t.teardown(() => clearInterval(writing));
  writeFileSync(f.file('ca.crt'), strangerCertificate('x').trustAnchorsPem, { flag: 'a' });
  await until('the third anchor', () => f.anchors.at(-1) === 3, { timeoutMs: 15_000 });
});

t.test('a wait for an anchor that is gone is not overdue', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const time = heldTime(times.settleMs);
  const f = await follow(t, { overdueMs: 2_000, world: { ...time, watch() {} } });
  writeFileSync(f.file('ca.crt'), own);
  f.reload();
  await until('the wait for what is gone', () => time.waitedFor);
  mock.timers.tick(10_000);
  t.same(f.overdue, []);
  t.same(f.anchors, [2]);
  time.mayGo(Number.POSITIVE_INFINITY);
  await until('the end', () => f.anchors.length === 2);
  t.same(f.overdue, []);
  t.same(f.anchors, [2, 1]);
});
