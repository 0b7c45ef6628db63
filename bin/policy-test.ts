import { writeFileSync } from 'node:fs';
import { fileFault } from '../lib/config/file-fault.ts';
import { usageExit } from '../lib/errors/exits.ts';
import { authorizerOf } from '../lib/policy/authorizer.ts';
import type { ExplainJson, ExplainQuery } from '../lib/policy/explain.ts';
import { Coverage, type CoverageReport, joinedReport } from '../lib/policy-test/coverage.ts';
import { JsonFormat } from '../lib/policy-test/json.ts';
import { mismatchesOf } from '../lib/policy-test/judge.ts';
import { JunitFormat } from '../lib/policy-test/junit.ts';
import { questionsOf } from '../lib/policy-test/questions.ts';
import { type CaseResult, isPassed, type TestFormat, type TestTotals } from '../lib/policy-test/result.ts';
import { TapFormat } from '../lib/policy-test/tap.ts';
import { type CommandLine, complain, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';
import { answerOf } from './explain-policy.ts';
import { type LoadedSuite, readQuestion, SuiteLoader } from './policy-test-load.ts';
import { PeopleFormat } from './policy-test-report.ts';
import { Progress } from './progress.ts';
import { drained } from './standard-output.ts';

type Flag = FlagOf<'test'>;

export const main: Main<'test'> = async (line, io) => {
  const policy = line.values('policy');
  if (line.words.length === 0)
    throw new UsageError('missing-argument', 'no test file', 'name one, or - for standard input');
  if (policy.includes('-') && line.words.includes('-')) {
    const hint = 'put one of them into a file';
    throw new UsageError('flags-conflict', 'standard input cannot be both --policy and a test', hint);
  }
  const wanted = wantedPercent(line);
  const sinks = sinksOf(line, io);
  const suites = await new SuiteLoader(policy, io).load(line.words);
  if (suites === null) return usageExit;
  const { totals, coverage } = await runSuites(suites, sinks, io);
  const isReported = writeReport(sinks.file, totals, coverage, io);
  const isCovered = wanted === null || coverage.percent >= wanted;
  if (!isCovered) {
    const message = `the cases exercise ${Math.floor(coverage.percent)} % of authorizations and rules, and ${wanted} % are required`;
    complain(io, 'sallyport test', { code: 'coverage-missed', message, hint: '--coverage lists the others' });
  }
  return totals.failed === 0 && isCovered && isReported ? 0 : 1;
};

function wantedPercent(line: CommandLine<Flag>): number | null {
  const given = line.value('require-coverage');
  if (given === null) return null;
  const percent = /^\d{1,3}$/.test(given) ? Number(given) : Number.NaN;
  if (percent <= 100) return percent;
  const message = `--require-coverage ${JSON.stringify(given)} is no percentage`;
  throw new UsageError('flag-value', message, 'write a whole number from 0 to 100');
}

interface Sinks {
  /** On standard output. */
  readonly format: TestFormat;
  readonly file: { readonly path: string; readonly format: TestFormat } | null;
}

function sinksOf(line: CommandLine<Flag>, io: Io): Sinks {
  const junit = line.value('junit');
  const chosen = [line.has('json') ? '--json' : '', line.has('tap') ? '--tap' : '', junit === '-' ? '--junit -' : ''];
  const [first, second] = chosen.filter((flag) => flag !== '');
  if (second !== undefined)
    throw new UsageError(
      'flags-conflict',
      `${first} and ${second} exclude each other`,
      'write --junit FILE, or run it twice',
    );
  const format = {
    '--json': () => new JsonFormat(),
    '--tap': () => new TapFormat(),
    '--junit -': () => new JunitFormat(),
  }[first ?? ''];
  const file = junit === null || junit === '-' ? null : { path: junit, format: new JunitFormat() };
  return { format: format?.() ?? new PeopleFormat(io.stdout, line.has('coverage')), file };
}

/** Case by case; where nobody reads the results any more it stops. */
async function runSuites(
  suites: readonly LoadedSuite[],
  { format, file }: Sinks,
  io: Io,
): Promise<{ readonly totals: TestTotals; readonly coverage: CoverageReport }> {
  const progress = new Progress(io.stderr);
  const all = suites.reduce((sum, { size }) => sum + size, 0);
  const coverages = new Map<string, Coverage>();
  const ports = new Set<number>();
  let passed = 0;
  let failed = 0;
  const print = async (text: string): Promise<void> => {
    if (text === '') return;
    progress.clear();
    if (io.stdout.write(text)) return;
    await drained(io.stdout);
  };
  await print(format.begin());
  for (const suite of suites) {
    const coverage = coverages.get(suite.policyKey) ?? new Coverage();
    coverages.set(suite.policyKey, coverage);
    coverage.add(suite.index, suite.documents, suite.workload.namespace);
    for (const result of resultsOf(suite)) {
      if (isPassed(result)) passed += 1;
      else failed += 1;
      coverage.count(result.answer);
      if (result.answer.server.kind === 'default') ports.add(result.query.port);
      progress.say(() => `${passed + failed} of ${all} cases, ${failed} failed`);
      file?.format.result(result);
      await print(format.result(result));
    }
  }
  progress.end();
  const files = new Set(suites.map(({ suite }) => suite.source.file)).size;
  const totals = { passed, failed, files, portsWithoutServer: [...ports].sort((a, b) => a - b) };
  const coverage = joinedReport([...coverages.values()].map((one) => one.report()));
  await print(format.end(totals, coverage));
  return { totals, coverage };
}

function* resultsOf(loaded: LoadedSuite): Generator<CaseResult> {
  const { suite, workload } = loaded;
  const { file } = suite.source;
  for (const one of suite.cases) {
    for (const question of questionsOf(one, workload)) {
      const read = readQuestion(question, one, workload);
      // Each was read before.
      if ('fault' in read) continue;
      const { query } = read;
      const { variant, who } = question;
      const answer = answerTo(loaded, query, one.repeat);
      const mismatches = mismatchesOf(one.expect, answer);
      const name =
        variant.name === null || one.name === null ? (variant.name ?? one.name) : `${one.name}, ${variant.name}`;
      const place = suite.source.position(variant.path);
      yield { name, file, ...place, query, who, repeat: one.repeat, answer, mismatches };
    }
  }
}

/** In a world of its own, in which nothing was asked before: no rate limit is spent. */
function answerTo({ index, documents, workload }: LoadedSuite, query: ExplainQuery, repeat: number): ExplainJson {
  const asked = { authorizer: authorizerOf(index), index, documents, workload };
  for (let i = 1; i < repeat; i++) answerOf(asked, query);
  return answerOf(asked, query);
}

/** False, with a complaint, where the file cannot be written: a CI system would take an old one for this run's. */
function writeReport(file: Sinks['file'], totals: TestTotals, coverage: CoverageReport, io: Io): boolean {
  if (file === null) return true;
  const { path, format } = file;
  try {
    writeFileSync(path, format.end(totals, coverage));
    return true;
  } catch (error) {
    const { why, remedy } = fileFault(path, error, 'Check the path.');
    complain(io, 'sallyport test', { code: 'report-lost', message: `${path} cannot be written: ${why}`, hint: remedy });
    return false;
  }
}
