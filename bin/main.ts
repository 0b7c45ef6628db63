import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import {
  type CommandName,
  commandNamed,
  complain,
  flagBeforeCommand,
  type Io,
  type Main,
  parseCommandLine,
  UsageError,
} from './arguments.ts';
import { overview, widthOf } from './help.ts';
import type { CommandRow } from './table/row.ts';
import { commandTable } from './table/table.ts';

// To import node:http is to read every property it has, and these three are getters that load the whole of fetch: 3 MB for
// nothing. They must be gone before a command's modules import it.
for (const name of ['WebSocket', 'CloseEvent', 'MessageEvent']) {
  Reflect.deleteProperty(process.getBuiltinModule('node:http'), name);
}

type Loaders = { readonly [Name in CommandName]: () => Promise<{ readonly main: Main<Name> }> };

/** Loaded only when named: `--version` and `check` need neither the data plane nor its native parts. */
const loaders: Loaders = {
  run: () => import('./run.ts'),
  demo: () => import('./demo.ts'),
  check: () => import('./check.ts'),
  explain: () => import('./explain.ts'),
  diff: () => import('./diff.ts'),
  who: () => import('./who.ts'),
  can: () => import('./can.ts'),
  replay: () => import('./replay.ts'),
  test: () => import('./policy-test.ts'),
  suggest: () => import('./suggest.ts'),
  certs: () => import('./certs.ts'),
  iptables: () => import('./iptables.ts'),
  inject: () => import('./inject.ts'),
  health: () => import('./health.ts'),
  version: () => import('./version.ts'),
  help: () => import('./help.ts'),
};

const inPlaceOfCommands: ReadonlyMap<string, CommandName> = new Map([
  ['--help', 'help'],
  ['-h', 'help'],
  ['--version', 'version'],
  ['-v', 'version'],
  ['-V', 'version'],
]);

async function dispatch(argv: readonly string[], io: Io): Promise<ExitStatus> {
  const [first, ...args] = argv;
  if (first === undefined) {
    io.stderr.write(overview(widthOf(io.stderr)));
    return usageExit;
  }
  const short = inPlaceOfCommands.get(first);
  if (short !== undefined) return call(short, args, io);
  if (first.startsWith('-')) throw flagBeforeCommand(first);
  const name = commandNamed(first);
  // After `--`, and as the value of a flag (`--host=--help`), the words are the user's own.
  const own = args.slice(0, args.includes('--') ? args.indexOf('--') : args.length);
  if (own.includes('--help') || own.includes('-h')) return call('help', [name], io);
  if (own.includes('--version')) return call('version', [], io);
  return call(name, args, io);
}

async function call<Name extends CommandName>(name: Name, args: readonly string[], io: Io): Promise<ExitStatus> {
  const line = parseCommandLine(name, args);
  const { main } = await loaders[name]();
  return main(line, io);
}

/** Resolves when all that was written has left the process, or can no longer leave it. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.once('close', resolve);
    if (stream.destroyed) resolve();
    else stream.write('', () => resolve());
  });
}

/** Milliseconds that a command that serves waits for the reader of what it printed. */
const patienceMs = 1000;

/** What a command printed is its result: without it there is no success, and no use in going on. */
function resultLost(error: NodeJS.ErrnoException): void {
  // `sallyport check | head -1`: a reader that has seen enough needs no telling.
  if (error.code !== 'EPIPE') {
    const message = `cannot write to standard output: ${error.message}`;
    complain({ stderr }, 'sallyport', { code: 'output-lost', message, hint: '' });
  }
  process.exit(1);
}

/** As in the launcher, `sallyport` beside this file, for who comes without it. */
const leastNode = [22, 19] as const;

function isOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < leastNode[0] || (major === leastNode[0] && minor < leastNode[1]);
}

const { env, stdin, stdout, stderr } = process;
if (isOld(process.versions.node)) {
  const message = `Node ${process.versions.node} is too old: install ${leastNode.join('.')} or newer`;
  complain({ stderr }, 'sallyport', { code: 'node-too-old', message, hint: '' });
  process.exit(1);
}
const argv = process.argv.slice(2);
const named: CommandRow | undefined = Object.entries(commandTable).find(([name]) => name === argv[0])?.[1];
const serves = named?.serves ?? false;
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (!serves) resultLost(error);
});
// There is nobody left to report it to.
stderr.on('error', () => {});
let status: ExitStatus;
try {
  status = await dispatch(argv, { env, stdin, stdout, stderr });
} catch (error) {
  if (error instanceof UsageError) {
    const command = named === undefined ? '' : ` ${argv[0]}`;
    const faults = error.message.split('\n').map((fault) => `sallyport${command}: ${fault}\n`);
    stderr.write(`${faults.join('')}Try: sallyport${command} --help\n`);
    status = usageExit;
  } else {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    stderr.write(`sallyport: ${text} [ERR_SALLYPORT_UNEXPECTED]\n`);
    status = 1;
  }
}
if (serves) setTimeout(() => process.exit(status), patienceMs);
await Promise.all([flushed(stdout), flushed(stderr)]);
process.exit(status);
