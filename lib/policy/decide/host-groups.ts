import { remembered } from '../../remembered.ts';

/**
 * Things filed under host names: exact, `*.suffix`, or any host. Host is the first criterion of precedence, so the groups
 * are asked in turn: exact, then wildcards from the longest, then the one for any host.
 */
export class HostGroups<Group> {
  readonly #exact = new Map<string, Group>();
  readonly #wildcard = new Map<string, Group>();
  #any: Group | null = null;
  /** Characters of the longest name; whatever of a host is longer cannot be one, and is not looked up. */
  #longest = 0;
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
    this.#longest = Math.max(this.#longest, key.length);
    let group = groups.get(key);
    if (group === undefined) {
      group = this.#create();
      groups.set(key, group);
    }
    return group;
  }

  /** Whether any group is filed under a name. */
  get named(): boolean {
    return this.#exact.size > 0 || this.#wildcard.size > 0;
  }

  /** The first result that is not null, asking groups in order of precedence. Its host is as `hostName` makes it. */
  first<Asked, Result>(
    asked: Asked & { readonly host: string },
    ask: (group: Group, asked: Asked) => Result | null,
  ): Result | null {
    if (this.named) {
      const name = asked.host;
      const exact = name.length > this.#longest ? undefined : this.#exact.get(name);
      const found = exact === undefined ? null : ask(exact, asked);
      if (found !== null) return found;
      if (this.#wildcard.size > 0) {
        // `*.a.b` needs a dot before its suffix, and whatever stands before that: nothing at all does as well (Linkerd).
        const from = Math.max(0, name.length - this.#longest - 1);
        for (let dot = name.indexOf('.', from); dot !== -1; dot = name.indexOf('.', dot + 1)) {
          const group = this.#wildcard.get(name.slice(dot + 1));
          const found = group === undefined ? null : ask(group, asked);
          if (found !== null) return found;
        }
      }
    }
    return this.#any === null ? null : ask(this.#any, asked);
  }

  /** With the names under which they are filed, wildcards as `*.suffix`; null is any host. */
  *byName(): Generator<readonly [hostname: string | null, group: Group]> {
    yield* this.#exact;
    for (const [suffix, group] of this.#wildcard) yield [`*.${suffix}`, group];
    if (this.#any !== null) yield [null, this.#any];
  }

  groups(): Group[] {
    return [...this.#exact.values(), ...this.#wildcard.values(), ...(this.#any === null ? [] : [this.#any])];
  }
}

/** Host or authority as routes compare it: lower case, without port and without the root's trailing dot. */
export const hostName = remembered((host) => host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase());
