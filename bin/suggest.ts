import { readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileFault } from '../lib/config/file-fault.ts';
import { usageExit } from '../lib/errors/exits.ts';
import { authorizerOf } from '../lib/policy/authorizer.ts';
import { compileNow } from '../lib/policy/compile/compile.ts';
import type { Authorizer } from '../lib/policy/decision.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { jsonText } from '../lib/printable.ts';
import type { ReadTally } from '../lib/records/read.ts';
import { loadPolicyNow } from '../lib/reload/load.ts';
import { Evidence } from '../lib/suggest/evidence.ts';
import type { Existing } from '../lib/suggest/merge.ts';
import { type Suggestion, suggest } from '../lib/suggest/suggest.ts';
import { complain, type Io, type Main, UsageError } from './arguments.ts';
import { problemText } from './check.ts';
import { readLogs } from './log-files.ts';
import { workloadOf } from './pod.ts';
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
  const suggestion = suggest(evidence, workload, {
    exact: line.has('exact'),
    existing,
    load: (text) => inForce(text, workload),
    portOf: (given) => portOf(given ?? null, workload),
  });
  if (line.has('json')) io.stdout.write(`${jsonText(jsonOf(suggestion, evidence, read), 2)}\n`);
  else if (merged !== null && line.has('in-place')) replaceFile(merged, existing?.with(suggestion.text) ?? '');
  else io.stdout.write(existing?.with(suggestion.text) ?? suggestion.text);
  sayTally(suggestion, evidence, io);
  return isWhole(suggestion, evidence) ? 0 : 1;
};

/** Null, with the problems printed, where it cannot be read: nothing is added to what nobody can read. */
function existingPolicy(path: string, workload: Workload, io: Io): Existing | null {
  const load = loadPolicyNow({ paths: [path], namespace: workload.namespace });
  for (const problem of load.problems) io.stderr.write(`${problemText(problem, io.stderr)}\n`);
  if (load.broken) return null;
  const text = textOf(path);
  const ended = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  return {
    names: load.documents.map(({ name }) => name),
    with: (added) => (added === '' ? text : `${ended}---\n${added}`),
  };
}

/** @throws UsageError */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { why, remedy } = fileFault(path, error);
    throw new UsageError('requests-unreadable', `--merge: ${path} cannot be read: ${why}`, remedy);
  }
}

/** All of it or nothing. @throws UsageError */
function replaceFile(path: string, text: string): void {
  const target = realpathSync(path);
  const beside = join(dirname(target), `.${basename(target)}.${process.pid}`);
  try {
    writeFileSync(beside, text, { mode: statSync(target).mode, flag: 'wx' });
    renameSync(beside, target);
  } catch (error) {
    rmSync(beside, { force: true });
    const { why, remedy } = fileFault(path, error);
    throw new UsageError('not-written', `${path} cannot be replaced: ${why}`, remedy);
  }
}

/** Of a policy as `run` would have it. */
function inForce(text: string, workload: Workload): Authorizer {
  const load = loadPolicyNow({ paths: [], texts: [{ file: 'suggestion', text }], namespace: workload.namespace });
  return authorizerOf(compileNow(load.documents, workload).index);
}

/** Everything that was allowed is, and nothing that was refused. */
function isWhole({ refused, allowed }: Suggestion, { tally }: Evidence): boolean {
  return refused.length === 0 && allowed.length === 0 && tally.beyond === 0;
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

function sayTally({ refused, allowed }: Suggestion, { tally, seen }: Evidence, io: Io): void {
  const say = (message: string, hint = ''): void => complain(io, 'warning', { code: 'suggestion', message, hint });
  if (seen.count === 0) {
    say('the log holds nothing that was allowed', 'record decisions with SALLYPORT_DECISIONS=all, or add --refused');
  }
  for (const { what, why } of refused.slice(0, 10)) say(`${what} is not allowed: ${why}`);
  if (refused.length > 10) say(`${refused.length - 10} more are not allowed`);
  if (allowed.length > 0) {
    const message = `${allowed.length} kinds of request were refused then and are allowed by it`;
    say(message, 'they differ from others by host, query, headers or time; see them with sallyport replay');
  }
  if (tally.beyond > 0)
    say(`${tally.beyond} decisions are left out: there are too many different ones`, 'split the log');
  if (tally.silent > 0)
    say(`${tally.silent} connections on which nothing came are left out`, 'name TCP probes with --probe');
}
