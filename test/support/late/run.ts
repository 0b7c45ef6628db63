/**
 * `npm run test:late -- FILE_OR_FOLDER…`: runs tests, one after the other, while every `await` of `lib` lasts longer now and
 * then. What fails like that and not otherwise races. LATE_SEED chooses who is late.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd } from '../children.ts';
import { failuresIn } from '../unit-tests.ts';

const given = process.argv.slice(2);
const files = given.flatMap((path) =>
  statSync(path).isFile()
    ? [path]
    : readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.test.ts'))
        .sort()
        .map((name) => join(path, name)),
);
const seed = process.env.LATE_SEED ?? '1';
const hooks = new URL('./hooks.ts', import.meta.url).href;
const env = {
  ...process.env,
  LATE_SEED: seed,
  NODE_OPTIONS: `--disable-warning=ExperimentalWarning --import=${hooks}`,
  TAP_TIMEOUT: '300',
};
let failed = 0;
for (const file of files) {
  const { code, stdout, stderr } = await runToEnd({ teardown() {} }, process.execPath, [file], {
    env,
    timeoutMs: 310_000,
  });
  if (code === 0) continue;
  failed++;
  process.stdout.write(`${file} failed with status ${code}:\n${failuresIn(stdout)}${stderr}\n`);
}
process.stdout.write(`seed ${seed}: ${failed} of ${files.length} files failed\n`);
process.exitCode = failed === 0 && files.length > 0 ? 0 : 1;
