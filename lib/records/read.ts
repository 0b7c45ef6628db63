import { questionRecord, type ReadLine, readLine } from './line.ts';
import { type BadPlace, LineReader, type LogSource } from './lines.ts';
import { hashOfBytes, hashOfText, Returning } from './recent.ts';
import { BadLine, type DecisionRecord, type Occurrence } from './record.ts';

export type { BadPlace, LogSource };

export interface RecordSink {
  /**
   * Called in the order of the lines. Lines that say the same at different times mostly come with one and the same `record`,
   * so that what is found out about it may be kept by it (in a `Recent`, which forgets when the reader does).
   */
  record(record: DecisionRecord, occurrence: Occurrence): void;
  bad(bad: BadPlace): void;
  /** After each piece of input, with the lines read so far in all sources. */
  progress?(lines: number): void;
}

export interface ReadTally {
  /** Blank ones, too. */
  readonly lines: number;
  /** Decisions and questions; a line that stands for many counts as these. */
  readonly decisions: number;
  /** Lines of our logs about something else. */
  readonly others: number;
  readonly bad: number;
  /** Decisions that the writer of the log has dropped. */
  readonly lost: number;
}

/**
 * Reads logs one after another, in bounded memory however long they are: lines of the record of decisions, of the log, of the
 * access log, and questions as `explain --requests` takes them, each compressed by gzip or not. Every line that is none of
 * these goes to `sink.bad`; nothing that a line lacks is guessed.
 *
 * @throws what a source throws, with `LogSource.name` as `source` where it is an error.
 */
export async function readRecords(sources: Iterable<LogSource>, sink: RecordSink): Promise<ReadTally> {
  const reader = new RecordReader(sink);
  for (const source of sources) await reader.read(source);
  return reader.tally;
}

const quote = 0x22;
const backslash = 0x5c;
/** How the writer begins a line; then come 24 characters of time, a quote, and what equal lines have in common. */
const start = Buffer.from('{"decision":1,"time":"');
const timeEnds = start.length + 24;

class RecordReader extends LineReader {
  readonly #sink: RecordSink;
  readonly #known = new Returning<ReadLine>();
  readonly #records = new Returning<DecisionRecord>();
  readonly tally = { lines: 0, decisions: 0, others: 0, bad: 0, lost: 0 };

  constructor(sink: RecordSink) {
    super();
    this.#sink = sink;
  }

  protected override counted(): void {
    this.tally.lines++;
  }

  protected override progress(): void {
    this.#sink.progress?.(this.tally.lines);
  }

  protected override bad(bad: BadPlace): void {
    this.tally.bad++;
    this.#sink.bad(bad);
  }

  protected override take(bytes: Buffer, view: DataView, from: number, to: number, isEnded: boolean): void {
    const isAsWritten = startsAsWritten(bytes, from, to);
    /** What equal lines have in common, if it is to be remembered. */
    let common: string | null = null;
    const { isLikely } = this.#known;
    const mayReturn = (): boolean => this.#known.mayReturn(hashOfBytes(view, from + timeEnds, to));
    if (isAsWritten && to - from <= mostKey && (isLikely || mayReturn())) {
      common = bytes.toString('latin1', from + timeEnds, to);
      const known = this.#known.get(common);
      if (known?.kind === 'recorded') {
        const time = bytes.toString('latin1', from + start.length, from + timeEnds);
        this.#tell(known.record, known.count, time, time, true);
        return;
      }
      if (isLikely && !mayReturn()) common = null;
    }
    try {
      const text = this.text(bytes, from, to);
      if (text.trim() === '') return;
      const line = readLine(text);
      if (isAsWritten && line.kind === 'recorded' && line.isAlone) {
        if (common !== null) this.#known.set(common, line);
        this.#tell(line.record, 1, line.first, line.last, common !== null);
      } else this.#say(line);
    } catch (error) {
      if (!(error instanceof BadLine)) throw error;
      this.refuse(error, bytes, from, to, isEnded);
    }
  }

  #say(line: ReadLine): void {
    switch (line.kind) {
      case 'other':
        this.tally.others++;
        return;
      case 'lost':
        this.tally.lost += line.count;
        return;
      case 'question':
        this.#tellSame(questionRecord(line.given), 1, null, null);
        return;
      case 'logged':
        // What became of a decision: the decision has a line of its own.
        if (line.record.form === 'log' && line.record.decided === null) this.tally.others++;
        else this.#tellSame(line.record, 1, line.time, line.time);
        this.tally.lost += line.leftOut;
        return;
      case 'recorded':
        this.#tellSame(line.record, line.count, line.first, line.last);
    }
  }

  #tell(record: DecisionRecord, count: number, first: string | null, last: string | null, comesAgain: boolean): void {
    this.tally.decisions += count;
    this.#sink.record(record, { count, first, last, file: this.file, line: this.line, comesAgain });
  }

  /** With the object that an equal record came with before. */
  #tellSame(record: DecisionRecord, count: number, first: string | null, last: string | null): void {
    const key = JSON.stringify(record);
    if (key.length > mostKey || !this.#records.mayReturn(hashOfText(key))) {
      this.#tell(record, count, first, last, false);
      return;
    }
    const known = this.#records.get(key);
    if (known === undefined) this.#records.set(key, record);
    this.#tell(known ?? record, count, first, last, true);
  }
}

function startsAsWritten(bytes: Buffer, from: number, to: number): boolean {
  if (to - from < timeEnds + 2 || bytes[from + timeEnds] !== quote || bytes[from + timeEnds + 1] !== 0x2c) return false;
  for (let i = 0; i < start.length; i++) if (bytes[from + i] !== start[i]) return false;
  // Else there is more in it than a time.
  for (let i = start.length; i < timeEnds; i++) {
    const byte = bytes[from + i] as number;
    if (byte === quote || byte === backslash || byte < 0x20 || byte > 0x7e) return false;
  }
  return true;
}

/** Characters of a text that is remembered. */
const mostKey = 2048;
