import { writeSync, write as writeTo } from 'node:fs';
import { complaintText } from '../errors/complaint.ts';

/** Where lines go. The default is standard output. */
export interface LineSink {
  /** @param lines how many whole lines it is; 1 by default. */
  write(text: string, lines?: number): void;
}

/** Characters gathered before a write, and at most in one: what Docker reads at a time. */
const pieceChars = 16 * 1024;
const flushEveryMs = 100;
/** When nobody reads the output, lines are dropped rather than kept without bound. In characters. */
const maxWaiting = 8 * 1024 * 1024;
/** A full pipe is looked at again after this long; a full disk, a device that fails, after a second. */
const fullPipeMs = 20;
const failedMs = 1000;
/** Milliseconds that an end waits for a reader: an orderly one, and one that cannot wait for anything. */
const flushMs = 1000;
const lastFlushMs = 200;

/** Every output of this process, for its end. */
const outputs: BufferedSink[] = [];

/** Lines to a file descriptor, gathered for a moment and written without waiting; what is left is written at exit. */
export function bufferedOutput(fd: number): LineSink {
  if (outputs.length === 0) process.on('exit', writeLast);
  const output = new BufferedSink(fd);
  outputs.push(output);
  return output;
}

/** Resolves when all that was written has left the process, or after a second: a reader may have stopped for good. */
export async function flushOutputs(): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, flushMs);
  });
  await Promise.race([Promise.all(outputs.map((output) => output.empty())), bound]);
  clearTimeout(timer);
}

/** Lines dropped so far, on all outputs of this process. */
export function droppedLines(): number {
  return outputs.reduce((sum, output) => sum + output.dropped, 0);
}

/** Lines that wait to be written now, on all outputs of this process: many where a reader stands still. */
export function waitingLines(): number {
  return outputs.reduce((sum, output) => sum + output.waitingLines, 0);
}

/** Writes that failed so far, on all outputs of this process, by the system's code. A full pipe is no failure. */
export function failedWrites(): ReadonlyMap<string, number> {
  return failures;
}

const failures = new Map<string, number>();

function writeLast(): void {
  const until = performance.now() + lastFlushMs;
  for (const output of outputs) output.writeLast(until);
}

/** What is being written: `asked` while the system has it, else it waits to be tried again. */
interface Piece {
  readonly bytes: Buffer;
  readonly lines: number;
  written: number;
  asked: boolean;
}

class BufferedSink implements LineSink {
  readonly #fd: number;
  /** Not given to the system yet; every piece ends with a line. */
  #waiting: { text: string; lines: number }[] = [];
  #waitingChars = 0;
  #piece: Piece | null = null;
  #timer: NodeJS.Timeout | null = null;
  #gone = false;
  /** It has been said that writing fails, and none has succeeded since. */
  #isTold = false;
  /** Lines dropped because nobody took them. */
  dropped = 0;
  #onEmpty: (() => void)[] = [];

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(text: string, lines = 1): void {
    if (this.#gone || this.#waitingChars + text.length > maxWaiting) {
      this.dropped += lines;
      return;
    }
    this.#waitingChars += text.length;
    const last = this.#waiting.at(-1);
    if (last === undefined || last.text.length + text.length > pieceChars) {
      this.#waiting.push({ text, lines });
    } else {
      last.text += text;
      last.lines += lines;
    }
    if (this.#piece !== null) return;
    if (this.#waitingChars >= pieceChars) this.#next();
    else this.#timer ??= setTimeout(this.#onTimer, flushEveryMs).unref();
  }

  get waitingLines(): number {
    return this.#waiting.reduce((sum, { lines }) => sum + lines, this.#piece?.lines ?? 0);
  }

  /** Resolves when nothing is left to be written. */
  empty(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty.push(resolve);
      this.#next();
    });
  }

  /** Writes what is left without returning to the event loop, as far as it is taken until then. */
  writeLast(until: number): void {
    // The system may be done with it, and cannot say so any more; a moment, and then it counts as written.
    if (this.#piece?.asked) {
      pause(fullPipeMs);
      this.#piece = null;
    }
    for (let piece = this.#piece ?? this.#take(); piece !== null; piece = this.#take()) {
      while (piece.written < piece.bytes.length) {
        try {
          piece.written += writeSync(this.#fd, piece.bytes, piece.written);
        } catch (error) {
          // There is nobody left to report it to.
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() >= until) return;
          pause(fullPipeMs);
        }
      }
    }
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    if (this.#piece === null) this.#next();
    else this.#ask(this.#piece);
  };

  #take(): Piece | null {
    const next = this.#waiting.shift();
    if (next === undefined) return null;
    this.#waitingChars -= next.text.length;
    return { bytes: Buffer.from(next.text), lines: next.lines, written: 0, asked: false };
  }

  #next(): void {
    if (this.#piece !== null) return;
    this.#piece = this.#take();
    if (this.#piece !== null) this.#ask(this.#piece);
    else for (const resolve of this.#onEmpty.splice(0)) resolve();
  }

  #ask(piece: Piece): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    piece.asked = true;
    writeTo(this.#fd, piece.bytes, piece.written, (error, written) => {
      piece.asked = false;
      if (error !== null) {
        this.#failed(piece, error);
        return;
      }
      piece.written += written;
      this.#isTold = false;
      if (piece.written < piece.bytes.length) {
        this.#ask(piece);
        return;
      }
      this.#piece = null;
      this.#next();
    });
  }

  /** Nothing is dropped but for want of room, or because the reader is gone. */
  #failed(piece: Piece, { code = 'unknown' }: NodeJS.ErrnoException): void {
    if (code !== 'EAGAIN') {
      failures.set(code, (failures.get(code) ?? 0) + 1);
      this.#tell(code);
    }
    if (code === 'EPIPE' || code === 'EBADF') {
      this.#gone = true;
      this.dropped += this.#waiting.reduce((sum, { lines }) => sum + lines, piece.lines);
      this.#waiting = [];
      this.#waitingChars = 0;
      this.#piece = null;
      this.#next();
      return;
    }
    this.#timer = setTimeout(this.#onTimer, code === 'EAGAIN' ? fullPipeMs : failedMs).unref();
  }

  /** The log cannot say that it cannot be written; standard error may. Once, until it can be written again. */
  #tell(code: string): void {
    if (this.#fd !== 1 || this.#isTold) return;
    this.#isTold = true;
    const fate =
      code === 'EPIPE' ? 'nobody reads it, and its lines are dropped' : 'its lines wait, and beyond 8 MiB are dropped';
    // Where that fails, too, there is nobody left to report it to.
    const message = `the log cannot be written to standard output (${code}): ${fate}`;
    writeTo(2, `sallyport: ${complaintText({ code: 'log-not-written', message, hint: '' })}\n`, () => {});
  }
}

/** Lets this thread stand still. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
