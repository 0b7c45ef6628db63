import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Finished, runToEnd } from '../support/children.ts';
import { bareEnvironment, sallyportCommand } from '../support/sallyport.ts';
import { mapBounded } from '../support/until.ts';

/*
 * Every command against every sort of bad day: it ends, says what is wrong in lines without control characters and
 * without a stack trace, and with an exit status of its own.
 */
t.setTimeout(900_000);

interface Command {
  readonly name: string;
  /** Given a file that it reads, or a folder that it writes. */
  args(file: string): readonly string[];
  readonly reads: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

const commands: readonly Command[] = [
  { name: 'check', args: (file) => ['check', file], reads: true },
  { name: 'check --json', args: (file) => ['check', '--json', file], reads: true },
  {
    name: 'explain',
    args: (file) => ['explain', '--policy', file, '--port', '80', '--client', '10.0.0.1'],
    reads: true,
  },
  { name: 'explain --requests', args: (file) => ['explain', '--policy', '/dev/null', '--requests', file], reads: true },
  { name: 'explain --requests -', args: () => ['explain', '--policy', '/dev/null', '--requests', '-'], reads: false },
  { name: 'test', args: (file) => ['test', file], reads: true },
  { name: 'test --policy', args: (file) => ['test', '--policy', file, '--junit', `${file}.xml`, '-'], reads: true },
  { name: 'inject', args: (file) => ['inject', file], reads: true },
  { name: 'inject -', args: () => ['inject', '-'], reads: false },
  { name: 'certs init', args: (file) => ['certs', 'init', '--out', `${file}.d`], reads: false },
  { name: 'certs issue', args: (file) => ['certs', 'issue', '--out', file, '--dns', 'a.b'], reads: true },
  { name: 'iptables', args: () => ['iptables', '--print'], reads: false },
  { name: 'health', args: () => ['health'], reads: false, env: { SALLYPORT_HEALTH_LISTEN: '127.0.0.1:9' } },
  {
    name: 'run, a bad environment',
    args: () => ['run'],
    reads: true,
    env: { SALLYPORT_POD_LABELS_FILE: 'FILE', SALLYPORT_CONNECT_TIMEOUT: 'soon' },
  },
  { name: '--help', args: () => ['--help'], reads: false },
  { name: '--version', args: () => ['--version'], reads: false },
  { name: 'no such command', args: () => ['nonesuch\u001b[31m\u2028'], reads: false },
];

/** What the shell does around `"$@"`. */
const shells = {
  'all is well': 'exec "$@"',
  'stdout on a full disk': 'exec "$@" >/dev/full',
  'stdout and stderr on a full disk': 'exec "$@" >/dev/full 2>&1',
  'stdout closed': 'exec "$@" >&-',
  'stderr closed': 'exec "$@" 2>&-',
  'stdin closed': 'exec "$@" <&-',
  'a reader that is gone': '{ "$@"; echo "status $?" >&2; } | true',
} as const;

function run(t: Test, command: Command, file: string, script: string, more: readonly string[] = []): Promise<Finished> {
  const env = Object.fromEntries(Object.entries(command.env ?? {}).map(([k, v]) => [k, v.replace('FILE', file)]));
  return runToEnd(t, 'sh', ['-c', script, 'sh', sallyportCommand, ...command.args(file), ...more], {
    env: bareEnvironment(env),
    timeoutMs: 60_000,
  });
}

/** Control characters other than the ends of lines, and what terminals obey. */
const unprintable = /(?!\n)[\p{Cc}\u2028\u2029\u202a-\u202e]/u;

function judge(t: Test, what: string, finished: Finished, statuses: readonly number[]): void {
  const { code, signal, stdout, stderr } = finished;
  t.equal(signal, null, `${what}: no signal ended it`);
  t.ok(statuses.includes(code ?? -1), `${what}: exit status ${code}: ${encodeURI(stderr.slice(0, 200))}`);
  t.notMatch(stdout + stderr, /\n\s+at .*[:(]\d+:\d+|node:internal|Error: /, `${what}: no stack trace`);
  // `inject` prints what it was given, changed or not; what it says about it is on stderr.
  const said = what.startsWith('inject') ? stderr : stdout + stderr;
  t.notMatch(said, unprintable, `${what}: no control characters`);
}

const good = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, port: 80}
`;

for (const [shell, script] of Object.entries(shells)) {
  t.test(shell, async (t) => {
    const file = join(t.testdir(), 'file.yaml');
    writeFileSync(file, good);
    await mapBounded(commands, 2, async (command) => {
      const finished = await run(t, command, file, script);
      judge(t, command.name, finished, [0, 1, 64]);
      const said = /cannot write to standard output: ENOSPC/.test(finished.stderr);
      if (said) t.equal(finished.code, 1, `${command.name}: what could not be written is a failure`);
      if (shell === 'a reader that is gone') t.notMatch(finished.stderr, /EPIPE/, `${command.name}: quietly`);
    });
  });
}

t.test('files that are not what they should be', async (t) => {
  const folder = t.testdir();
  const at = (name: string): string => join(folder, name);
  mkdirSync(at('folder'));
  mkdirSync(at('folder with \u001b[31m\u2028 and \n in its name'));
  writeFileSync(at('control \u001b[31m\u0085 characters.yaml'), `kind: "\\e[31m\\u2028"\nmetadata: {name: "\\x9b"}\n`);
  writeFileSync(at('raw-controls.yaml'), 'kind: \u001b[31m\nmetadata: {name: a\u0000b}\n');
  writeFileSync(at('binary'), Buffer.from(Array.from({ length: 65_536 }, (_, i) => (i * 197) % 256)));
  writeFileSync(at('empty'), '');
  writeFileSync(at('one-line'), 'x'.repeat(4 * 1024 * 1024));
  writeFileSync(at('deep'), '['.repeat(50_000));
  writeFileSync(at('many.yaml'), good.concat('---\n').repeat(1_000));
  writeFileSync(at('many.jsonl'), `${JSON.stringify({ port: 80, client: '10.0.0.1' })}\n`.repeat(1_000));
  const places = [
    'missing',
    'folder',
    'folder with \u001b[31m\u2028 and \n in its name',
    'control \u001b[31m\u0085 characters.yaml',
  ];
  places.push('raw-controls.yaml', 'binary', 'empty', 'one-line', 'deep', 'many.yaml', 'many.jsonl', 'empty/below');
  const rows = places.flatMap((place) => commands.filter(({ reads }) => reads).map((command) => ({ place, command })));
  await mapBounded(rows, 2, async ({ place, command }) => {
    const finished = await run(t, command, at(place), 'exec "$@" </dev/null');
    judge(t, `${command.name}: ${encodeURI(place)}`, finished, [0, 1, 64]);
  });
});

t.test('flags that nobody knows', async (t) => {
  const file = join(t.testdir(), 'file.yaml');
  writeFileSync(file, good);
  await mapBounded(commands, 2, async (command) => {
    if (command.name.startsWith('--')) return;
    judge(t, command.name, await run(t, command, file, 'exec "$@"', ['--nonesuch\u001b[31m=\u2028']), [64]);
  });
});
