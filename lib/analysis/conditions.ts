import type { NamedMatch } from '../policy/route-rule.ts';
import { type Effort, TooLarge } from './automaton.ts';
import { comparedPath, type PathClass, type PathSpace } from './paths.ts';
import { type Test, testKey } from './tests.ts';
import { patternHolds, sentHolds, type ValueKind, valueHolds, valuesFor } from './values.ts';

/** What a set of requests has in common, as far as rules have asked: tests that hold, and tests that do not. */
export interface Conditions {
  readonly holding: readonly Test[];
  readonly failing: readonly Test[];
}

/** A request that fulfils conditions. */
export interface Witness {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly bare: boolean;
  readonly grpc: boolean;
}

/** What of a request is given from the start: a test on it is no question. */
export interface GivenParts {
  readonly method?: string | undefined;
  /** By lower-case name. */
  readonly headers?: ReadonlyMap<string, readonly string[]> | undefined;
  readonly query?: ReadonlyMap<string, readonly string[]> | undefined;
}

/** Header fields of which a second one makes the request unjudgeable (value-match.ts), so that one value answers for all. */
const singular = new Set(
  `authorization content-length content-location content-type date from host if-modified-since if-range
  if-unmodified-since max-forwards origin proxy-authorization range referer user-agent`.split(/\s+/),
);

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'PURGE', 'PROPFIND', 'REPORT', 'ANY'];

/** Conditions while they are gathered, one test after another, and taken back. */
export class GatheredTests {
  readonly holding: Test[] = [];
  readonly failing: Test[] = [];
  readonly #known = new Map<string, boolean>();
  readonly #cls: PathClass;
  readonly #paths: PathSpace;
  readonly #given: GivenParts;
  readonly #unexamined: (what: string) => void;
  readonly #effort: Effort;
  /** A path of the class for which the tests of paths that are gathered are as they are; null: none is known yet. */
  #sample: string | null = null;

  constructor(cls: PathClass, paths: PathSpace, given: GivenParts, effort: Effort, unexamined: (what: string) => void) {
    this.#effort = effort;
    this.#cls = cls;
    this.#paths = paths;
    this.#given = given;
    this.#unexamined = unexamined;
  }

  /** Undefined where it is not decided yet. */
  status(test: Test): boolean | undefined {
    return this.#implied(test) ?? this.#known.get(testKey(test));
  }

  #implied(test: Test): boolean | undefined {
    switch (test.kind) {
      case 'method': {
        const method = this.#method;
        return method === null ? undefined : method === test.method;
      }
      case 'header':
        return given('header', this.#given.headers, test.match);
      case 'query':
        return this.#cls.kind === 'none' ? false : given('query', this.#given.query, test.match);
      case 'path': {
        const path = comparedPath(this.#cls);
        return path === null ? undefined : valueHolds({ type: 'regex', value: test.pattern }, path);
      }
      default:
        return undefined;
    }
  }

  get #method(): string | null {
    if (this.#cls.kind === 'none') return this.#cls.method;
    if (this.#given.method !== undefined) return this.#given.method;
    const held = this.holding.find(({ kind }) => kind === 'method');
    return held?.kind === 'method' ? held.method : null;
  }

  /** @returns false, with nothing changed, where no request is left. */
  push(test: Test, holds: boolean): boolean {
    (holds ? this.holding : this.failing).push(test);
    this.#known.set(testKey(test), holds);
    if (this.#possible(test, holds)) return true;
    this.pop(holds);
    return false;
  }

  pop(held: boolean): void {
    const test = (held ? this.holding : this.failing).pop();
    if (test !== undefined) this.#known.delete(testKey(test));
  }

  #possible(test: Test, holds: boolean): boolean {
    try {
      switch (test.kind) {
        case 'header':
        case 'query':
          // What is absent fails every test.
          if (!holds && !this.#has(test.kind, test.match.name)) return true;
          return this.#values(test.kind, test.match.name) !== null;
        case 'path':
          return this.#isPathLeft(test.pattern, holds);
        case 'identity':
          return this.#identity();
        case 'method':
          return !holds || test.method !== 'CONNECT' || this.#cls.kind === 'none';
        default:
          return true;
      }
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      this.#unexamined(test.kind === 'path' ? test.pattern : testKey(test));
      return false;
    }
  }

  #has(kind: 'header' | 'query', name: string): boolean {
    return this.holding.some((test) => test.kind === kind && test.match.name === name);
  }

  #values(kind: 'header' | 'query', name: string): readonly string[] | null {
    const of = (tests: readonly Test[]): NamedMatch[] =>
      tests.flatMap((test) => (test.kind === kind && test.match.name === name ? [test.match] : []));
    return valuesFor(
      kind,
      of(this.holding),
      of(this.failing),
      !(kind === 'header' && singular.has(name)),
      this.#effort,
    );
  }

  /** One name has at most one value, and expressions are left to the classes of clients. */
  #identity(): boolean {
    const of = (tests: readonly Test[]): NamedMatch[] =>
      tests.flatMap((test) => (test.kind === 'identity' ? [test.match] : []));
    const [exact, ...others] = of(this.holding).filter(({ type }) => type === 'exact');
    if (exact === undefined) return true;
    if (others.some(({ value }) => value !== exact.value)) return false;
    const named = [...of(this.holding)].every((test) => valueHolds(test, exact.value));
    return named && !of(this.failing).some((test) => valueHolds(test, exact.value));
  }

  #isPathLeft(pattern: string, holds: boolean): boolean {
    if (this.#sample !== null && patternHolds(pattern, this.#sample) === holds) return true;
    const found = this.#path();
    if (found !== null) this.#sample = found;
    return found !== null;
  }

  #path(): string | null {
    const of = (tests: readonly Test[]): string[] =>
      tests.flatMap((test) => (test.kind === 'path' ? [test.pattern] : []));
    return this.#paths.sample(this.#cls, of(this.holding), of(this.failing), this.#effort);
  }

  witness(): Witness | null {
    const path = this.#sample ?? this.#path();
    if (path === null) return null;
    return {
      method: this.#method ?? this.#otherMethod(),
      path,
      headers: this.#fields('header', this.#given.headers),
      query: this.#fields('query', this.#given.query),
      bare: !this.failing.some(({ kind }) => kind === 'bare'),
      grpc: this.holding.some(({ kind }) => kind === 'grpc'),
    };
  }

  #otherMethod(): string {
    const refused = new Set<string>();
    for (const test of this.failing) if (test.kind === 'method') refused.add(test.method);
    const usual = methods.find((method) => !refused.has(method));
    if (usual !== undefined) return usual;
    for (let i = 1; ; i++) if (!refused.has(`ANY${i}`)) return `ANY${i}`;
  }

  #fields(kind: 'header' | 'query', given: GivenParts['headers']): (readonly [name: string, value: string])[] {
    const fields: (readonly [string, string])[] = [];
    const names = new Set<string>();
    if (given !== undefined) for (const [name, values] of given) for (const value of values) fields.push([name, value]);
    for (const test of this.holding) if (test.kind === kind) names.add(test.match.name);
    for (const name of names) for (const value of this.#values(kind, name) ?? []) fields.push([name, value]);
    return fields;
  }
}

function given(
  kind: ValueKind,
  fields: ReadonlyMap<string, readonly string[]> | undefined,
  match: NamedMatch,
): boolean | undefined {
  const values = fields?.get(match.name);
  return values === undefined ? undefined : values.some((value) => sentHolds(kind, match, value));
}
