import { readConfig } from '../lib/config/config.ts';
import { readManifest } from '../lib/config/manifest.ts';
import { type ConfigFault, faultText } from '../lib/config/variables.ts';
import { problemCatalogue, withRemedy } from '../lib/errors/problems.ts';
import { unusedAllowed } from '../lib/policy/documents/allowed-in-vain.ts';
import { jsonText, oneLine } from '../lib/printable.ts';
import type { Problem } from '../lib/problem.ts';
import { complain, type Io, type Main, UsageError } from './arguments.ts';
import { identityProblems } from './check-identity.ts';
import { linkingProblems } from './check-pods.ts';
import { type PrintedProblem, problemText } from './problem-text.ts';
import { Progress } from './progress.ts';
import { loadGiven } from './standard-input.ts';

export const main: Main<'check'> = async (line, io) => {
  const fromEnvironment = io.env.SALLYPORT_POLICY?.trim();
  const paths = line.words.length > 0 ? line.words : fromEnvironment ? [fromEnvironment] : [];
  if (paths.length === 0) {
    throw new UsageError(
      'missing-argument',
      'nothing to check',
      'name a file or folder, write - for standard input, or set SALLYPORT_POLICY',
    );
  }
  const read = readConfig(io.env, { readManifest, answersForSidecar: true });
  if (!read.ok) throw new UsageError(read.faults.map(faultText));
  const { workload, ofSidecar, warnings, identity } = read.config;

  const load = await loadGiven({ paths, namespace: workload.namespace }, io);
  const progress = new Progress(io.stderr);
  const linking = linkingProblems(load, workload, { ...Object.fromEntries(ofSidecar), ...io.env }, (pod, of) =>
    progress.say(() => `checking for pod ${pod} of ${of} that are selected`),
  );
  progress.end();
  const whole =
    linking.everyPod && linking.unexamined === 0 && load.problems.every(({ severity }) => severity !== 'error');
  const allowed = inReadingOrder([...load.allowed, ...linking.allowed].map(withRemedy));
  const unused = whole ? unusedAllowed(load.documents, allowed) : [];
  const problems: readonly PrintedProblem[] = [
    ...inReadingOrder([...load.problems, ...linking.problems, ...unused].map(withRemedy)),
    ...(await identityProblems(identity, new Date())),
  ];
  const errors = problems.filter((problem) => problem.severity === 'error').length;
  if (linking.untried > 0) {
    const hint = 'set SALLYPORT_POD_LABELS to check for one pod';
    const message = `${count(linking.untried, 'selector')} more could not be tried`;
    complain(io, 'warning', { code: 'untried-selectors', message, hint });
  }
  if (linking.unexamined > 0) {
    const hint = 'set SALLYPORT_POD_LABELS to check for one pod, or check fewer routes at once';
    const message = `whether any request finds them was not examined of ${count(linking.unexamined, 'rule')} of routes`;
    complain(io, 'warning', { code: 'unexamined-rules', message, hint });
  }
  warnOf(warnings, io);
  if (line.has('json')) {
    io.stdout.write(`${jsonText({ ok: errors === 0, problems, ...(allowed.length === 0 ? {} : { allowed }) }, 2)}\n`);
  } else {
    const { told, ignored } = apartFromIgnored(problems);
    for (const problem of told) io.stdout.write(`${problemText(problem, io.stdout)}\n`);
    if (ignored.length > 0) io.stdout.write(`${ignoredText(ignored)}\n`);
    const warnings = told.length - errors;
    const parts = [
      `${count(load.documents.length, 'document')}: ${count(errors, 'error')}`,
      count(warnings, 'warning'),
      ...(ignored.length === 0 ? [] : [`${ignored.length} ignored`]),
      ...(allowed.length === 0 ? [] : [`${allowed.length} allowed`]),
    ];
    io.stdout.write(`${parts.join(', ')}\n`);
  }
  return errors === 0 ? 0 : 1;
};

/** What is no policy is told in one line where there is more of it than one: a chart renders hundreds of other objects. */
function apartFromIgnored(problems: readonly PrintedProblem[]): {
  readonly told: readonly PrintedProblem[];
  readonly ignored: readonly PrintedProblem[];
} {
  // One with a hint of its own may have been meant as policy.
  const { remedy } = problemCatalogue['ignored-kind'];
  const isIgnored = ({ code, hint }: PrintedProblem): boolean => code === 'ignored-kind' && hint === remedy;
  const ignored = problems.filter(isIgnored);
  return ignored.length < 2
    ? { told: problems, ignored: [] }
    : { told: problems.filter((problem) => !isIgnored(problem)), ignored };
}

/** How many kinds are named; of more it is said how many. */
const mostKinds = 12;

function ignoredText(ignored: readonly PrintedProblem[]): string {
  const counts = new Map<string, number>();
  for (const { message } of ignored) {
    const kind = / (\S+) is no policy/.exec(message)?.[1] ?? 'of no kind';
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const kinds = [...counts].sort(([a, of], [b, others]) => others - of || (a < b ? -1 : 1));
  const named = kinds.slice(0, mostKinds).map(([kind, number]) => `${number} ${kind}`);
  const more = kinds.length > mostKinds ? `, ${kinds.length - mostKinds} kinds more` : '';
  return oneLine(
    `${ignored.length} documents are no policy and are ignored (${named.join(', ')}${more}) [ignored-kind]`,
  );
}

export function warnOf(warnings: readonly ConfigFault[], io: Pick<Io, 'stderr'>): void {
  for (const { variable, message, ...rest } of warnings) {
    complain(io, 'warning', { ...rest, message: `${variable}: ${message}` });
  }
}

function inReadingOrder(problems: readonly Problem[]): Problem[] {
  const files = [...new Set(problems.map((problem) => problem.file))];
  const place = new Map(files.map((file, index) => [file, index]));
  const order = (problem: Problem): number => place.get(problem.file) ?? 0;
  return [...problems].sort((a, b) => order(a) - order(b) || a.line - b.line || a.column - b.column);
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
