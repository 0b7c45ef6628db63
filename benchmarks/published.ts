import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ownCheckout = fileURLToPath(new URL('..', import.meta.url));
const made = new Map<string, Promise<string>>();

/**
 * The command of Sallyport as it is published: launcher and JavaScript, compiled once from a checkout into a folder
 * that goes with this process. The sources would run as well, but what strips their types stays in memory.
 *
 * @param checkout its folder, with its packages installed; this one where it is not given
 * @throws with the compiler's findings
 */
export function publishedCommand(checkout: string = ownCheckout): Promise<string> {
  let command = made.get(checkout);
  if (command === undefined) {
    command = make(checkout);
    made.set(checkout, command);
  }
  return command;
}

async function make(checkout: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-published-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  try {
    for (const command of builders(checkout, join(folder, 'dist'))) {
      // tap puts a hook of its own into NODE_OPTIONS of whatever a test starts, and the compiler does not bear it.
      await promisify(execFile)('env', ['--unset=NODE_OPTIONS', ...command], { cwd: checkout });
    }
  } catch (error) {
    const { stdout, stderr, message } = error as Error & { readonly stdout?: string; readonly stderr?: string };
    throw new Error(
      `Sallyport in ${checkout} does not compile, so there is nothing to measure:\n${stdout || stderr || message}`,
      { cause: error },
    );
  }
  mkdirSync(join(folder, 'bin'));
  for (const file of ['bin/sallyport', 'package.json']) cpSync(join(checkout, file), join(folder, file));
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'bin/sallyport');
}

/** As `npm run build`, elsewhere: a `dist` in the checkout may be somebody's. */
function builders(checkout: string, dist: string): string[][] {
  // Before there was a bundle, the compiler made a file of each source.
  const older = join(checkout, 'tsconfig.build.json');
  if (existsSync(older)) return [[join(checkout, 'node_modules/.bin/tsc'), '--project', older, '--outDir', dist]];
  // Of two flags of one name the last counts.
  return [
    [join(checkout, 'node_modules/.bin/tsc')],
    ['npm', 'run', '--silent', 'bundle', '--', `--outdir=${dist}/bin`],
  ];
}
