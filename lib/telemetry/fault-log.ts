import { inspect } from 'node:util';
import type { InternalFault } from '../proxy/recorder.ts';
import type { ClientLines } from './client-lines.ts';
import type { Families } from './figures.ts';
import type { Cell } from './series.ts';

/** Faults of our own: each counted, and logged as an error with its stack as long as they do not come in swarms. */
export class FaultLog {
  readonly #lines: ClientLines;
  readonly #count: Cell;

  constructor(lines: ClientLines, families: Families) {
    this.#lines = lines;
    this.#count = families
      .counter('sallyport_internal_errors_total', 'Exceptions in the proxy itself; each ended its connection.')
      .at();
  }

  record({ where, error, ended }: InternalFault): void {
    this.#count.value++;
    this.#lines.tell('Internal error', { cause: '', client: '' }, () => ({
      code: 'ERR_SALLYPORT_UNEXPECTED',
      where,
      ended,
      ...described(error),
    }));
  }
}

/** Whatever was thrown. Messages may hold what a client sent. */
function described(error: unknown): { readonly error: string; readonly stack: string } {
  if (!(error instanceof Error)) return { error: inspect(error), stack: '' };
  const { name, message, stack = '' } = error;
  // The stack repeats the message, and a long one would push the frames out of the line.
  const at = stack.indexOf(message);
  const frames = at === -1 ? stack : stack.slice(at + message.length);
  return { error: `${name}: ${message}`, stack: frames.trim() };
}
