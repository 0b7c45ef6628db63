import { inspectPath } from '../policy/decide/path-readings.ts';
import type { RouteTable } from '../policy/decide/policy-index.ts';
import type { Witness } from './conditions.ts';

/** The query of a request, as it is written in its target. */
export function queryText({ query }: Pick<Witness, 'query'>): string {
  return query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
}

/**
 * Whether a parameter that one table looks for may be read as another one that any of them looks for: a request that finds the
 * same route in all of them as it stands may then find different ones as it is read.
 */
export function parametersMeet(tables: readonly (RouteTable | null)[]): boolean {
  const names = new Map<string, string>();
  for (const table of tables) {
    for (const [folded, own] of table?.traits.queryNames.folded ?? []) {
      for (const name of own) {
        const known = names.get(folded) ?? name;
        if (known !== name) return true;
        names.set(folded, name);
      }
    }
  }
  return false;
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
