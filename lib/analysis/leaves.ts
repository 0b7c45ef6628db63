import { byteText } from '../policy/bytes.ts';
import { hostName } from '../policy/decide/host-groups.ts';
import { foldName } from '../policy/decide/query-readings.ts';
import type { Effort } from './automaton.ts';
import { groupNames, type HostChain, type Link, type RuleChain } from './chains.ts';
import { GatheredTests, type GivenParts, type Witness } from './conditions.ts';
import { type PathClass, PathSpace } from './paths.ts';
import type { Shapes } from './shapes.ts';
import { type Test, testKey } from './tests.ts';

/** Hosts that policies tell apart. */
export type HostClass =
  | { readonly kind: 'any' | 'other' }
  | { readonly kind: 'one'; readonly host: string }
  /** `*.suffix`, but for longer ones and names in full. */
  | { readonly kind: 'wildcard'; readonly host: string }
  /** With an escape, which is refused where routes are for some hosts. */
  | { readonly kind: 'escaped' };

/** Requests that find the same rules in every table, with one of them. */
export interface Leaf {
  readonly holding: readonly Test[];
  /** Of what does not hold, only what says something of clients and protocols: they are many. */
  readonly failing: readonly Test[];
  readonly host: HostClass;
  /** All names that hosts are told apart by, wildcards as `*.suffix`. */
  readonly hosts: ReadonlySet<string>;
  readonly path: PathClass;
  readonly paths: PathSpace;
  readonly witness: Witness;
  /** A host of the class. */
  readonly sampleHost: string;
  /** Of each policy, how many chains it has. */
  readonly counts: readonly number[];
  /** By chain, those of one policy after those of the other; null: nothing is found. */
  readonly found: readonly (Link | null)[];
}

type LeafPlace = Pick<Leaf, 'host' | 'hosts' | 'path' | 'paths' | 'sampleHost'>;

/** Requests to look at in place of all. */
export interface RequestsAsked extends GivenParts {
  readonly path?: string | undefined;
  readonly host?: string | undefined;
}

/** The chains of one policy; of a connection that carries no request for it, none. */
export interface AskedTable {
  readonly chains: readonly RuleChain[];
}

export interface LeafSearch {
  readonly tables: readonly AskedTable[];
  readonly shapes: Shapes;
  readonly scope: RequestsAsked;
  /** Whether requests that both policies find the same rules for are of interest. */
  readonly wanted: 'all' | 'different';
  /** Header names of which some of the policies refuse other spellings. */
  readonly aliases: readonly string[];
  /** Whether a parameter may be read as another one that is looked for. */
  readonly parametersMeet: boolean;
  readonly effort: Effort;
  readonly unexamined: (what: string) => void;
}

/** Tests that all classes of requests have in all: they are kept, at a few hundred bytes each in what is made of them. */
const mostTests = 800_000;

/** Every class of requests, with one of each. Where they have too many tests, the rest of them is not examined. */
export function* leavesOf(search: LeafSearch): Generator<Leaf> {
  let left = mostTests;
  for (const leaf of everyLeaf(search)) {
    left -= leaf.holding.length + leaf.failing.length;
    if (left < 0) {
      search.unexamined(`requests that more than ${mostTests.toLocaleString('en')} conditions of routes tell apart`);
      return;
    }
    yield leaf;
  }
}

function* everyLeaf(search: LeafSearch): Generator<Leaf> {
  const chains = search.tables.flatMap(({ chains }) => chains);
  const hosts = new Set(chains.flatMap((chain) => chain.hosts));
  for (const { host, sample } of hostClasses(hosts, search.scope)) {
    const own = chains.map((chain) => chain.of(hostName(sample)));
    const paths = pathSpace(own, search.scope);
    const classes = search.scope.path === undefined ? paths.classes : [pointOf(search.scope.path, search.scope.method)];
    for (const path of classes) {
      if (path.kind === 'none' && search.scope.method !== undefined && search.scope.method !== path.method) continue;
      const place = { host, hosts, sampleHost: sample, path, paths };
      // Names in hosts are what makes escapes there a matter.
      const all =
        host.kind === 'escaped' && search.tables.some(({ chains: own }) => !own.some(({ hosts }) => hosts.length > 0));
      yield* new Walk(all ? { ...search, wanted: 'all' } : search, own, place).leaves();
      for (const alias of search.aliases) yield* aliased({ ...search, wanted: 'all' }, own, place, alias);
    }
  }
}

/** The same requests, each with a header that stands for another one to some servers. */
function* aliased(search: LeafSearch, chains: readonly HostChain[], place: LeafPlace, name: string): Generator<Leaf> {
  for (const leaf of new Walk(search, chains, place).leaves()) {
    const { witness } = leaf;
    const headers = [
      ...witness.headers,
      [name.replace(/[^a-z0-9]/, (other) => (other === '_' ? '-' : '_')), 'x'] as const,
    ];
    const test: Test = { kind: 'alias', name };
    yield { ...leaf, holding: [...leaf.holding, test], witness: { ...witness, headers } };
  }
}

function pointOf(path: string, method: string | undefined): PathClass {
  if (path === '*' && method === 'OPTIONS') return { kind: 'none', method };
  return { kind: 'one', path };
}

export function pathSpace(chains: readonly HostChain[], { path }: RequestsAsked): PathSpace {
  const exact = chains.flatMap(({ literals }) => literals.exact);
  return new PathSpace(
    path === undefined ? exact : [...exact, path],
    chains.flatMap(({ literals }) => literals.prefixes),
  );
}

interface SampledHost {
  readonly host: HostClass;
  readonly sample: string;
}

export function hostClasses(names: ReadonlySet<string>, { host }: RequestsAsked): SampledHost[] {
  if (host !== undefined) return [{ host: { kind: 'one', host: hostName(host) }, sample: host }];
  if (names.size === 0) return [{ host: { kind: 'any' }, sample: 'any.example' }];
  const classes = [...names].map((name): SampledHost => {
    if (!name.startsWith('*.')) return { host: { kind: 'one', host: name }, sample: name };
    return {
      host: { kind: 'wildcard', host: name },
      sample: freshHost((label) => `${label}${name.slice(1)}`, name, names),
    };
  });
  // All of a domain may be some route's; a name of one part is in none.
  const other = freshHost((label) => (label === 'any' ? 'any.example' : label), null, names);
  return [
    ...classes,
    { host: { kind: 'other' }, sample: other },
    { host: { kind: 'escaped' }, sample: '%61ny.example' },
  ];
}

/** A host that belongs to a wildcard, or to nothing, and to nothing longer. */
function freshHost(make: (label: string) => string, wildcard: string | null, names: ReadonlySet<string>): string {
  for (let i = 0; ; i++) {
    const host = make(i === 0 ? 'any' : `any${i}`);
    const first = groupNames(host).find((name) => name === null || names.has(name)) ?? null;
    if (first === wildcard) return host;
  }
}

/** Which link of a chain is being looked at. */
interface Cursor {
  readonly links: readonly Link[];
  /** For each place, one number for all that is left from there on. */
  readonly left: readonly number[];
  at: number;
  found: Link | null | undefined;
}

/** The links of all chains for one class of hosts and paths, asked in turn. */
class Walk {
  readonly #search: LeafSearch;
  readonly #place: LeafPlace;
  readonly #cursors: Cursor[];
  readonly #gathering: GatheredTests;
  /** What is asked of each request besides, since other readings of it ask. */
  readonly #besides: readonly Test[];
  /** Pairs of cursors of two policies that stand for the same chain; null where they do not match. */
  readonly #pairs: readonly (readonly [Cursor, Cursor])[] | null;

  /** @param chains those of the search, as the host of the place meets them. */
  constructor(search: LeafSearch, chains: readonly HostChain[], place: LeafPlace) {
    this.#search = search;
    this.#place = place;
    this.#cursors = chains.map((chain) => {
      const links = chain.links(place.path, place.paths);
      // Only where policies are compared does anybody ask what is left.
      return { links, left: search.wanted === 'all' ? [] : leftOf(links, search.shapes), at: 0, found: undefined };
    });
    this.#gathering = new GatheredTests(place.path, place.paths, search.scope, search.effort, search.unexamined);
    this.#pairs = search.wanted === 'all' ? null : this.#matched();
    this.#besides = search.parametersMeet ? besides(this.#cursors.flatMap(({ links }) => links)) : [];
  }

  #matched(): (readonly [Cursor, Cursor])[] | null {
    const chains = this.#search.tables.flatMap((table) => table.chains);
    const half = this.#search.tables[0]?.chains.length ?? 0;
    if (half * 2 !== chains.length) return null;
    const pairs: (readonly [Cursor, Cursor])[] = [];
    for (let i = 0; i < half; i++) {
      if (chains[i]?.role !== chains[half + i]?.role) return null;
      pairs.push([this.#cursors[i] as Cursor, this.#cursors[half + i] as Cursor]);
    }
    return pairs;
  }

  *leaves(): Generator<Leaf> {
    if (this.#allAlike()) return;
    const open = this.#cursors.find(({ found }) => found === undefined);
    if (open === undefined) {
      const asked = this.#besides.find((test) => this.#gathering.status(test) === undefined);
      if (asked !== undefined) {
        yield* this.#supposed(asked, true);
        yield* this.#supposed(asked, false);
        return;
      }
      const witness = this.#gathering.witness();
      if (witness === null) return;
      const { holding, failing } = this.#gathering;
      yield {
        ...this.#place,
        holding: [...holding],
        failing: [...failing],
        witness,
        counts: this.#search.tables.map(({ chains }) => chains.length),
        found: this.#cursors.map(({ found }) => found ?? null),
      };
      return;
    }
    const { at } = open;
    yield* this.#advance(open);
    open.at = at;
    open.found = undefined;
  }

  *#supposed(test: Test, holds: boolean): Generator<Leaf> {
    if (!this.#gathering.push(test, holds)) return;
    yield* this.leaves();
    this.#gathering.pop(holds);
  }

  /** Looks at one chain until it is decided; whatever has to be asked of the request is first supposed to hold, then not. */
  *#advance(cursor: Cursor): Generator<Leaf> {
    let supposed = 0;
    for (;;) {
      const link = cursor.links[cursor.at];
      const asked = link === undefined ? 'holds' : this.#next(link);
      if (asked === 'fails') {
        cursor.at += 1;
        if (this.#allAlike()) break;
      } else if (asked === 'holds') {
        cursor.found = link ?? null;
        yield* this.leaves();
        break;
      } else {
        if (this.#gathering.push(asked, true)) {
          yield* this.leaves();
          this.#gathering.pop(true);
        }
        if (!this.#gathering.push(asked, false)) break;
        supposed += 1;
      }
    }
    for (; supposed > 0; supposed--) this.#gathering.pop(false);
  }

  /** The first test of a link that nothing is known of. */
  #next({ tests }: Link): Test | 'holds' | 'fails' {
    let asked: Test | null = null;
    for (const test of tests) {
      const status = this.#gathering.status(test);
      if (status === false) return 'fails';
      if (status === undefined) asked ??= test;
    }
    return asked ?? 'holds';
  }

  /** Both policies will find the same, or have found what is decided alike. */
  #allAlike(): boolean {
    const { shapes } = this.#search;
    return (
      this.#pairs?.every(([a, b]) => {
        if (a.found === undefined && b.found === undefined) return a.left[a.at] === b.left[b.at];
        if (a.found === undefined || b.found === undefined) return false;
        return shapeOf(a.found, shapes) === shapeOf(b.found, shapes);
      }) ?? false
    );
  }
}

/**
 * Whatever is asked of one of several parameters that may be read as each other, of each of them; and all else that is asked
 * together with one of them.
 */
function besides(links: readonly Link[]): readonly Test[] {
  const matches = links.flatMap(({ tests }) => tests.flatMap((test) => (test.kind === 'query' ? [test.match] : [])));
  const groups = [...Map.groupBy(matches, ({ name }) => foldName(byteText(name))).values()];
  const meeting = groups.filter((group) => group.some(({ name }) => name !== group[0]?.name));
  const crossed = meeting.flatMap((group): Test[] =>
    [...new Set(group.map(({ name }) => name))].flatMap((name) =>
      group.map((match) => ({ kind: 'query', match: { ...match, name } })),
    ),
  );
  const names = new Set(meeting.flatMap((group) => group.map(({ name }) => name)));
  const together = links.filter(({ tests }) =>
    tests.some((test) => test.kind === 'query' && names.has(test.match.name)),
  );
  const all = [...crossed, ...together.flatMap(({ tests }) => tests)];
  return [...new Map(all.map((test) => [testKey(test), test])).values()];
}

/** For each place a number for the links from there on; the last is that of none. */
function leftOf(links: readonly Link[], shapes: Shapes): number[] {
  const left: number[] = [shapes.of('end')];
  for (let i = links.length - 1; i >= 0; i--) {
    left.push(shapes.of(`c ${shapes.link(links[i] as Link)} ${left.at(-1)}`));
  }
  return left.reverse();
}

function shapeOf(link: Link | null, shapes: Shapes): number {
  return link === null ? -1 : shapes.found(link);
}
