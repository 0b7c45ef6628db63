import { byteText, isLatin1, utf8Text } from './bytes.ts';
import type { GrpcMatch, GrpcRouteDocument, HttpMatch, HttpRouteDocument, RouteRule } from './document-types.ts';
import { type GuardedNames, guardedNames } from './header-names.ts';
import { HostGroups } from './host-groups.ts';
import { foldCase, foldPath, spellings } from './path-readings.ts';
import type { CompiledRule, RouteMatch, RouteTable } from './policy-index.ts';
import { noQueryNames, QueryNames } from './query-readings.ts';
import type { Question, TableTraits } from './question.ts';
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

function entryOf(
  rule: CompiledRule,
  match: HttpMatch | GrpcMatch,
  path: Pick<RouteMatch, 'prefix' | 'literal'>,
): Entry {
  const http = 'path' in match;
  return {
    ...path,
    rule,
    headers: match.headers.map((header) => valueTest(header, `header ${header.name}`)),
    query: http
      ? match.query.map(({ name, ...test }) => valueTest({ name: byteText(name), ...test }, `query parameter ${name}`))
      : [],
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

function firstHolding(list: readonly Entry[] | undefined, best: Entry | null, question: Question): Entry | null {
  if (list === undefined) return best;
  for (const entry of list) {
    if (best !== null && entry.rank > best.rank) return best;
    if (entry.method !== null && entry.method !== question.method) continue;
    if (headersHold(entry.headers, question) && queryHolds(entry.query, question)) return entry;
  }
  return best;
}

/** Entries by literal path. A look-up costs one step per segment, and a hash of each prefix that is as long as one here. */
class PathIndex {
  readonly #exact = new Map<string, Entry[]>();
  /** By prefix, trailing slashes trimmed; the prefix `/` is the empty string. */
  readonly #prefix = new Map<string, Entry[]>();
  readonly #prefixLengths = new Set<number>();
  #longestPrefix = 0;

  addExact(path: string, entry: Entry): void {
    listAt(this.#exact, path).push(entry);
  }

  addPrefix(prefix: string, entry: Entry): void {
    listAt(this.#prefix, prefix).push(entry);
    this.#prefixLengths.add(prefix.length);
    this.#longestPrefix = Math.max(this.#longestPrefix, prefix.length);
  }

  *lists(): Generator<Entry[]> {
    yield* this.#exact.values();
    yield* this.#prefix.values();
  }

  exact(path: string): readonly Entry[] | undefined {
    return this.#exact.size === 0 ? undefined : this.#exact.get(path);
  }

  /** Entries whose prefix is the first `end` characters of the path. */
  prefix(path: string, end: number): readonly Entry[] | undefined {
    return this.#prefixLengths.has(end) ? this.#prefix.get(path.slice(0, end)) : undefined;
  }

  get longestPrefix(): number {
    return this.#longestPrefix;
  }
}

interface PatternEntry {
  readonly holds: (question: Question) => boolean;
  readonly list: Entry[];
}

/** The matches of one host name, filed by path. */
class HttpGroup {
  readonly #entries: Entry[] = [];
  /** Byte by byte. */
  readonly #own = new PathIndex();
  /** The same in every spelling that some server takes for it; `#own` itself where that adds nothing. */
  #folded = this.#own;
  readonly #patterns: PatternEntry[] = [];

  /** @returns whether some path that is folded already may be another's spelling. */
  add(rule: CompiledRule, match: HttpMatch): boolean {
    const { type, value } = match.path;
    if (type === 'regex') {
      const entry = entryOf(rule, match, { prefix: null, literal: null });
      this.#entries.push(entry);
      this.#patterns.push({ holds: pathPattern(value), list: [entry] });
      return /[A-Z]|[^ -~]/.test(value);
    }
    const path = byteText(value);
    const prefix = type === 'prefix' ? path.replace(/\/+$/, '') : null;
    const entry = entryOf(rule, match, { prefix, literal: prefix ?? path });
    this.#entries.push(entry);
    file(this.#own, prefix ?? path, entry);
    const folds = foldsOf(prefix === '' ? '/' : (prefix ?? path));
    return folds.length !== 1 || folds[0] !== (prefix === '' ? '/' : (prefix ?? path));
  }

  /** @param respelled some entry is found under another path when it is folded. */
  seal(respelled: boolean): void {
    if (respelled) {
      this.#folded = new PathIndex();
      for (const entry of this.#entries) {
        if (entry.literal === null) continue;
        for (const path of foldsOf(entry.literal === '' ? '/' : entry.literal)) {
          file(this.#folded, entry.prefix !== null && path === '/' ? '' : path, entry);
        }
      }
    }
    rank(this.#entries, new Set([...this.#own.lists(), ...this.#folded.lists()]));
  }

  find(question: Question): Entry | null {
    const index = question.folded === null ? this.#own : this.#folded;
    const path = question.folded ?? question.path;
    // Matches of the whole path: exact, regular expression, and a prefix that is all of it.
    let best = firstHolding(index.exact(path), null, question);
    for (const { holds, list } of this.#patterns) {
      if (holds(question)) best = firstHolding(list, best, question);
    }
    // `/` has length 1, as a path of `/` has: a tie. Beside any other path the prefix `/` is the shortest match there is.
    if (path === '/') return firstHolding(index.prefix(path, 0), best, question);
    if (!path.endsWith('/')) best = firstHolding(index.prefix(path, path.length), best, question);
    if (best !== null) return best;

    let end = path.length;
    while (end > 0 && path.charCodeAt(end - 1) === 0x2f) end--;
    if (end !== path.length) best = firstHolding(index.prefix(path, end), null, question);
    // Nothing is filed under more.
    end = Math.min(end, index.longestPrefix + 1);
    while (best === null && end > 0) {
      end = path.lastIndexOf('/', end - 1);
      if (end > 0) best = firstHolding(index.prefix(path, end), null, question);
    }
    return best ?? firstHolding(index.prefix(path, 0), null, question);
  }
}

function file(index: PathIndex, path: string, entry: Entry): void {
  if (entry.prefix === null) index.addExact(path, entry);
  else index.addPrefix(path, entry);
}

/** What a rule's path is under all of its spellings, without case; see `foldPath`. One for nearly all. */
function foldsOf(path: string): readonly string[] {
  if (/^(?:\/[a-z0-9_~$&'()*+,=:@-]+)+$/.test(path)) return [path];
  const folds = new Set(spellings(path).map(foldPath));
  // In Latin-1 the same text is other bytes.
  const latin1 = utf8Text(path);
  if (latin1 !== null && latin1 !== path && isLatin1(latin1)) folds.add(foldPath(latin1));
  return [...folds];
}

/** The same expression without regard to case is compiled when it is first needed. */
function pathPattern(source: string): (question: Question) => boolean {
  const own = patternTest(source, 'the path');
  let folding: typeof own | null = null;
  return (question) => {
    const { path, folded } = question;
    if (folded === null) return own(path, question);
    folding ??= patternTest(source, 'the path', true);
    return folding(path, question) || (folded.length !== path.length && folding(folded, question));
  };
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

/** No routes, no match: the request is answered as not found. */
export class HttpRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly traits = new Traits();
  readonly #hosts = new HostGroups(() => new HttpGroup());

  /** Routes are added in the order in which ties are settled; `rules` has one for each rule of the document. */
  add({ spec }: HttpRouteDocument, rules: readonly CompiledRule[]): void {
    this.rules.push(...rules);
    eachMatch(spec, rules, (hostname, rule, match) => {
      this.traits.add(match);
      if (this.#hosts.at(hostname).add(rule, match)) this.traits.respelled = true;
    });
  }

  /** Once, after the last route and before the first question. `respelled`: the traits it is asked by may say so. */
  seal(respelled = false): void {
    this.traits.seal();
    for (const group of this.#hosts.groups()) group.seal(respelled || this.traits.respelled);
  }

  get namesHosts(): boolean {
    return this.#hosts.named;
  }

  find(question: Question): RouteMatch | null {
    return this.#hosts.first(question, findHttp);
  }
}

const findHttp = (group: HttpGroup, question: Question): Entry | null => group.find(question);

/** What a Server without routes has: the probes' paths for GET, and everything else. */
export class DefaultHttpRoutes implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits;
  readonly namesHosts = false;
  readonly #default: RouteMatch;
  readonly #probe: RouteMatch | null;
  readonly #probePaths: ReadonlySet<string>;
  readonly #foldedPaths: ReadonlySet<string>;

  constructor(rule: CompiledRule, probe: CompiledRule | null, probePaths: readonly string[]) {
    this.rules = probe === null ? [rule] : [probe, rule];
    this.#default = { rule, prefix: '', literal: '' };
    this.#probe = probe === null ? null : { rule: probe, prefix: null, literal: null };
    const paths = probe === null ? [] : probePaths.map(byteText);
    this.#probePaths = new Set(paths);
    this.#foldedPaths = new Set(paths.flatMap(foldsOf));
    this.traits = {
      patterns: 0,
      queryNames: noQueryNames,
      guarded: null,
      respelled: [...this.#foldedPaths].some((path) => !this.#probePaths.has(path)),
    };
  }

  find({ request, method, path, folded }: Question): RouteMatch {
    // GET alone, as Linkerd, and nothing but a plain one: a probe never leaves HTTP and never has content.
    if (this.#probe === null || method !== 'GET' || request.carries !== 'nothing') return this.#default;
    const known = folded === null ? this.#probePaths.has(path) : this.#foldedPaths.has(folded);
    return known ? this.#probe : this.#default;
  }
}

/**
 * Service and method of a gRPC call; undefined for what is none. Either may be empty, which is then its name, and further
 * segments are ignored, as in Linkerd.
 */
function grpcTarget({ method: verb, path }: Question): { service: string; method: string } | undefined {
  if (verb !== 'POST') return undefined;
  const [before, service, method] = path.split('/', 3);
  return before === '' && service !== undefined && method !== undefined ? { service, method } : undefined;
}

const anyCall: GrpcMatch = { service: null, method: null, headers: [] };

/** By `service/method`, either empty where any will do. */
type GrpcIndex = Map<string, Entry[]>;

class GrpcGroup {
  readonly #entries: Entry[] = [];
  readonly #own: GrpcIndex = new Map();
  readonly #folded: GrpcIndex = new Map();
  /** Of rules without matches: every request, be it a call or not. */
  readonly #everything: Entry[] = [];

  /** @returns whether some path that is folded already may be another's spelling. */
  add(rule: CompiledRule, match: GrpcMatch | null): boolean {
    if (match === null) {
      const entry = entryOf(rule, anyCall, { prefix: null, literal: null });
      this.#entries.push(entry);
      this.#everything.push(entry);
      return false;
    }
    const literal = `${byteText(match.service ?? '')}/${byteText(match.method ?? '')}`;
    const folded = foldCase(literal);
    const entry = entryOf(rule, match, { prefix: null, literal });
    this.#entries.push(entry);
    listAt(this.#own, literal).push(entry);
    listAt(this.#folded, folded).push(entry);
    return folded !== literal;
  }

  seal(): void {
    rank(this.#entries, [...this.#own.values(), ...this.#folded.values(), this.#everything]);
  }

  /** Precedence: length of the service, then of the method, then headers. */
  find(question: Question): Entry | null {
    const target = grpcTarget(question);
    let best: Entry | null = null;
    if (target !== undefined) {
      const lists = question.folded === null ? this.#own : this.#folded;
      const service = question.folded === null ? target.service : foldCase(target.service);
      const method = question.folded === null ? target.method : foldCase(target.method);
      if (service !== '' && method !== '') best = firstHolding(lists.get(`${service}/${method}`), null, question);
      if (service !== '') best ??= firstHolding(lists.get(`${service}/`), null, question);
      if (method !== '') best ??= firstHolding(lists.get(`/${method}`), null, question);
      if (best !== null) return best;
      best = firstHolding(lists.get('/'), null, question);
    }
    return firstHolding(this.#everything, best, question);
  }
}

/** A call is POST to a path of two segments; anything else is found by rules without matches alone. */
export class GrpcRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly traits = new Traits();
  readonly #hosts = new HostGroups(() => new GrpcGroup());

  /** Routes are added in the order in which ties are settled; `rules` has one for each rule of the document. */
  add({ spec: { hostnames, rules: ruled } }: GrpcRouteDocument, rules: readonly CompiledRule[]): void {
    this.rules.push(...rules);
    const spec = { hostnames, rules: ruled.map(({ matches }) => ({ matches: matches.length > 0 ? matches : [null] })) };
    eachMatch(spec, rules, (hostname, rule, match) => {
      if (match !== null) this.traits.add(match);
      if (this.#hosts.at(hostname).add(rule, match)) this.traits.respelled = true;
    });
  }

  /** Once, after the last route and before the first question. */
  seal(): void {
    this.traits.seal();
    for (const group of this.#hosts.groups()) group.seal();
  }

  get namesHosts(): boolean {
    return this.#hosts.named;
  }

  find(question: Question): RouteMatch | null {
    return this.#hosts.first(question, findGrpc);
  }
}

const findGrpc = (group: GrpcGroup, question: Question): Entry | null => group.find(question);

/** Any POST to a path of two segments (Linkerd). */
export class DefaultGrpcRoute implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits = { patterns: 0, queryNames: noQueryNames, guarded: null, respelled: false };
  readonly namesHosts = false;
  readonly #default: RouteMatch;

  constructor(rule: CompiledRule) {
    this.rules = [rule];
    this.#default = { rule, prefix: null, literal: null };
  }

  find(question: Question): RouteMatch | null {
    return grpcTarget(question) === undefined ? null : this.#default;
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
