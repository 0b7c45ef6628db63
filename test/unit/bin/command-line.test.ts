import { join } from 'node:path';
import t from 'tap';
import { type CommandName, parseCommandLine, UsageError } from '../../../bin/arguments.ts';
import { commandHelp, overview } from '../../../bin/help.ts';
import type { CommandRow } from '../../../bin/table/row.ts';
import { commandTable } from '../../../bin/table/table.ts';
import { faultCatalogue } from '../../../lib/errors/faults.ts';
import { wrapped } from '../../../lib/printable.ts';
import { missing, runToEnd } from '../../support/children.ts';
import { bareEnvironment, checkout, runSallyport, sallyportCommand } from '../../support/sallyport.ts';

const rows = Object.entries(commandTable) as [CommandName, CommandRow][];

/** What stands on the terminal of somebody who has mistyped. */
t.test('what is wrong, with its remedy', async (t) => {
  const file = join(t.testdir({ 'policy.yaml': '' }), 'policy.yaml');
  const wrong: readonly (readonly [args: readonly string[], said: string])[] = [
    [
      ['run', file],
      `sallyport run: unexpected argument "${file}" (its configuration is the environment: write SALLYPORT_POLICY=${file} sallyport run)`,
    ],
    [
      ['run', '--policy', file],
      'sallyport run: unknown flag --policy (its configuration is the environment: write SALLYPORT_POLICY=PATH sallyport run)',
    ],
    [
      ['run', '--pod-label', 'app=web'],
      'sallyport run: unknown flag --pod-label (its configuration is the environment)',
    ],
    [
      ['check', '--policy', file],
      'sallyport check: unknown flag --policy (write the path alone: sallyport check PATH)',
    ],
    [
      ['diff', '--policy', file, file],
      'sallyport diff: unknown flag --policy (write the paths alone: sallyport diff OLD NEW)',
    ],
    [
      ['suggest', '--policy', file],
      'sallyport suggest: unknown flag --policy (--policy is a flag of sallyport explain, sallyport who, sallyport can, sallyport replay, sallyport test)',
    ],
    [['run', '--polcy', file], 'sallyport run: unknown flag --polcy (its configuration is the environment)'],
    [['run', '--hlep'], 'sallyport run: unknown flag --hlep (did you mean --help?)'],
    [
      ['demo', 'x'],
      'sallyport demo: unexpected argument "x" (it has an app and a policy of its own; sallyport run is for yours)',
    ],
    [['health', 'x'], 'sallyport health: unexpected argument "x" (it takes flags alone)'],
    [['health', '--live', '--live=1'], 'sallyport health: --live takes no value (write --live alone)'],
    [['iptables', 'x'], 'sallyport iptables: unexpected argument "x" (it takes flags alone)'],
    [['explain', 'x.yaml'], 'sallyport explain: unexpected argument "x.yaml" (write --policy x.yaml)'],
    [['explain', '-'], 'sallyport explain: unexpected argument "-" (write --policy -)'],
    [['explain', '--identitiy', 'a'], 'sallyport explain: unknown flag --identitiy (did you mean --identity?)'],
    [['explain', '-port', '1'], 'sallyport explain: unknown flag -port (did you mean --port?)'],
    [['certs'], 'sallyport certs: init or issue is missing (write one of them first)'],
    [['certs', 'isue'], 'sallyport certs: unknown action "isue" (did you mean issue?)'],
    [['certs', 'init', 'x'], 'sallyport certs: unexpected argument "x" (one word is taken)'],
    [['version', 'x'], 'sallyport version: unexpected argument "x" (it takes flags alone)'],
    [['version', '--jsn'], 'sallyport version: unknown flag --jsn (did you mean --json?)'],
    [['help', 'dangling-targe'], 'sallyport help: unknown command dangling-targe (did you mean dangling-target?)'],
    [['help', 'chek'], 'sallyport help: unknown command chek (did you mean check?)'],
    [['help', 'check', 'x'], 'sallyport help: unexpected argument "x" (one word is taken)'],
    [['chek'], 'sallyport: unknown command chek (did you mean check?)'],
    [['Check'], 'sallyport: unknown command Check (did you mean check?)'],
    [[file], `sallyport: unknown command ${file} (to look at a file: sallyport check ${file})`],
    [['frobnicate'], 'sallyport: unknown command frobnicate (sallyport help lists the commands)'],
    [['constructor'], 'sallyport: unknown command constructor (sallyport help lists the commands)'],
    [['__proto__'], 'sallyport: unknown command __proto__ (sallyport help lists the commands)'],
    [[''], 'sallyport: unknown command "" (sallyport help lists the commands)'],
    [['check', '--constructor'], 'sallyport check: unknown flag --constructor'],
    [['check', ''], 'sallyport check: a path is empty (is a variable in it unset?)'],
    [['explain', '--policy='], 'sallyport explain: the path of --policy is empty (is a variable in it unset?)'],
    [['explain', '--requests', ''], 'sallyport explain: the path of --requests is empty (is a variable in it unset?)'],
    [['-'], 'sallyport: - stands before any command (write sallyport <command> [flags])'],
    [['--json', 'check'], 'sallyport: --json stands before any command (write sallyport <command> [flags])'],
    [['--verison'], 'sallyport: --verison stands before any command (did you mean --version?)'],
  ];
  for (const [args, said] of wrong) {
    const { code: status, stdout, stderr } = await runSallyport(t, args);
    const [coded = '', ...more] = stderr.trimEnd().split('\n');
    const [line, code] = coded.split(/ \[([a-z-]+)\]$/);
    t.ok(code !== undefined && code in faultCatalogue, `${said}: ${code}`);
    const named = rows.some(([name]) => name === args[0]) ? ` ${args[0]}` : '';
    t.same(
      { status, stdout, line, more },
      { status: 64, stdout: '', line: said, more: [`Try: sallyport${named} --help`] },
    );
  }
});

/** The fault of a command line, as it is printed; null where there is none. */
function faultOf(name: CommandName, args: readonly string[]): string | null {
  try {
    parseCommandLine(name, args);
    return null;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

t.test('a word or a flag too many is refused by every command', async (t) => {
  for (const [name, { words, flags }] of rows) {
    const action = words.kind === 'action' ? words.among[0] : undefined;
    const enough = words.kind === 'topic' ? ['run'] : action === undefined ? [] : [action];
    t.equal(faultOf(name, enough), null, name);
    if (words.kind !== 'paths') t.match(faultOf(name, [...enough, 'surplus']), /unexpected argument "surplus" \(.+\)/);
    t.match(faultOf(name, [...enough, '--nonesuch']), 'unknown flag --nonesuch', name);
    const known = Object.keys({ ...flags, help: 0, version: 0 });
    for (const [flag, { takes }] of Object.entries(flags)) {
      const given = (value: string): string | null => faultOf(name, [...enough, `--${flag}=x`, value]);
      const typo = flag.slice(0, -1);
      if (!known.includes(typo) && flag.length > 3) {
        const said = faultOf(name, [...enough, `--${typo}`]);
        t.match(said, new RegExp(`unknown flag --${typo} \\(did you mean --(${known.join('|')})\\?\\)`));
      }
      if (takes === 'switch') t.match(given('--help'), `--${flag} takes no value`);
      else t.match(faultOf(name, [...enough, `--${flag}`, '--json']), `--${flag} needs a value`, name);
      if (takes === 'value') t.match(given(`--${flag}=y`), `--${flag} is given twice`);
    }
  }
});

t.test('help and version, however they are asked for', async (t) => {
  const general = overview(80);
  const help = (name: CommandName): string => commandHelp(commandTable[name], 80);
  const version = /^sallyport \d+\.\d+\.\d+\n$/;
  const asked: readonly (readonly [args: readonly string[], stdout: string | RegExp])[] = [
    [['--help'], general],
    [['-h'], general],
    [['help'], general],
    [['help', '--help'], help('help')],
    [['--help', 'check'], help('check')],
    [['-h', 'check'], help('check')],
    [['help', 'check'], help('check')],
    [['check', '-h'], help('check')],
    [['check', 'x', '--nonesuch', '--help'], help('check')],
    [['help', 'version'], help('version')],
    [['help', 'dangling-target'], /^dangling-target: a warning of a document\.\nA policy .*\nCorrect name/],
    [['help', '[dangling-target]'], /^dangling-target: a warning/],
    [['help', 'ERR_SALLYPORT_LOOP'], /^ERR_SALLYPORT_LOOP: a request fails\.\n/],
    [['help', 'load-overdue'], /^load-overdue: a line of the log\.\n/],
    [['-v'], version],
    [['-V'], version],
    [['--version'], version],
    [['version'], version],
    [['check', '--version'], version],
    [['version', '--json'], /^\{"version":"\d+\.\d+\.\d+","node":"v\d+\.\d+\.\d+"\}\n$/],
    [['--version', '--json'], /^\{"version"/],
  ];
  for (const [args, stdout] of asked) {
    const run = await runSallyport(t, args);
    t.match({ code: run.code, stderr: run.stderr }, { code: 0, stderr: '' }, args.join(' '));
    if (typeof stdout === 'string') t.equal(run.stdout, stdout, args.join(' '));
    else t.match(run.stdout, stdout, args.join(' '));
  }
  t.match(await runSallyport(t, []), { code: 64, stdout: '', stderr: general });
});

t.test('a usage line names the flags, or says that there are some', (t) => {
  for (const [name, { usage, flags }] of rows) {
    const said = usage.join('\n');
    const unsaid = Object.keys(flags).filter((flag) => !said.includes(`--${flag}`));
    t.ok(unsaid.length === 0 || said.includes('[flags]'), `${name}: ${unsaid}`);
  }
  t.end();
});

t.test('help at any width: the same words, none torn, in lines and columns that fit', async (t) => {
  const flowing = (text: string): string => text.replace(/\s+/g, ' ').trim();
  for (const width of [40, 57, 80, 100, 120]) {
    for (const [name, text, wide] of [
      ['overview', overview(width), overview(1000)] as const,
      ...rows.map(([name, row]) => [name, commandHelp(row, width), commandHelp(row, 1000)] as const),
    ]) {
      t.equal(flowing(text), flowing(wide), `${name} at ${width}`);
      const lines = text.split('\n');
      for (const line of lines) {
        // A line may be longer only where it is one word, or one bracket of a usage line.
        const isOne = /^\s*(\[[^\]]*\]\S*|\S+)$/.test(line);
        t.ok(line.length <= width || isOne, `${name} at ${width}: ${line}`);
        t.notMatch(line, /\s$/, `${name} at ${width}: nothing hangs at an end`);
      }
    }
  }
  t.equal(wrapped('  ab cd ef', 6, 4), '  ab\n    cd\n    ef');
  t.equal(wrapped('', 10), '');
  t.equal(wrapped('longerthanthat a', 5), 'longerthanthat\na');
});

const noScript = await missing(t, 'script', 'stty');
t.test('help on a terminal is as wide as that, and at most 120', { skip: noScript }, async (t) => {
  const sizes: readonly (readonly [columns: number, width: number])[] = [
    [60, 60],
    [100, 100],
    [200, 120],
    [20, 40],
  ];
  for (const [columns, width] of sizes) {
    const shell = `stty cols ${columns} rows 50; ${sallyportCommand} explain --help`;
    const run = await runToEnd(t, 'script', ['-qec', shell, '/dev/null'], { cwd: checkout, env: bareEnvironment({}) });
    t.equal(run.stdout.replaceAll('\r', ''), commandHelp(commandTable.explain, width), `${columns} columns`);
  }
});
