import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { styleText } from 'node:util';
import { readWorkload } from '../lib/config/config.ts';
import { fileFault } from '../lib/config/file-fault.ts';
import { readManifest } from '../lib/config/manifest.ts';
import { type Flags, faultText, type VariableName } from '../lib/config/variables.ts';
import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import { createAuthorizer, type PolicyAuthorizer } from '../lib/policy/authorizer.ts';
import { compileNow } from '../lib/policy/compile/compile.ts';
import { serverElsewhere } from '../lib/policy/compile/other-namespaces.ts';
import type { PolicyDocument } from '../lib/policy/documents/types.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../lib/policy/explain.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { jsonText, oneLine } from '../lib/printable.ts';
import { refText } from '../lib/resource-ref.ts';
import { type CommandLine, complain, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';
import { problemText, warnOf } from './check.ts';
import { BadQuestion, type GivenQuestion, queryFrom, questionFromLine, unreadFields } from './explain-query.ts';
import { loadGiven } from './standard-input.ts';

type Flag = FlagOf<'explain'>;

/** The policy that is asked, and what it was made of. */
interface ExplainedPolicy {
  readonly authorizer: PolicyAuthorizer;
  readonly documents: readonly PolicyDocument[];
  readonly workload: Workload;
}

/** Flags that stand for a variable; several of one are a comma-separated list. */
const podFlags: readonly (readonly [Flag, VariableName])[] = [
  ['namespace', 'SALLYPORT_POD_NAMESPACE'],
  ['pod-label', 'SALLYPORT_POD_LABELS'],
  ['pod-port', 'SALLYPORT_POD_PORTS'],
  ['pod-ip', 'SALLYPORT_POD_IPS'],
  ['probe', 'SALLYPORT_PROBES'],
  ['default-policy', 'SALLYPORT_DEFAULT_INBOUND_POLICY'],
  ['opaque-ports', 'SALLYPORT_OPAQUE_PORTS'],
];
const requestFlags = ['port', 'client', 'identity', 'tls', 'protocol', 'method', 'path', 'host', 'header'] as const;

export const main: Main<'explain'> = async (line, io) => {
  const file = line.value('requests');
  const both = requestFlags.find((flag) => line.has(flag));
  if (file !== null && both !== undefined) {
    throw new UsageError(
      'flags-conflict',
      `--${both} and --requests exclude each other`,
      'write it into the lines of the file',
    );
  }
  const query = file === null ? queryOfFlags(line) : null;
  const policy = await policyOf(line, io);
  if (policy === null) return usageExit;
  if (query === null) return answerLines(policy, file ?? '', io);

  const answer = answerOf(policy, query);
  io.stdout.write(line.has('json') ? `${jsonText(answer)}\n` : answerText(answer, io.stdout));
  return answer.verdict === 'permit' ? 0 : 1;
};

/** The policy in force as `run` would have it on its first load; null, with the problems printed, when it cannot be read. */
async function policyOf(line: CommandLine<Flag>, io: Io): Promise<ExplainedPolicy | null> {
  const fromEnvironment = io.env.SALLYPORT_POLICY?.trim();
  const paths = line.has('policy') ? line.values('policy') : fromEnvironment ? [fromEnvironment] : [];
  if (paths.length === 0)
    throw new UsageError('missing-argument', 'no policy', 'write --policy PATH, or set SALLYPORT_POLICY');
  if (paths.includes('-') && line.value('requests') === '-') {
    throw new UsageError(
      'flags-conflict',
      'standard input cannot be both --policy and --requests',
      'put one of them into a file',
    );
  }
  const given: Flags = new Map(
    podFlags
      .filter(([flag]) => line.has(flag))
      .map(([flag, name]) => [name, { flag: `--${flag}`, value: line.values(flag).join(',') }]),
  );
  const facts = readWorkload(io.env, { readManifest }, given);
  if (!facts.ok) throw new UsageError(facts.faults.map(faultText));
  warnOf(facts.warnings, io);

  const load = await loadGiven({ paths, namespace: facts.workload.namespace }, io);
  const { index, problems } = compileNow(load.documents, facts.workload);
  for (const problem of [...load.problems, ...problems]) io.stderr.write(`${problemText(problem, io.stderr)}\n`);
  if (load.broken) return null;
  // Time stands still: however long a run of many requests takes, a rate limit sees one instant.
  const instant = 0;
  const authorizer = createAuthorizer({ nowMs: () => instant });
  authorizer.swap(index);
  return { authorizer, documents: load.documents, workload: facts.workload };
}

/** Where no Server has the port, it names the one that would if the pod were in that one's namespace. */
function answerOf({ authorizer, documents, workload }: ExplainedPolicy, query: ExplainQuery): ExplainJson {
  const answer = explain(authorizer, query);
  if (answer.server.kind !== 'default') return answer;
  const elsewhere = serverElsewhere(documents, workload, query.port);
  if (elsewhere === null) return answer;
  const { namespace, name } = elsewhere;
  const remedy = `set SALLYPORT_POD_NAMESPACE or --namespace if the pod is in ${namespace}`;
  const reason = `${answer.reason}; Server ${namespace}/${name} is ignored, for the pod is in namespace ${workload.namespace} (${remedy})`;
  return { ...answer, reason };
}

function queryOfFlags(line: CommandLine<Flag>): ReturnType<typeof queryFrom> {
  const question: Record<string, unknown> = {};
  for (const name of requestFlags) {
    if (name !== 'header' && line.has(name)) question[name] = line.value(name);
  }
  const headers: [string, string][] = line.values('header').map((header) => {
    const colon = header.indexOf(':');
    if (colon < 1)
      throw new UsageError('bad-question', `--header ${JSON.stringify(header)} has no name`, "write --header 'K: V'");
    return [header.slice(0, colon).trim(), header.slice(colon + 1).trim()];
  });
  const byName = Map.groupBy(headers, ([name]) => name);
  question.headers = Object.fromEntries([...byName].map(([name, pairs]) => [name, pairs.map(([, value]) => value)]));
  try {
    return queryFrom(question);
  } catch (error) {
    if (error instanceof BadQuestion) throw new UsageError(error.code, `--${error.field}: ${error.message}`);
    throw error;
  }
}

async function answerLines(policy: ExplainedPolicy, file: string, io: Io): Promise<ExitStatus> {
  const input: NodeJS.ReadableStream = file === '-' ? io.stdin : createReadStream(file);
  let status: ExitStatus = 0;
  let number = 0;
  const unread = new Set<string>();
  // A stream that fails ends the loop below with nothing said; its error is kept and thrown after it.
  const failed = new Promise<never>((_, reject) => input.once('error', reject));
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  const answered = (async () => {
    for await (const line of lines) {
      number += 1;
      if (line.trim() === '') continue;
      if (io.stdout.destroyed) return;
      const output = answerLine(policy, line, number, unread);
      if ('error' in output) status = usageExit;
      if (!io.stdout.write(`${jsonText(output)}\n`)) await drained(io.stdout);
    }
  })();
  try {
    await Promise.race([answered, failed]);
  } catch (error) {
    const { why, remedy } = fileFault(file, error);
    throw new UsageError('requests-unreadable', `--requests: ${file} cannot be read: ${why}`, remedy);
  }
  for (const message of unread) complain(io, 'warning', { code: 'unread-field', message, hint: '' });
  return status;
}

function answerLine(
  policy: ExplainedPolicy,
  line: string,
  number: number,
  unread: Set<string>,
): ExplainJson | { readonly error: string; readonly code: BadQuestion['code'] } {
  try {
    const question: GivenQuestion = questionFromLine(line);
    for (const message of unreadFields(question)) unread.add(message);
    return answerOf(policy, queryFrom(question));
  } catch (error) {
    if (!(error instanceof BadQuestion)) throw error;
    const where = `line ${number}: ${error.field === null ? '' : `"${error.field}" `}`;
    return { error: `${where}${error.message}`, code: error.code };
  }
}

/** Resolves, too, when the reader has gone: there will be no drain then. */
function drained(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.once('drain', resolve);
    stream.once('close', resolve);
    if (stream.destroyed) resolve();
  });
}

function answerText(answer: ExplainJson, stream: NodeJS.WriteStream): string {
  const paint = (format: Parameters<typeof styleText>[0], text: string): string => styleText(format, text, { stream });
  const rows: string[] = [];
  const row = (name: string, value: string): void => void rows.push(`  ${name.padEnd(8)} ${oneLine(value)}`);
  const verdict = answer.audit ? `${answer.verdict} (audit)` : answer.verdict;
  rows.push(paint(['bold', answer.verdict === 'permit' ? 'green' : 'red'], verdict));
  row('server', refText(answer.server));
  if (answer.route !== null) row('route', refText(answer.route));
  if (answer.authz !== null) row('authz', refText(answer.authz));
  const wire =
    answer.tcp ?? (answer.httpStatus === null ? null : `HTTP ${answer.httpStatus}, gRPC ${answer.grpcStatus}`);
  if (wire !== null) row('answer', wire);
  row('reason', answer.reason);
  for (const { authz, granted, failed, detail } of answer.candidates) {
    const mark = granted ? paint('green', 'grants') : paint('red', `${failed}:`);
    rows.push(`  ${paint('dim', '-')} ${oneLine(refText(authz))} ${mark}${detail === '' ? '' : ` ${oneLine(detail)}`}`);
  }
  return `${rows.join('\n')}\n`;
}
