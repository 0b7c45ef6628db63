import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd, type Teardown } from './children.ts';
import { temporaryFolder } from './files.ts';
import { withoutNpm } from './image.ts';
import { checkout } from './sallyport.ts';

/**
 * Packs the package as a release does, from the files of the build context alone, and yields the path of the tarball.
 * Another version than the checkout's is for tests of an upgrade.
 */
export async function packed(t: Teardown, into: string, version?: string): Promise<string> {
  // Outside the checkout: npm looks for a package in every folder above, and would find this one.
  const context = temporaryFolder(t);
  const rules = readFileSync(join(checkout, '.dockerignore'), 'utf8').split('\n');
  for (const name of rules.filter((line) => line.startsWith('!')).map((line) => line.slice(1))) {
    cpSync(join(checkout, name), join(context, name), { recursive: true });
  }
  // A link to them would not do: of packages that are not below the folder npm leaves out what they depend on.
  const copied = await runToEnd(t, 'cp', ['-a', join(checkout, 'node_modules'), context], { timeoutMs: 60_000 });
  if (copied.code !== 0) throw new Error(`cp: ${copied.stderr}`);
  const manifest = JSON.parse(readFileSync(join(context, 'package.json'), 'utf8')) as { version: string };
  if (version !== undefined) {
    writeFileSync(join(context, 'package.json'), JSON.stringify({ ...manifest, version }));
  }
  mkdirSync(into, { recursive: true });
  // tap puts a hook of its own into NODE_OPTIONS of whatever is started, and the compiler does not bear it.
  const args = ['--unset=NODE_OPTIONS', 'npm', 'pack', '--silent', '--pack-destination', into];
  const done = await runToEnd(t, 'env', args, { cwd: context, timeoutMs: 120_000, env: withoutNpm(process.env) });
  if (done.code !== 0) throw new Error(`npm pack: ${done.stdout}${done.stderr}`);
  return join(into, `sallyport-${version ?? manifest.version}.tgz`);
}
