import { once } from 'node:events';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { readPolicyFiles } from '../../../lib/reload/policy-files.ts';

t.test('a folder: policy files by name, nothing else', async (t) => {
  const folder = t.testdir({
    'b.yaml': 'b',
    'a.yml': 'a',
    'c.json': 'c',
    'README.md': 'no',
    '.hidden.yaml': 'no',
    'sub.yaml': { 'inner.yaml': 'no' },
  });
  const { texts, problems } = readPolicyFiles(folder);
  t.same(texts, [
    { file: join(folder, 'a.yml'), text: 'a' },
    { file: join(folder, 'b.yaml'), text: 'b' },
    { file: join(folder, 'c.json'), text: 'c' },
  ]);
  t.same(problems, []);
});

t.test('a ConfigMap volume: each file once, through its links', async (t) => {
  const volume = t.testdir({ '..2026_11_20': { 'p.yaml': 'policy' } });
  symlinkSync('..2026_11_20', join(volume, '..data'));
  symlinkSync('..data/p.yaml', join(volume, 'p.yaml'));
  t.same(readPolicyFiles(volume).texts, [{ file: join(volume, 'p.yaml'), text: 'policy' }]);
  t.same(readPolicyFiles(join(volume, 'p.yaml')).texts.length, 1, 'and named directly');
});

t.test('a volume that is swapped while it is read: one generation, never two', async (t) => {
  const volume = t.testdir({ '..0': { 'a.yaml': '1', 'b.yaml': '1' } });
  symlinkSync('..0', join(volume, '..data'));
  for (const name of ['a.yaml', 'b.yaml']) symlinkSync(`..data/${name}`, join(volume, name));
  // One swap for each reading and no more, at any moment of it: a reader that is swapped against again and again gives up. Each
  // generation has a name of its own, as the kubelet gives it: a swap there and back again within one reading shows nothing.
  const readings = new Int32Array(new SharedArrayBuffer(4));
  const swapper = new Worker(
    `const { mkdirSync, renameSync, symlinkSync, writeFileSync } = require('node:fs');
     const { readings, volume } = require('node:worker_threads').workerData;
     for (let swaps = 1, seen = 0; ; swaps++) {
       mkdirSync(volume + '/..' + swaps);
       for (const name of ['a', 'b']) writeFileSync(volume + '/..' + swaps + '/' + name + '.yaml', swaps % 2 ? '2' : '1');
       Atomics.wait(readings, 0, seen);
       seen = Atomics.load(readings, 0);
       const until = performance.now() + Math.random();
       while (performance.now() < until);
       symlinkSync('..' + swaps, volume + '/..new');
       renameSync(volume + '/..new', volume + '/..data');
     }`,
    { eval: true, workerData: { volume, readings } },
  );
  await once(swapper, 'online');
  const seen = new Set<string>();
  let mixed = 0;
  const until = Date.now() + 60_000;
  for (let reads = 0; (reads < 500 || seen.size < 2) && Date.now() < until; reads++) {
    Atomics.add(readings, 0, 1);
    Atomics.notify(readings, 0);
    const [a, b] = readPolicyFiles(volume).texts;
    if (a?.text !== b?.text) mixed++;
    seen.add(a?.text ?? '');
  }
  await swapper.terminate();
  t.same([...seen].sort(), ['1', '2'], 'there were swaps to see');
  t.equal(mixed, 0);
});

t.test('a file is read whatever it is called', async (t) => {
  const folder = t.testdir({ 'policy.txt': 'x' });
  t.same(readPolicyFiles(join(folder, 'policy.txt')).texts.length, 1);
});

t.test('what cannot be read is an error that names it', async (t) => {
  const folder = t.testdir({ 'binary.yaml': Buffer.from([0x61, 0xff, 0xfe]), 'ok.yaml': 'ok' });
  symlinkSync('nowhere', join(folder, 'dangling.yaml'));
  const { texts, problems } = readPolicyFiles(folder);
  t.same(
    texts.map(({ text }) => text),
    ['ok'],
  );
  t.match(problems, [
    { severity: 'error', code: 'unreadable', file: join(folder, 'binary.yaml'), message: /not UTF-8/ },
    { severity: 'error', code: 'unreadable', file: join(folder, 'dangling.yaml'), message: /no such file/ },
  ]);
  t.match(readPolicyFiles(join(folder, 'absent')).problems, [{ severity: 'error', code: 'unreadable', line: 1 }]);
});

t.test('a file without permission', { skip: process.getuid?.() === 0 && 'root reads everything' }, async (t) => {
  const folder = t.testdir({ 'secret.yaml': 'x' });
  chmodSync(join(folder, 'secret.yaml'), 0);
  t.match(readPolicyFiles(folder).problems, [{ code: 'unreadable', message: /permission denied/ }]);
});

t.test('an empty folder is a warning: perhaps a mount that went wrong', async (t) => {
  const folder = t.testdir({});
  mkdirSync(join(folder, 'deeper'));
  writeFileSync(join(folder, 'deeper', 'p.yaml'), '');
  t.match(readPolicyFiles(folder), { texts: [], problems: [{ severity: 'warning', code: 'no-policy-files' }] });
  const forFile = join(folder, 'policy.yaml');
  mkdirSync(forFile);
  t.match(readPolicyFiles(forFile).problems, [{ severity: 'error', code: 'unreadable', message: /is a folder/ }]);
  writeFileSync(join(forFile, 'p.yml'), '');
  t.same(readPolicyFiles(forFile).problems, []);
});
