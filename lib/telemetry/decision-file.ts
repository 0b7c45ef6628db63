import { constants, writeSync } from 'node:fs';
import { type FileHandle, lstat, open, rename, stat } from 'node:fs/promises';
import type { CodedLog } from '../errors/complaint.ts';
import { lostLine } from './decision-records.ts';
import type { LineSink } from './output.ts';

export interface DecisionFileOptions {
  readonly path: string;
  /** Bytes of one file, and how many full ones are kept beside it: `path.1` is the youngest. */
  readonly maxBytes: number;
  readonly keep: number;
  readonly log: CodedLog;
  /** Called with the number of lines that are dropped. */
  readonly onDropped: (lines: number) => void;
}

/** Characters gathered before a write, and at most in one. */
const pieceChars = 64 * 1024;
const flushEveryMs = 100;
/** Where the disk cannot follow, lines are dropped rather than kept without bound. In characters. */
const maxWaiting = 4 * 1024 * 1024;
/** Milliseconds until a write that failed is tried again; and between two lines of the log that say so. */
const retryMs = 1000;
const sayEveryMs = 60_000;
/** Milliseconds between two looks whether the file is still the one that its path names. */
const lookEveryMs = 1000;
/** Milliseconds that an orderly end waits for the disk. */
const closeMs = 1000;

/** A pipe without a reader fails, rather than holding a thread. */
const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOCTTY;

interface OpenFile {
  readonly handle: FileHandle;
  /** An inode's number alone may come again on another file system that is mounted in its place. */
  readonly device: number;
  readonly inode: number;
  readonly isRegular: boolean;
  bytes: number;
}

interface Piece {
  readonly bytes: Buffer;
  readonly lines: number;
  /** Told in it, and to be told anew where it is dropped. */
  readonly lost: number;
  /** Some of it is in the file, in which the rest must follow. */
  readonly isBegun: boolean;
}

/**
 * Lines to a file that is replaced when it is full, or when somebody else has moved it away. One operation is under way at a
 * time, and nobody waits for it.
 */
export class DecisionFile implements LineSink {
  readonly #options: DecisionFileOptions;
  /** Every piece ends with a line. */
  #waiting: { text: string; lines: number }[] = [];
  #waitingChars = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | null = null;
  #working: Promise<void> | null = null;
  #file: OpenFile | null = null;
  /** Being written. */
  #rest: Piece | null = null;
  /** By `performance.now()`, which no setting of the date moves. */
  #lookedMs = Number.NEGATIVE_INFINITY;
  /** Null: all is well. `isTold`: the log has said so. */
  #failing: { readonly isTold: boolean } | null = null;
  #saidMs = Number.NEGATIVE_INFINITY;
  #stage: 'open' | 'closed' = 'open';

  constructor(options: DecisionFileOptions) {
    this.#options = options;
    process.on('exit', this.#writeLast);
  }

  write(text: string, lines = 1): void {
    if (this.#stage === 'closed' || this.#waitingChars + text.length > maxWaiting) {
      this.#drop(lines);
      return;
    }
    this.#waitingChars += text.length;
    const last = this.#waiting.at(-1);
    if (last === undefined || last.text.length + text.length > pieceChars) this.#waiting.push({ text, lines });
    else {
      last.text += text;
      last.lines += lines;
    }
    if (this.#working !== null) return;
    if (this.#waitingChars >= pieceChars && this.#failing === null) this.#work();
    else this.#timer ??= setTimeout(() => this.#work(), this.#failing === null ? flushEveryMs : retryMs).unref();
  }

  /** Writes what is there, as far as the disk takes it within a second, and takes no more. */
  async close(): Promise<void> {
    if (this.#stage === 'closed') return;
    this.#work();
    let timer: NodeJS.Timeout | undefined;
    const bound = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, closeMs);
    });
    await Promise.race([this.#working, bound]);
    clearTimeout(timer);
    this.#stage = 'closed';
    process.off('exit', this.#writeLast);
    this.#writeLast();
    // What was written is written; there is nobody left to report the rest to.
    await this.#file?.handle.close().catch(() => {});
  }

  #work(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#working !== null) return;
    this.#working = this.#writeAll().then(
      () => this.#wrote(),
      (error: NodeJS.ErrnoException) => this.#failed(error),
    );
  }

  async #writeAll(): Promise<void> {
    for (;;) {
      this.#rest ??= this.#take();
      if (this.#rest === null) return;
      await this.#make(this.#rest);
      while (this.#rest !== null && this.#file !== null) await this.#writeSome(this.#rest, this.#file);
    }
  }

  async #writeSome({ bytes, lines, lost }: Piece, file: { readonly handle: FileHandle; bytes: number }): Promise<void> {
    try {
      const { bytesWritten } = await file.handle.write(bytes);
      file.bytes += bytesWritten;
      this.#rest =
        bytesWritten >= bytes.length ? null : { bytes: bytes.subarray(bytesWritten), lines, lost, isBegun: true };
    } catch (error) {
      // A full disk may have been given room by removing this file, which takes its room until it is closed.
      this.#lookedMs = Number.NEGATIVE_INFINITY;
      await this.#look();
      if (this.#file !== null) throw error;
      this.#drop(lines);
      this.#lost += lost;
      this.#rest = null;
    }
  }

  #drop(lines: number): void {
    this.#lost += lines;
    this.#options.onDropped(lines);
  }

  /** A file that has room, at the path. */
  async #make({ bytes, lines, lost, isBegun }: Piece): Promise<void> {
    const { path, maxBytes } = this.#options;
    if (isBegun && this.#file !== null) return;
    await this.#look();
    if (this.#file !== null && !isFull(this.#file, maxBytes)) return;
    await this.#close();
    // Asked of the path, too: where the last one could not be moved away it is there, and full, still.
    const there = await stat(path).catch(unlessAbsent);
    if (there !== undefined && isFull({ isRegular: there.isFile(), bytes: there.size }, maxBytes)) await this.#shift();
    const handle = await open(path, flags, 0o600);
    const opened = await handle.stat();
    const { dev, ino, size } = opened;
    const isRegular = opened.isFile();
    this.#file = { handle, device: dev, inode: ino, isRegular, bytes: size };
    this.#lookedMs = performance.now();
    // One that ends in half a line: the writer before was cut off.
    if (isRegular && size > 0 && !(await endsWithLine(path, size))) {
      this.#rest = { bytes: Buffer.concat([Buffer.from('\n'), bytes]), lines, lost, isBegun };
    }
  }

  /** Where somebody has moved the file away, or removed it, the path names another one from now on. */
  async #look(): Promise<void> {
    if (this.#file === null || performance.now() - this.#lookedMs < lookEveryMs) return;
    this.#lookedMs = performance.now();
    // Whatever stands in the way of it: opening the path says what it is.
    const there = await stat(this.#options.path).catch(() => null);
    const { device, inode } = this.#file;
    if (there?.ino !== inode || there.dev !== device) await this.#close();
  }

  async #close(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.handle.close();
  }

  async #shift(): Promise<void> {
    const { path, keep } = this.#options;
    // As far as there are files: what may be kept is a number that a user chooses.
    let last = 1;
    while (last < keep && (await isThere(`${path}.${last}`))) last++;
    for (let i = last; i >= 1; i--) {
      await rename(i === 1 ? path : `${path}.${i - 1}`, `${path}.${i}`).catch(unlessAbsent);
    }
  }

  #take(): Piece | null {
    if (this.#lost > 0 && this.#stage === 'open') {
      const lost = this.#lost;
      this.#lost = 0;
      return { bytes: Buffer.from(lostLine(Date.now(), lost)), lines: 0, lost, isBegun: false };
    }
    const next = this.#waiting.shift();
    if (next === undefined) return null;
    this.#waitingChars -= next.text.length;
    return { bytes: Buffer.from(next.text, 'latin1'), lines: next.lines, lost: 0, isBegun: false };
  }

  #wrote(): void {
    this.#working = null;
    if (this.#failing?.isTold === true) {
      this.#options.log.info({ file: this.#options.path }, 'Decisions are recorded again');
    }
    this.#failing = null;
    if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#work(), flushEveryMs).unref();
  }

  #failed({ code = 'unknown', message }: NodeJS.ErrnoException): void {
    this.#working = null;
    const nowMs = performance.now();
    if (nowMs - this.#saidMs >= sayEveryMs) {
      this.#saidMs = nowMs;
      const fields = { code: 'decisions-not-written', file: this.#options.path, errno: code, error: message } as const;
      this.#options.log.warn({ ...fields, dropped: this.#lost }, 'Decisions cannot be recorded');
      this.#failing = { isTold: true };
    }
    this.#failing ??= { isTold: false };
    if (this.#stage === 'open') this.#timer ??= setTimeout(() => this.#work(), retryMs).unref();
  }

  /** At the end of the process, which returns to no event loop. */
  readonly #writeLast = (): void => {
    const file = this.#file;
    // What is under way may or may not have been written: then it is left to the system.
    if (file === null || this.#working !== null) return;
    try {
      for (let piece = this.#rest ?? this.#take(); piece !== null; piece = this.#take()) {
        for (let at = 0; at < piece.bytes.length; ) at += writeSync(file.handle.fd, piece.bytes, at);
        this.#rest = null;
      }
    } catch {
      // There is nobody left to report it to.
    }
  };
}

async function endsWithLine(path: string, size: number): Promise<boolean> {
  const handle = await open(path, 'r');
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
    return bytesRead === 0 || buffer[0] === 0x0a;
  } finally {
    await handle.close();
  }
}

function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    // Whatever stands in the way of it: renaming says what it is.
    () => false,
  );
}

function isFull({ isRegular, bytes }: { isRegular: boolean; bytes: number }, maxBytes: number): boolean {
  return isRegular && bytes >= maxBytes;
}

function unlessAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
