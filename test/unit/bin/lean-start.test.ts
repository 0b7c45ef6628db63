import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { runToEnd } from '../../support/children.ts';
import { temporaryFolder } from '../../support/files.ts';
import { bareEnvironment, checkout, runSallyport } from '../../support/sallyport.ts';

t.test('the modules of the proxy do not load what Node keeps for fetch', async (t) => {
  const probe = join(temporaryFolder(t), 'probe.cjs');
  writeFileSync(probe, `process.on('exit', () => console.error(JSON.stringify(process.moduleLoadList)));`);
  // A fault of the environment: all that the command imports is loaded, and nothing is started.
  const env = { NODE_OPTIONS: `--require=${probe}`, SALLYPORT_LOG: 'loud' };
  const { code, stderr } = await runSallyport(t, ['run'], env);
  t.equal(code, 64);
  const [fault, list = ''] = stderr.split('\n');
  t.match(fault, 'SALLYPORT_LOG');
  const loaded: string[] = JSON.parse(list);
  t.ok(loaded.includes('NativeModule http'), 'node:http is there');
  t.same(
    loaded.filter((name) => name.includes('undici')),
    [],
  );
});

t.test('the published proxy starts from few files', async (t) => {
  const folder = temporaryFolder(t);
  const dist = join(folder, 'dist/bin');
  // Without the hook that tap puts into NODE_OPTIONS of whatever is started.
  const bundle = ['--unset=NODE_OPTIONS', 'npm', 'run', '--silent', 'bundle', '--', `--outdir=${dist}`];
  const built = await runToEnd(t, 'env', bundle, { cwd: checkout, timeoutMs: 120_000, env: bareEnvironment({}) });
  t.match(built, { code: 0, stderr: '' });
  cpSync(join(checkout, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  const probe = join(folder, 'probe.mjs');
  writeFileSync(
    probe,
    `import { registerHooks } from 'node:module';
     const files = [];
     registerHooks({ load: (url, context, next) => (files.push(url), next(url, context)) });
     process.on('exit', () => console.error(JSON.stringify(files)));`,
  );
  const args = [`--import=${probe}`, join(dist, 'main.js'), 'run'];
  // As above: everything is loaded, and nothing is started.
  const env = bareEnvironment({ SALLYPORT_LOG: 'loud', NODE_OPTIONS: '' });
  const { code, stderr } = await runToEnd(t, process.execPath, args, { env });
  t.equal(code, 64);
  const [fault, list = ''] = stderr.split('\n');
  t.match(fault, 'SALLYPORT_LOG');
  const files = (JSON.parse(list) as string[]).filter((url) => url.startsWith('file:'));
  const own = files.filter((url) => url.includes('/dist/bin/'));
  t.comment(`${own.length} files of ours, ${files.length - own.length} of packages`);
  t.ok(own.length > 1 && own.length <= 60, `${own.length} files of ours; each source on its own would be 280`);
  t.ok(files.length - own.length <= 60, `${files.length - own.length} files of packages`);
});
