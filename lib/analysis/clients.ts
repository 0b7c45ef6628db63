import type { IpAddress } from '../ip.ts';
import type { Authorization, GrantList } from '../policy/decide/client-match.ts';
import type { NetworkSet } from '../policy/networks.ts';
import type { AddressClasses } from './addresses.ts';
import type { TlsClass } from './callers.ts';
import type { Shapes } from './shapes.ts';

/** Some of the classes of TLS. */
class TlsSet {
  readonly #base: readonly TlsClass[];
  readonly #except: ReadonlySet<TlsClass>;

  constructor(base: readonly TlsClass[], except: ReadonlySet<TlsClass> = new Set()) {
    this.#base = base;
    this.#except = except;
  }

  get classes(): readonly TlsClass[] {
    return this.#except.size === 0 ? this.#base : this.#base.filter((tls) => !this.#except.has(tls));
  }

  /** One of them; undefined of none. */
  get first(): TlsClass | undefined {
    return this.#base.find((tls) => !this.#except.has(tls));
  }
}

/** Clients that the same authorizations let in, by every list that was asked. */
export interface ClientCell {
  readonly tls: TlsSet;
  /** Classes of addresses. */
  readonly addresses: readonly number[];
  readonly sample: { readonly ip: IpAddress; readonly tls: TlsClass };
  /** Of the lists that were asked. */
  readonly roles: readonly string[];
  /** Of each list the first that covers them; null: none does. */
  readonly grants: readonly (Authorization | null)[];
  /** What else sets them apart. */
  readonly mark: string;
}

/** A list of authorizations, as clients of one port meet it. */
export interface AskedGrants {
  /** Lists of two policies that stand for the same thing have the same. */
  readonly role: string;
  readonly list: GrantList;
  /** Nobody looks at TLS on an opaque port: whoever comes there has none. */
  readonly seesTls: boolean;
}

interface Indexed {
  readonly entries: readonly Authorization[];
  /** By name in full, the numbers of the sets of identities that have it. */
  readonly setsOf: ReadonlyMap<string, readonly number[]>;
  /** By set of identities, the places of the entries that take it. */
  readonly placesOf: ReadonlyMap<number, readonly number[]>;
  /** Places of entries that take several names, or none. */
  readonly general: readonly number[];
}

/** Everybody who may call one port, by TLS and by address, with what sets clients apart besides authorizations. */
export class ClientSpace {
  readonly addresses: AddressClasses;
  readonly tls: readonly TlsClass[];
  readonly #byName: ReadonlyMap<string, TlsClass>;
  readonly #marks: ReadonlyMap<TlsClass, string>;
  readonly #addressMarks: readonly string[];
  readonly #ofKinds = new Map<string, readonly TlsClass[]>();
  /** Classes by the entries for more than single names that hold for them: lists share those. */
  readonly #general = new Map<string, readonly GeneralGroup[]>();

  constructor(options: {
    readonly addresses: AddressClasses;
    readonly tls: readonly TlsClass[];
    /** Equal texts are alike. */
    readonly markOf: (tls: TlsClass) => string;
    readonly addressMarkOf: (index: number) => string;
  }) {
    const { addresses, tls, markOf, addressMarkOf } = options;
    this.addresses = addresses;
    this.tls = tls;
    this.#byName = new Map(
      tls.flatMap((each) => (each.kind === 'identity' && each.of.kind === 'one' ? [[each.name, each] as const] : [])),
    );
    this.#marks = new Map(tls.map((each) => [each, markOf(each)]));
    this.#addressMarks = addresses.classes.map((_, i) => addressMarkOf(i));
  }

  /** The same list for the same kinds. */
  ofKinds(kinds: readonly TlsClass['kind'][]): readonly TlsClass[] {
    const known = this.#ofKinds.get(kinds.join());
    if (known !== undefined) return known;
    const found = this.tls.filter(({ kind }) => kinds.includes(kind));
    this.#ofKinds.set(kinds.join(), found);
    return found;
  }

  /** All clients with these kinds of TLS, in cells. */
  cells(lists: readonly AskedGrants[], kinds: readonly TlsClass['kind'][], shapes: Shapes): ClientCell[] {
    const indexed = lists.map(({ list }) => index(list, shapes));
    const names = new Set(indexed.flatMap(({ setsOf }) => [...setsOf.keys()]));
    const named = new Set([...names].flatMap((name) => this.#byName.get(name) ?? []));
    const groups = kinds.includes('identity') ? this.#namedGroups(named, lists, indexed) : [];
    for (const { classes, places, mark } of this.#generalGroups(lists, indexed, kinds, shapes)) {
      const tls = new TlsSet(classes, named);
      const { first } = tls;
      if (first !== undefined) groups.push({ tls, first, places, mark });
    }
    const roles = lists.map(({ role }) => role);
    return groups.flatMap((group) => this.#divided(group, indexed, roles));
  }

  /** Names that lists have in full, put together where all lists have them at the same places. */
  #namedGroups(named: ReadonlySet<TlsClass>, lists: readonly AskedGrants[], indexed: readonly Indexed[]): TlsGroup[] {
    const alike = new Map<string, TlsClass[]>();
    for (const tls of named) {
      const places = lists.map(({ seesTls }, i) => {
        const list = indexed[i] as Indexed;
        return `${generalFor(list, tls, seesTls).join()} ${setsFor(list, tls).join()}`;
      });
      const key = `${this.#marks.get(tls)} ${places.join('|')}`;
      const known = alike.get(key);
      if (known === undefined) alike.set(key, [tls]);
      else known.push(tls);
    }
    return [...alike.values()].map((classes) => {
      const first = classes[0] as TlsClass;
      const places = lists.map(({ seesTls }, i) => placesFor(indexed[i] as Indexed, first, seesTls));
      return { tls: new TlsSet(classes), first, places, mark: this.#marks.get(first) ?? '' };
    });
  }

  #generalGroups(
    lists: readonly AskedGrants[],
    indexed: readonly Indexed[],
    kinds: readonly TlsClass['kind'][],
    shapes: Shapes,
  ): readonly GeneralGroup[] {
    const of = ({ entries, general }: Indexed): string =>
      general.map((place) => `${place} ${shapes.tls((entries[place] as Authorization).tls)}`).join();
    const key = `${kinds.join()} ${lists.map(({ seesTls }, i) => `${seesTls} ${of(indexed[i] as Indexed)}`).join('|')}`;
    let known = this.#general.get(key);
    if (known === undefined) {
      const groups = new Map<string, { classes: TlsClass[]; places: readonly (readonly number[])[]; mark: string }>();
      for (const tls of this.tls) {
        if (!kinds.includes(tls.kind)) continue;
        const places = lists.map(({ seesTls }, i) => generalFor(indexed[i] as Indexed, tls, seesTls));
        const mark = this.#marks.get(tls) ?? '';
        const text = `${mark}|${places.map((list) => list.join()).join('|')}`;
        const group = groups.get(text);
        if (group === undefined) groups.set(text, { classes: [tls], places, mark });
        else group.classes.push(tls);
      }
      known = [...groups.values()];
      this.#general.set(key, known);
    }
    return known;
  }

  /** The addresses of clients with these kinds of TLS, by who lets them in. */
  #divided(
    { tls, first, places, mark }: TlsGroup,
    indexed: readonly Indexed[],
    roles: readonly string[],
  ): ClientCell[] {
    const { addresses } = this;
    const count = addresses.classes.length;
    const covering = places.map((list, i) => firstCovering(list, indexed[i] as Indexed, addresses, count));
    const cells = new Map<string, number[]>();
    for (let at = 0; at < count; at++) {
      const key = `${covering.map((list) => list[at]).join()} ${this.#addressMarks[at]}`;
      const cell = cells.get(key);
      if (cell === undefined) cells.set(key, [at]);
      else cell.push(at);
    }
    return [...cells.values()].map((within) => {
      const at = within[0] as number;
      const ip = addresses.classes[at]?.sample as IpAddress;
      const grants = covering.map((list, i) => indexed[i]?.entries[list[at] as number] ?? null);
      return {
        tls,
        addresses: within,
        sample: { ip, tls: first },
        roles,
        grants,
        mark: `${mark} ${this.#addressMarks[at]}`,
      };
    });
  }
}

interface GeneralGroup {
  readonly classes: readonly TlsClass[];
  readonly places: readonly (readonly number[])[];
  readonly mark: string;
}

interface TlsGroup {
  readonly tls: TlsSet;
  readonly first: TlsClass;
  readonly places: readonly (readonly number[])[];
  readonly mark: string;
}

function entriesOf(list: GrantList): readonly Authorization[] {
  return list.tail === null ? list.entries : [...list.entries, ...entriesOf(list.tail)];
}

const indexes = new WeakMap<GrantList, Indexed>();

function index(list: GrantList, shapes: Shapes): Indexed {
  const known = indexes.get(list);
  if (known !== undefined) return known;
  const entries = entriesOf(list);
  const setsOf = new Map<string, number[]>();
  const placesOf = new Map<number, number[]>();
  const general: number[] = [];
  entries.forEach(({ tls }, place) => {
    if (tls.kind !== 'identities' || tls.identities.suffixes.length > 0) general.push(place);
    if (tls.kind !== 'identities') return;
    const set = shapes.identities(tls.identities);
    const places = placesOf.get(set);
    if (places !== undefined) {
      places.push(place);
      return;
    }
    placesOf.set(set, [place]);
    for (const name of tls.identities.exact) {
      const sets = setsOf.get(name);
      if (sets === undefined) setsOf.set(name, [set]);
      else sets.push(set);
    }
  });
  const made = { entries, setsOf, placesOf, general };
  indexes.set(list, made);
  return made;
}

/** The entries for more than single names whose TLS rule holds, in order. */
function generalFor({ entries, general }: Indexed, tls: TlsClass, seesTls: boolean): readonly number[] {
  const meshed = seesTls && (tls.kind === 'identity' || tls.kind === 'anonymous');
  return general.filter((place) => {
    const rule = (entries[place] as Authorization).tls;
    if (rule.kind === 'unauthenticated') return true;
    if (rule.kind === 'any-tls') return meshed;
    if (!meshed || tls.kind !== 'identity') return false;
    return rule.identities.has({ form: tls.name.startsWith('spiffe://') ? 'spiffe' : 'dns', name: tls.name });
  });
}

/** The sets of identities that have a name in full. */
function setsFor({ setsOf }: Indexed, tls: TlsClass): readonly number[] {
  return tls.kind === 'identity' ? (setsOf.get(tls.name) ?? []) : [];
}

/** The entries whose TLS rule holds, in order. */
function placesFor(indexed: Indexed, tls: TlsClass, seesTls: boolean): readonly number[] {
  const holding = generalFor(indexed, tls, seesTls);
  const named = seesTls ? setsFor(indexed, tls).flatMap((set) => indexed.placesOf.get(set) ?? []) : [];
  return named.length === 0 ? holding : [...new Set([...holding, ...named])].sort((a, b) => a - b);
}

/** For each class of addresses the place of the first entry that covers it; -1 for none. */
function firstCovering(
  places: readonly number[],
  { entries }: Indexed,
  addresses: AddressClasses,
  count: number,
): Int32Array {
  const first = new Int32Array(count).fill(-1);
  for (const place of places) {
    const networks: NetworkSet | null = (entries[place] as Authorization).networks;
    if (networks === null) {
      for (let at = 0; at < count; at++) if (first[at] === -1) first[at] = place;
      break;
    }
    for (const at of addresses.within(networks)) if (first[at] === -1) first[at] = place;
  }
  return first;
}
