import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import { nearestName } from '../lib/policy/nearest.ts';
import { type Command, type Io, UsageError } from './arguments.ts';
import { version } from './version.ts';

// To import node:http is to read every property it has, and these three are getters that load the whole of fetch: 3 MB for
// nothing. They must be gone before a command's modules import it.
for (const name of ['WebSocket', 'CloseEvent', 'MessageEvent']) {
  Reflect.deleteProperty(process.getBuiltinModule('node:http'), name);
}

interface Known {
  readonly summary: string;
  load(): Promise<Command>;
  /** Traffic is its business, and what it prints is not: it goes on when nobody takes that, and waits for nobody. */
  readonly serves?: boolean;
}

/** Loaded only when named: `--version` and `check` need neither the data plane nor its native parts. */
const commands: ReadonlyMap<string, Known> = new Map([
  ['run', { summary: 'the proxy, from the environment', load: () => import('./run.ts'), serves: true }],
  [
    'demo',
    {
      summary: 'the proxy before a small app, with an example policy, to try',
      load: () => import('./demo.ts'),
      serves: true,
    },
  ],
  ['check', { summary: 'errors and warnings in policy files', load: () => import('./check.ts') }],
  [
    'explain',
    { summary: 'one decision with its reasons, from policy files alone', load: () => import('./explain.ts') },
  ],
  ['certs', { summary: 'a development CA and workload certificates', load: () => import('./certs.ts') }],
  ['iptables', { summary: "the rules that send a pod's traffic to the proxy", load: () => import('./iptables.ts') }],
  ['inject', { summary: 'Sallyport as a sidecar, put into workload YAML', load: () => import('./inject.ts') }],
  ['health', { summary: 'whether the proxy in this container is ready', load: () => import('./health.ts') }],
]);

function usage(): string {
  const lines = [...commands].map(([name, { summary }]) => `  ${name.padEnd(9)}${summary}`);
  return `Usage: sallyport <command> [flags]

An inbound authorizing proxy: Linkerd's policy documents enforced in front of one application.

Commands:
${lines.join('\n')}

sallyport <command> --help   what a command takes
sallyport --version          the version
`;
}

async function dispatch(argv: readonly string[], io: Io): Promise<ExitStatus> {
  const [name, ...args] = argv;
  // After `--`, and as the value of a flag (`--host=--help`), the words are the user's own.
  const own = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : argv.length);
  const wantsHelp = own.includes('--help') || own.includes('-h');
  if (own.includes('--version')) {
    io.stdout.write(`sallyport ${version()}\n`);
    return 0;
  }
  if (name === undefined || name.startsWith('-') || name === 'help') {
    if (wantsHelp || name === 'help') {
      io.stdout.write(usage());
      return 0;
    }
    if (name !== undefined)
      throw new UsageError(`${name} stands before any command`, 'write sallyport <command> [flags]');
    io.stderr.write(usage());
    return usageExit;
  }
  const found = commands.get(name);
  if (found === undefined) {
    const nearest = nearestName(name, commands.keys());
    throw new UsageError(`unknown command ${name}`, nearest === undefined ? '' : `did you mean ${nearest}?`);
  }
  const command = await found.load();
  if (wantsHelp) {
    io.stdout.write(command.help.endsWith('\n') ? command.help : `${command.help}\n`);
    return 0;
  }
  return command.main(args, io);
}

/** Resolves when all that was written has left the process, or can no longer leave it. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.once('close', resolve);
    if (stream.destroyed) resolve();
    else stream.write('', () => resolve());
  });
}

/** Milliseconds that a command that serves waits for whoever reads what it printed. */
const patienceMs = 1000;

/** What a command printed is its result: without it there is no success, and no use in going on. */
function resultLost(error: NodeJS.ErrnoException): void {
  // `sallyport check | head -1`: a reader that has seen enough needs no telling.
  if (error.code !== 'EPIPE') stderr.write(`sallyport: cannot write to standard output: ${error.message}\n`);
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
  stderr.write(`sallyport: Node ${process.versions.node} is too old: install ${leastNode.join('.')} or newer\n`);
  process.exit(1);
}
const argv = process.argv.slice(2);
const serves = commands.get(argv[0] ?? '')?.serves ?? false;
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
    const command = commands.has(argv[0] ?? '') ? ` ${argv[0]}` : '';
    const hint = error.hint === '' ? '' : ` (${error.hint})`;
    stderr.write(`sallyport${command}: ${error.message}${hint}\nTry: sallyport${command} --help\n`);
    status = usageExit;
  } else {
    stderr.write(`sallyport: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    status = 1;
  }
}
if (serves) setTimeout(() => process.exit(status), patienceMs);
await Promise.all([flushed(stdout), flushed(stderr)]);
process.exit(status);
