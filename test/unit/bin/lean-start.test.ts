import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../../support/files.ts';
import { runSallyport } from '../../support/sallyport.ts';

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
