import type { RequestFacts } from './decision.ts';
import type { GrpcMatch, GrpcRouteDocument, HttpMatch, HttpRouteDocument, RouteRule } from './document-types.ts';
import { HostGroups } from './host-groups.ts';
import type { CompiledRule, RouteMatch, RouteTable } from './policy-index.ts';
import { headersHold, patternTest, queryHolds, type ValueTest, valueTest } from './value-match.ts';

/*
 * Which rule a request belongs to. Linkerd's precedence, greater wins: host; length of the matched path alone (a regular
 * expression counts the whole path); number of header matches; of query matches; method given; then the earlier route and
 * the earlier rule. (Gateway API ranks the method earlier and exact above prefix.)
 */

interface Entry extends RouteMatch {
  readonly headers: readonly ValueTest[];
  readonly query: readonly ValueTest[];
  readonly method: string | null;
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
function rank(entries: Entry[], lists: Iterable<Entry[]>): void {
  entries.forEach((entry, i) => {
    entry.rank = i;
  });
  [...entries].sort(byPrecedence).forEach((entry, i) => {
    entry.rank = i;
  });
  for (const list of lists) list.sort((a, b) => a.rank - b.rank);
}

function entryOf(rule: CompiledRule, match: HttpMatch | GrpcMatch, prefix: string | null): Entry {
  const http = 'path' in match;
  return {
    rule,
    prefix,
    headers: match.headers.map((header) => valueTest(header, `header ${header.name}`)),
    query: http ? match.query.map((parameter) => valueTest(parameter, `query parameter ${parameter.name}`)) : [],
    method: http ? match.method : null,
    rank: 0,
  };
}

function listAt<Key>(lists: Map<Key, Entry[]>, key: Key): Entry[] {
  let list = lists.get(key);
  if (list === undefined) {
    list = [];
    lists.set(key, list);
  }
  return list;
}

function firstHolding(
  list: readonly Entry[] | undefined,
  best: Entry | null,
  request: RequestFacts,
  clientId: string | null,
): Entry | null {
  if (list === undefined) return best;
  for (const entry of list) {
    if (best !== null && entry.rank > best.rank) return best;
    if (entry.method !== null && entry.method !== request.method) continue;
    if (headersHold(entry.headers, request, clientId) && queryHolds(entry.query, request.query)) return entry;
  }
  return best;
}

/** The matches of one host name, filed by path. A request costs one look-up per segment of its path, and each pattern. */
class HttpGroup {
  readonly #entries: Entry[] = [];
  readonly #exact = new Map<string, Entry[]>();
  /** By prefix, trailing slashes trimmed; the prefix `/` is the empty string. */
  readonly #prefix = new Map<string, Entry[]>();
  #longestPrefix = 0;
  readonly #patterns: { readonly holds: (path: string) => boolean; readonly list: Entry[] }[] = [];

  add(rule: CompiledRule, match: HttpMatch): void {
    const { type, value } = match.path;
    const entry = entryOf(rule, match, type === 'prefix' ? value.replace(/\/+$/, '') : null);
    this.#entries.push(entry);
    if (type === 'exact') listAt(this.#exact, value).push(entry);
    else if (entry.prefix !== null) {
      listAt(this.#prefix, entry.prefix).push(entry);
      this.#longestPrefix = Math.max(this.#longestPrefix, entry.prefix.length);
    } else this.#patterns.push({ holds: patternTest(value, 'the path'), list: [entry] });
  }

  seal(): void {
    rank(this.#entries, [...this.#exact.values(), ...this.#prefix.values()]);
  }

  find(request: RequestFacts, path: string, clientId: string | null): Entry | null {
    // Matches of the whole path: exact, regular expression, and a prefix that is all of it.
    let best = firstHolding(this.#exact.get(path), null, request, clientId);
    for (const { holds, list } of this.#patterns) {
      if (holds(path)) best = firstHolding(list, best, request, clientId);
    }
    // `/` has length 1, as a path of `/` has: a tie. Beside any other path the prefix `/` is the shortest match there is.
    if (path === '/') return firstHolding(this.#prefix.get(''), best, request, clientId);
    if (!path.endsWith('/')) best = firstHolding(this.#prefix.get(path), best, request, clientId);
    if (best !== null) return best;

    let end = path.length;
    while (end > 0 && path[end - 1] === '/') end--;
    if (end !== path.length) best = firstHolding(this.#prefix.get(path.slice(0, end)), null, request, clientId);
    while (best === null && end > 0) {
      end = path.lastIndexOf('/', end - 1);
      if (end > this.#longestPrefix) continue;
      best = firstHolding(this.#prefix.get(end <= 0 ? '' : path.slice(0, end)), null, request, clientId);
    }
    return best ?? firstHolding(this.#prefix.get(''), null, request, clientId);
  }
}

/** No routes, no match: the request is answered as not found. */
export class HttpRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly #hosts = new HostGroups(() => new HttpGroup());

  /** Routes are added in the order in which ties are settled; `rules` has one for each rule of the document. */
  add({ spec }: HttpRouteDocument, rules: readonly CompiledRule[]): void {
    this.rules.push(...rules);
    eachMatch(spec, rules, (hostname, rule, match) => this.#hosts.at(hostname).add(rule, match));
  }

  /** Once, after the last route and before the first question. */
  seal(): void {
    for (const group of this.#hosts.groups()) group.seal();
  }

  find(request: RequestFacts, path: string, clientId: string | null): RouteMatch | null {
    return this.#hosts.first(request.host, (group) => group.find(request, path, clientId));
  }
}

/** What a Server without routes has: the probes' paths for GET, and everything else. */
export class DefaultHttpRoutes implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly #default: RouteMatch;
  readonly #probe: RouteMatch | null;
  readonly #probePaths: ReadonlySet<string>;

  constructor(rule: CompiledRule, probe: CompiledRule | null, probePaths: readonly string[]) {
    this.rules = probe === null ? [rule] : [probe, rule];
    this.#default = { rule, prefix: '' };
    this.#probe = probe === null ? null : { rule: probe, prefix: null };
    this.#probePaths = new Set(probePaths);
  }

  find(request: RequestFacts, path: string): RouteMatch {
    // GET alone, as Linkerd, and nothing but a plain one: a probe never leaves HTTP and never has content.
    const isPlain = request.method === 'GET' && request.carries === 'nothing';
    if (this.#probe !== null && isPlain && this.#probePaths.has(path)) return this.#probe;
    return this.#default;
  }
}

/**
 * Service and method of a gRPC call; undefined for what is none. Either may be empty, which is then its name, and further
 * segments are ignored, as in Linkerd.
 */
function grpcTarget({ method: verb }: RequestFacts, path: string): { service: string; method: string } | undefined {
  if (verb !== 'POST') return undefined;
  const [before, service, method] = path.split('/', 3);
  return before === '' && service !== undefined && method !== undefined ? { service, method } : undefined;
}

const anyCall: GrpcMatch = { service: null, method: null, headers: [] };

class GrpcGroup {
  readonly #entries: Entry[] = [];
  /** By `service/method`, either empty where any will do. */
  readonly #lists = new Map<string, Entry[]>();
  /** Of rules without matches: every request, be it a call or not. */
  readonly #everything: Entry[] = [];

  add(rule: CompiledRule, match: GrpcMatch | null): void {
    const entry = entryOf(rule, match ?? anyCall, null);
    this.#entries.push(entry);
    const list =
      match === null ? this.#everything : listAt(this.#lists, `${match.service ?? ''}/${match.method ?? ''}`);
    list.push(entry);
  }

  seal(): void {
    rank(this.#entries, [...this.#lists.values(), this.#everything]);
  }

  /** Precedence: length of the service, then of the method, then headers. */
  find(request: RequestFacts, path: string, clientId: string | null): Entry | null {
    const target = grpcTarget(request, path);
    let best: Entry | null = null;
    if (target !== undefined) {
      const { service, method } = target;
      best =
        firstHolding(this.#lists.get(`${service}/${method}`), null, request, clientId) ??
        firstHolding(this.#lists.get(`${service}/`), null, request, clientId) ??
        firstHolding(this.#lists.get(`/${method}`), null, request, clientId);
      if (best !== null) return best;
      best = firstHolding(this.#lists.get('/'), null, request, clientId);
    }
    return firstHolding(this.#everything, best, request, clientId);
  }
}

/** A call is POST to a path of two segments; anything else is found by rules without matches alone. */
export class GrpcRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly #hosts = new HostGroups(() => new GrpcGroup());

  /** Routes are added in the order in which ties are settled; `rules` has one for each rule of the document. */
  add({ spec: { hostnames, rules: ruled } }: GrpcRouteDocument, rules: readonly CompiledRule[]): void {
    this.rules.push(...rules);
    const spec = { hostnames, rules: ruled.map(({ matches }) => ({ matches: matches.length > 0 ? matches : [null] })) };
    eachMatch(spec, rules, (hostname, rule, match) => this.#hosts.at(hostname).add(rule, match));
  }

  /** Once, after the last route and before the first question. */
  seal(): void {
    for (const group of this.#hosts.groups()) group.seal();
  }

  find(request: RequestFacts, path: string, clientId: string | null): RouteMatch | null {
    return this.#hosts.first(request.host, (group) => group.find(request, path, clientId));
  }
}

export class DefaultGrpcRoute implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly #default: RouteMatch;

  constructor(rule: CompiledRule) {
    this.rules = [rule];
    this.#default = { rule, prefix: null };
  }

  find(request: RequestFacts, path: string): RouteMatch | null {
    return grpcTarget(request, path) === undefined ? null : this.#default;
  }
}

function eachMatch<Match>(
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
