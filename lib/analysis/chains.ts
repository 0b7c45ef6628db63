import { byteText, textOfBytes } from '../policy/bytes.ts';
import { GrantList } from '../policy/decide/client-match.ts';
import { foldsOf, matchedPrefix } from '../policy/decide/http-routes.ts';
import type { CompiledRule, HostOutline, RouteTable, TableOutline } from '../policy/decide/policy-index.ts';
import { healthCheck } from '../policy/probes.ts';
import type { GrpcMatch, HttpMatch } from '../policy/route-rule.ts';
import { comparedPath, type PathClass, type PathSpace } from './paths.ts';
import { headerTest, type Test } from './tests.ts';
import { patternHolds } from './values.ts';

/*
 * A table of routes as chains: for requests of one class of hosts and paths, the rules in order of precedence, each with what
 * else it asks. The first all of whose tests hold is the one that is found. A table that asks several tables has a chain for
 * each of them.
 */

export interface Link {
  readonly tests: readonly Test[];
  readonly rule: CompiledRule;
  /** By which path it wins: of a redirect the rest of the path depends on it. */
  readonly prefix: string | null;
  readonly literal: string | null;
}

/** One of the tables that a decision asks, and how. */
export interface RuleChain {
  /** Chains of two policies that stand for the same thing have the same. */
  readonly role: string;
  readonly hosts: readonly string[];
  /** What counts for a host, which is as policy compares it. */
  of(host: string): HostChain;
}

/** A chain as requests for one host meet it. */
export interface HostChain {
  readonly literals: Literals;
  /** In order of precedence. */
  links(cls: PathClass, paths: PathSpace): readonly Link[];
}

export interface Literals {
  readonly exact: readonly string[];
  readonly prefixes: readonly string[];
}

/** Every chain of a table. @param table null: there is none, and so no route */
export function chainsOf(table: RouteTable | null): readonly RuleChain[] {
  if (table === null) return [];
  const outline = table.outline();
  const own = chains(outline, 'own', false);
  // Where no rule is found under another spelling, servers that see no case find what all others find.
  return table.traits.respelled ? [...own, ...chains(outline, 'folded', true)] : own;
}

function chains(outline: TableOutline, role: string, folded: boolean): RuleChain[] {
  switch (outline.kind) {
    case 'every': {
      const link: Link = { tests: [], rule: outline.found.rule, prefix: '/', literal: '' };
      return [simple(role, [link])];
    }
    case 'calls': {
      const tests: Test[] = [
        { kind: 'method', method: 'POST' },
        { kind: 'path', pattern: anyCall },
      ];
      return [simple(role, [{ tests, rule: outline.found.rule, prefix: null, literal: null }])];
    }
    case 'http':
      return [
        new TableChain(
          role,
          outline.hosts.map((host) => [host.hostname, new HttpTable(host, folded)]),
        ),
      ];
    case 'grpc':
      return [
        new TableChain(
          role,
          outline.hosts.map((host) => [host.hostname, new GrpcTable(host, folded)]),
        ),
      ];
    case 'probed':
      return [...chains(outline.own, role, folded), new ProbeChain(`${role} probes`, outline.probes, folded)];
    case 'refused':
      return [
        ...chains(outline.good, role, folded),
        ...chains(outline.withRefused, `${role} refused`, folded),
        ...(outline.first === null ? [] : chains(outline.first, `${role} first`, folded)),
      ];
  }
}

const noLiterals: Literals = { exact: [], prefixes: [] };

function simple(role: string, links: readonly Link[]): RuleChain {
  return { role, hosts: [], of: () => ({ literals: noLiterals, links: () => links }) };
}

/** Paths of two segments and more: what a call of gRPC has. */
const anyCall = '/[^/]*/.*';

class TableChain implements RuleChain {
  readonly role: string;
  readonly hosts: readonly string[];
  readonly #groups: ReadonlyMap<string | null, HostChain>;

  /** @param groups the routes of each host name. */
  constructor(role: string, groups: readonly (readonly [string | null, HostChain])[]) {
    this.role = role;
    this.#groups = new Map(groups);
    this.hosts = groups.flatMap(([host]) => host ?? []);
  }

  of(host: string): HostChain {
    const groups = groupNames(host).flatMap((name) => this.#groups.get(name) ?? []);
    const [only] = groups;
    if (only !== undefined && groups.length === 1) return only;
    const literals = {
      exact: groups.flatMap((group) => group.literals.exact),
      prefixes: groups.flatMap((group) => group.literals.prefixes),
    };
    return { literals, links: (cls, paths) => groups.flatMap((group) => group.links(cls, paths)) };
  }
}

/** The names under which what is for a host may be filed, in order of precedence. */
export function groupNames(host: string): (string | null)[] {
  const names: (string | null)[] = [host];
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) names.push(`*${host.slice(dot)}`);
  return [...names, null];
}

interface Ranked extends Link {
  readonly rank: number;
}

/** @param lists each of them by rank itself. */
function byRank(lists: readonly (readonly Ranked[] | undefined)[]): readonly Ranked[] {
  const filled = lists.filter((list) => list !== undefined && list.length > 0) as (readonly Ranked[])[];
  return filled.length < 2 ? (filled[0] ?? []) : filled.flat().sort((a, b) => a.rank - b.rank);
}

function filed(map: Map<string, Ranked[]>, keys: Iterable<string>, link: Ranked): void {
  for (const key of keys) {
    const list = map.get(key);
    if (list === undefined) map.set(key, [link]);
    else list.push(link);
  }
}

/** The spellings under which a literal is found: its own, or the one of servers that see no case. */
function spelled(literal: string, folded: boolean): readonly string[] {
  return folded ? foldsOf(byteText(literal)).map(textOfBytes) : [literal];
}

class HttpTable implements HostChain {
  readonly literals: Literals;
  readonly #exact = new Map<string, Ranked[]>();
  readonly #prefix = new Map<string, Ranked[]>();
  readonly #patterns: Ranked[] = [];
  /** Prefixes of slashes alone but for `/` itself, which to Linkerd have no length. */
  readonly #slashes: Ranked[] = [];

  constructor({ entries }: HostOutline<HttpMatch>, folded: boolean) {
    entries.forEach(({ match, rule }, rank) => {
      const { type, value } = match.path;
      const tests: Test[] = [
        ...(match.method === null ? [] : [{ kind: 'method', method: match.method } as const]),
        ...match.headers.map(headerTest),
        ...match.query.map((query): Test => ({ kind: 'query', match: query })),
      ];
      if (type === 'regex') {
        const pattern: Test = { kind: 'path', pattern: folded ? `(?i:${value})` : value };
        this.#patterns.push({ tests: [pattern, ...tests], rule, prefix: null, literal: null, rank });
        return;
      }
      const prefix = type === 'prefix' ? value.replace(/\/+$/, '') : null;
      const link: Ranked = { tests, rule, prefix: matchedPrefix(match.path), literal: prefix ?? value, rank };
      if (prefix === null) filed(this.#exact, spelled(value, folded), link);
      else if (link.prefix === '') this.#slashes.push(link);
      else filed(this.#prefix, prefix === '' ? [''] : spelled(prefix, folded), link);
    });
    this.literals = { exact: [...this.#exact.keys()], prefixes: [...this.#prefix.keys()] };
  }

  links(cls: PathClass, paths: PathSpace): readonly Link[] {
    const path = comparedPath(cls);
    const patterns = path === null ? this.#patterns : definite(this.#patterns, path);
    // Where there is no path, the prefix `/` is longer than all there is.
    if (path === '') return [...(this.#prefix.get('') ?? []), ...byRank([patterns, this.#slashes])];
    // Matches of the whole path come first: exact, regular expressions, and a prefix that is all of it.
    const whole = path === null ? undefined : path === '/' || path === '*' ? '' : path;
    const exact = path === null ? undefined : this.#exact.get(path);
    const first = byRank([exact, patterns, whole === undefined ? undefined : this.#prefix.get(whole)]);
    const rest = paths.above(cls).filter((prefix) => prefix !== whole && this.#prefix.has(prefix));
    const last = path === '*' ? [] : this.#slashes;
    if (rest.length === 0 && last.length === 0) return first;
    return [...first, ...rest.flatMap((prefix) => this.#prefix.get(prefix) ?? []), ...last];
  }
}

/** The expressions that match a path, which are then no question any more. */
function definite(patterns: readonly Ranked[], path: string): readonly Ranked[] {
  if (patterns.length === 0) return patterns;
  return patterns.flatMap((link) => {
    const [first, ...tests] = link.tests;
    return first?.kind === 'path' && patternHolds(first.pattern, path) ? [{ ...link, tests }] : [];
  });
}

const post: Test = { kind: 'method', method: 'POST' };

class GrpcTable implements HostChain {
  readonly literals: Literals;
  readonly #methods = new Map<string, Ranked[]>();
  readonly #services = new Map<string, Ranked[]>();
  readonly #methodsOfAny: Ranked[] = [];
  readonly #last: Ranked[] = [];

  constructor({ entries }: HostOutline<GrpcMatch | null>, folded: boolean) {
    entries.forEach(({ match, rule }, rank) => {
      const link = { rule, prefix: null, rank };
      if (match === null) {
        this.#last.push({ ...link, tests: [], literal: null });
        return;
      }
      const tests: Test[] = [post, ...match.headers.map(headerTest)];
      const service = match.service ?? '';
      const method = match.method ?? '';
      const literal = `${service}/${method}`;
      const path = (pattern: string): Test => ({ kind: 'path', pattern: folded ? `(?i:${pattern})` : pattern });
      const spell = (text: string): readonly string[] => (folded ? [text.toLowerCase()] : [text]);
      if (service !== '' && method !== '') filed(this.#methods, spell(`/${literal}`), { ...link, tests, literal });
      else if (service !== '') filed(this.#services, spell(`/${service}`), { ...link, tests, literal });
      else if (method !== '') {
        const ofAny = path(`/[^/]*/${method.replace(/[^\w]/g, '\\$&')}(?:/.*)?`);
        this.#methodsOfAny.push({ ...link, tests: [ofAny, ...tests], literal });
      } else this.#last.push({ ...link, tests: [{ kind: 'path', pattern: anyCall }, ...tests], literal });
    });
    this.literals = { exact: [], prefixes: [...this.#methods.keys(), ...this.#services.keys()] };
  }

  links(cls: PathClass, paths: PathSpace): readonly Link[] {
    const path = comparedPath(cls);
    const above = paths.above(cls);
    const of = (map: ReadonlyMap<string, Ranked[]>): readonly Ranked[] =>
      byRank(above.map((prefix) => map.get(prefix)));
    // Named without a method, a service is no call.
    const services = path !== null && this.#services.has(path) ? [] : of(this.#services);
    const sure = (links: readonly Ranked[]): readonly Ranked[] =>
      path === null
        ? links
        : links.flatMap((link) => (link.tests[0]?.kind === 'path' ? definite([link], path) : [link]));
    return [...of(this.#methods), ...services, ...sure(byRank([this.#methodsOfAny])), ...sure(byRank([this.#last]))];
  }
}

class ProbeChain implements RuleChain {
  readonly role: string;
  readonly hosts: readonly string[] = [];
  readonly #byPath = new Map<string, Ranked[]>();

  constructor(role: string, probes: Extract<TableOutline, { kind: 'probed' }>['probes'], folded: boolean) {
    this.role = role;
    probes.forEach(({ paths, grant }, rank) => {
      const tests: Test[] =
        paths === null ? [{ kind: 'grpc' }, post] : [{ kind: 'method', method: 'GET' }, { kind: 'bare' }];
      const rule = probeRule(new GrantList([grant]));
      for (const path of paths ?? [healthCheck]) {
        filed(this.#byPath, spelled(path, folded), { tests, rule, prefix: null, literal: null, rank });
      }
    });
  }

  of(): HostChain {
    return {
      literals: { exact: [...this.#byPath.keys()], prefixes: [] },
      links: (cls) => (cls.kind === 'one' ? (this.#byPath.get(cls.path) ?? []) : []),
    };
  }
}

/** Stands for what a probe has on top of the rule that its request finds. */
function probeRule(grants: GrantList): CompiledRule {
  const ref = { group: '', kind: 'default', name: 'probe' };
  return {
    route: ref,
    place: null,
    grants,
    headerChanges: null,
    redirect: null,
    effects: '',
    changes: '',
    guarded: null,
    deny: { kind: 'deny', server: ref, route: ref },
    sealed: false,
    permits: new Map(),
  };
}
