import { usageExit } from '../lib/errors/exits.ts';
import { authorizerOf } from '../lib/policy/authorizer.ts';
import { compileNow } from '../lib/policy/compile/compile.ts';
import type { Authorizer } from '../lib/policy/decision.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { jsonText } from '../lib/printable.ts';
import type { Problem } from '../lib/problem.ts';
import type { ReadTally } from '../lib/records/read.ts';
import { loadPolicyNow } from '../lib/reload/load.ts';
import { counted, printable } from '../lib/suggest/comments.ts';
import { Evidence } from '../lib/suggest/evidence.ts';
import { type Suggestion, suggest } from '../lib/suggest/suggest.ts';
import { complain, type Io, type Main, UsageError } from './arguments.ts';
import { existingPolicy } from './existing-policy.ts';
import { readLogs } from './log-files.ts';
import { workloadOf } from './pod.ts';
import { problemText } from './problem-text.ts';
import { replaceFile } from './replace-file.ts';
import { portOf } from './replay.ts';

export const main: Main<'suggest'> = async (line, io) => {
  const workload = workloadOf(line, io);
  const merged = line.value('merge');
  const existing = merged === null ? null : existingPolicy(merged, workload, io);
  if (merged !== null && existing === null) return usageExit;
  if (merged === null && line.has('in-place')) {
    throw new UsageError('flags-conflict', '--in-place has no file', 'name it with --merge FILE');
  }
  const fallback = line.value('port');
  const evidence = new Evidence({
    refused: line.has('refused'),
    probesWithRoutes: workload.probesWithRoutes,
    portOf: (given) => portOf(given ?? fallback, workload),
  });
  const read = await readLogs(line, io, (record, occurrence) => evidence.add(record, occurrence));
  let invalid: readonly Problem[] = [];
  const suggestion = suggest(evidence, workload, {
    exact: line.has('exact'),
    existing,
    load: (text) => {
      const { authorizer, problems } = loaded(text, workload);
      invalid = problems.filter(({ severity }) => severity === 'error');
      return authorizer;
    },
    portOf: (given) => portOf(given ?? null, workload),
  });
  const whole = existing?.with(suggestion.text) ?? suggestion.text;
  if (existing !== null && merged !== null && line.has('in-place')) {
    if (invalid.length === 0 && suggestion.text !== '') replaceFile(merged, existing.text, whole);
  } else if (!line.has('json')) io.stdout.write(whole);
  if (line.has('json')) io.stdout.write(`${jsonText(jsonOf(suggestion, evidence, read), 2)}\n`);
  for (const problem of invalid.slice(0, mostSaid)) io.stderr.write(`${problemText(problem, io.stderr)}\n`);
  sayTally(suggestion, evidence, read, io);
  if (read.decisions === 0 && read.bad > 0) return usageExit;
  return isWhole(suggestion, evidence) && invalid.length === 0 && read.bad === 0 && read.lost === 0 ? 0 : 1;
};

/** Of what is wrong of one kind, the first so many. */
const mostSaid = 10;

/** A policy as `run` would have it. */
function loaded(text: string, workload: Workload): { authorizer: Authorizer; problems: readonly Problem[] } {
  const texts = [{ file: 'suggestion', text }];
  const { documents, problems } = loadPolicyNow({ paths: [], texts, namespace: workload.namespace });
  return { authorizer: authorizerOf(compileNow(documents, workload).index), problems };
}

/** Everything that was allowed is, and nothing that was refused. */
function isWhole({ refused, allowed }: Suggestion, { tally }: Evidence): boolean {
  return refused.length === 0 && allowed.length === 0 && tally.beyond + tally.unheld + tally.untold === 0;
}

function jsonOf({ text, refused, allowed }: Suggestion, { tally, seen }: Evidence, read: ReadTally): object {
  return {
    policy: text,
    evidence: seen,
    notAllowed: refused.map(({ what, why, seen: { count } }) => ({ what, why, count })),
    allowedAgain: allowed.map(({ question }) => question),
    leftOut: tally,
    read,
  };
}

/** `1 decision is`, `2 decisions are`. */
function are(count: number, noun: string): string {
  return `${counted(count, noun)} ${count === 1 ? 'is' : 'are'}`;
}

function sayTally({ refused, allowed }: Suggestion, { tally, seen }: Evidence, { lost }: ReadTally, io: Io): void {
  const say = (message: string, hint = ''): void => complain(io, 'warning', { code: 'suggestion', message, hint });
  if (seen.count === 0) {
    say('the log holds nothing that was allowed', 'record decisions with SALLYPORT_DECISIONS=all, or add --refused');
  }
  for (const { what, why } of refused.slice(0, mostSaid)) say(`${printable(what)} is not allowed: ${why}`);
  if (refused.length > mostSaid) say(`${refused.length - mostSaid} more are not allowed`);
  if (allowed.length > 0) {
    const message = `it allows ${counted(allowed.length, 'kind')} of request that the log shows as refused`;
    say(message, 'they differ from others by host, query, headers or time; see them with sallyport replay');
  }
  if (tally.beyond > 0)
    say(`${are(tally.beyond, 'decision')} left out: there are too many different ones`, 'split the log');
  if (tally.unheld > 0)
    say(`${are(tally.unheld, 'refusal')} not held against it: there are too many different ones`, 'split the log');
  if (tally.undecided > 0) {
    const message = `${are(tally.undecided, 'decision')} left out: the log does not say what was decided, or on which port`;
    say(message, 'record decisions with SALLYPORT_DECISIONS=all, or name a port with --port');
  }
  if (tally.untold > 0) {
    const message = `${are(tally.untold, 'decision')} left out: the log does not say what was asked for, or not by whom`;
    say(message, 'record decisions with SALLYPORT_DECISIONS=all');
  }
  if (lost > 0) say(`${are(lost, 'decision')} not in the log, dropped by its writer`);
  if (tally.silent > 0)
    say(`${are(tally.silent, 'connection')} left out, for nothing came there`, 'name TCP probes with --probe');
}
