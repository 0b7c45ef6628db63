import { inspectPath } from '../policy/decide/path-readings.ts';
import type { RouteTable } from '../policy/decide/policy-index.ts';
import type { Witness } from './conditions.ts';

/** The query of a request, as it is written in its target. */
export function queryText({ query }: Pick<Witness, 'query'>): string {
  return query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
}

/**
 * Whether servers may read the path or the query of a request in several ways. It is then decided by the routes of all of
 * them, for each client anew, and stands for no other request that finds the same route.
 */
export function hasOtherReadings(witness: Witness, tables: readonly (RouteTable | null)[]): boolean {
  if (inspectPath(witness.method, witness.path).kind === 'ambiguous') return true;
  const text = queryText(witness);
  return tables.some((table) => {
    const read = table?.traits.queryNames.read(text);
    return typeof read === 'string' || read?.own !== read?.loose;
  });
}
