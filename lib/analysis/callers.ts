import { identityOfName } from '../identity-name.ts';
import type { IdentitySet } from '../policy/identities.ts';
import type { NamedMatch } from '../policy/route-rule.ts';
import { patternMachine, TooLarge, textOf, type Want } from './automaton.ts';
import { patternHolds } from './values.ts';
import { quoted, wordsMachine } from './words.ts';

/*
 * What TLS may say of a client, in classes: each name that a policy has in full, the names behind each wildcard that no
 * longer one takes, all other names, and what has none.
 */

export type TlsClass =
  | { readonly kind: 'none' | 'anonymous' | 'passthrough' }
  /** `name` is one of them. */
  | { readonly kind: 'identity'; readonly name: string; readonly of: NamesOf };

export type NamesOf =
  | { readonly kind: 'one' }
  /** DNS names that end so, behind at least one character; the empty suffix is every name that nothing else takes. */
  | { readonly kind: 'suffix'; readonly suffix: string; readonly like: readonly NameTest[] }
  | { readonly kind: 'spiffe'; readonly like: readonly NameTest[] };

/** A regular expression of a route on the verified identity, and whether these names match it. */
export interface NameTest {
  readonly pattern: string;
  readonly holds: boolean;
}

export interface TlsClasses {
  readonly classes: readonly TlsClass[];
  /** Expressions that could not be followed to their end. */
  readonly unexamined: readonly string[];
}

const withoutName = (['none', 'anonymous', 'passthrough'] as const).map((kind): TlsClass => ({ kind }));

/** @param tests of routes on the verified identity; `exact` values are names. */
export function tlsClasses(
  sets: Iterable<IdentitySet>,
  more: Iterable<string>,
  tests: readonly NamedMatch[],
): TlsClasses {
  const exact = new Set<string>(more);
  const suffixes = new Set<string>(['']);
  for (const set of sets) {
    for (const name of set.exact) exact.add(name);
    for (const suffix of set.suffixes) suffixes.add(suffix);
  }
  const patterns: string[] = [];
  for (const { type, value } of tests) {
    if (type === 'exact') exact.add(value);
    else if (!patterns.includes(value)) patterns.push(value);
  }
  const names = [...exact].filter((name) => identityOfName(name)?.name === name);
  const classes: TlsClass[] = names.map((name) => ({ kind: 'identity', name, of: { kind: 'one' } }));
  const regions = new Regions(new Set(names), suffixes, patterns);
  for (const suffix of suffixes) classes.push(...regions.ofSuffix(suffix));
  classes.push(...regions.spiffe());
  return { classes: [...withoutName, ...classes], unexamined: regions.unexamined };
}

class Regions {
  readonly unexamined: string[] = [];
  readonly #exact: ReadonlySet<string>;
  readonly #suffixes: ReadonlySet<string>;
  readonly #patterns: readonly string[];

  constructor(exact: ReadonlySet<string>, suffixes: ReadonlySet<string>, patterns: readonly string[]) {
    this.#exact = exact;
    this.#suffixes = suffixes;
    this.#patterns = patterns;
  }

  ofSuffix(suffix: string): TlsClass[] {
    const own = (like: readonly NameTest[], name: string): TlsClass => ({
      kind: 'identity',
      name,
      of: { kind: 'suffix', suffix, like },
    });
    if (this.#patterns.length === 0)
      return [
        own(
          [],
          this.#fresh((label) => `${label}${suffix}`, suffix),
        ),
      ];
    const longer = [...this.#suffixes].filter((other) => other !== suffix && other.endsWith(suffix));
    const wants: Want[] = [
      { machine: patternMachine(`.+${quoted(suffix)}`), holds: true },
      ...longer.map((other) => ({ machine: patternMachine(`.+${quoted(other)}`), holds: false })),
    ];
    return this.#split(dnsNames, wants).map(([like, name]) => own(like, name));
  }

  spiffe(): TlsClass[] {
    const own = (like: readonly NameTest[], name: string): TlsClass => ({
      kind: 'identity',
      name,
      of: { kind: 'spiffe', like },
    });
    if (this.#patterns.length === 0)
      return [
        own(
          [],
          this.#fresh((label) => `spiffe://${label}.example/x`, null),
        ),
      ];
    return this.#split(spiffeNames, []).map(([like, name]) => own(like, name));
  }

  #fresh(make: (label: string) => string, suffix: string | null): string {
    for (let i = 0; ; i++) {
      const name = make(i === 0 ? 'any' : `any${i}`);
      if (!this.#exact.has(name) && (suffix === null || this.#longestOf(name) === suffix)) return name;
    }
  }

  #longestOf(name: string): string {
    let longest = '';
    for (let dot = name.indexOf('.', 1); dot !== -1; dot = name.indexOf('.', dot + 1)) {
      if (this.#suffixes.has(name.slice(dot)) && name.length - dot > longest.length) longest = name.slice(dot);
    }
    return longest;
  }

  /** A name for each way in which the expressions hold or do not; none where there is no such name. */
  #split(form: NameForm, region: readonly Want[]): (readonly [NameTest[], string])[] {
    const known = { machine: wordsMachine([...this.#exact]), holds: false };
    let parts: { readonly like: NameTest[]; readonly wants: readonly Want[]; readonly name: string }[] = [];
    const first = this.#find(form, [...region, known]);
    if (first !== null) parts = [{ like: [], wants: [...region, known], name: first }];
    for (const pattern of this.#patterns) {
      parts = parts.flatMap((part) =>
        [true, false].flatMap((holds) => {
          const wants = [...part.wants, { machine: patternMachine(pattern), holds }];
          const name = patternHolds(pattern, part.name) === holds ? part.name : this.#find(form, wants, pattern);
          return name === null ? [] : [{ like: [...part.like, { pattern, holds }], wants, name }];
        }),
      );
    }
    return parts.map(({ like, name }) => [like, name] as const);
  }

  #find(form: NameForm, wants: readonly Want[], pattern = ''): string | null {
    try {
      return nameOf(form, wants);
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      this.unexamined.push(pattern);
      return null;
    }
  }
}

/** The names of one kind that a client can have, by more and more of them: see identity-name.ts. */
interface NameForm {
  /** Those that most have; some. */
  readonly plain: string;
  /** All but for the bounds of their lengths, which make an automaton large; and more than all. */
  readonly loose: string;
  /** All, but for the length of the whole. */
  readonly all: string;
  readonly never: string;
}

const dnsLabel = '[a-z](?:[a-z0-9-]*[a-z0-9])?';
const looseLabel = '[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?';
const anyLabel = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
const dnsNames: NameForm = {
  plain: `${dnsLabel}(?:\\.${dnsLabel})*`,
  loose: `${looseLabel}(?:\\.${looseLabel})*`,
  all: `${anyLabel}(?:\\.${anyLabel})*`,
  never: '(?:.*\\.)?[0-9]+',
};
const spiffeNames: NameForm = {
  plain: 'spiffe://[a-z][a-z0-9.-]*[a-z0-9](?:/[A-Za-z0-9_-]+)*',
  loose: 'spiffe://[a-z0-9._-]+(?:/[A-Za-z0-9._-]+)*',
  all: 'spiffe://[a-z0-9._-]{1,255}(?:/[A-Za-z0-9._-]+)*',
  never: 'spiffe://[^/]*/(?:.*/)?\\.\\.?(?:/.*)?',
};

/** A name that is as wanted, the plainest; null where there is none. @throws {TooLarge} */
function nameOf({ plain, loose, all, never }: NameForm, wants: readonly Want[]): string | null {
  const like = (pattern: string): string | null =>
    textOf([
      { machine: patternMachine(pattern), holds: true },
      { machine: patternMachine(never), holds: false },
      ...wants,
    ]);
  const first = like(plain) ?? like(loose);
  if (first === null || isName(first)) return first;
  // The shortest is too long, or a part of it is: where the whole is, all others are as well.
  const exact = like(all);
  return exact !== null && isName(exact) ? exact : null;
}

function isName(text: string): boolean {
  return identityOfName(text)?.name === text;
}

/** Whether a name that a route asks of the verified identity is this class's. */
export function nameHolds(test: NamedMatch, tls: TlsClass): boolean {
  if (tls.kind !== 'identity') return false;
  return test.type === 'exact' ? test.value === tls.name : patternHolds(test.value, tls.name);
}

/** Whether a client is of the class. */
export function isOf(tls: TlsClass, kind: TlsClass['kind'], name: string, all: TlsClasses): boolean {
  if (tls.kind !== kind) return false;
  return tls.kind !== 'identity' || classOfName(name, all) === tls;
}

function classOfName(name: string, { classes }: TlsClasses): TlsClass | undefined {
  const form = name.startsWith('spiffe://') ? 'spiffe' : 'suffix';
  let best: TlsClass | undefined;
  let length = -1;
  for (const tls of classes) {
    if (tls.kind !== 'identity') continue;
    const { of } = tls;
    if (of.kind === 'one') {
      if (tls.name === name) return tls;
      continue;
    }
    if (of.kind !== form || of.like.some(({ pattern, holds }) => patternHolds(pattern, name) !== holds)) continue;
    const suffix = of.kind === 'suffix' ? of.suffix : '';
    if (name.length > suffix.length && name.endsWith(suffix) && suffix.length > length) {
      best = tls;
      length = suffix.length;
    }
  }
  return best;
}
