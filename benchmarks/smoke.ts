/**
 * `npm run bench:smoke`: whether Sallyport's CPU time per request has become a quarter dearer since its ratio to HAProxy was
 * stored (smoke.json), scenario by scenario; `-- --renew` stores today's. Exit status 1 where it has, or where an answer was
 * wrong; 64 for usage. On a machine that is busy with other things it judges nothing, and stores nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Cores, divideCores, stayOn } from './machine.ts';
import { measure } from './measure.ts';
import { haproxy } from './peers/haproxy.ts';
import { sallyport } from './peers/sallyport.ts';
import { installCommand, lacking, missingPackages } from './programs.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { type Attempt, attemptOf, attemptsAtMost, type Judgement, judged, roundRatios, stored } from './smoke-judge.ts';
import { Workbench } from './workbench.ts';

const file = fileURLToPath(new URL('./smoke.json', import.meta.url));

/** One for each way through the proxy. */
const names = [
  'http1-keepalive',
  'http1-connection-per-request',
  'http10-keepalive',
  'http10-connection-per-request',
  'http1-post',
  'http1-post-chunked',
  'mtls-keepalive',
  'h2c-to-http1',
  'tcp-small',
] as const;

/** Fewer, and one slice that something disturbed decides; more, and CI waits. An odd number has a middle. */
const rounds = { check: 3, renew: 9 } as const;

async function attempt(scenario: Scenario, cores: Cores, count: number): Promise<Attempt> {
  const bench = new Workbench(cores);
  try {
    const result = await measure(
      bench,
      { ...scenario, direct: false },
      { peers: [sallyport, haproxy], rounds: count, seconds: 1, pauses: false, progress: () => {} },
    );
    return attemptOf(roundRatios(result));
  } finally {
    await bench.end();
  }
}

/** CI has other things to do: after this time nobody has another attempt. */
const patienceMs = 180_000;

/** A first attempt that is good enough is the last: what disturbs one seldom disturbs all. @throws when each one failed. */
async function check(scenario: Scenario, cores: Cores, wanted: number): Promise<Judgement & { attempts: number }> {
  const attempts: Attempt[] = [];
  const failures: unknown[] = [];
  for (;;) {
    try {
      attempts.push(await attempt(scenario, cores, rounds.check));
    } catch (error) {
      // A load may time out on a machine that is too busy; what is wrong with the proxy is wrong every time.
      failures.push(error);
      attempts.push(null);
    }
    const judgement = judged(attempts, wanted, performance.now() > patienceMs);
    if (judgement.verdict === 'again') continue;
    if (failures.length === attempts.length) throw failures[0];
    return { ...judgement, attempts: attempts.length };
  }
}

const sayings = {
  fine: 'fine',
  again: '',
  dearer: 'a request costs a quarter more, or worse',
  unknown: 'not judged, the machine has been too busy with other things',
} as const;

function chosen(words: readonly string[]): Scenario[] | string {
  const unknown = words.find((word) => !(names as readonly string[]).includes(word));
  if (unknown !== undefined) return `no scenario ${unknown}; there are ${names.join(', ')}`;
  const wanted: readonly string[] = words.length === 0 ? names : words;
  return scenarios.filter(({ name }) => wanted.includes(name));
}

async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { renew: { type: 'boolean', default: false } },
  });
  const wanted = chosen(positionals);
  if (typeof wanted === 'string') {
    process.stderr.write(`bench:smoke: ${wanted}\n`);
    return 64;
  }
  const cores = divideCores();
  const absent = lacking(['haproxy', 'nginx', 'taskset', 'setpriv', ...wanted.flatMap(({ needs }) => needs)]);
  if (cores === null || absent.length > 0) {
    const what = cores === null ? 'a second core' : `${absent.join(', ')}; run: ${installCommand(missingPackages())}`;
    process.stderr.write(`bench:smoke: there is no ${what}\n`);
    return 1;
  }
  stayOn(cores.load);
  const ratios = stored(readFileSync(file, 'utf8'));
  let failed = false;
  for (const scenario of wanted) {
    const { name } = scenario;
    if (values.renew) {
      const ratio = await attempt(scenario, cores, rounds.renew);
      if (ratio === null) failed = true;
      else ratios[name] = Number(ratio.toFixed(2));
      process.stdout.write(`${name.padEnd(32)}${ratio === null ? 'the machine is too busy' : ratio.toFixed(2)}\n`);
      continue;
    }
    const before = ratios[name];
    if (before === undefined)
      throw new Error(`smoke.json has no ratio for ${name}: npm run bench:smoke -- --renew ${name}`);
    const { verdict, best, attempts } = await check(scenario, cores, before);
    if (verdict === 'dearer') failed = true;
    const tries = attempts === 1 ? '' : `, ${attempts} of at most ${attemptsAtMost} attempts`;
    const ratio = best === null ? '' : `${best.toFixed(2)} of HAProxy, `;
    process.stdout.write(`${name.padEnd(32)}${ratio}stored ${before.toFixed(2)}: ${sayings[verdict]}${tries}\n`);
  }
  if (values.renew) writeFileSync(file, `${JSON.stringify(ratios, null, 2)}\n`);
  return failed ? 1 : 0;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130));

process.exitCode = await main(process.argv.slice(2));
