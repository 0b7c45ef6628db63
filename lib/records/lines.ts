import { isAscii } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { BadLine } from './record.ts';

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
  /** The one at fault; null where the line as a whole is. */
  readonly field: string | null;
  /** With the field. */
  readonly message: string;
  /** One sentence. */
  readonly remedy: string;
}

/** Bytes of a line; what is longer is none. */
const maxLine = 1024 * 1024;
/** Bytes in which a file shows whether it is text. */
const shown = 4096;

const newline = 0x0a;
const carriageReturn = 0x0d;
const brace = 0x7b;
// biome-ignore lint/suspicious/noControlCharactersInRegex: text has none of these.
const hasControls = /[\x00-\x08\x0e-\x1f]/;

/**
 * Takes files apart into lines, in bounded memory whatever is in them: text in UTF-8, with a mark of its byte order or without,
 * its lines ended as on Unix or on Windows, compressed by gzip or not. The one way from bytes to lines for all that reads logs.
 */
export abstract class LineReader {
  protected file = '';
  /** In its file, from 1. */
  protected line = 0;
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true });
  /** Whether the piece of input that is read is ASCII, all of it. */
  #isAscii = false;

  /** One line, without its end. `view`: of the same bytes. `isEnded`: false of what a file ends within. */
  protected abstract take(bytes: Buffer, view: DataView, from: number, to: number, isEnded: boolean): void;

  protected abstract bad(bad: BadPlace): void;

  /** After each line: what the next one has to wait for; null where that is nothing. */
  protected waits(): Promise<void> | null {
    return null;
  }

  /** After each piece of input. */
  protected progress(): void {}

  /** @throws what the source throws. */
  async read({ name, bytes }: LogSource): Promise<void> {
    this.file = name;
    this.line = 0;
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
      const what = code === 'Z_BUF_ERROR' ? 'ends in the middle of its compressed text' : 'is not sound as gzip';
      this.#badFile(`${what}: nothing is read behind line ${this.line}`, 'Take the file again: it must be whole.');
    }
  }

  async #lines(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    let rest: Buffer = Buffer.alloc(0);
    /** Of a line that is too long, until it ends. */
    let skipping = false;
    let isFirst = true;
    for await (const each of chunks) {
      const chunk = Buffer.from(each.buffer, each.byteOffset, each.byteLength);
      const text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      this.#isAscii = isAscii(text);
      const view = new DataView(text.buffer, text.byteOffset, text.byteLength);
      let from = isFirst && isMarked(text) ? 3 : 0;
      isFirst = false;
      for (let to = text.indexOf(newline, from + rest.length); to !== -1; to = text.indexOf(newline, from)) {
        if (!skipping) {
          this.#count();
          this.take(text, view, from, to > from && text[to - 1] === carriageReturn ? to - 1 : to, true);
          const waits = this.waits();
          if (waits !== null) await waits;
        }
        skipping = false;
        from = to + 1;
      }
      rest = text.subarray(from);
      if (skipping) rest = Buffer.alloc(0);
      else if (rest.length > maxLine) {
        this.#count();
        this.badLine(new BadLine(null, 'is longer than 1 MiB', 'Give logs of Sallyport, whose lines are shorter.'));
        skipping = true;
        rest = Buffer.alloc(0);
      }
      this.progress();
    }
    if (rest.length === 0) return;
    this.#count();
    this.take(rest, new DataView(rest.buffer, rest.byteOffset, rest.byteLength), 0, rest.length, false);
  }

  #count(): void {
    this.line++;
    this.counted();
  }

  /** Each line once, those that are not taken, too. */
  protected counted(): void {}

  /** @throws BadLine */
  protected text(bytes: Buffer, from: number, to: number): string {
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

  /** Says of a line that was taken what is wrong with it. */
  protected refuse(error: BadLine, bytes: Buffer, from: number, to: number, isEnded: boolean): void {
    if (hasControls.test(bytes.toString('latin1', from, to))) this.badLine(noText());
    else if (isEnded) this.badLine(error);
    else this.badLine(new BadLine(error.field, `${error.message}; the file ends within the line`, error.hint));
  }

  protected badLine({ field, message, hint }: BadLine): void {
    const said = field === null ? message : `"${field}" ${message}`;
    this.bad({ file: this.file, line: this.line, field, message: said, remedy: hint });
  }

  #badFile(message: string, remedy: string): void {
    this.bad({ file: this.file, line: 0, field: null, message, remedy });
  }
}

function noText(): BadLine {
  return new BadLine(null, 'holds bytes that no text has', 'Give the log as it was written.');
}

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

function isMarked(text: Buffer): boolean {
  return text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf;
}

async function* rejoined(head: Buffer, source: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield head;
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
