import { type LineGate, type LineKind, lineRules } from '../telemetry/repeats.ts';
import { type Hash64, KeyedHash } from './keyed-hash.ts';
import { SharedLock } from './lock.ts';

/** What threads need to hold one log to its rules. */
export interface LineMemory {
  readonly key: Hash64;
  readonly table: SharedArrayBuffer;
}

const kinds = Object.keys(lineRules);
const minuteMs = 60_000;
/** About so much is remembered of each kind: no rule lets more be told between two lines about the same. */
const slots = 128;
/** Numbers of a kind: when its minute began, lines in it, and for each slot when what was told. */
const perKind = 2 + slots * 3;
const headerBytes = 8;

export function lineMemory(key: Hash64): LineMemory {
  return { key, table: new SharedArrayBuffer(headerBytes + kinds.length * perKind * Float64Array.BYTES_PER_ELEMENT) };
}

/** Seldom asked: each thread asks only for lines that it would have written alone. */
export class SharedLineGate implements LineGate {
  readonly #lock: SharedLock;
  readonly #numbers: Float64Array;
  readonly #hash: KeyedHash;
  readonly #nowMs: () => number;

  /** @param nowMs above 0, and the same clock in all threads. */
  constructor(memory: LineMemory, nowMs: () => number) {
    this.#lock = new SharedLock(new Int32Array(memory.table, 0, 2));
    this.#numbers = new Float64Array(memory.table, headerBytes);
    this.#hash = new KeyedHash(memory.key);
    this.#nowMs = nowMs;
  }

  pass(kind: LineKind, key: string): 'pass' | 'told' | 'full' {
    const hash = this.#hash.of(key);
    return this.#lock.run(() => this.#decide(kind, hash));
  }

  #decide(kind: LineKind, { hi, lo }: Hash64): 'pass' | 'told' | 'full' {
    const numbers = this.#numbers;
    const { everyMs, mostAMinute } = lineRules[kind];
    const start = kinds.indexOf(kind) * perKind;
    const now = this.#nowMs();
    let oldest = start + 2;
    for (let at = start + 2; at < start + perKind; at += 3) {
      if ((numbers[at] as number) < (numbers[oldest] as number)) oldest = at;
      if (numbers[at + 1] !== hi || numbers[at + 2] !== lo) continue;
      if (now - (numbers[at] as number) < everyMs) return 'told';
      oldest = at;
      break;
    }
    if (numbers[start] === 0 || now - (numbers[start] as number) >= minuteMs) {
      numbers[start] = now;
      numbers[start + 1] = 0;
    }
    if ((numbers[start + 1] as number) >= mostAMinute) return 'full';
    numbers[start + 1] = (numbers[start + 1] as number) + 1;
    numbers[oldest] = now;
    numbers[oldest + 1] = hi;
    numbers[oldest + 2] = lo;
    return 'pass';
  }
}
