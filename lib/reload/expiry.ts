import type { CodedLog } from '../errors/complaint.ts';
import type { FaultCode } from '../errors/faults.ts';
import { type Clock, spanText } from './clock.ts';

/** A certificate that TLS rests on while it is in use, and until when. */
export interface Validity {
  readonly kind: 'certificate' | 'intermediate' | 'trust anchor';
  readonly file: string;
  readonly subject: string;
  /** SHA-256, which names it. */
  readonly id: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Whatever renews a certificate does so before this share of its life is left: Linkerd at 30 %, cert-manager at a third. */
const lastShare = 0.3;
/** And of long lives before this. People renew anchors, and every client must get the new one first. */
const aheadMs: Readonly<Record<Validity['kind'], number>> = {
  certificate: 7 * dayMs,
  intermediate: 7 * dayMs,
  'trust anchor': 30 * dayMs,
};

type ExpiryState =
  | { readonly kind: 'valid' }
  /** `everyMs`: between lines that say so. */
  | { readonly kind: 'expiring'; readonly everyMs: number }
  | { readonly kind: 'expired'; readonly everyMs: number };

/** From how many milliseconds before its end on it is said. */
function leadMs({ kind, notBefore, notAfter }: Validity): number {
  return Math.min(Math.floor((notAfter.getTime() - notBefore.getTime()) * lastShare), aheadMs[kind]);
}

/** What is to be said of it at this moment, and how often. The moment of `notAfter` still counts as valid (RFC 5280 4.1.2.5). */
function expiryState(validity: Validity, now: Date): ExpiryState {
  const { kind, notAfter } = validity;
  const leftMs = notAfter.getTime() - now.getTime();
  // Bundles keep old roots long after these have expired; of what we show ourselves every handshake fails.
  if (leftMs < 0) return { kind: 'expired', everyMs: kind === 'trust anchor' ? dayMs : hourMs };
  if (leftMs > leadMs(validity)) return { kind: 'valid' };
  return { kind: 'expiring', everyMs: leftMs > dayMs ? dayMs : hourMs };
}

/** That a certificate comes to its end, or has; null where there is nothing to say. */
export function endOf(
  validity: Validity,
  now: Date,
): { readonly code: Extract<FaultCode, `${string}-expir${'ing' | 'ed'}`>; readonly message: string } | null {
  const state = expiryState(validity, now);
  if (state.kind === 'valid') return null;
  const { kind, subject, notAfter } = validity;
  const whose = kind === 'trust anchor' ? 'anchor' : 'certificate';
  const end = notAfter.toISOString();
  return state.kind === 'expiring'
    ? { code: `${whose}-expiring`, message: `the ${kind} ${subject} expires on ${end}` }
    : { code: `${whose}-expired`, message: `the ${kind} ${subject} has expired on ${end}` };
}

type ExpiryLog = Pick<CodedLog, 'warn' | 'error'>;

interface Told {
  readonly kind: ExpiryState['kind'];
  readonly atMs: number;
}

/** Clocks step, and machines sleep: what is due is looked for at least this often. */
const longestWaitMs = hourMs;

/** Lines about certificates that come to their end: ahead, again and again, and at the moment itself. */
export class ExpiryWatch {
  readonly #log: ExpiryLog;
  readonly #clock: Clock;
  #validities: readonly Validity[] = [];
  #told = new Map<string, Told>();
  #cancel: () => void = () => {};

  constructor(log: ExpiryLog, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** These are in use from now on, in place of those before. */
  follow(validities: readonly Validity[]): void {
    this.#validities = validities;
    const known = new Set(validities.map(({ id }) => id));
    this.#told = new Map([...this.#told].filter(([id]) => known.has(id)));
    this.#look();
  }

  stop(): void {
    this.#cancel();
  }

  #look(): void {
    this.#cancel();
    const now = this.#clock.now();
    for (const validity of this.#validities) this.#tell(validity, now);
    if (this.#validities.length === 0) return;
    const due = this.#validities.flatMap((validity) => {
      const end = validity.notAfter.getTime();
      return [end - leadMs(validity), end + 1];
    });
    const waits = due.map((at) => at - now.getTime()).filter((ms) => ms > 0);
    this.#cancel = this.#clock.after(Math.min(longestWaitMs, ...waits), () => this.#look());
  }

  #tell(validity: Validity, now: Date): void {
    const state = expiryState(validity, now);
    const told = this.#told.get(validity.id);
    if (state.kind === 'valid') return;
    if (told?.kind === state.kind && now.getTime() - told.atMs < state.everyMs) return;
    this.#told.set(validity.id, { kind: state.kind, atMs: now.getTime() });
    const { kind, file, subject, notAfter } = validity;
    const ms = notAfter.getTime() - now.getTime();
    const fields = { file, subject, notAfter: notAfter.toISOString() };
    const isAnchor = kind === 'trust anchor';
    if (state.kind === 'expiring') {
      const code = isAnchor ? 'anchor-expiring' : 'certificate-expiring';
      this.#log.warn({ code, ...fields, left: spanText(ms) }, `${titles[kind]} expires soon`);
    } else if (isAnchor) {
      this.#log.warn({ code: 'anchor-expired', ...fields, ago: spanText(-ms) }, `${titles[kind]} has expired`);
    } else {
      this.#log.error({ code: 'certificate-expired', ...fields, ago: spanText(-ms) }, `${titles[kind]} has expired`);
    }
  }
}

const titles: Readonly<Record<Validity['kind'], string>> = {
  certificate: 'Identity certificate',
  intermediate: 'Intermediate certificate of our own',
  'trust anchor': 'Trust anchor',
};
