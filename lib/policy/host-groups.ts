/**
 * Things filed under host names: exact, `*.suffix`, or any host. Host is the first criterion of precedence, so the groups
 * are asked in turn: exact, then wildcards from the longest, then the one for any host.
 */
export class HostGroups<Group> {
  readonly #exact = new Map<string, Group>();
  readonly #wildcard = new Map<string, Group>();
  #any: Group | null = null;
  readonly #create: () => Group;

  constructor(create: () => Group) {
    this.#create = create;
  }

  /** The group to file something under; `hostname` null is any host. */
  at(hostname: string | null): Group {
    if (hostname === null) {
      this.#any ??= this.#create();
      return this.#any;
    }
    const wildcard = hostname.startsWith('*.');
    const groups = wildcard ? this.#wildcard : this.#exact;
    const key = wildcard ? hostname.slice(2) : hostname;
    let group = groups.get(key);
    if (group === undefined) {
      group = this.#create();
      groups.set(key, group);
    }
    return group;
  }

  /** The first result that is not null, asking groups in order of precedence. */
  first<Result>(host: string, ask: (group: Group) => Result | null): Result | null {
    if (this.#exact.size > 0 || this.#wildcard.size > 0) {
      const name = hostName(host);
      const exact = this.#exact.get(name);
      const found = exact === undefined ? null : ask(exact);
      if (found !== null) return found;
      if (this.#wildcard.size > 0) {
        // From the second label on: `*.a.b` needs at least one label in the place of the star.
        for (let dot = name.indexOf('.', 1); dot !== -1; dot = name.indexOf('.', dot + 1)) {
          const group = this.#wildcard.get(name.slice(dot + 1));
          const found = group === undefined ? null : ask(group);
          if (found !== null) return found;
        }
      }
    }
    return this.#any === null ? null : ask(this.#any);
  }

  groups(): Group[] {
    return [...this.#exact.values(), ...this.#wildcard.values(), ...(this.#any === null ? [] : [this.#any])];
  }
}

/** Host or authority as routes compare it: lower case, without port and without the root's trailing dot. */
export function hostName(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}
