/**
 * The one way to the log for lines that clients or the app can cause. Each has a bound of its length, and each cause, each
 * client and all of them together a number of lines a minute; of what has no line it is said how many there were.
 */
import type { CodedFields } from '../errors/complaint.ts';
import type { IpAddress } from '../ip.ts';
import { boundedFields, type LineFields } from './line-bounds.ts';
import type { LineCause, LineGate } from './line-gate.ts';
import {
  decideLine,
  type FieldsOf,
  type LineMessage,
  type LineRules,
  type LinesLeft,
  type LinesOf,
} from './line-rules.ts';
import type { CodedLogger } from './log.ts';

export interface ClientLinesOptions {
  readonly log: CodedLogger;
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;
  readonly gate: LineGate;
  readonly rules: LineRules;
  /** Called for each line that is left out. */
  readonly onLeftOut?: () => void;
}

export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** Clients and causes of which it is known that there was a line. */
const maxClients = 2048;
const maxCauses = 256;
/** Of what was left out: lines that say so, and clients that are named in one. */
const mostSummaries = 32;
const mostNamed = 5;
const summaryMs = 60_000;
/** Milliseconds for which causes are remembered at least; where there are more of them, the others count as one. */
const forgetMs = 60_000;
const others = 'others';

interface Cause {
  readonly message: LineMessage;
  readonly name: string;
  window: LinesOf | null;
  /** Of clients about whom there was no line. */
  omitted: number;
}

interface Told {
  readonly cause: Cause;
  readonly client: string;
  left: LinesLeft;
  /** Since the last line. */
  untold: number;
}

export class ClientLines {
  readonly #options: ClientLinesOptions;
  readonly #told = new Map<string, Told>();
  readonly #causes = new Map<string, Cause>();
  #all: LinesOf | null = null;
  #forgotAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: ClientLinesOptions) {
    this.#options = options;
  }

  /** False: `tell` would do nothing, and `debug` neither. */
  isEnabled(level: LineLevel): boolean {
    return this.#options.log.isLevelEnabled(level);
  }

  /**
   * What is beyond the rate of its cause has a line at debug alone.
   *
   * @param fields called only for a line that is written.
   * @param given where it is not the message's own level.
   */
  tell<Message extends LineMessage>(
    message: Message,
    about: LineCause,
    fields: () => FieldsOf<Message>,
    given?: LineLevel,
  ): void {
    const { log, rules } = this.#options;
    const rule = rules.of(message);
    const level = given ?? rule.level;
    if (!log.isLevelEnabled(level)) return;
    const occasion = this.#occasion(message, about);
    if (occasion === null) {
      this.debug(message, fields);
      return;
    }
    const bounded = boundedFields(fields(), rule.maxLine);
    // A code stays what it is, so that those of a warning or an error have one.
    const told = { ...bounded, ...occasion } as unknown as CodedFields;
    if (level === 'debug') log.debug(told, message);
    else log[level](told, message);
  }

  /** For those who have asked for every line: as many as there are, each within its bound. */
  debug(message: string, fields: () => LineFields): void {
    if (this.#options.log.isLevelEnabled('debug')) this.#options.log.debug(boundedFields(fields()), message);
  }

  /** What has been left out, and no line has said yet. */
  readonly tellLeftOut = (): void => {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const left = this.#takeLeftOut();
    for (const { message, name, lines, clients } of left.slice(0, mostSummaries)) {
      this.#summarize(message, name, lines, clients);
    }
    const rest = left.slice(mostSummaries).reduce((sum, { lines }) => sum + lines, 0);
    if (rest > 0) this.#options.log.info({ lines: rest }, 'Log lines left out');
  };

  #occasion(message: LineMessage, about: LineCause): { times?: number; omitted?: number } | null {
    const { rules, gate } = this.#options;
    const nowMs = this.#options.nowMs();
    const cause = this.#cause(message, about.cause, nowMs);
    const key = `${message}\n${cause.name}\n${about.client}`;
    const told = this.#told.get(key);
    const state = { client: told?.left ?? null, cause: cause.window, all: this.#all };
    const spent = decideLine(rules.of(message), rules.most, nowMs, state);
    const passed = typeof spent === 'string' ? spent : gate.pass(message, about);
    if (typeof spent === 'string' || passed !== 'pass') {
      // Of what several threads write together: not asked again before the next minute.
      if (typeof spent !== 'string' && passed === 'full') {
        cause.window = { start: spent.cause.start, lines: Number.POSITIVE_INFINITY };
      }
      this.#leaveOut(cause, told);
      return null;
    }
    cause.window = spent.cause;
    this.#all = spent.all;
    const times = (told?.untold ?? 0) + 1;
    const { omitted } = cause;
    cause.omitted = 0;
    this.#remember(key, { cause, client: about.client, left: spent.client, untold: 0 });
    const isTold = times > 1 || rules.of(message).hasTimes === true;
    return { ...(isTold ? { times } : {}), ...(omitted === 0 ? {} : { omitted }) };
  }

  #leaveOut(cause: Cause, told: Told | undefined): void {
    // Then it has a line, at that level.
    if (this.isEnabled('debug')) return;
    if (told === undefined) cause.omitted++;
    else told.untold++;
    this.#options.onLeftOut?.();
    this.#timer ??= setTimeout(this.tellLeftOut, summaryMs).unref();
  }

  /** The first is always the one that was told the longest time ago. */
  #remember(key: string, told: Told): void {
    this.#told.delete(key);
    this.#told.set(key, told);
    if (this.#told.size <= maxClients) return;
    const [oldest, { cause, untold }] = this.#told.entries().next().value as [string, Told];
    this.#told.delete(oldest);
    cause.omitted += untold;
  }

  #cause(message: LineMessage, name: string, nowMs: number): Cause {
    const known = this.#causes.get(`${message}\n${name}`);
    if (known !== undefined) return known;
    // There are this many where policy has thousands of documents: then what is known is said, and begun anew, now and again.
    if (this.#causes.size >= maxCauses) {
      if (nowMs - this.#forgotAt < forgetMs) return this.#known(message, others);
      this.#forgotAt = nowMs;
      this.tellLeftOut();
      this.#causes.clear();
      this.#told.clear();
    }
    return this.#known(message, name);
  }

  #known(message: LineMessage, name: string): Cause {
    const key = `${message}\n${name}`;
    const known = this.#causes.get(key);
    if (known !== undefined) return known;
    const cause: Cause = { message, name, window: null, omitted: 0 };
    this.#causes.set(key, cause);
    return cause;
  }

  /** By cause, the most first. */
  #takeLeftOut(): readonly LeftOut[] {
    const left = new Map<Cause, LeftOut>();
    for (const cause of this.#causes.values()) {
      if (cause.omitted > 0) left.set(cause, { ...leftOutOf(cause), lines: cause.omitted });
      cause.omitted = 0;
    }
    for (const told of this.#told.values()) {
      if (told.untold === 0) continue;
      const of = left.get(told.cause) ?? leftOutOf(told.cause);
      of.lines += told.untold;
      of.clients.push({ client: told.client, lines: told.untold });
      left.set(told.cause, of);
      told.untold = 0;
    }
    return [...left.values()].sort((a, b) => b.lines - a.lines);
  }

  #summarize(message: LineMessage, cause: string, lines: number, clients: LeftOut['clients']): void {
    const { log } = this.#options;
    if (message === 'Internal error') {
      log.error({ code: 'ERR_SALLYPORT_UNEXPECTED', count: lines }, 'Internal errors not shown');
      return;
    }
    const named = clients
      .filter(({ client }) => isClient.test(client))
      .sort((a, b) => b.lines - a.lines)
      .slice(0, mostNamed)
      .map(({ client, lines }) => ({ ...clientFields(client), lines }));
    log.info(boundedFields({ about: message, cause, lines, clients: named }), 'Log lines left out');
  }
}

interface LeftOut {
  readonly message: LineMessage;
  readonly name: string;
  lines: number;
  readonly clients: { readonly client: string; readonly lines: number }[];
}

function leftOutOf({ message, name }: Cause): LeftOut {
  return { message, name, lines: 0, clients: [] };
}

/** A client and the port that it meant. */
export function clientKey(ip: IpAddress, port: number, id: string | null = null): string {
  const source = sourceText(ip);
  return id === null ? `${source} ${port}` : `${source} ${port} ${id}`;
}

/** Of an IPv6 address its /64, of which each customer has at least one, so that nobody is as many clients as it likes. */
export function sourceText(ip: IpAddress): string {
  if (ip.family === 4) return ip.text;
  const [high, low] = ip.words;
  const groups = [high >>> 16, high & 0xffff, low >>> 16, low & 0xffff];
  return `${groups.map((group) => group.toString(16)).join(':')}::/64`;
}

/** What `clientKey` has put together; others tell something else apart. */
const isClient = /^[\da-f.:/]+ \d+(?: |$)/;

function clientFields(key: string): LineFields {
  const [ip = '', port = '', id] = key.split(' ');
  return { ip, port: Number(port), ...(id === undefined ? {} : { id }) };
}
