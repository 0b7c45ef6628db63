import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Cores, divideCores, machineFacts, stayOn } from './machine.ts';
import { markdown } from './markdown.ts';
import { everyPeer, measure, type ScenarioResult } from './measure.ts';
import { type MicroBenchmark, type MicroResult, microBenchmarks, microTable, runMicro } from './micro/micro.ts';
import type { Peer } from './peers/peer.ts';
import { before, sallyport } from './peers/sallyport.ts';
import { installCommand, installPackages, isInstalled, lacking, missingPackages, versionOf } from './programs.ts';
import { json, summary, table } from './report.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { Workbench } from './workbench.ts';

const help = `Usage: npm run bench -- [NAME…] [--rounds N] [--seconds S] [--requests N] [--quick] [--beside NAME,…] [--before FOLDER]
                     [--json FILE] [--markdown FILE] [--install]

Measures Sallyport beside HAProxy, nginx and Caddy, each on one core, with the same rule. Without names: everything.

Scenarios:
${names(scenarios)}
Micro benchmarks:
${names(microBenchmarks)}
  --rounds N   measured rounds of each proxy, alternating (default 10, at most 500)
  --seconds S  length of each round, whole seconds (default 2)
  --requests N how many growth asks (default 1000000)
  --quick      two rounds of one second, and smaller micro benchmarks: to see that everything works
  --beside NAME,…  beside these alone, of haproxy, nginx and caddy
  --before FOLDER  beside another checkout of Sallyport alone (packages installed there): what a change did
  --json FILE  writes everything measured, round by round
  --markdown FILE  writes the tables of benchmarks/README.md
  --install    installs what is missing with apt-get (as root)

Exit status: 0; 1 when an answer was wrong or something could not be run; 64 for usage; 130 when interrupted.
`;

function names(all: readonly { readonly name: string; readonly about: string }[]): string {
  return all.map(({ name, about }) => `  ${name.padEnd(30)}${about}\n`).join('');
}

interface Options {
  readonly names: readonly string[];
  readonly rounds: number;
  readonly seconds: number;
  readonly requests: number | null;
  readonly quick: boolean;
  readonly peers: readonly Peer[];
  readonly json: string | null;
  readonly markdown: string | null;
  readonly install: boolean;
}

const usageExit = 64;
class UsageError extends Error {}

function parse(args: readonly string[]): Options | 'help' {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      requests: { type: 'string' },
      quick: { type: 'boolean', default: false },
      beside: { type: 'string' },
      before: { type: 'string' },
      json: { type: 'string' },
      markdown: { type: 'string' },
      install: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  const known = [...scenarios, ...microBenchmarks].map(({ name }) => name);
  for (const name of positionals) {
    if (!known.includes(name)) throw new UsageError(`no scenario ${name}; there are ${known.join(', ')}`);
  }
  if (values.before !== undefined && values.beside !== undefined)
    throw new UsageError('--before compares two checkouts alone: leave out --beside');
  return {
    names: positionals.length === 0 ? known : positionals,
    rounds: roundsOf(values.rounds ?? (values.quick ? '2' : '10')),
    seconds: wholeNumber('seconds', values.seconds ?? (values.quick ? '1' : '2')),
    requests: values.requests === undefined ? null : wholeNumber('requests', values.requests, 9),
    quick: values.quick,
    peers: values.before === undefined ? besides(values.beside) : [before(checkoutAt(values.before)), sallyport],
    json: values.json ?? null,
    markdown: values.markdown ?? null,
    install: values.install,
  };
}

/** @throws UsageError for a proxy that there is not. */
function besides(list: string | undefined): readonly Peer[] {
  if (list === undefined) return everyPeer;
  const wanted = list.split(',');
  const others = everyPeer.filter(({ name }) => name !== sallyport.name);
  const unknown = wanted.find((name) => !others.some((peer) => peer.name === name));
  if (unknown !== undefined)
    throw new UsageError(`--beside: no ${unknown || 'name'}; there are ${others.map(({ name }) => name).join(', ')}`);
  return [sallyport, ...others.filter(({ name }) => wanted.includes(name))];
}

function checkoutAt(folder: string): string {
  const checkout = resolve(folder);
  for (const needed of ['bin/sallyport', 'node_modules/.bin/tsc']) {
    if (!existsSync(join(checkout, needed))) throw new UsageError(`--before ${folder}: there is no ${needed} in it`);
  }
  return checkout;
}

function wholeNumber(name: string, text: string, mostDigits = 4): number {
  if (!/^[1-9]\d*$/.test(text) || text.length > mostDigits)
    throw new UsageError(`--${name} takes a whole number from 1, not ${text}`);
  return Number(text);
}

/** Of as many rounds the sign test can tell: of ten thousand the least chance is no number any more. */
function roundsOf(text: string): number {
  const rounds = wholeNumber('rounds', text);
  if (rounds > 500) throw new UsageError(`--rounds takes at most 500, not ${text}`);
  return rounds;
}

/** One line that is written over, on a terminal; elsewhere the finished tables are all there is to see. */
function progress(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${line}`);
}

async function runScenario(
  scenario: Scenario,
  cores: Cores | null,
  { rounds, seconds, peers }: Options,
): Promise<ScenarioResult> {
  if (cores === null) throw new Error('two cores are needed: one for the proxy, one for load and app');
  expectInstalled(scenario.name, [...scenario.needs, 'nginx', 'taskset', 'setpriv']);
  const bench = new Workbench(cores);
  try {
    return await measure(bench, scenario, { rounds, seconds, peers, pauses: true, progress });
  } finally {
    await bench.end();
    progress('');
  }
}

async function runMicroBenchmark(
  benchmark: MicroBenchmark,
  { quick, requests }: Pick<Options, 'quick' | 'requests'>,
): Promise<MicroResult> {
  expectInstalled(benchmark.name, benchmark.needs);
  progress(`${benchmark.name}: running`);
  try {
    return await runMicro(benchmark, { quick, requests, progress });
  } finally {
    progress('');
  }
}

function expectInstalled(name: string, needs: Parameters<typeof lacking>[0]): void {
  const absent = lacking(needs);
  if (absent.length > 0) throw new Error(`${name} needs ${absent.join(', ')}; ${remedy()}`);
}

function remedy(): string {
  return `run: ${installCommand(missingPackages())}`;
}

async function main(args: readonly string[]): Promise<number> {
  let options: Options | 'help';
  try {
    options = parse(args);
  } catch (error) {
    process.stderr.write(`bench: ${(error as Error).message}\n`);
    return usageExit;
  }
  if (options === 'help') {
    process.stdout.write(help);
    return 0;
  }
  if (options.install) installPackages(missingPackages());
  const missing = missingPackages();
  if (missing.length > 0) process.stderr.write(`bench: left out for want of ${missing.join(', ')}; ${remedy()}\n`);

  const { names } = options;
  const startedAt = new Date();
  const machine = machineFacts();
  process.stdout.write(
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Node ${machine.node}, ` +
      `commit ${machine.commit ?? 'unknown'}, ${startedAt.toISOString()}\n\n`,
  );
  const failures: string[] = [];
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      const { message } = error as Error;
      failures.push(message);
      process.stderr.write(`bench: ${message}\n`);
    }
  };

  const cores = divideCores();
  const stay = (on: (divided: Cores) => string): void => {
    if (cores !== null && isInstalled('taskset')) stayOn(on(cores));
  };
  stay(({ load }) => load);
  const results: ScenarioResult[] = [];
  for (const scenario of scenarios.filter(({ name }) => names.includes(name))) {
    await attempt(async () => {
      const result = await runScenario(scenario, cores, options);
      results.push(result);
      process.stdout.write(`${table(result)}\n\n`);
    });
  }
  stay(({ proxy, load }) => `${load},${proxy}`);
  const micro: Record<string, MicroResult> = {};
  for (const benchmark of microBenchmarks.filter(({ name }) => names.includes(name))) {
    await attempt(async () => {
      const result = await runMicroBenchmark(benchmark, options);
      micro[benchmark.name] = result;
      process.stdout.write(`${microTable(benchmark, result)}\n\n`);
    });
  }
  if (results.length > 1) process.stdout.write(`${summary(results)}\n`);
  const versions = Object.fromEntries(
    [...options.peers.flatMap(({ program }) => program ?? []), ...(['wrk', 'ab', 'h2load'] as const)]
      .filter((program) => isInstalled(program))
      .map((program) => [program, versionOf(program)]),
  );
  const { rounds, seconds } = options;
  if (options.json !== null) {
    writeFileSync(options.json, json({ machine, versions, startedAt, rounds, seconds, results, micro, failures }));
  }
  if (options.markdown !== null) {
    const known = Object.entries(versions).map(([program, version]) => `${program} ${version}`);
    const head =
      `${startedAt.toISOString().slice(0, 10)}; ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ` +
      `Linux ${machine.kernel}, Node ${machine.node}; ${known.join(', ')}; commit ${machine.commit ?? 'unknown'}, ` +
      `${rounds} rounds of ${seconds} s.`;
    const tables = microBenchmarks.flatMap((benchmark) => {
      const result = micro[benchmark.name];
      return result === undefined ? [] : [{ benchmark, result }];
    });
    writeFileSync(options.markdown, markdown(head, results, tables));
  }
  return failures.length === 0 ? 0 : 1;
}

// Children end with this process (test/support/children.ts); the exit handler of the workbench removes its folder.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130));

process.exitCode = await main(process.argv.slice(2));
