import type { Registry } from 'prom-client';
import { type LimitName, limitNames } from '../proxy/limits.ts';
import type { CodedLogger } from './log.ts';
import { Cell, registerCollected, sample } from './series.ts';

/** Milliseconds between lines about one limit. A client may reach it as often as it likes. */
const everyMs = 10_000;

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

  constructor(limit: LimitName) {
    this.cell = new Cell({ limit });
  }
}

/** `sallyport_limit_reached_total`: all limits from the start, at zero, so that a rate over the first is right. */
export class LimitMetrics {
  readonly #limits: ReadonlyMap<LimitName, Reached> = new Map(limitNames.map((name) => [name, new Reached(name)]));
  readonly #log: Pick<CodedLogger, 'warn' | 'debug'>;
  readonly #nowMs: () => number;

  constructor(registry: Registry, log: Pick<CodedLogger, 'warn' | 'debug'>, nowMs: () => number) {
    this.#log = log;
    this.#nowMs = nowMs;
    registerCollected(
      registry,
      {
        name: 'sallyport_limit_reached_total',
        help: 'How often a limit was reached, and somebody refused or cut off because of it.',
        type: 'counter',
      },
      () => Array.from(this.#limits.values(), ({ cell }) => sample(cell)),
    );
  }

  /** `client`: the address of whose connection it was; null where it was nobody's in particular. */
  reached(limit: LimitName, client: string | null): void {
    const reached = this.#limits.get(limit);
    if (reached === undefined) return;
    reached.cell.value++;
    reached.untold++;
    const now = this.#nowMs();
    if (now - reached.told < everyMs) return;
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
