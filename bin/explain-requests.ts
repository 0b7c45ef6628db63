import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import { jsonText } from '../lib/printable.ts';
import { type ReadLine, readLine } from '../lib/records/line.ts';
import { type BadPlace, LineReader } from '../lib/records/lines.ts';
import { BadLine, type GivenQuestion } from '../lib/records/record.ts';
import { complain, type Io } from './arguments.ts';
import { withNotes } from './explain-notes.ts';
import { answerOf, type ExplainedPolicy } from './explain-policy.ts';
import { type Asked, BadQuestion, queryFrom, unreadFields } from './explain-query.ts';
import { LoggedQuestions } from './explain-records.ts';
import { logSource } from './log-files.ts';
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

/** One answer a line, in order; lines of a log that are about something else have none. */
export async function answerLines(requests: Requests, io: Io): Promise<ExitStatus> {
  const answers = new AnsweredLines(requests, io);
  const { name, bytes } = logSource(requests.file, io, '--requests: ');
  try {
    await answers.read({ name, bytes: whileRead(bytes, io.stdout) });
  } finally {
    answers.end();
  }
  answers.sayTally();
  return answers.status;
}

/** Until what reads the answers has gone: then nobody needs the rest. */
async function* whileRead(bytes: AsyncIterable<Uint8Array>, stdout: Io['stdout']): AsyncGenerator<Uint8Array> {
  for await (const piece of bytes) {
    if (stdout.destroyed) return;
    yield piece;
  }
}

class AnsweredLines extends LineReader {
  readonly #requests: Requests;
  readonly #io: Io;
  readonly #progress: Progress;
  readonly #logged: LoggedQuestions;
  status: ExitStatus = 0;
  /** What the lines have in common, said once behind the answers. */
  readonly #tally = { logged: 0, others: 0, unread: new Set<string>() };
  #drained: Promise<void> | null = null;

  constructor(requests: Requests, io: Io) {
    super();
    this.#requests = requests;
    this.#io = io;
    this.#progress = new Progress(io.stderr);
    this.#logged = new LoggedQuestions(requests.policy, requests.port);
  }

  end(): void {
    this.#progress.end();
  }

  sayTally(): void {
    const { logged, others, unread } = this.#tally;
    for (const message of unread) complain(this.#io, 'warning', { code: 'unread-field', message, hint: '' });
    const said: string[] = [];
    if (logged > 0) said.push(`${logged} lines are of a log, which has no header fields and, of decisions, no queries`);
    if (others > 0) said.push(`${others} are about no request and were passed over`);
    if (said.length > 0) complain(this.#io, 'warning', { code: 'log-lines', message: said.join('; '), hint: '' });
  }

  protected override waits(): Promise<void> | null {
    this.#progress.say(() => `${this.line} lines read`);
    const drained = this.#drained;
    this.#drained = null;
    return drained;
  }

  protected override take(bytes: Buffer, _view: DataView, from: number, to: number, isEnded: boolean): void {
    if (this.#io.stdout.destroyed) return;
    try {
      const text = this.text(bytes, from, to);
      if (text.trim() === '') return;
      const output = this.#answer(readLine(text));
      if (output !== null) this.#write(output);
    } catch (error) {
      if (error instanceof BadQuestion) this.#refused(this.line, error);
      else if (error instanceof BadLine) this.refuse(error, bytes, from, to, isEnded);
      else throw error;
    }
  }

  protected override bad({ line, message }: BadPlace): void {
    if (!this.#io.stdout.destroyed) this.#refused(line, { field: null, message, code: 'bad-line' });
  }

  #refused(
    line: number,
    { field, message, code }: { readonly field: string | null; readonly message: string; readonly code: string },
  ): void {
    this.status = usageExit;
    const where = line === 0 ? this.file : `line ${line}`;
    this.#write({ error: `${where}: ${field === null ? '' : `"${field}" `}${message}`, code });
  }

  #write(output: object): void {
    const { stdout } = this.#io;
    if (!stdout.write(`${jsonText(output)}\n`)) this.#drained ??= drained(stdout);
  }

  #answer(line: ReadLine): object | null {
    const { policy, asked } = this.#requests;
    switch (line.kind) {
      case 'question': {
        const question = this.#withPort(line.given);
        for (const message of unreadFields(question)) this.#tally.unread.add(message);
        const { value, notes } = queryFrom(question, asked);
        return withNotes(answerOf(policy, value), notes);
      }
      case 'logged':
      case 'recorded': {
        const { record } = line;
        const { value, notes } = queryFrom(this.#withPort(this.#logged.questionOf(record)), asked);
        const answer = withNotes(answerOf(policy, { ...value, areSorted: true }), [
          ...notes,
          ...this.#logged.notesOf(record),
        ]);
        if (line.kind === 'recorded') return { ...answer, recorded: record.decided?.verdict };
        this.#tally.logged += 1;
        return { ...answer, logged: line.logged };
      }
      default:
        this.#tally.others += 1;
        return null;
    }
  }

  #withPort(given: GivenQuestion): GivenQuestion {
    const { port } = this.#requests;
    return port === null || given.port !== undefined ? given : { ...given, port };
  }
}
