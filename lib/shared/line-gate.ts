import type { LineCause, LineGate } from '../telemetry/line-gate.ts';
import { decideLine, type LineMessage, type LineRules, type LinesLeft, type LinesOf } from '../telemetry/line-rules.ts';
import { type Hash64, KeyedHash } from './keyed-hash.ts';
import { SharedLock } from './lock.ts';

/** What threads need to hold one log to its rules. */
export interface LineMemory {
  readonly key: Hash64;
  readonly table: SharedArrayBuffer;
}

/** So many causes, and clients with a cause, are remembered: more than there can be lines about in a minute by default. */
const causeSlots = 128;
const clientSlots = 512;
/** Of each two words of its hash, a time and a number of lines. Of all lines together there are only the last two. */
const perSlot = 4;
const firstCause = 2;
const firstClient = firstCause + causeSlots * perSlot;
const numbers = firstClient + clientSlots * perSlot;
const headerBytes = 8;

export function lineMemory(key: Hash64): LineMemory {
  return { key, table: new SharedArrayBuffer(headerBytes + numbers * Float64Array.BYTES_PER_ELEMENT) };
}

interface Slot {
  readonly at: number;
  readonly isKnown: boolean;
}

/** Seldom asked: each thread asks only for lines that it would have written alone. */
export class SharedLineGate implements LineGate {
  readonly #lock: SharedLock;
  readonly #numbers: Float64Array;
  readonly #hash: KeyedHash;
  readonly #rules: LineRules;
  readonly #nowMs: () => number;

  /** @param nowMs above 0, and the same clock in all threads. */
  constructor(memory: LineMemory, rules: LineRules, nowMs: () => number) {
    this.#lock = new SharedLock(new Int32Array(memory.table, 0, 2));
    this.#numbers = new Float64Array(memory.table, headerBytes);
    this.#hash = new KeyedHash(memory.key);
    this.#rules = rules;
    this.#nowMs = nowMs;
  }

  pass(message: LineMessage, { cause, client }: LineCause): 'pass' | 'told' | 'full' {
    const ofCause = this.#hash.of(`${message}\n${cause}`);
    const ofClient = this.#hash.of(client, ofCause);
    return this.#lock.run(() => this.#decide(message, ofCause, ofClient));
  }

  #decide(message: LineMessage, ofCause: Hash64, ofClient: Hash64): 'pass' | 'told' | 'full' {
    const cause = this.#find(ofCause, firstCause, causeSlots);
    const client = this.#find(ofClient, firstClient, clientSlots);
    const all = this.#pair(0);
    const spent = decideLine(this.#rules.of(message), this.#rules.most, this.#nowMs(), {
      client: client.isKnown ? this.#left(client.at) : null,
      cause: cause.isKnown ? this.#pair(cause.at) : null,
      all: all.start === 0 ? null : all,
    });
    if (typeof spent === 'string') return spent;
    this.#set(0, spent.all.start, spent.all.lines);
    this.#keep(cause.at, ofCause, spent.cause.start, spent.cause.lines);
    this.#keep(client.at, ofClient, spent.client.at, spent.client.left);
    return 'pass';
  }

  /** Where it is, or else the place of what was told the longest time ago. */
  #find({ hi, lo }: Hash64, first: number, slots: number): Slot {
    const numbers = this.#numbers;
    let oldest = first;
    for (let at = first; at < first + slots * perSlot; at += perSlot) {
      if (numbers[at + 2] === hi && numbers[at + 3] === lo && numbers[at] !== 0) return { at, isKnown: true };
      if ((numbers[at] as number) < (numbers[oldest] as number)) oldest = at;
    }
    return { at: oldest, isKnown: false };
  }

  #pair(at: number): LinesOf {
    return { start: this.#numbers[at] as number, lines: this.#numbers[at + 1] as number };
  }

  #left(at: number): LinesLeft {
    return { at: this.#numbers[at] as number, left: this.#numbers[at + 1] as number };
  }

  #set(at: number, time: number, count: number): void {
    this.#numbers[at] = time;
    this.#numbers[at + 1] = count;
  }

  #keep(at: number, { hi, lo }: Hash64, time: number, count: number): void {
    this.#set(at, time, count);
    this.#numbers[at + 2] = hi;
    this.#numbers[at + 3] = lo;
  }
}
