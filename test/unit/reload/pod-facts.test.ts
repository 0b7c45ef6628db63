import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readWorkload } from '../../../lib/config/config.ts';
import { type Host, thisHost } from '../../../lib/config/host.ts';
import { readManifest } from '../../../lib/config/manifest.ts';
import type { Environment } from '../../../lib/config/variables.ts';
import type { Workload } from '../../../lib/policy/workload.ts';
import { createPodFacts } from '../../../lib/reload/pod-facts.ts';
import type { Times } from '../../../lib/reload/settling.ts';
import { until } from '../../support/until.ts';

type Addresses = string[] | (() => string[]);

const quickly: Times = { settleMs: 200, quietMs: 600, patienceMs: 3_000 };
/** A writer's pauses are shorter than this, however long a busy machine makes them. */
const slowly: Times = { settleMs: 2_500, quietMs: 2_500, patienceMs: 60_000 };

function follow(
  t: { teardown(clean: () => unknown): void },
  env: Environment,
  addresses: Addresses,
  times: Times = quickly,
) {
  const asked = typeof addresses === 'function' ? addresses : () => addresses;
  const host: Host = { ...thisHost, addresses: asked, readManifest };
  const read = readWorkload(env, host);
  if (!read.ok) throw new Error('the environment of this test is faulty');
  const changes: Workload[] = [];
  const warnings: string[] = [];
  const facts = createPodFacts({
    env,
    host,
    initial: read.workload,
    pollMs: 10,
    onChange: (workload) => void changes.push(workload),
    times,
    log: {
      info() {},
      warn: (_fields, message) => void warnings.push(message),
      error: (_fields, message) => void warnings.push(message),
    },
  });
  t.teardown(() => facts.stop());
  facts.start();
  return { facts, changes, warnings };
}

t.test('addresses that cannot be asked for are the previous ones', async (t) => {
  let asked = 0;
  let now: readonly string[] | null = ['10.0.0.1'];
  const { facts, changes } = follow(t, {}, () => {
    asked += 1;
    if (now === null) throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
    return [...now];
  });
  const before = asked;
  now = null;
  await until('some looks', () => asked > before + 3);
  t.same(changes, []);
  t.equal(facts.current().ips[0]?.text, '10.0.0.1');
  now = ['10.0.0.2'];
  await until('the change', () => changes.length > 0);
  t.equal(facts.current().ips[0]?.text, '10.0.0.2');
});

t.test('a new address of the host is a new workload, unless the addresses are given', async (t) => {
  const addresses = ['10.0.0.1'];
  const { facts, changes } = follow(t, {}, addresses);
  const fixed = follow(t, { SALLYPORT_POD_IPS: '10.9.9.9' }, addresses);
  addresses[0] = '10.0.0.2';
  await until('the change', () => changes.length > 0);
  t.same(
    changes.map(({ ips }) => ips.map(({ text }) => text)),
    [['10.0.0.2']],
  );
  t.equal(facts.current(), changes[0]);
  await fixed.facts.refresh();
  t.same(fixed.changes, []);
});

t.test('labels follow the downward API through its swap; an unreadable file keeps the previous ones', async (t) => {
  const volume = t.testdir({ '..1': { labels: 'app="web"\n' } });
  symlinkSync('..1', join(volume, '..data'));
  symlinkSync('..data/labels', join(volume, 'labels'));
  // As `$(cat …)` in a file of variables may leave it.
  const env = { SALLYPORT_POD_LABELS_FILE: ` ${join(volume, 'labels')}\n`, SALLYPORT_POD_MANIFEST: ' ' };
  const { facts, changes, warnings } = follow(t, env, []);
  const swap = (name: string, labels: string): void => {
    mkdirSync(join(volume, name));
    writeFileSync(join(volume, name, 'labels'), labels);
    symlinkSync(name, join(volume, '..data_tmp'));
    renameSync(join(volume, '..data_tmp'), join(volume, '..data'));
  };
  swap('..2', 'app="api"\n');
  await until('the new labels', () => changes.length === 1);
  t.same([...facts.current().labels], [['app', 'api']]);

  swap('..3', 'app=api\n');
  await until('the complaint', () => warnings.length > 0);
  await facts.refresh();
  t.equal(warnings.length, 1, 'said once');
  t.same([...facts.current().labels], [['app', 'api']]);

  swap('..4', 'app="shop"\n');
  await until('the repair', () => changes.length === 2);
  t.same([...facts.current().labels], [['app', 'shop']]);
});

t.test('labels that are emptied are not believed', async (t) => {
  const folder = t.testdir({ labels: 'app="web"\ntier="front"\n' });
  const file = join(folder, 'labels');
  const { facts, warnings } = follow(t, { SALLYPORT_POD_LABELS_FILE: file }, []);
  await facts.refresh();
  for (const [i, text] of ['', '\n\n'].entries()) {
    writeFileSync(file, text);
    await until('the complaint', () => warnings.length === i + 1);
    t.equal(facts.current().labels.get('app'), 'web', 'the previous ones stay');
    writeFileSync(file, `app="web"\ntier="front"\nn="${i}"\n`);
    await until('the repair', () => facts.current().labels.get('n') === String(i));
  }

  const cutAt = performance.now();
  writeFileSync(file, 'app="web"\n');
  await until('the labels that are left', () => facts.current().labels.size === 1);
  t.ok(performance.now() - cutAt >= 600, 'they were perhaps being written');
  writeFileSync(`${file}.new`, 'app="api"\n');
  renameSync(`${file}.new`, file);
  await until('the file that was renamed', () => facts.current().labels.get('app') === 'api');
});

t.test('labels that are being written are not believed', async (t) => {
  const folder = t.testdir({ labels: 'app="web"\n' });
  const file = join(folder, 'labels');
  const { facts, changes } = follow(t, { SALLYPORT_POD_LABELS_FILE: file }, [], slowly);
  await facts.refresh();
  writeFileSync(file, '');
  for (const line of ['app="web"\n', 'tier="front"\n', 'n="1"\n', 'more="x"\n']) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    writeFileSync(file, line, { flag: 'a' });
  }
  await until('all lines', () => changes.length > 0);
  t.same([...facts.current().labels.keys()], ['app', 'tier', 'n', 'more']);
  t.equal(changes.length, 1, 'never a part of them');
});

t.test('a manifest that is emptied, or cut, keeps what it said', async (t) => {
  const pod = (labels: string): string =>
    `kind: Pod\nmetadata: {name: web, labels: ${labels}}\nspec: {containers: [{name: a, ports: [{name: http, containerPort: 80}]}]}\n`;
  const folder = t.testdir({ 'pod.yaml': pod('{app: web}') });
  const file = join(folder, 'pod.yaml');
  const { facts, warnings } = follow(t, { SALLYPORT_POD_MANIFEST: file }, []);
  await facts.refresh();
  for (const [i, text] of ['', 'kind: Pod\nmetadata: {name: web}\n', pod('{}')].entries()) {
    writeFileSync(file, text);
    await until('the complaint', () => warnings.length === i + 1);
    t.same([...facts.current().labels], [['app', 'web']]);
    t.ok(facts.current().namedPorts.has('http'));
    writeFileSync(file, pod(`{app: web, nth: "${i}"}`));
    await until('the repair', () => facts.current().labels.get('nth') === String(i));
    writeFileSync(file, pod('{app: web}'));
    await until('the beginning', () => facts.current().labels.size === 1);
  }
});

t.test('a pipe in the place of the labels blocks nothing', async (t) => {
  const folder = t.testdir({ labels: 'app="web"\n' });
  const file = join(folder, 'labels');
  const { facts, warnings } = follow(t, { SALLYPORT_POD_LABELS_FILE: file }, []);
  execFileSync('mkfifo', [`${file}.pipe`]);
  renameSync(`${file}.pipe`, file);
  await until('the complaint', () => warnings.length === 1);
  t.same([...facts.current().labels], [['app', 'web']]);
});

t.test('the annotations of a manifest are in force at once, and what of them cannot be read is said', async (t) => {
  const pod = (annotations: string): string =>
    `kind: Pod\nmetadata: {name: web, labels: {app: web}, annotations: {${annotations}}}\nspec: {containers: [{name: a}]}\n`;
  const folder = t.testdir({ 'pod.yaml': pod('config.linkerd.io/default-inbound-policy: all-unauthenticated') });
  const file = join(folder, 'pod.yaml');
  const { facts, changes, warnings } = follow(t, { SALLYPORT_POD_MANIFEST: file, SALLYPORT_OPAQUE_PORTS: '1' }, []);
  const replace = (annotations: string): void => {
    writeFileSync(`${file}.new`, pod(annotations));
    renameSync(`${file}.new`, file);
  };
  t.equal(facts.current().defaultPolicy, 'all-unauthenticated');
  const rows: readonly (readonly [annotations: string, is: (workload: Workload) => boolean])[] = [
    ['config.linkerd.io/default-inbound-policy: all-authenticated', (now) => now.defaultPolicy === 'all-authenticated'],
    ['config.linkerd.io/opaque-ports: "90-99"', (now) => now.opaquePorts.has(95) && !now.opaquePorts.has(1)],
    [
      'config.linkerd.io/proxy-require-identity-inbound-ports: "80"',
      (now) => now.requireIdentityPorts.has(80) && now.opaquePorts.has(1) && now.defaultPolicy === 'deny',
    ],
    ['', (now) => !now.requireIdentityPorts.has(80)],
  ];
  for (const [i, [annotations, is]] of rows.entries()) {
    replace(annotations);
    await until(`change ${i}: ${annotations}`, () => changes.length === i + 1);
    t.ok(is(facts.current()), annotations);
  }
  t.same(warnings, []);
  replace('config.linkerd.io/default-inbound-policy: everybody');
  await until('the warning', () => warnings.length === 1);
  t.match(warnings[0], /"everybody" is none of/);
  t.equal(facts.current().defaultPolicy, 'deny', 'and the variable stands');
  t.equal(changes.length, rows.length, 'sets of ports that hold the same are the same');
});
