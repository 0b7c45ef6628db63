import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../../support/files.ts';
import { runSallyport } from '../../support/sallyport.ts';

t.test('the modules of the proxy do not load what Node keeps for fetch', async (t) => {
  const probe = join(temporaryFolder(t), 'probe.cjs');
  writeFileSync(probe, `process.on('exit', () => console.error(JSON.stringify(process.moduleLoadList)));`);
  // `--help` loads the command with all that it imports, and starts nothing.
  const { code, stderr } = await runSallyport(t, ['run', '--help'], { NODE_OPTIONS: `--require=${probe}` });
  t.equal(code, 0);
  const loaded: string[] = JSON.parse(stderr);
  t.ok(loaded.includes('NativeModule http'), 'node:http is there');
  t.same(
    loaded.filter((name) => name.includes('undici')),
    [],
  );
});
