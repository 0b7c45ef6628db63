import type { CodedLog } from '../errors/complaint.ts';
import type { FaultCode } from '../errors/faults.ts';
import { type Clock, spanText } from './clock.ts';

/** Whether what is in force is what the files hold. */
export type StandingState =
  | { readonly kind: 'current' }
  /** `faults`: some of what is wrong, for people. */
  | { readonly kind: 'stale'; readonly since: Date; readonly reason: string; readonly faults: readonly string[] };

export interface StandingOptions {
  readonly code: FaultCode;
  /** Again and again while it is stale; and once when it is so no longer. */
  readonly messages: { readonly still: () => string; readonly again: string };
  /** Of every line. */
  fields(): Readonly<Record<string, unknown>>;
  /** Of those while it is stale. */
  staleFields?(): Readonly<Record<string, unknown>>;
  onChange(stale: boolean): void;
  readonly log: Pick<CodedLog, 'error' | 'info'>;
  readonly clock: Clock;
}

const current: StandingState = { kind: 'current' };

/** Until the second line, after the first, which is written where the fault is found; then twice as long each time. */
const firstReminderMs = 60_000;
const longestReminderMs = 3_600_000;
/** Faults in a line. */
const maxFaults = 5;

/** `refused`: the last load was bad. `overdue`: a load does not end. */
type StaleCause = 'refused' | 'overdue';

/** What files say, and is not in force: reminds of it until it is mended, so that nobody has to have seen the first line. */
export class Standing {
  readonly #options: StandingOptions;
  readonly #causes = new Map<StaleCause, { readonly reason: string; readonly faults: readonly string[] }>();
  #since: Date | null = null;
  #reminderMs = firstReminderMs;
  #cancel: () => void = () => {};

  constructor(options: StandingOptions) {
    this.#options = options;
  }

  get state(): StandingState {
    const [cause] = this.#causes.values();
    return this.#since === null || cause === undefined ? current : { kind: 'stale', since: this.#since, ...cause };
  }

  /** The last load was bad. */
  refused(reason: string, faults: readonly string[] = []): void {
    this.#broken('refused', reason, faults);
  }

  /** The last load was good. */
  accepted(): void {
    this.#mended('refused');
  }

  /** How long it has lasted counts from the first fault, whatever came after. */
  #broken(cause: StaleCause, reason: string, faults: readonly string[]): void {
    this.#causes.set(cause, { reason, faults: faults.slice(0, maxFaults) });
    // The one that reports a fault has just written a line.
    if (this.#since !== null) return;
    this.#since = this.#options.clock.now();
    this.#options.onChange(true);
    this.#remind(firstReminderMs);
  }

  #mended(cause: StaleCause): void {
    this.#causes.delete(cause);
    const since = this.#since;
    if (since === null || this.#causes.size > 0) return;
    this.stop();
    this.#since = null;
    const { messages, fields, onChange, log } = this.#options;
    onChange(false);
    log.info({ ...fields(), ...this.#age(since) }, messages.again);
  }

  /** A load does not end, and what for it waits; null: it has ended at last. */
  overdue(waitingFor: string | null): void {
    if (waitingFor === null) this.#mended('overdue');
    else this.#broken('overdue', `a load has not ended; it waits for ${waitingFor}`, []);
  }

  stop(): void {
    this.#cancel();
  }

  #remind(ms: number): void {
    this.#reminderMs = ms;
    this.#cancel();
    this.#cancel = this.#options.clock.after(ms, () => this.#tell());
  }

  #tell(): void {
    const { state } = this;
    if (state.kind === 'current') return;
    const { code, messages, fields, staleFields, log } = this.#options;
    const { since, reason, faults } = state;
    const what = { reason, ...(faults.length === 0 ? {} : { faults }) };
    log.error({ code, ...fields(), ...what, ...staleFields?.(), ...this.#age(since) }, messages.still());
    this.#remind(Math.min(longestReminderMs, 2 * this.#reminderMs));
  }

  #age(since: Date): { readonly seconds: number; readonly lasted: string } {
    const ms = Math.max(0, this.#options.clock.now().getTime() - since.getTime());
    return { seconds: Math.round(ms / 1000), lasted: spanText(ms) };
  }
}
