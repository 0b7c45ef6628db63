import { type LimitName, limitNames } from '../proxy/limits.ts';
import type { ClientLines } from './client-lines.ts';
import type { Families } from './figures.ts';
import { type Cell, constantGroup } from './series.ts';

/** Part of the ordinary life of connections: counted like the others, but nothing that anybody should look at. */
const ordinary: ReadonlySet<LimitName> = new Set([
  'http1_idle_timeout',
  'http2_idle_timeout',
  'tunnel_idle_timeout',
  'max_connection_age',
]);

/** `sallyport_limit_reached_total`: all limits from the start, at zero, so that a rate over the first is right. */
export class LimitMetrics {
  readonly #limits: ReadonlyMap<LimitName, Cell>;
  readonly #lines: ClientLines;

  constructor(families: Families, lines: ClientLines) {
    this.#lines = lines;
    const family = families.counter(
      'sallyport_limit_reached_total',
      'How often a limit was reached, and somebody refused or cut off because of it.',
    );
    this.#limits = new Map(limitNames.map((limit) => [limit, family.at(constantGroup({ limit }))]));
  }

  /** `client`: the address of whose connection it was; null where it was nobody's in particular. */
  reached(limit: LimitName, client: string | null): void {
    const cell = this.#limits.get(limit);
    if (cell === undefined) return;
    cell.value++;
    const fields = () => ({
      code: 'limit-reached' as const,
      limit,
      ...(client === null ? {} : { client: { ip: client } }),
    });
    // About all clients together: which limit it is counts.
    this.#lines.tell('Limit reached', { cause: limit, client: '' }, fields, ordinary.has(limit) ? 'debug' : 'warn');
  }
}
