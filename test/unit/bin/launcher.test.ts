import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { bareEnvironment, checkout, sallyportCommand } from '../../support/sallyport.ts';

const { engines } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { engines: { node: string } };
const least = engines.node.replace('>=', '');
const [major = 0, minor = 0] = least.split('.').map(Number);

/** A program that says it is that Node, and then what it was asked to run. */
function pretender(t: Test, name: string, says: string): string {
  const file = join(t.testdirName, name);
  writeFileSync(
    file,
    `#!/bin/sh\nfor word; do case $word in --version) case $1 in --version|--max-semi-*|--single-*) ${says}; exit;; esac;; esac; done\necho ran "$@"\n`,
  );
  chmodSync(file, 0o755);
  return file;
}

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Without what tap puts into every Node below a test. */
function bare(env: Readonly<Record<string, string>>, ...command: string[]): Ended {
  return spawnSync('env', ['NODE_OPTIONS=', ...command], {
    env: bareEnvironment(env),
    cwd: checkout,
    encoding: 'utf8',
  });
}

const launch = (node: string, ...args: string[]): Ended => bare({ SALLYPORT_NODE: node }, sallyportCommand, ...args);

t.test('the launcher takes the Node that the package asks for, and none below', async (t) => {
  t.testdir();
  const rows: readonly (readonly [version: string, fine: boolean])[] = [
    [`v${major}.${minor}.0`, true],
    [`v${major}.${minor}.7`, true],
    [`v${major}.${minor + 1}.0`, true],
    [`v${major + 1}.0.0`, true],
    ['v100.0.0', true],
    ['v26.0.0-nightly20260101abcdef', true],
    [`v${major}.${minor - 1}.9`, false],
    [`v${major - 1}.99.0`, false],
    ['v20.20.2', false],
    ['v9.0.0', false],
    ['v0.12.18', false],
  ];
  for (const [version, fine] of rows) {
    const node = pretender(t, version, `echo ${version}`);
    const { status, stdout, stderr } = launch(node, 'run');
    t.equal(status, fine ? 0 : 1, version);
    if (fine) t.match(stdout, /^ran .*bin\/main\.ts run\n$/, version);
    else
      t.equal(
        stderr,
        `sallyport: Node ${version.slice(1)} (${node}) is too old: install ${least} or newer, or name one in SALLYPORT_NODE [node-too-old]\n`,
      );
  }
});

t.test('a Node without one of the flags runs without it, and that is said', async (t) => {
  t.testdir();
  const version = `v${major + 1}.0.0`;
  const all = [
    '--max-semi-space-size=4',
    '--single-threaded-gc',
    '--v8-pool-size=1',
    '--no-allocation-site-pretenuring',
    '--expose-gc',
  ];
  const newer = ['--no-memory-pool-share-memory-on-teardown', '--invocation-count-for-turbofan=1500'];
  const [returning = '', sooner = ''] = newer;
  for (const gone of [[], [returning], [sooner], newer, ['--single-threaded-gc'], [...all, ...newer]]) {
    const node = join(t.testdirName, `without-${gone.length}-${gone.join('').length}`);
    const refused = `case $word in ${['none', ...gone].join('|')}) echo "bad option: $word" >&2; exit 9;; esac`;
    const asked = `case "$*" in *--version) echo ${version}; exit;; esac`;
    writeFileSync(node, `#!/bin/sh\nfor word; do ${refused}; done\n${asked}\necho ran "$@"\n`);
    chmodSync(node, 0o755);
    const { status, stdout, stderr } = launch(node, 'run');
    const missed = gone.filter((flag) => !newer.includes(flag));
    t.equal(status, 0, `without ${gone}`);
    // What is a bonus anyway is only asked for where all else is there.
    const kept = gone.length > 0 ? all.filter((flag) => !gone.includes(flag)) : [...all, ...newer];
    t.ok(stdout.startsWith(['ran', ...kept, '--disable-warning'].join(' ')), stdout);
    const said = `sallyport: Node ${version.slice(1)} has no flag ${missed.join(' ')}: it runs without, and takes more memory or time [node-flags]\n`;
    t.equal(stderr, missed.length === 0 ? '' : said);
  }
});

t.test('most flags are for what serves', async (t) => {
  t.testdir();
  const node = pretender(t, 'node', `echo v${major + 1}.0.0`);
  for (const command of ['run', 'demo'])
    t.match(launch(node, command).stdout, /^ran --max-semi-space-size=4 --single-threaded-gc /, command);
  for (const command of ['replay', 'suggest'])
    t.match(launch(node, command).stdout, /^ran --single-threaded-gc --disable-warning=/, command);
  for (const command of ['who', 'diff', 'check', 'health', '--version', ''])
    t.match(launch(node, command).stdout, /^ran --disable-warning=ExperimentalWarning /, command);
});

t.test('what is no Node at all', async (t) => {
  t.testdir();
  for (const node of [
    join(t.testdirName, 'absent'),
    '/dev/null',
    t.testdirName,
    pretender(t, 'silent', ':'),
    pretender(t, 'fails', 'exit 3'),
    pretender(t, 'other', 'echo 1.2.3'),
    pretender(t, 'rude', 'echo v22.x.y'),
    pretender(t, 'letters', 'echo v22.1x.3'),
    pretender(t, 'bare', 'echo v'),
    pretender(t, 'words', "echo 'v1; rm -rf .9.9'"),
  ]) {
    const { status, stdout, stderr } = launch(node, '--version');
    t.match({ status, stdout }, { status: 1, stdout: '' }, node);
    t.match(stderr, /^sallyport: .*(is no Node\.js that runs|is too old): install .* \[node-too-old\]\n$/, node);
  }
});

const stock = '/usr/bin/node';
const stockVersion = spawnSync(stock, ['--version'], { encoding: 'utf8' }).stdout ?? '';
const isOld = /^v(1?\d|20|21)\./.test(stockVersion);
t.test('an old Node in flesh and blood', { skip: !isOld && `${stock} is not old` }, async (t) => {
  for (const args of [['run'], ['check', '.'], ['--version'], ['certs', 'init']]) {
    const { status, stdout, stderr } = launch(stock, ...args);
    t.match({ status, stdout }, { status: 1, stdout: '' }, args.join(' '));
    t.match(
      stderr,
      /^sallyport: Node \d+\.\d+\.\d+ \(\/usr\/bin\/node\) is too old: install 22\.19 or newer, [^\n]* \[node-too-old\]\n$/,
    );
  }
  // Without the launcher: the JavaScript of the package, as it is published.
  const folder = t.testdir();
  const js = join(folder, 'dist');
  const built = bare({}, 'npm', 'run', '--silent', 'bundle', '--', `--outdir=${js}/bin`);
  t.equal(built.status, 0, built.stderr);
  writeFileSync(join(folder, 'package.json'), readFileSync(join(checkout, 'package.json')));
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  const { status, stderr } = bare({}, stock, join(js, 'bin/main.js'), 'run');
  t.equal(status, 1);
  t.match(stderr, /^sallyport: Node \d+\.\d+\.\d+ is too old: install 22\.19 or newer \[node-too-old\]\n$/);
});
