/*
 * CGI (RFC 3875 section 4.1.18), WSGI and Rack give an application every field under a name in which all that is no letter
 * or digit has become `_`, so that `x_admin` and `x-admin` are one. Where policy looks at one of them, or a route writes
 * it, another that folds onto it must not reach the application beside it.
 */

function fold(lower: string): string {
  return lower.replace(/[^a-z0-9]/g, '-');
}

/** Names, in lower case, of which only the exact spelling may come in. */
export class GuardedNames {
  readonly #exact: ReadonlySet<string>;
  readonly #folded: ReadonlySet<string>;
  /** What is no odd name and still folds onto one of these, which are odd themselves. */
  readonly #ordinary: readonly string[];

  constructor(names: Iterable<string>) {
    this.#exact = new Set(names);
    this.#folded = new Set([...this.#exact].map(fold));
    this.#ordinary = [...this.#folded].filter((name) => !this.#exact.has(name));
  }

  /** All that is asked for, beside odd names. */
  get names(): readonly string[] {
    return [...this.#exact, ...this.#ordinary];
  }

  /** What `alias` asks for, beside odd names. */
  get aliases(): readonly string[] {
    return this.#ordinary;
  }

  /** The first name of the request that folds onto one of these without being it; null for nearly all. */
  alias(request: { readonly oddNames: readonly string[]; header(name: string): readonly string[] }): string | null {
    for (const name of request.oddNames) {
      if (!this.#exact.has(name) && this.#folded.has(fold(name))) return name;
    }
    for (const name of this.#ordinary) if (request.header(name).length > 0) return name;
    return null;
  }
}

/** Null, which costs nothing, where there are no names. */
export function guardedNames(names: Iterable<string>): GuardedNames | null {
  const all = [...names];
  return all.length === 0 ? null : new GuardedNames(all);
}
