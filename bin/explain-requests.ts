import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileFault } from '../lib/config/file-fault.ts';
import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import { jsonText } from '../lib/printable.ts';
import { type ReadLine, readLine } from '../lib/records/line.ts';
import { BadLine, type GivenQuestion } from '../lib/records/record.ts';
import { complain, type Io, UsageError } from './arguments.ts';
import { withNotes } from './explain-notes.ts';
import { answerOf, type ExplainedPolicy } from './explain-policy.ts';
import { type Asked, BadQuestion, queryFrom, unreadFields } from './explain-query.ts';
import { Progress } from './progress.ts';
import { drained } from './standard-output.ts';

export interface Requests {
  readonly policy: ExplainedPolicy;
  readonly asked: Asked;
  /** `-` is standard input. */
  readonly file: string;
  /** For lines that do not say theirs. */
  readonly port: string | null;
}

/** What the lines have in common, said once behind the answers. */
interface Tally {
  number: number;
  logged: number;
  others: number;
  readonly unread: Set<string>;
}

/** One answer a line, in order; lines of a log that are about something else have none. */
export async function answerLines(requests: Requests, io: Io): Promise<ExitStatus> {
  const { file } = requests;
  const input: NodeJS.ReadableStream = file === '-' ? io.stdin : createReadStream(file);
  const tally: Tally = { number: 0, logged: 0, others: 0, unread: new Set() };
  const progress = new Progress(io.stderr);
  let status: ExitStatus = 0;
  // A stream that fails ends the loop below with nothing said; its error is kept and thrown after it.
  const failed = new Promise<never>((_, reject) => input.once('error', reject));
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  const answered = (async () => {
    for await (const line of lines) {
      tally.number += 1;
      progress.say(() => `${tally.number} lines read`);
      if (line.trim() === '') continue;
      if (io.stdout.destroyed) return;
      const output = answerLine(requests, line, tally);
      if (output === null) continue;
      if ('error' in output) status = usageExit;
      if (!io.stdout.write(`${jsonText(output)}\n`)) await drained(io.stdout);
    }
  })();
  try {
    await Promise.race([answered, failed]);
  } catch (error) {
    const { why, remedy } = fileFault(file, error);
    throw new UsageError('requests-unreadable', `--requests: ${file} cannot be read: ${why}`, remedy);
  } finally {
    progress.end();
  }
  sayTally(tally, io);
  return status;
}

function sayTally({ logged, others, unread }: Tally, io: Io): void {
  for (const message of unread) complain(io, 'warning', { code: 'unread-field', message, hint: '' });
  const said: string[] = [];
  if (logged > 0) said.push(`${logged} lines are of a log, which has no header fields and, of decisions, no queries`);
  if (others > 0) said.push(`${others} are about no request and were passed over`);
  if (said.length > 0) complain(io, 'warning', { code: 'log-lines', message: said.join('; '), hint: '' });
}

function answerLine({ policy, asked, port }: Requests, line: string, tally: Tally): object | null {
  try {
    const read = readLine(line);
    const given = questionIn(read);
    if (given === null) {
      tally.others += 1;
      return null;
    }
    const question = port === null || given.port !== undefined ? given : { ...given, port };
    if (read.kind === 'question') for (const message of unreadFields(question)) tally.unread.add(message);
    const { value, notes } = queryFrom(question, asked);
    const answer = withNotes(answerOf(policy, value), notes);
    if (read.kind === 'question') return answer;
    if (read.kind === 'recorded') return { ...answer, recorded: read.record.decided?.verdict };
    tally.logged += 1;
    return read.kind === 'logged' ? { ...answer, logged: read.logged } : answer;
  } catch (error) {
    if (!(error instanceof BadQuestion) && !(error instanceof BadLine)) throw error;
    const where = `line ${tally.number}: ${error.field === null ? '' : `"${error.field}" `}`;
    return { error: `${where}${error.message}`, code: error.code };
  }
}

/** What a line asks; null where it asks nothing. */
function questionIn(line: ReadLine): GivenQuestion | null {
  switch (line.kind) {
    case 'question':
      return line.given;
    case 'logged':
    case 'recorded': {
      const { question } = line.record;
      // Of a connection that was refused at once nobody knows what would have come on it: asked is whether it would be, still.
      return question.protocol === 'accept' ? { ...question, protocol: 'tcp' } : question;
    }
    case 'lost':
    case 'other':
      return null;
  }
}
