import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readWorkload } from '../../../lib/config/config.ts';
import { type Host, thisHost } from '../../../lib/config/host.ts';
import { readManifest } from '../../../lib/config/manifest.ts';
import type { Environment } from '../../../lib/config/variables.ts';
import type { Workload } from '../../../lib/policy/workload.ts';
import { createPodFacts } from '../../../lib/reload/pod-facts.ts';
import { until } from '../../support/until.ts';

function follow(t: { teardown(clean: () => unknown): void }, env: Environment, addresses: string[]) {
  const host: Host = { ...thisHost, addresses: () => addresses, readManifest };
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
    log: { info() {}, warn: (_fields, message) => void warnings.push(message) },
  });
  t.teardown(() => facts.stop());
  facts.start();
  return { facts, changes, warnings };
}

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
  fixed.facts.refresh();
  t.same(fixed.changes, []);
});

t.test('labels follow the downward API through its swap; an unreadable file keeps those of before', async (t) => {
  const volume = t.testdir({ '..1': { labels: 'app="web"\n' } });
  symlinkSync('..1', join(volume, '..data'));
  symlinkSync('..data/labels', join(volume, 'labels'));
  const { facts, changes, warnings } = follow(t, { SALLYPORT_POD_LABELS_FILE: join(volume, 'labels') }, []);
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
  facts.refresh();
  t.equal(warnings.length, 1, 'said once');
  t.same([...facts.current().labels], [['app', 'api']]);

  swap('..4', 'app="shop"\n');
  await until('the repair', () => changes.length === 2);
  t.same([...facts.current().labels], [['app', 'shop']]);
});
