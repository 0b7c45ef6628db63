/**
 * README and the pages behind it against the program: their tables are the code's, the output they show is what the commands
 * print, and what they link to is there. A row that is missing, wrong or left over fails.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import pino from 'pino';
import t, { type Test } from 'tap';
import { variables } from '../../lib/config/variables.ts';
import { exitMeanings, exitText } from '../../lib/errors/exits.ts';
import { documentKinds } from '../../lib/policy/documents/kinds.ts';
import { refusals } from '../../lib/policy/refusals.ts';
import { defaultPolicies } from '../../lib/policy/workload.ts';
import { type Failure, failureOf, failures, upstreamFailure } from '../../lib/proxy/http/refuse.ts';
import { candidateMetrics } from '../../lib/telemetry/candidate-metrics.ts';
import { limits as labelLimits } from '../../lib/telemetry/labels.ts';
import { createTelemetry } from '../../lib/telemetry/metrics.ts';
import { workerMetrics } from '../../lib/telemetry/worker-metrics.ts';
import { claims, inPart, noClaim, proseOf } from '../support/readme-claims.ts';
import {
  allPages,
  bare,
  everyPage,
  expand,
  linksOf,
  pages,
  reachableFrom,
  section,
  table,
  textOf,
} from '../support/readme-page.ts';
import { schemaText, tables, withTables } from '../support/readme-tables.ts';
import { testsOfRooms } from '../support/test-map.ts';
import { slowTests, unitTests } from '../support/unit-tests.ts';

// It starts every command that the pages show, and a busy machine takes its time.
t.setTimeout(900_000);

const root = resolve(import.meta.dirname, '../..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

t.test('expansion', async (t) => {
  t.same(expand('a'), ['a']);
  t.same(expand('a_{b,c}_{d,e}'), ['a_b_d', 'a_b_e', 'a_c_d', 'a_c_e']);
});

t.test('a section is found on whichever page has it, and on one alone', async (t) => {
  const two = ['# Title\n\n## A\n\na\n\n## B\n\nb\n', '# C\n\nc\n\n## A b\n\n## B\n'];
  t.equal(section('A', two), '\na\n');
  t.equal(section('C', two), '\nc\n\n## A b\n\n## B\n', 'a title is of all of its page');
  t.throws(() => section('D', two), /no page has a section "D"/);
  t.throws(() => section('B', two), /2 sections are called "B"/);
});

t.test('the environment table: every variable, in order, with its default', async (t) => {
  const rows = table('Environment', 'variable');
  t.same(
    rows.map(([name, shown]) => [name, bare(shown)]),
    Object.entries(variables).map(([name, { shown }]) => [`\`${name}\``, shown]),
  );
  for (const [name, , meaning] of rows) t.ok(meaning, `${name} has a meaning`);
  // A misspelt one among the faults that are provoked is meant to be none.
  const mentioned = new Set(allPages.replaceAll('SALLYPORT_POLCY', '').match(/(?<!ERR_)SALLYPORT_[A-Z0-9_]+[A-Z]/g));
  const launcher = readFileSync(join(root, 'bin/sallyport'), 'utf8');
  for (const name of mentioned) {
    t.ok(Object.hasOwn(variables, name) || launcher.includes(`\${${name}:-}`), `${name} is a variable`);
  }
});

t.test('document kinds and versions', async (t) => {
  const shown = table('Policy documents', 'kind').map(([kind, group, versions]) => [kind, bare(group), versions]);
  const known = documentKinds.map(({ kind, group, shapes }) => [kind, group, Object.keys(shapes).join(', ')]);
  t.same(shown.sort(), known.sort());
});

t.test('default policies', async (t) => {
  const shown = table('How a decision is made', 'default policy').map(([name]) => bare(name));
  t.same(shown.sort(), [...defaultPolicies].sort());
});

t.test('refusals', async (t) => {
  const unreachable: Readonly<Record<string, Failure>> = {
    'app refuses or resets': upstreamFailure({ code: 'ECONNREFUSED' }),
    'app sends no valid response': failureOf('ERR_SALLYPORT_BAD_RESPONSE'),
    'connecting times out': upstreamFailure({ code: 'ERR_SALLYPORT_CONNECT_TIMEOUT' }),
    overload: failures.overload,
    'request times out': failures.requestTimeout,
    'head too large for the app': upstreamFailure({ code: 'ERR_SALLYPORT_HEAD_TOO_LARGE' }),
    loop: upstreamFailure({ code: 'ERR_SALLYPORT_LOOP' }),
  };
  const connection = (close: boolean): string => (close ? 'closed' : 'kept');
  const expected = [
    ...Object.entries(refusals).map(([name, { http, grpc, close }]) => [name, `${http}`, `${grpc}`, connection(close)]),
    ...Object.entries(unreachable).map(([name, { refusal }]) => [
      name,
      `${refusal.status}`,
      `${refusal.grpc}`,
      connection(refusal.close),
    ]),
  ];
  const shown = table('Refusals', 'verdict').map(([name, ...rest]) => [bare(name), ...rest.slice(0, 3)]);
  t.same(shown.sort(), expected.sort());
});

t.test('tables that are made from the program', async (t) => {
  for (const page of Object.keys(tables)) {
    const text = readFileSync(join(root, page), 'utf8');
    t.ok(withTables(page, text) === text, `${page}: npm run readme writes them`);
    t.throws(() => withTables(page, ''), /the page has no table/);
    t.throws(() => withTables(page, `${text}<!-- table: what -->`), /nobody makes the table "what"/);
  }
});

t.test('metrics: every family of the exposition, with its type', async (t) => {
  const build = { version: '0', gitSha: '', date: '' };
  const telemetry = createTelemetry({ log: pino({ enabled: false }), accessLog: null, build, processStart: 0 });
  workerMetrics(telemetry.registry, {
    serving: () => 1,
    deaths: () => new Map(),
    openConnections: () => [],
    figuresAges: () => new Map(),
  });
  telemetry.candidateCounts();
  candidateMetrics(telemetry.registry, {
    ...{ isLoaded: false, isStale: false, loadErrors: 0, agreementSeconds: () => null },
  });
  const { body } = await telemetry.exposition();
  const exposed = [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]);
  const shown = table('Metrics', 'metric').flatMap(([name, type]) => expand(bare(name)).map((each) => [each, type]));
  t.same(shown.sort(), exposed.filter(([name]) => !name?.startsWith('nodejs_')).sort());
});

t.test('dependencies', async (t) => {
  const shown = table('Dependencies', 'dependency').flatMap(([names]) => bare(names).split(', '));
  t.same(shown.sort(), Object.keys(manifest.dependencies).sort());
});

t.test('every command, and nothing that is none', async (t) => {
  const { stdout } = spawnSync(join(root, 'bin/sallyport'), ['--help'], { encoding: 'utf8' });
  const known = [...stdout.matchAll(/^ {2}(\w+) +\S/gm)].map(([, name]) => name);
  const shown = table('Commands', 'command').map(([usage]) => bare(usage).split(' ')[1]);
  t.same(shown.sort(), known.sort());
  for (const [usage, , statuses] of table('Commands', 'command')) {
    const command = bare(usage).split(' ')[1] as keyof typeof exitMeanings;
    const asRun = statuses === 'as `run`' && exitMeanings[command] === exitMeanings.run;
    t.ok(asRun || statuses === exitText(command), `the exit statuses of ${command}: ${exitText(command)}`);
    const help = spawnSync(join(root, 'bin/sallyport'), [command, '--help'], { encoding: 'utf8' }).stdout;
    const flowing = help.replace(/\s+/g, ' ');
    t.ok(flowing.endsWith(` Exit status: ${exitText(command)}. `), `${command} --help has them too`);
  }
  const scripts = [...allPages.matchAll(/npm (?:run )?(\w+)`/g)].map(([, name = '']) => name);
  for (const name of new Set(scripts)) t.ok(Object.hasOwn(manifest.scripts, name), `npm run ${name}`);
});

t.test('the figures of the first page are those of the benchmarks', async (t) => {
  const told = section('When to choose it').match(
    /HAProxy's CPU time over Sallyport's is ([\d.]+) .*? ([\d.]+) .*? ([\d.]+) /s,
  );
  const page = readFileSync(join(root, 'benchmarks/README.md'), 'utf8');
  const rows = ['http1-keepalive', 'http1-connection-per-request', 'mtls-keepalive'];
  const measured = rows.map((row) => new RegExp(`^\\| ${row} .*?\\*\\*([\\d.]+)\\*\\*`, 'm').exec(page)?.[1]);
  t.same(told?.slice(1, 4), measured);
});

t.test('install: this version, on the Node that the package asks for', async (t) => {
  const least = manifest.engines.node.replace('>=', '');
  const [machine, engine] = table('Install', 'where').map((cells) => cells.join(' '));
  const page = readFileSync(join(root, 'lib/deploy/systemd/README.md'), 'utf8');
  for (const text of [machine ?? '', page]) {
    t.ok(text.includes(`npm install --global ./sallyport-${manifest.version}.tgz`), manifest.version);
    t.ok(text.includes(`Node ${least} `), least);
  }
  const containerfile = readFileSync(join(root, 'Containerfile'), 'utf8');
  for (const command of ['podman build --format docker -t sallyport .', 'podman run --read-only --cap-drop=all ']) {
    t.ok(engine?.includes(command) && containerfile.includes(command), command);
  }
  const given = [...(engine?.matchAll(/-e (SALLYPORT_\w+)=/g) ?? [])].map(([, name = '']) => name);
  t.ok(
    given.length >= 4 && given.every((name) => Object.hasOwn(variables, name)),
    'the example has a policy, a pod and a port',
  );
  for (const page of ['CHANGELOG.md', 'SECURITY.md', 'CONTRIBUTING.md']) {
    t.ok(section('Install').includes(`](${page})`), `${page} is linked where people look for it`);
  }
  t.match(
    readFileSync(join(root, 'CHANGELOG.md'), 'utf8'),
    new RegExp(`^## ${manifest.version.replaceAll('.', '\\.')}$`, 'm'),
  );
});

/** Whether a link of a page leads somewhere: to a file, and to what GitHub makes of a heading. */
function leads(target: string, page: string, text: string): boolean {
  if (target.startsWith('https://')) return true;
  const [file = '', heading] = target.split('#');
  const path = join(root, dirname(page), file);
  if (file !== '' && !existsSync(path)) return false;
  if (heading === undefined) return true;
  const there = file === '' ? text : readFileSync(path, 'utf8');
  return [...there.matchAll(/^##+ (.+)$/gm)].some(([, title = '']) => slug(title) === heading);
}

function slug(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replace(/\s/g, '-');
}

t.test('links of every page lead somewhere', async (t) => {
  const readme = textOf('README.md');
  t.ok(leads('#start', 'README.md', readme), 'a heading');
  t.notOk(leads('#nowhere', 'README.md', readme), 'no heading');
  t.notOk(leads('lib/nowhere.ts', 'README.md', readme), 'no file');
  t.ok(leads('../README.md#start', 'lib/README.md', ''), "another page's heading");
  t.ok(linksOf(readme).length > 30, 'links are found at all');
  for (const page of everyPage()) {
    const text = textOf(page);
    for (const link of new Set(linksOf(text))) t.ok(leads(link, page, text), `${page}: ${link}`);
  }
});

t.test('README is a first page: short, and it leads to every other', async (t) => {
  const readme = textOf('README.md');
  const lines = readme.split('\n').length - 1;
  t.ok(lines < 500, `${lines} lines, below 500: what is more stands on a page beside the code that does it`);
  // A third of it are the differences from Linkerd, each of which has its row on this page.
  t.ok(Buffer.byteLength(readme) < 53_000, `${Buffer.byteLength(readme)} bytes, below 53,000`);
  const known = everyPage();
  t.ok(known.length > 15, 'pages are found at all');
  const reached = reachableFrom('README.md', known);
  for (const page of known) t.ok(reached.has(page), `${page} can be reached from README.md by links`);
  const onward = section('Where to read on');
  for (const page of pages.filter((page) => page !== 'README.md')) {
    t.ok(onward.includes(`](${page})`), `${page} is in the table of where to read on`);
    const [, first = ''] = /^# [^\n]+\n\n(.+?)\n\n/s.exec(textOf(page)) ?? [];
    const back = linksOf(first).map((link) => join(dirname(page), link));
    t.ok(back.includes('README.md'), `${page} begins with a title, whom it is for, and a link back`);
  }
});

/** Of the other pages only the links are looked at: their names are those of an example, or of their own folder. */
const pagesOfNames = [
  ...['CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'lib/README.md', 'lib/decisions.md'],
  ...['lib/deploy/README.md', 'lib/deploy/systemd/README.md'],
];

t.test('the pages name no file and no script that is not there', async (t) => {
  const names = new Set(
    ['lib', 'bin', 'certs', 'test', 'benchmarks'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => basename(file)),
    ),
  );
  for (const page of new Set([...pages, ...pagesOfNames])) {
    const text = textOf(page);
    const unlinked = text.replace(/\[[^\]]*\]\([^)]*\)/g, '');
    for (const [name] of unlinked.matchAll(/(?<![\w./-])[\w./-]+\.ts\b/g)) {
      const isThere = name.includes('/') ? existsSync(join(root, name)) : names.has(name);
      t.ok(isThere, `${page}: ${name}`);
    }
    for (const [, name = ''] of text.matchAll(/`npm run (\w[\w:]*)/g)) {
      t.ok(Object.hasOwn(manifest.scripts, name), `${page}: npm run ${name}`);
    }
  }
});

t.test('tests: every file of lib has some, and all that is named is there', async (t) => {
  const text = readFileSync(join(root, 'test/README.md'), 'utf8');
  for (const { room, tests } of testsOfRooms())
    t.not(tests.length, 0, `${room} is exercised: say by what (test-map.ts)`);
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  for (const link of new Set(links)) t.ok(existsSync(join(root, 'test', link)), link);
  for (const slow of slowTests.keys()) t.ok(existsSync(join(root, slow)), `${slow}, left out of npm run test:unit`);
  t.ok(unitTests().length > 60, 'the rest is in it');
});

t.test('every deliberate difference names the test that proves it', async (t) => {
  for (const [here = '', linkerd, why, proof = ''] of table('Deliberate differences from Linkerd', 'here')) {
    t.ok(linkerd !== '' && why !== '', here);
    const tests = [...proof.matchAll(/\]\((test\/[\w./-]+\.test\.ts)\)/g)];
    t.ok(tests.length > 0, `tested: ${here}`, proof === '' ? { todo: 'no test is named yet' } : {});
  }
});

/** The first block of a section that is of this language. */
function blockOf(title: string, language: 'yaml' | 'console'): string {
  const [, block] = new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(section(title)) ?? [];
  if (block === undefined) throw new Error(`section "${title}" has no ${language}`);
  return block;
}

/** Runs the lines of a session in a folder, and compares what each prints; yields how many there are. */
function followSession(t: Test, session: string, folder: string): number {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('SALLYPORT_'));
  const env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(inherited),
    PATH: `${join(root, 'bin')}${delimiter}${process.env.PATH ?? ''}`,
    NO_COLOR: '1',
  };
  const steps = session.split(/^\$ /m).slice(1);
  for (const step of steps) {
    const [command = '', ...shown] = step.trimEnd().split('\n');
    if (command.startsWith('export ')) {
      for (const [, name = '', value] of command.matchAll(/(\w+)=(\S+)/g)) env[name] = value;
      continue;
    }
    const { stdout, stderr } = spawnSync('sh', ['-c', command], { cwd: folder, env, encoding: 'utf8' });
    t.equal(stdout.trimEnd(), shown.join('\n'), command);
    t.equal(stderr, '', `${command}: nothing on stderr`);
  }
  return steps.length;
}

/** A folder with the first policy in it. */
function folderOfPolicy(t: Test, policy: string): string {
  const folder = t.testdir();
  mkdirSync(join(folder, 'policy'));
  writeFileSync(join(folder, 'policy', 'web.yaml'), policy);
  return folder;
}

t.test('the first policy: what the commands print is what is shown', async (t) => {
  const folder = folderOfPolicy(t, blockOf('First policy', 'yaml'));
  t.ok(followSession(t, blockOf('First policy', 'console'), folder) > 5, 'commands are found at all');
});

t.test('testing a policy: what the commands print is what is shown', async (t) => {
  const folder = folderOfPolicy(t, blockOf('First policy', 'yaml').replace('name: order }', 'name: orders }'));
  writeFileSync(join(folder, 'web-test.yaml'), blockOf('Testing a policy', 'yaml'));
  t.ok(followSession(t, blockOf('Testing a policy', 'console'), folder) > 3, 'commands are found at all');
});

t.test('comparing policies: what the commands print is what is shown', async (t) => {
  const folder = folderOfPolicy(t, blockOf('First policy', 'yaml').replace('name: order }', 'name: orders }'));
  t.ok(followSession(t, blockOf('Comparing policies', 'console'), folder) > 4, 'commands are found at all');
});

t.test('replaying decisions: what the commands print is what is shown', async (t) => {
  const folder = folderOfPolicy(t, blockOf('First policy', 'yaml').replace('name: order }', 'name: orders }'));
  const session = blockOf('Recording and replaying decisions', 'console');
  writeFileSync(join(folder, 'decisions.jsonl'), session.match(/^\{"decision".*\n/gm)?.join('') ?? '');
  t.ok(followSession(t, session, folder) > 4, 'commands are found at all');
});

t.test('the JSON Schema of policy tests is that of their reader', async (t) => {
  const schema = 'lib/policy-test/policy-test.schema.json';
  t.ok(readFileSync(join(root, schema), 'utf8') === schemaText(), 'npm run readme writes it');
  t.ok(manifest.files.includes(schema), 'and the package has it');
});

t.test('prose: what checks each paragraph is named, and is there', async (t) => {
  t.same(Object.keys(claims), pages, 'of every page');
  for (const [page, sections] of Object.entries(claims)) {
    const left = new Set(
      Object.entries(sections).flatMap(([title, ones]) => Object.keys(ones).map((one) => `${title}: ${one}`)),
    );
    for (const [title, text] of proseOf(textOf(page))) {
      if (inPart.includes(page) && sections[title] === undefined) continue;
      const [begins, tests] = Object.entries(sections[title] ?? {}).find(([one]) => text.startsWith(one)) ?? [];
      t.ok(begins, `in test/support/readme-claims.ts, ${page}, "${title}": what checks "${text.slice(0, 60)}"`);
      left.delete(`${title}: ${begins}`);
      for (const test of tests === undefined || tests === noClaim ? [] : tests.split(' ')) {
        t.ok(existsSync(join(root, 'test', `${test}.test.ts`)), `${page}, ${title}, "${begins}": ${test}`);
      }
    }
    t.same([...left], [], `nothing is checked that ${page} does not say any more`);
  }
});

t.test('prose: the numbers are those of the code', async (t) => {
  const rows: readonly (readonly [said: string, value: number])[] = [
    ['(\\S+) client identities', labelLimits.clientIds],
    ['(\\S+) targets that no document names', labelLimits.unnamedTargets],
    ['(\\S+) that one does', labelLimits.namedTargets],
    ['(\\S+) names by which TLS for others asked', labelLimits.snis],
  ];
  const prose = allPages.replace(/\s+/g, ' ');
  for (const [said, value] of rows)
    t.equal(Number(new RegExp(said).exec(prose)?.[1]?.replaceAll(',', '')), value, said);
});
