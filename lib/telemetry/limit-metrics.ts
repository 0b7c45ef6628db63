import { type LimitName, limitNames } from '../proxy/limits.ts';
import type { Families } from './figures.ts';
import type { CodedLogger } from './log.ts';
import { type LineGate, lineRules } from './repeats.ts';
import { type Cell, constantGroup } from './series.ts';

/** Part of the ordinary life of connections: counted like the others, but nothing that anybody should look at. */
const ordinary: ReadonlySet<LimitName> = new Set([
  'http1_idle_timeout',
  'http2_idle_timeout',
  'tunnel_idle_timeout',
  'max_connection_age',
]);

/** One limit: how often it was reached, and how much of that has not been logged. */
class Reached {
  readonly cell: Cell;
  told = Number.NEGATIVE_INFINITY;
  untold = 0;

  constructor(cell: Cell) {
    this.cell = cell;
  }
}

/** `sallyport_limit_reached_total`: all limits from the start, at zero, so that a rate over the first is right. */
export class LimitMetrics {
  readonly #limits: ReadonlyMap<LimitName, Reached>;
  readonly #log: Pick<CodedLogger, 'warn' | 'debug'>;
  readonly #nowMs: () => number;
  readonly #gate: LineGate;

  constructor(families: Families, log: Pick<CodedLogger, 'warn' | 'debug'>, nowMs: () => number, gate: LineGate) {
    this.#log = log;
    this.#nowMs = nowMs;
    this.#gate = gate;
    const family = families.counter(
      'sallyport_limit_reached_total',
      'How often a limit was reached, and somebody refused or cut off because of it.',
    );
    this.#limits = new Map(limitNames.map((limit) => [limit, new Reached(family.at(constantGroup({ limit })))]));
  }

  /** `client`: the address of whose connection it was; null where it was nobody's in particular. */
  reached(limit: LimitName, client: string | null): void {
    const reached = this.#limits.get(limit);
    if (reached === undefined) return;
    reached.cell.value++;
    reached.untold++;
    const now = this.#nowMs();
    // A client may reach it as often as it likes.
    if (now - reached.told < lineRules['limit reached'].everyMs) return;
    if (this.#gate.pass('limit reached', limit) !== 'pass') return;
    const fields = {
      code: 'limit-reached',
      limit,
      times: reached.untold,
      ...(client === null ? {} : { client: { ip: client } }),
    } as const;
    reached.told = now;
    reached.untold = 0;
    this.#log[ordinary.has(limit) ? 'debug' : 'warn'](fields, 'Limit reached');
  }
}
