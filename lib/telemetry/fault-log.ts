import { inspect } from 'node:util';
import type { CodedLog } from '../errors/complaint.ts';
import type { InternalFault } from '../proxy/recorder.ts';
import { clip } from './decision-log.ts';
import type { Families } from './figures.ts';
import { type LineGate, lineRules } from './repeats.ts';
import type { Cell } from './series.ts';

/** So many faults are logged in full within a window; of the others how many there were. */
const inFull = lineRules['internal fault'].mostAMinute;
const windowMs = 60_000;
const maxMessage = 1024;
const maxStack = 4096;

/** Faults of our own: each counted, and logged as an error with its stack as long as they do not come in swarms. */
export class FaultLog {
  readonly #log: CodedLog;
  readonly #now: () => number;
  readonly #gate: LineGate;
  readonly #count: Cell;
  #windowStart = Number.NEGATIVE_INFINITY;
  #shown = 0;
  #hidden = 0;

  constructor(log: CodedLog, families: Families, now: () => number, gate: LineGate) {
    this.#log = log;
    this.#gate = gate;
    this.#now = now;
    this.#count = families
      .counter('sallyport_internal_errors_total', 'Exceptions in the proxy itself; each ended its connection.')
      .at();
  }

  record({ where, error, ended }: InternalFault): void {
    this.#count.value++;
    const now = this.#now();
    if (now - this.#windowStart >= windowMs) {
      this.#windowStart = now;
      this.#shown = 0;
    }
    if (this.#shown < inFull && this.#gate.pass('internal fault', '') === 'pass') {
      this.#shown++;
      this.#log.error({ code: 'ERR_SALLYPORT_UNEXPECTED', where, ended, ...described(error) }, 'Internal error');
    } else if (this.#hidden++ === 0) {
      // Armed by the first that is not shown, so that the last of a swarm are accounted for too.
      setTimeout(() => this.#tellHidden(), windowMs).unref();
    }
  }

  #tellHidden(): void {
    this.#log.error({ code: 'ERR_SALLYPORT_UNEXPECTED', count: this.#hidden }, 'Internal errors not shown');
    this.#hidden = 0;
  }
}

/** Whatever was thrown. Messages may hold what a client sent. */
function described(error: unknown): { readonly error: string; readonly stack: string } {
  if (!(error instanceof Error)) return { error: clip(inspect(error), maxMessage), stack: '' };
  const { name, message, stack = '' } = error;
  // The stack repeats the message, and a long one would push the frames out of the line.
  const at = stack.indexOf(message);
  const frames = at === -1 ? stack : stack.slice(at + message.length);
  return { error: clip(`${name}: ${message}`, maxMessage), stack: clip(frames.trim(), maxStack) };
}
