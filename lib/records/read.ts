import { isAscii } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { questionRecord, type ReadLine, readLine } from './line.ts';
import { hashOfBytes, hashOfText, Returning } from './recent.ts';
import { BadLine, type DecisionRecord, type Occurrence } from './record.ts';

/** A file, or standard input, as its bytes come. */
export interface LogSource {
  /** As messages call it. */
  readonly name: string;
  readonly bytes: AsyncIterable<Uint8Array>;
}

/** What of a log could not be read. */
export interface BadPlace {
  readonly file: string;
  /** 0: the file as a whole, of which nothing more is read. */
  readonly line: number;
  readonly message: string;
  /** One sentence. */
  readonly remedy: string;
}

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
  /** Decisions that the writer of the log has given up. */
  readonly lost: number;
}

/** Bytes of a line; what is longer is none. */
const maxLine = 1024 * 1024;
/** Bytes in which a file shows whether it is text. */
const shown = 4096;

/**
 * Reads logs one after another, in bounded memory however long they are: lines of the record of decisions, of the log, of the
 * access log, and questions as `explain --requests` takes them, each compressed by gzip or not. Every line that is none of
 * these goes to `sink.bad`; nothing that a line lacks is guessed.
 *
 * @throws what a source throws, with `LogSource.name` as `source` where it is an error.
 */
export async function readRecords(sources: Iterable<LogSource>, sink: RecordSink): Promise<ReadTally> {
  const reader = new LogReader(sink);
  for (const source of sources) await reader.read(source);
  return reader.tally;
}

const newline = 0x0a;
const brace = 0x7b;
const quote = 0x22;
const backslash = 0x5c;
// biome-ignore lint/suspicious/noControlCharactersInRegex: text has none of these.
const hasControls = /[\x00-\x08\x0e-\x1f]/;
/** How the writer begins a line; then come 24 characters of time, a quote, and what equal lines have in common. */
const start = Buffer.from('{"decision":1,"time":"');
const timeEnds = start.length + 24;

class LogReader {
  readonly #sink: RecordSink;
  readonly #known = new Returning<ReadLine>();
  readonly #records = new Returning<DecisionRecord>();
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true });
  readonly tally = { lines: 0, decisions: 0, others: 0, bad: 0, lost: 0 };
  #file = '';
  #line = 0;
  /** Whether the piece of input that is read is ASCII, all of it. */
  #isAscii = false;

  constructor(sink: RecordSink) {
    this.#sink = sink;
  }

  async read({ name, bytes }: LogSource): Promise<void> {
    this.#file = name;
    this.#line = 0;
    const source = bytes[Symbol.asyncIterator]();
    const head = await firstBytes(source);
    const odd = oddFile(head);
    if (odd !== null) {
      this.#badFile(odd[0], odd[1]);
      await source.return?.();
      return;
    }
    const whole = rejoined(head, source);
    const isGzip = head[0] === 0x1f && head[1] === 0x8b;
    try {
      await this.#lines(isGzip ? gunzipped(whole) : whole);
    } catch (error) {
      const code = String((error as NodeJS.ErrnoException).code ?? '');
      if (!isGzip || !code.startsWith('Z_')) throw error;
      const message =
        code === 'Z_BUF_ERROR' ? 'ends in the middle of its compressed text' : 'is not sound as gzip from here on';
      this.#badFile(message, 'Take the file again: the lines before are read.');
    }
  }

  async #lines(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    let rest: Buffer = Buffer.alloc(0);
    /** Of a line that is too long, until it ends. */
    let skipping = false;
    for await (const each of chunks) {
      const chunk = Buffer.from(each.buffer, each.byteOffset, each.byteLength);
      const text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      this.#isAscii = isAscii(text);
      const view = new DataView(text.buffer, text.byteOffset, text.byteLength);
      let from = 0;
      for (let to = text.indexOf(newline, rest.length); to !== -1; to = text.indexOf(newline, from)) {
        if (!skipping) this.#take(text, view, from, to, true);
        skipping = false;
        from = to + 1;
      }
      rest = text.subarray(from);
      if (skipping) rest = Buffer.alloc(0);
      else if (rest.length > maxLine) {
        this.#count();
        this.#bad(new BadLine(null, 'is longer than 1 MiB', 'Give logs of Sallyport, whose lines are shorter.'));
        skipping = true;
        rest = Buffer.alloc(0);
      }
      this.#sink.progress?.(this.tally.lines);
    }
    if (rest.length === 0) return;
    this.#take(rest, new DataView(rest.buffer, rest.byteOffset, rest.byteLength), 0, rest.length, false);
  }

  #count(): void {
    this.#line++;
    this.tally.lines++;
  }

  /** One line, without its end. `view`: of the same bytes. */
  #take(bytes: Buffer, view: DataView, from: number, to: number, isEnded: boolean): void {
    this.#count();
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
      const text = this.#text(bytes, from, to);
      if (text.trim() === '') return;
      const line = readLine(text);
      if (isAsWritten && line.kind === 'recorded' && line.isAlone) {
        if (common !== null) this.#known.set(common, line);
        this.#tell(line.record, 1, line.first, line.last, common !== null);
      } else this.#say(line);
    } catch (error) {
      if (!(error instanceof BadLine)) throw error;
      if (hasControls.test(bytes.toString('latin1', from, to))) this.#bad(noText());
      else if (isEnded) this.#bad(error);
      else this.#bad(new BadLine(error.field, `${error.message}; the file ends within the line`, error.hint));
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
        return;
      case 'recorded':
        this.#tellSame(line.record, line.count, line.first, line.last);
    }
  }

  #tell(record: DecisionRecord, count: number, first: string | null, last: string | null, comesAgain: boolean): void {
    this.tally.decisions += count;
    this.#sink.record(record, { count, first, last, file: this.#file, line: this.#line, comesAgain });
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

  #text(bytes: Buffer, from: number, to: number): string {
    const text = bytes.toString('latin1', from, to);
    // In JSON, control characters are errors anyway.
    if (this.#isAscii && bytes[from] === brace) return text;
    if (hasControls.test(text)) throw noText();
    if (this.#isAscii) return text;
    try {
      return this.#utf8.decode(bytes.subarray(from, to));
    } catch {
      throw new BadLine(null, 'is not UTF-8', 'Give the log as it was written, or convert it to UTF-8.');
    }
  }

  #bad({ field, message, hint }: BadLine): void {
    this.tally.bad++;
    const said = field === null ? message : `"${field}" ${message}`;
    this.#sink.bad({ file: this.#file, line: this.#line, message: said, remedy: hint });
  }

  #badFile(message: string, remedy: string): void {
    this.tally.bad++;
    this.#sink.bad({ file: this.#file, line: 0, message, remedy });
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

function noText(): BadLine {
  return new BadLine(null, 'holds bytes that no text has', 'Give the log as it was written.');
}

/** Characters of a text that is remembered. */
const mostKey = 2048;

/** Enough to see what kind of file it is, or all there is. */
async function firstBytes(source: AsyncIterator<Uint8Array>): Promise<Buffer> {
  let head = Buffer.alloc(0);
  while (head.length < shown) {
    const next = await source.next();
    if (next.done === true) break;
    head = Buffer.concat([head, next.value]);
  }
  return head;
}

async function* rejoined(head: Buffer, source: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const isMarked = head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf;
  yield isMarked ? head.subarray(3) : head;
  for (let next = await source.next(); next.done !== true; next = await source.next()) yield next.value;
}

function gunzipped(bytes: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const gunzip = createGunzip({ chunkSize: 256 * 1024 });
  // An error of either ends the loop that reads.
  pipeline(Readable.from(bytes, { objectMode: false }), gunzip, () => {});
  return gunzip;
}

const compressions: readonly (readonly [magic: readonly number[], name: string, program: string])[] = [
  [[0x28, 0xb5, 0x2f, 0xfd], 'zstd', 'zstd'],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], 'xz', 'xz'],
  [[0x42, 0x5a, 0x68], 'bzip2', 'bzip2'],
];

/** Why a file is no log, and what to do; null where it may be one. */
function oddFile(head: Buffer): readonly [message: string, remedy: string] | null {
  for (const [magic, name, program] of compressions) {
    if (!magic.every((byte, i) => head[i] === byte)) continue;
    return [`is compressed by ${name}`, `Decompress it: ${program} -dc FILE, and - for standard input.`];
  }
  if (head[0] === 0x1f && head[1] === 0x8b) return null;
  return head.includes(0) ? ['is binary, and no log', 'Give logs of Sallyport, as text or compressed by gzip.'] : null;
}
