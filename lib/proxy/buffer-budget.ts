import type { IpAddress } from '../ip.ts';
import type { LimitName, Limits } from './limits.ts';
import type { Recorder } from './recorder.ts';

/** Somebody for whom bytes wait here, or for whose bytes something waits. */
export interface Slow {
  /** Whose connection it is, for the log; null where it is nobody's. */
  readonly client: IpAddress | null;
  /** Any number that differs from the one before if something has moved since. Asked seldom. */
  progress(): number;
  /** It has stood still for too long, or longest: end it, and let go of what waits for it. */
  cut(limit: StallLimit): void;
}

export type StallLimit = Extract<LimitName, 'stall_timeout' | 'max_buffered_bytes'>;

/** Milliseconds between looks at deadlines; they are late by up to this much. */
const sweepMs = 1000;

/** How many that have moved on are spared, at each want of room, before one is cut all the same: work must be bounded. */
const maxSpared = 16;

/**
 * What waits in memory for somebody slow, over all connections: it is bounded, and so is the time for which anything may
 * wait. Only those who are slow are counted, when a write says that it had to wait and when the wait is over; whoever
 * keeps up costs nothing. When there is too much, whoever has stood still longest goes first, so that no number of
 * stalled clients takes anything from the others.
 */
export class BufferBudget {
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  readonly #recorder: Pick<Recorder, 'limitReached'>;
  /** Those for whom bytes wait, and those for whom nothing does but time. Each longest first. */
  readonly #holding = new Line();
  readonly #awaited = new Line();
  readonly #sweeper: NodeJS.Timeout;
  /** Read once a second: nobody needs it finer. */
  #now = performance.now();
  #bytes = 0;

  constructor(limits: Pick<Limits, 'maxBufferedBytes' | 'stallTimeoutMs'>, recorder: Pick<Recorder, 'limitReached'>) {
    this.#maxBytes = limits.maxBufferedBytes;
    this.#timeoutMs = limits.stallTimeoutMs;
    this.#recorder = recorder;
    this.#sweeper = setInterval(() => this.sweep(performance.now()), sweepMs).unref();
  }

  /** Bytes that wait now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** How many stand still now. */
  get size(): number {
    return this.#holding.size + this.#awaited.size;
  }

  /** @internal For `Stall`. */
  hold(stall: Stall, bytes: number): void {
    this.#bytes += bytes - stall.bytes;
    stall.bytes = bytes;
    const line = bytes > 0 ? this.#holding : this.#awaited;
    if (stall.line !== line) {
      stall.line?.remove(stall);
      stall.since = this.#now;
      stall.seen = stall.slow.progress();
      line.append(stall);
    }
    if (this.#bytes > this.#maxBytes) this.#makeRoom();
  }

  /** @internal For `Stall`. */
  release(stall: Stall): void {
    this.#bytes -= stall.bytes;
    stall.bytes = 0;
    stall.line?.remove(stall);
  }

  /** `now` on the clock of `performance.now()`. */
  sweep(now: number): void {
    this.#now = now;
    for (const line of [this.#holding, this.#awaited]) {
      for (let first = line.first; first !== null && now - first.since > this.#timeoutMs; first = line.first) {
        if (!this.#spare(first)) this.#cut(first, 'stall_timeout');
      }
    }
  }

  #makeRoom(): void {
    let left = maxSpared;
    for (let first = this.#holding.first; first !== null && this.#bytes > this.#maxBytes; first = this.#holding.first) {
      if (left-- > 0 && this.#spare(first)) continue;
      this.#cut(first, 'max_buffered_bytes');
    }
  }

  /** Whoever has taken or sent anything since the last look goes to the end of the line. */
  #spare(stall: Stall): boolean {
    const seen = stall.slow.progress();
    if (seen === stall.seen) return false;
    stall.seen = seen;
    stall.since = this.#now;
    const { line } = stall;
    line?.remove(stall);
    line?.append(stall);
    return true;
  }

  #cut(stall: Stall, limit: StallLimit): void {
    // Off the line first: whatever the cut does, the next look finds another.
    this.release(stall);
    this.#recorder.limitReached(limit, stall.slow.client);
    stall.slow.cut(limit);
  }

  close(): void {
    clearInterval(this.#sweeper);
  }
}

/** One thing that can stand still: a connection, a stream, one direction of a tunnel. Made when it first does. */
export class Stall {
  readonly slow: Slow;
  readonly #budget: BufferBudget;
  /** The rest is the budget's own. */
  bytes = 0;
  since = 0;
  seen = 0;
  line: Line | null = null;
  earlier: Stall | null = null;
  later: Stall | null = null;

  constructor(budget: BufferBudget, slow: Slow) {
    this.#budget = budget;
    this.slow = slow;
  }

  get waits(): boolean {
    return this.line !== null;
  }

  /**
   * It stands still from now on, if it did not before, and so many bytes wait for it in memory; 0 where only time is
   * lost. `cut` may be called before this returns.
   */
  hold(bytes: number): void {
    this.#budget.hold(this, bytes);
  }

  /** It has moved on, or is over. */
  release(): void {
    if (this.line !== null) this.#budget.release(this);
  }
}

/** In the order in which they came. Linked, because a Set would leave tables behind that keep those who have left. */
class Line {
  first: Stall | null = null;
  size = 0;
  #last: Stall | null = null;

  append(stall: Stall): void {
    stall.line = this;
    stall.earlier = this.#last;
    if (this.#last === null) this.first = stall;
    else this.#last.later = stall;
    this.#last = stall;
    this.size++;
  }

  remove(stall: Stall): void {
    const { earlier, later } = stall;
    if (earlier === null) this.first = later;
    else earlier.later = later;
    if (later === null) this.#last = earlier;
    else later.earlier = earlier;
    stall.earlier = null;
    stall.later = null;
    stall.line = null;
    this.size--;
  }
}

/** Part of a socket that Node keeps for itself: what the kernel, or TLS, has not taken yet. It shrinks as the peer reads. */
interface Queued {
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/** `Slow.progress` for a socket that is being written to, and read from. */
export function progressOf(socket: { readonly bytesRead: number; readonly writableLength: number }): number {
  const queued = (socket as Queued)._handle?.writeQueueSize ?? 0;
  return socket.bytesRead * 2 ** 20 - socket.writableLength - queued;
}
