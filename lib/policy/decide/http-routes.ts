import { byteText, isLatin1, utf8Text } from '../bytes.ts';
import { push } from '../lists.ts';
import type { HttpMatch, RoutesOf } from '../route-rule.ts';
import { HostGroups } from './host-groups.ts';
import { foldPath, spellings } from './path-readings.ts';
import type { CompiledRule, RouteMatch, RouteTable, TableOutline } from './policy-index.ts';
import { noQueryNames } from './query-readings.ts';
import type { Question, TableTraits } from './question.ts';
import { type Entry, eachMatch, entryOf, firstHolding, rank, Traits } from './route-entries.ts';
import { patternTest } from './value-match.ts';

/** Entries by literal path. A look-up costs one step per segment, and a hash of each prefix that is as long as one here. */
class PathIndex {
  readonly #exact = new Map<string, Entry[]>();
  /** By prefix, trailing slashes trimmed; the prefix `/` is the empty string. */
  readonly #prefix = new Map<string, Entry[]>();
  readonly #prefixLengths = new Set<number>();
  #longestPrefix = 0;

  addExact(path: string, entry: Entry): void {
    push(this.#exact, path, entry);
  }

  addPrefix(prefix: string, entry: Entry): void {
    push(this.#prefix, prefix, entry);
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
  /**
   * Prefixes of slashes alone but for `/` itself. Linkerd cuts the slashes off, and what is left has no length: they match all
   * paths, behind everything else.
   */
  readonly #slashes: Entry[] = [];

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
    const entry = entryOf(rule, match, { prefix: matchedPrefix(match.path), literal: prefix ?? path });
    this.#entries.push(entry);
    if (entry.prefix === '') {
      this.#slashes.push(entry);
      return false;
    }
    file(this.#own, prefix ?? path, entry);
    const folds = foldsOf(prefix === '' ? '/' : (prefix ?? path));
    return folds.length !== 1 || folds[0] !== (prefix === '' ? '/' : (prefix ?? path));
  }

  /**
   * @param respelled some entry is found under another path when it is folded.
   * @returns all entries.
   */
  seal(respelled: boolean): readonly Entry[] {
    if (respelled) {
      this.#folded = new PathIndex();
      for (const entry of this.#entries) {
        if (entry.literal === null || entry.prefix === '') continue;
        for (const path of foldsOf(entry.literal === '' ? '/' : entry.literal)) {
          file(this.#folded, entry.prefix !== null && path === '/' ? '' : path, entry);
        }
      }
    }
    rank(this.#entries, new Set([...this.#own.lists(), ...this.#folded.lists(), this.#slashes]));
    return this.#entries;
  }

  /** In order of precedence. */
  get entries(): readonly Entry[] {
    return [...this.#entries].sort((a, b) => a.rank - b.rank);
  }

  find(question: Question): Entry | null {
    const index = question.folded === null ? this.#own : this.#folded;
    const path = question.folded ?? question.path;
    // Matches of the whole path: exact, regular expression, and a prefix that is all of it.
    let best = firstHolding(index.exact(path), null, question);
    for (const { holds, list } of this.#patterns) {
      if (holds(question)) best = firstHolding(list, best, question);
    }
    // `/` has length 1, as a path of `/` or `*` has: a tie. Beside a longer path the prefix `/` is the shortest match there is,
    // and beside none, as of CONNECT, the longest.
    if (path === '')
      return firstHolding(index.prefix(path, 0), null, question) ?? firstHolding(this.#slashes, best, question);
    if (path.length === 1) {
      best = firstHolding(index.prefix(path, 0), best, question);
      return path === '*' ? best : (best ?? firstHolding(this.#slashes, null, question));
    }
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
    best ??= firstHolding(index.prefix(path, 0), null, question);
    return best ?? firstHolding(this.#slashes, null, question);
  }
}

/** By which a match of paths wins, as Linkerd measures it; null where it is no prefix. */
export function matchedPrefix({ type, value }: HttpMatch['path']): string | null {
  if (type !== 'prefix') return null;
  return value === '/' ? '/' : byteText(value).replace(/\/+$/, '');
}

function file(index: PathIndex, path: string, entry: Entry): void {
  if (entry.prefix === null) index.addExact(path, entry);
  else index.addPrefix(path, entry);
}

/** What a rule's path is under all of its spellings, without case; see `foldPath`. One for nearly all. */
export function foldsOf(path: string): readonly string[] {
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

/** No routes, no match: the request is answered as not found. */
export class HttpRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly traits = new Traits();
  anyCase: ReadonlySet<RouteMatch> = new Set();
  readonly #hosts = new HostGroups(() => new HttpGroup());

  /** Routes are added in the order in which ties are settled; `rules` has one for each rule of the document. */
  add(spec: RoutesOf<HttpMatch>, rules: readonly CompiledRule[]): void {
    this.rules.push(...rules);
    eachMatch(spec, rules, (hostname, rule, match) => {
      this.traits.add(match);
      if (this.#hosts.at(hostname).add(rule, match)) this.traits.respelled = true;
    });
  }

  /** Once, after the last route and before the first question. `respelled`: the traits it is asked by may say so. */
  seal(respelled = false): void {
    this.traits.seal();
    const entries = this.#hosts.groups().flatMap((group) => group.seal(respelled || this.traits.respelled));
    const [only] = entries;
    // What is no regular expression is found in every spelling, and there is nothing else to find.
    if (entries.length === 1 && only !== undefined && only.literal !== null) this.anyCase = new Set([only]);
  }

  get namesHosts(): boolean {
    return this.#hosts.named;
  }

  find(question: Question): RouteMatch | null {
    return this.#hosts.first(question, findHttp);
  }

  outline(): TableOutline {
    const hosts = [...this.#hosts.byName()].map(([hostname, { entries }]) => ({
      hostname,
      entries: entries.flatMap(({ match, rule }) => (match !== null && 'path' in match ? [{ match, rule }] : [])),
    }));
    return { kind: 'http', hosts };
  }
}

const findHttp = (group: HttpGroup, question: Question): Entry | null => group.find(question);

/** What a Server without routes has: one route, of every request. */
export class DefaultHttpRoute implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits = { patterns: 0, queryNames: noQueryNames, guarded: null, respelled: false };
  readonly anyCase: ReadonlySet<RouteMatch>;
  readonly namesHosts = false;
  readonly #default: RouteMatch;

  constructor(rule: CompiledRule) {
    this.rules = [rule];
    this.#default = { rule, prefix: '/', literal: '' };
    this.anyCase = new Set([this.#default]);
  }

  find(): RouteMatch {
    return this.#default;
  }

  outline(): TableOutline {
    return { kind: 'every', found: this.#default };
  }
}
