import type { CodedFields } from '../errors/complaint.ts';

/** How often one line may be written: all lines that clients or the app can cause have a row here, and no other way out. */
export interface LineRule {
  readonly level: 'info' | 'warn' | 'error';
  /** About one client and cause so many lines at once, and then one more every so many milliseconds. */
  readonly atOnce: number;
  readonly everyMs: number;
  /** Lines a minute about one cause, whoever the clients are. */
  readonly mostAMinute: number;
  /** `times` is said of one, too. */
  readonly hasTimes?: boolean;
  /** Bytes of a line where it is not `maxLine`. */
  readonly maxLine?: number;
}

const minuteMs = 60_000;

/** A line a minute for each client and cause, and sixty for each cause. */
const seldom = { level: 'info', atOnce: 1, everyMs: minuteMs, mostAMinute: 60 } as const;

/** Of 200 lines a minute, which `SALLYPORT_LOG_LINES` makes more or fewer. */
const often = { level: 'info', atOnce: 20, everyMs: minuteMs / 20, mostAMinute: 50 } as const;

/** By their message. */
const rules = {
  'Request denied': often,
  'Request not routed': often,
  'Request rate limited': often,
  'Request invalid': often,
  'Request allowed': often,
  'Request redirected': often,
  'Request failed': often,
  'Response broken off': often,
  'Slow request': often,
  'Connection denied': often,
  'Connection allowed': often,
  'Connection refused': often,
  'Connection failed': often,
  'Connection terminated due to policy change': often,
  'Request terminated due to policy change': often,
  'Protocol not recognized': { ...seldom, everyMs: 60 * minuteMs },
  'Request malformed': seldom,
  'TLS handshake failed': seldom,
  'TLS not for our names': seldom,
  'Not the HTTP that the Server declares': seldom,
  'Limit reached': { level: 'warn', atOnce: 1, everyMs: 10_000, mostAMinute: 60, hasTimes: true },
  'The candidate policy would decide otherwise': { ...seldom, level: 'warn' },
  'Deciding by the candidate policy failed; the policy in force is not concerned': { ...seldom, level: 'error' },
  'The candidate policy takes too long, and is not asked about everything': { ...seldom, level: 'warn' },
  'Internal error': { level: 'error', atOnce: 10, everyMs: minuteMs / 10, mostAMinute: 20, maxLine: 8000 },
} as const satisfies Record<string, LineRule>;

export type LineMessage = keyof typeof rules;

/** What is wrong has a code. */
export type FieldsOf<Message extends LineMessage> = (typeof rules)[Message]['level'] extends 'info'
  ? Readonly<Record<string, unknown>>
  : CodedFields;

/** Lines a minute of all causes together; the last quarter of them is for the first line of a cause alone. */
const defaultLines = 200;

export class LineRules {
  /** Lines a minute, about anything. */
  readonly most: number;
  /** All that there are. */
  readonly messages = Object.keys(rules) as readonly LineMessage[];
  readonly #rules: Readonly<Record<LineMessage, LineRule>>;

  constructor(most: number = defaultLines) {
    this.most = most;
    const share = most / defaultLines;
    const scaled = (rule: LineRule): LineRule => {
      if (rule.mostAMinute !== often.mostAMinute) return rule;
      const atOnce = Math.max(1, Math.floor(rule.atOnce * share));
      const mostAMinute = Math.max(2, Math.floor(rule.mostAMinute * share));
      return { ...rule, atOnce, everyMs: minuteMs / atOnce, mostAMinute };
    };
    const entries = this.messages.map((message): [string, LineRule] => [message, scaled(rules[message])]);
    this.#rules = Object.fromEntries(entries) as Record<LineMessage, LineRule>;
  }

  of(message: LineMessage): LineRule {
    return this.#rules[message];
  }
}

/** What is left of the lines about one client and cause. */
export interface LinesLeft {
  readonly at: number;
  readonly left: number;
}

/** Lines of a minute, which begins with its first. */
export interface LinesOf {
  readonly start: number;
  readonly lines: number;
}

export interface LineState {
  /** Null: there has been none. */
  readonly client: LinesLeft | null;
  readonly cause: LinesOf | null;
  readonly all: LinesOf | null;
}

export interface SpentLine {
  readonly client: LinesLeft;
  readonly cause: LinesOf;
  readonly all: LinesOf;
}

/**
 * Whether a line may be written, and what is left then. `told`: there was one about this client and cause just now. `full`:
 * there were enough about this cause, or about all of them, for this minute.
 */
export function decideLine(
  rule: LineRule,
  most: number,
  nowMs: number,
  { client, cause, all }: LineState,
): SpentLine | 'told' | 'full' {
  const left = client === null ? rule.atOnce : Math.min(rule.atOnce, client.left + (nowMs - client.at) / rule.everyMs);
  if (left < 1) return 'told';
  const ofCause = linesOf(cause, nowMs);
  const ofAll = linesOf(all, nowMs);
  // Who has had its lines leaves half of them to clients about whom there has been none; a known cause leaves some to new ones.
  const mostOfCause = left >= rule.atOnce ? rule.mostAMinute : rule.mostAMinute / 2;
  const mostOfAll = ofCause.lines === 0 ? most : most * 0.75;
  if (ofCause.lines >= mostOfCause || ofAll.lines >= mostOfAll) return 'full';
  return {
    client: { at: nowMs, left: left - 1 },
    cause: { start: ofCause.start, lines: ofCause.lines + 1 },
    all: { start: ofAll.start, lines: ofAll.lines + 1 },
  };
}

function linesOf(known: LinesOf | null, nowMs: number): LinesOf {
  return known !== null && nowMs - known.start < minuteMs ? known : { start: nowMs, lines: 0 };
}
