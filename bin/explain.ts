import { styleText } from 'node:util';
import { readListeners } from '../lib/config/listeners.ts';
import { type Complaint, complaintText } from '../lib/errors/complaint.ts';
import { usageExit } from '../lib/errors/exits.ts';
import type { ExplainJson } from '../lib/policy/explain.ts';
import { jsonText, oneLine } from '../lib/printable.ts';
import { refText } from '../lib/resource-ref.ts';
import { type CommandLine, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';
import { withNotes } from './explain-notes.ts';
import { answerOf, policyOf } from './explain-policy.ts';
import { type GivenQuestion, headersOfFlags, queryOfFlags } from './explain-query.ts';
import { answerLines } from './explain-requests.ts';
import { policyPathsOf, workloadOf } from './pod.ts';

type Flag = FlagOf<'explain'>;

const requestFlags = [
  'port',
  'client',
  'identity',
  'service-account',
  'tls',
  'protocol',
  'method',
  'path',
  'host',
  'header',
] as const;
export const main: Main<'explain'> = async (line, io) => {
  const file = line.value('requests');
  // Lines of an access log do not say their port.
  const both = requestFlags.find((flag) => flag !== 'port' && line.has(flag));
  if (file !== null && both !== undefined) {
    throw new UsageError(
      'flags-conflict',
      `--${both} and --requests exclude each other`,
      'write it into the lines of the file',
    );
  }
  const paths = policyPaths(line, io);
  const asked = { workload: workloadOf(line, io), listeners: readListeners(io.env) };
  const query = file === null ? queryOfFlags(questionOf(line), asked) : null;
  const policy = await policyOf(paths, asked.workload, io);
  if (policy === null) return usageExit;
  if (query === null) return answerLines({ policy, asked, file: file ?? '', port: line.value('port') }, io);

  const answer = answerOf(policy, query.value);
  const { notes } = query;
  io.stdout.write(line.has('json') ? `${jsonText(withNotes(answer, notes))}\n` : answerText(answer, notes, io.stdout));
  return answer.verdict === 'permit' ? 0 : 1;
};

function policyPaths(line: CommandLine<Flag>, io: Io): readonly string[] {
  const paths = policyPathsOf(line.values('policy'), io);
  if (paths.includes('-') && line.value('requests') === '-') {
    throw new UsageError(
      'flags-conflict',
      'standard input cannot be both --policy and --requests',
      'put one of them into a file',
    );
  }
  return paths;
}

function questionOf(line: CommandLine<Flag>): GivenQuestion {
  const question: Record<string, unknown> = {};
  for (const name of requestFlags) {
    if (name === 'header' || !line.has(name)) continue;
    question[name === 'service-account' ? 'serviceAccount' : name] = line.value(name);
  }
  question.headers = headersOfFlags(line.values('header'));
  return question;
}

function answerText(answer: ExplainJson, notes: readonly Complaint[], stream: NodeJS.WriteStream): string {
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
  for (const note of notes) row('note', complaintText(note));
  for (const { authz, granted, failed, detail } of answer.candidates) {
    const mark = granted ? paint('green', 'grants') : paint('red', `${failed}:`);
    rows.push(`  ${paint('dim', '-')} ${oneLine(refText(authz))} ${mark}${detail === '' ? '' : ` ${oneLine(detail)}`}`);
  }
  return `${rows.join('\n')}\n`;
}
