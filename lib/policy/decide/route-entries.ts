import { byteText } from '../bytes.ts';
import type { GrpcMatch, HttpMatch, NamedMatch, RouteRule } from '../route-rule.ts';
import { type GuardedNames, guardedNames } from './header-names.ts';
import type { CompiledRule, RouteMatch } from './policy-index.ts';
import { noQueryNames, QueryNames } from './query-readings.ts';
import type { Question, TableTraits } from './question.ts';
import { headersHold, queryHolds, type ValueTest, valueTest } from './value-match.ts';

/*
 * Which rule a request belongs to. Linkerd's precedence, greater wins: host; length of the matched path alone (a regular
 * expression counts the whole path); number of header matches; of query matches; method given; then the earlier route and
 * the earlier rule. (Gateway API ranks the method earlier and exact above prefix.)
 */

export interface Entry extends RouteMatch {
  readonly headers: readonly ValueTest[];
  readonly query: readonly ValueTest[];
  readonly method: string | null;
  /** As the document has it; null for every request. */
  readonly match: HttpMatch | GrpcMatch | null;
  /** Place among entries whose hosts and matched paths are equal; lower wins. */
  rank: number;
}

function byPrecedence(a: Entry, b: Entry): number {
  return (
    b.headers.length - a.headers.length ||
    b.query.length - a.query.length ||
    Number(b.method !== null) - Number(a.method !== null) ||
    a.rank - b.rank
  );
}

/** Ranks entries given in route and rule order, and sorts each list so that the first that holds is the best of it. */
export function rank(entries: Entry[], lists: Iterable<Entry[]>): void {
  entries.forEach((entry, i) => {
    entry.rank = i;
  });
  [...entries].sort(byPrecedence).forEach((entry, i) => {
    entry.rank = i;
  });
  for (const list of lists) list.sort((a, b) => a.rank - b.rank);
}

export function entryOf(
  rule: CompiledRule,
  match: HttpMatch | GrpcMatch,
  path: Pick<RouteMatch, 'prefix' | 'literal'>,
): Entry {
  const http = 'path' in match;
  return {
    ...path,
    rule,
    headers: match.headers.map((header) => valueTest(header, 'header')),
    query: http ? match.query.map(queryTest) : [],
    method: http ? match.method : null,
    match,
    rank: 0,
  };
}

function queryTest({ name, ...test }: NamedMatch): ValueTest {
  return { name: byteText(name), holds: valueTest({ name, ...test }, 'query parameter').holds };
}

export function firstHolding(list: readonly Entry[] | undefined, best: Entry | null, question: Question): Entry | null {
  if (list === undefined) return best;
  for (const entry of list) {
    if (best !== null && entry.rank > best.rank) return best;
    if (entry.method !== null && entry.method !== question.method) continue;
    if (headersHold(entry.headers, question) && queryHolds(entry.query, question)) return entry;
  }
  return best;
}

/** What about a table's matches the reading of requests depends on. */
export class Traits implements TableTraits {
  patterns = 0;
  queryNames = noQueryNames;
  guarded: GuardedNames | null = null;
  respelled = false;
  readonly #query = new Set<string>();
  readonly #headers = new Set<string>();

  add({ headers, ...match }: HttpMatch | GrpcMatch): void {
    const query = 'path' in match ? match.query : [];
    for (const { type } of [...headers, ...query]) if (type === 'regex') this.patterns++;
    if ('path' in match && match.path.type === 'regex') this.patterns++;
    for (const { name } of query) this.#query.add(byteText(name));
    // That one is the verified identity, and nothing that a request brings.
    for (const { name } of headers) if (name !== 'l5d-client-id') this.#headers.add(name);
  }

  seal(): void {
    if (this.#query.size > 0) this.queryNames = new QueryNames(this.#query);
    this.guarded = guardedNames(this.#headers);
  }
}

export function eachMatch<Match>(
  {
    hostnames,
    rules: documentRules,
  }: { readonly hostnames: readonly string[]; readonly rules: readonly Pick<RouteRule<Match>, 'matches'>[] },
  rules: readonly CompiledRule[],
  add: (hostname: string | null, rule: CompiledRule, match: Match) => void,
): void {
  for (const hostname of hostnames.length === 0 ? [null] : hostnames) {
    documentRules.forEach(({ matches }, i) => {
      for (const match of matches) add(hostname, rules[i] as CompiledRule, match);
    });
  }
}
