/**
 * Prints a MicroResult: two policies of ten thousand documents read and compared as `sallyport diff` does it, and one asked
 * as `who` does, each in a process of its own, with the most memory that it had.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { manyAuthorizations, manyNetworks, manyRoutes, manyServers } from './documents.ts';
import type { MicroResult } from './micro.ts';

const count = 10_000;
const main = resolve(fileURLToPath(import.meta.url), '../../../bin/main.ts');

interface Compared {
  readonly name: string;
  readonly port: number;
  readonly before: readonly object[];
  readonly after: readonly object[];
}

const comparisons: readonly Compared[] = [
  {
    name: 'routes, one more',
    port: 8080,
    before: manyRoutes(count - 3).documents,
    after: manyRoutes(count - 2).documents,
  },
  {
    name: 'ports, every route and authorization another',
    port: 2000,
    before: manyServers(count / 3).documents,
    after: manyServers(count / 3, '-b').documents,
  },
  {
    name: 'authorizations of one route, one more',
    port: 8080,
    before: manyAuthorizations(count / 2 - 1).documents,
    after: manyAuthorizations(count / 2).documents,
  },
  {
    name: 'networks, a tenth more',
    port: 8080,
    before: manyNetworks(9_000).documents,
    after: manyNetworks(count).documents,
  },
];

const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** Says at its end, on a descriptor of its own, the most memory that the process had, in KiB. */
const told = "process.on('exit', () => require('node:fs').writeSync(3, String(process.resourceUsage().maxRSS)))";

function run(args: readonly string[]): { readonly ms: number; readonly mib: number } {
  const preload = join(folder, 'told.cjs');
  writeFileSync(preload, told);
  const began = performance.now();
  const { output, status } = spawnSync(process.execPath, ['--require', preload, main, ...args], {
    env: { ...process.env, SALLYPORT_POD_NAMESPACE: 'bench', SALLYPORT_POD_LABELS: 'app=web' },
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  if (status !== 0 && status !== 1) throw new Error(`sallyport ${args.join(' ')} ended with ${status}`);
  return { ms: Math.round(performance.now() - began), mib: Math.round(Number(output[3]?.toString()) / 1024) };
}

const rows = comparisons.map(({ name, port, before, after }) => {
  const [old, fresh] = [join(folder, 'old.yaml'), join(folder, 'new.yaml')];
  writeFileSync(old, before.map((document) => stringify(document)).join('---\n'));
  writeFileSync(fresh, after.map((document) => stringify(document)).join('---\n'));
  const diff = run(['diff', old, fresh]);
  const who = run(['who', '--policy', fresh, '--port', String(port)]);
  return [name, diff.ms, diff.mib, who.ms, who.mib];
});
const result: MicroResult = { columns: ['10,000 documents', 'diff ms', 'diff MiB', 'who ms', 'who MiB'], rows };
process.stdout.write(`${JSON.stringify(result)}\n`);
