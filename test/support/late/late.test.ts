import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { runToEnd } from '../children.ts';
import { temporaryFolder } from '../files.ts';
import { bareEnvironment, checkout } from '../sallyport.ts';
import { lateMs, rewritten } from './rewrite.ts';

/** Runs a module's text with a `late` that notes the places; resolves to what it exports as `result`, and to these. */
async function run(folder: string, source: string) {
  const hooks = join(folder, 'hooks.mjs');
  writeFileSync(
    hooks,
    'export const places = [];\nexport const late = (value, place) => (places.push(place), value);\n',
  );
  const written = join(folder, `${Math.random()}.mjs`);
  writeFileSync(written, rewritten(source, 'lib/a.ts', pathToFileURL(hooks).href));
  const { result } = await import(pathToFileURL(written).href);
  const { places } = await import(pathToFileURL(hooks).href);
  return { result, places };
}

t.test('every await passes through it, and does what it did', async (t) => {
  const rows: readonly (readonly [name: string, source: string, result: unknown, awaits: number])[] = [
    ['none', 'export const result: number = 1;', 1, 0],
    ['at the top', 'export const result: number = 1 + (await Promise.resolve(2)) * 3;', 7, 1],
    ['within another', 'const two = async () => async () => 2; export const result = await (await two())();', 2, 2],
    ['that ends with another', 'export const result = [await Promise.resolve(await 1), -(await await 2)];', [1, -2], 4],
    ['of a sequence', 'export const result = await (1, 2);', 2, 1],
    [
      'in a method',
      'class A { async b() { return await this.c; } c = 3; } export const result = await new A().b();',
      3,
      2,
    ],
    ['in a text', "export const result = 'await 1'; // await 2", 'await 1', 0],
  ];
  for (const [name, source, result, awaits] of rows) {
    const ran = await run(temporaryFolder(t), source);
    t.same(ran.result, result, name);
    t.equal(ran.places.length, awaits, name);
    t.equal(new Set(ran.places).size, awaits, `${name}: each at a place of its own`);
  }
});

t.test('the same seed makes the same awaits late, by as much', (t) => {
  const drawn = (seed: number) =>
    ['lib/a.ts:1', 'lib/a.ts:2'].flatMap((place) => Array.from({ length: 100 }, (_, nth) => lateMs(seed, place, nth)));
  t.same(drawn(1), drawn(1));
  t.notSame(drawn(1), drawn(2));
  t.notSame(drawn(1).slice(0, 100), drawn(1).slice(100));
  const late = drawn(1).filter((ms) => ms > 0);
  t.ok(late.length > 8 && late.length < 40, `${late.length} of 128`);
  t.ok(Math.max(...late) > 100 && Math.max(...late) <= 200);
  t.end();
});

t.test('it is in force in what is loaded from lib', async (t) => {
  const hooks = new URL('./hooks.ts', import.meta.url).href;
  const program = "import { promptly } from './lib/app/workers/orders.ts'; process.stdout.write(String(promptly));";
  const args = ['--disable-warning=ExperimentalWarning', `--import=${hooks}`, '--input-type=module', '--eval', program];
  const printed = await runToEnd(t, process.execPath, args, { cwd: checkout, env: bareEnvironment({}) });
  t.match(printed, { code: 0, stdout: /await __late\(\(Promise\.race\(.*\)\), "lib\/app\/workers\/orders\.ts:\d+"\)/ });
});
