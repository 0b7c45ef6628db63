import type { IpAddress } from '../../ip.ts';
import { type Ending, guarded, internalFault } from '../guard.ts';
import type { LimitName, Limits } from '../limits.ts';
import { queuedBytes } from '../node-handles.ts';
import type { Recorder } from '../recorder.ts';
import { behindReads } from './behind-reads.ts';
import { type InLine, Line } from './line.ts';
import { NextTurn } from './next-turn.ts';

/** Somebody for whom bytes wait here, or for whose bytes something waits. */
export interface Slow extends Ending {
  /** Whose connection it is, for the log; null where it is nobody's. */
  readonly client: IpAddress | null;
  /** Any number that differs from the one before if something has moved since. Asked seldom. */
  progress(): number;
  /**
   * It has stood still for too long, or longest: end it, and let go of what waits for it. Called in a turn of its own,
   * once.
   */
  cut(limit: StallLimit): void;
}

export type StallLimit = Extract<LimitName, 'stall_timeout' | 'max_buffered_bytes'>;

/** Milliseconds between looks at deadlines; they are late by up to this much. */
const sweepMs = 1000;

/** How many that have moved on are spared, at each want of room, before one is cut all the same: work must be bounded. */
const maxSpared = 16;

/** What of all that may wait is next to nothing: a 256th; and what all who hold so little may hold together, and be spared. */
const little = 1 / 256;
const sparedShare = 1 / 2;

/** How many of those are looked at for the one who holds most, where one of them has to go. */
const maxLooked = 16;

/** Milliseconds of one turn for cutting off; and where those who wait for it hold more than this share of what may wait. */
const cuttingMs = 2;
const busyCuttingMs = 4;
const leavingShare = 1 / 16;

/** Who is to be cut off, and what for. */
interface Leaving {
  readonly stall: Stall;
  readonly limit: StallLimit;
}

/** What waits for one connection, over all of its streams. */
export class ConnectionHolding {
  bytes = 0;
}

/** Those who wait for one reason. Each is in one of the lines, longest first. */
class StandingStill {
  readonly all = new Line<Stall>();
  /** Who was found to hold next to nothing when room was wanting: nobody looks at them again as long as that is so. */
  readonly little = new Line<Stall>();

  get size(): number {
    return this.all.size + this.little.size;
  }
}

/**
 * What waits in memory for somebody slow, over all connections: it is bounded, and so is the time for which anything may
 * wait. Only those who are slow are counted; a peer that keeps up costs nothing. When there is too much, the one that has stood
 * still longest goes first, so that no number of stalled clients takes anything from the others; but one whose connection holds
 * next to nothing only behind those who hold more, unless such ones hold half of all there is. A request may wait long for an
 * app that the others keep busy.
 */
export class BufferBudget {
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  readonly #recorder: Pick<Recorder, 'limitReached'>;
  /** Those for whom bytes wait, for a limited time or for any; and those for whom only time is lost. */
  readonly #timed = new StandingStill();
  readonly #untimed = new StandingStill();
  readonly #awaited = new StandingStill();
  readonly #sweeper: NodeJS.Timeout;
  /** Read once a second: nobody needs it finer. */
  #now = performance.now();
  #bytes = 0;
  /** What those hold of whom is known that each holds little. */
  #littleBytes = 0;
  /** Who is cut off in the next turn. What they hold counts until then: it is not gone before. */
  #leaving: Leaving[] = [];
  #leavingBytes = 0;
  /** Bytes that are set apart, and for which nobody is cut off: heads of requests that the app has. */
  #reserved = 0;
  readonly #cutting = new NextTurn(() => this.#cutSome());

  constructor(limits: Pick<Limits, 'maxBufferedBytes' | 'stallTimeoutMs'>, recorder: Pick<Recorder, 'limitReached'>) {
    this.#maxBytes = limits.maxBufferedBytes;
    this.#timeoutMs = limits.stallTimeoutMs;
    this.#recorder = recorder;
    const sweep = guarded('looking at who stands still', null, () => this.sweep(performance.now()));
    this.#sweeper = setInterval(behindReads(sweep), sweepMs).unref();
  }

  /** Bytes that wait now, and those that are set apart. */
  get bytes(): number {
    return this.#bytes + this.#reserved;
  }

  /** Sets so many bytes more apart, or fewer; whoever does bounds them. */
  reserve(more: number): void {
    this.#reserved += more;
  }

  /** Whether so many bytes more leave half of all there is to those who cannot do without. */
  hasRoom(bytes: number): boolean {
    return this.#bytes + this.#reserved + bytes <= this.#maxBytes * sparedShare;
  }

  /** How many stand still now. */
  get size(): number {
    return this.#timed.size + this.#untimed.size + this.#awaited.size;
  }

  /** For `Stall` alone. */
  hold(stall: Stall, bytes: number, timed: boolean): void {
    this.#count(stall, bytes);
    const standing = !timed ? this.#untimed : bytes > 0 ? this.#timed : this.#awaited;
    if (stall.standing !== standing) {
      this.#leave(stall);
      this.#join(stall, standing);
    } else if (stall.line === standing.little && !this.#holdsLittle(stall)) {
      // It has stood still for longer than any whom nobody has looked at.
      this.#leave(stall);
      standing.all.prepend(stall);
    }
    if (this.#waiting > this.#most) this.#makeRoom();
  }

  /** For `Stall` alone. */
  release(stall: Stall): void {
    this.#count(stall, 0);
    this.#leave(stall);
    stall.standing = null;
  }

  #count(stall: Stall, bytes: number): void {
    const more = bytes - stall.bytes;
    this.#bytes += more;
    stall.holding.bytes += more;
    if (stall.isLittle) this.#littleBytes += more;
    stall.bytes = bytes;
  }

  #join(stall: Stall, standing: StandingStill): void {
    stall.standing = standing;
    stall.since = this.#now;
    stall.seen = stall.slow.progress();
    standing.all.append(stall);
  }

  #leave(stall: Stall): void {
    if (stall.isLittle) this.#littleBytes -= stall.bytes;
    stall.line?.remove(stall);
  }

  #holdsLittle({ holding }: Stall): boolean {
    return holding.bytes <= this.#maxBytes * little;
  }

  /** `now` on the clock of `performance.now()`. */
  sweep(now: number): void {
    this.#now = now;
    for (const line of [this.#timed.all, this.#timed.little, this.#awaited.all]) {
      for (let first = line.first; first !== null && now - first.since > this.#timeoutMs; first = line.first) {
        if (!this.#spare(first)) this.#cut(first, 'stall_timeout');
      }
    }
  }

  /** Memory runs out, whatever for: those that have stood still longest go until `bytes` less wait. */
  shed(bytes: number): void {
    if (bytes > 0) this.#makeRoom(Math.max(0, this.#waiting - bytes));
  }

  #makeRoom(maxBytes = this.#most): void {
    let left = maxSpared;
    for (let first = this.#next(); first !== null && this.#waiting > maxBytes; first = this.#next()) {
      if (left-- > 0 && this.#spare(first)) continue;
      this.#cut(first, 'max_buffered_bytes');
    }
  }

  /** What waits for others than those who are about to be cut off, and how much may. */
  get #waiting(): number {
    return this.#bytes - this.#leavingBytes;
  }
  get #most(): number {
    return this.#maxBytes - this.#reserved;
  }

  /** Of those for whom bytes wait the first who holds more than little, unless those who hold little have their share. */
  #next(): Stall | null {
    while (this.#littleBytes <= this.#maxBytes * sparedShare) {
      const next = longer(this.#timed.all.first, this.#untimed.all.first);
      if (next === null) break;
      if (!this.#holdsLittle(next)) return next;
      next.line?.remove(next);
      next.standing?.little.append(next);
      this.#littleBytes += next.bytes;
    }
    return this.#mostOfLittle();
  }

  /** Of the first of those who hold little the one who holds most; null where there are none. */
  #mostOfLittle(): Stall | null {
    let [timed, untimed] = [this.#timed.little.first, this.#untimed.little.first];
    let most: Stall | null = null;
    for (let looked = 0; looked < maxLooked; looked++) {
      const next = longer(timed, untimed);
      if (next === null) return most;
      if (most === null || next.holding.bytes > most.holding.bytes) most = next;
      if (next === timed) timed = next.later;
      else untimed = next.later;
    }
    return most;
  }

  /** A holder that has taken or sent anything since the last look goes to the end of the line. */
  #spare(stall: Stall): boolean {
    const { standing } = stall;
    if (standing === null || stall.slow.progress() === stall.seen) return false;
    this.#leave(stall);
    this.#join(stall, standing);
    return true;
  }

  /** In the next turn: a holder that says it stands still may be in the middle of a write. */
  #cut(stall: Stall, limit: StallLimit): void {
    // Off the line first: whatever the cut does, the next look finds another.
    this.#leave(stall);
    stall.standing = null;
    stall.isCut = true;
    this.#leavingBytes += stall.bytes;
    this.#leaving.push({ stall, limit });
    this.#cutting.schedule();
  }

  /**
   * There may be thousands of them, so that others have their turn in between. In each turn there is time for more of them than
   * can come in one: what waits to be cut off is memory as well.
   */
  #cutSome(): void {
    const isBehind = this.#leavingBytes > this.#maxBytes * leavingShare;
    const until = performance.now() + (isBehind ? busyCuttingMs : cuttingMs);
    const leaving = this.#leaving;
    let cut = 0;
    while (cut < leaving.length) {
      if (performance.now() > until) break;
      const { stall, limit } = leaving[cut++] as Leaving;
      this.#leavingBytes -= stall.bytes;
      this.#count(stall, 0);
      const { slow } = stall;
      try {
        this.#recorder.limitReached(limit, slow.client);
        slow.cut(limit);
      } catch (error) {
        internalFault('cutting off who stands still', slow, error);
      }
    }
    this.#leaving = leaving.slice(cut);
    if (this.#leaving.length > 0) this.#cutting.schedule();
  }

  close(): void {
    clearInterval(this.#sweeper);
  }
}

/** Who has stood still for longer. */
function longer(one: Stall | null, other: Stall | null): Stall | null {
  if (one === null || other === null) return one ?? other;
  return one.since <= other.since ? one : other;
}

/** One thing that can stand still: a connection, a stream. Made when it first does, and then kept. */
export class Stall implements InLine<Stall> {
  readonly slow: Slow;
  readonly holding: ConnectionHolding;
  readonly #budget: BufferBudget;
  /** The rest is the budget's own. */
  bytes = 0;
  since = 0;
  seen = 0;
  isCut = false;
  standing: StandingStill | null = null;
  line: Line<Stall> | null = null;
  earlier: Stall | null = null;
  later: Stall | null = null;

  /** @param holding of the connection, where other things of it can stand still, too. */
  constructor(budget: BufferBudget, slow: Slow, holding = new ConnectionHolding()) {
    this.#budget = budget;
    this.slow = slow;
    this.holding = holding;
  }

  /** For the budget alone. */
  get isLittle(): boolean {
    return this.line !== null && this.line === this.standing?.little;
  }

  /** It stands still, as far as anybody has said. */
  get waits(): boolean {
    return this.line !== null;
  }

  /**
   * It stands still from now on, if it did not before.
   *
   * @param bytes that wait for it in memory; 0 where only time is lost.
   * @param timed false where it may take as long as it likes (a tunnel; the app), and only the bytes count.
   */
  hold(bytes: number, timed = true): void {
    if (!this.isCut) this.#budget.hold(this, bytes, timed);
  }

  /** It has moved on, or is over. */
  release(): void {
    if (this.line !== null) this.#budget.release(this);
  }
}

/** `Slow.progress` for a socket of which only what it takes is waited for. */
export function takenOf(socket: { readonly bytesWritten: number; readonly writableLength: number }): number {
  return socket.bytesWritten - socket.writableLength - queuedBytes(socket);
}

/** `Slow.progress` for a socket that is being written to, and read from. */
export function progressOf(socket: { readonly bytesRead: number; readonly writableLength: number }): number {
  return socket.bytesRead * 2 ** 20 - socket.writableLength - queuedBytes(socket);
}
