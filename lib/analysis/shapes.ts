import type { Authorization, GrantList, TlsRule } from '../policy/decide/client-match.ts';
import type { CompiledRule, RateLimit } from '../policy/decide/policy-index.ts';
import type { IdentitySet } from '../policy/identities.ts';
import type { NetworkSet } from '../policy/networks.ts';
import { refText } from '../resource-ref.ts';
import type { Link } from './chains.ts';
import { testKey } from './tests.ts';

/** Numbers for what decides alike: equal for equal pieces, of whichever policy they are. */
export class Shapes {
  readonly #numbers = new Map<string, number>();
  readonly #known = new WeakMap<object, number>();

  of(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.#numbers.size;
      this.#numbers.set(text, number);
    }
    return number;
  }

  #once(piece: object, text: () => string): number {
    let number = this.#known.get(piece);
    if (number === undefined) {
      number = this.of(text());
      this.#known.set(piece, number);
    }
    return number;
  }

  networks(set: NetworkSet | null): number {
    if (set === null) return -1;
    return this.#once(set, () => `n ${set.intervals(4).join(';')} ${set.intervals(6).join(';')}`);
  }

  identities(set: IdentitySet): number {
    return this.#once(set, () => `i ${[...set.exact].sort().join()} ${[...set.suffixes].sort().join()}`);
  }

  grant(grant: Authorization): number {
    return this.#once(grant, () => {
      const { ref, audit, networks, tls, probe = '' } = grant;
      return `g ${refText(ref)} ${audit} ${probe} ${this.networks(networks)} ${this.tls(tls)}`;
    });
  }

  tls(tls: TlsRule): string {
    return tls.kind === 'identities' ? String(this.identities(tls.identities)) : tls.kind;
  }

  grants(list: GrantList): number {
    return this.#once(list, () => {
      const tail = list.tail === null ? '' : this.grants(list.tail);
      return `l ${list.entries.map((grant) => this.grant(grant)).join()} ${tail}`;
    });
  }

  /** What it does to the requests it is found for, whatever its route is called. */
  rule(rule: CompiledRule): number {
    return this.#once(rule, () => `r ${this.grants(rule.grants)} ${rule.effects} ${rule.sealed}`);
  }

  link(link: Link): number {
    return this.#once(link, () => `k ${this.found(link)} ${link.tests.map(testKey).join('\u0000')}`);
  }

  /** What it does where it is found, whatever was asked to find it. */
  found({ rule, prefix, literal }: Link): number {
    return this.of(`f ${this.rule(rule)} ${JSON.stringify([literal, rule.redirect === null ? '' : prefix])}`);
  }

  /** The same, but for the spelling of its path where it is a matter of none. */
  done({ rule, prefix, literal }: Link, respelled: boolean): string {
    const shape = this.rule(rule);
    if (rule.redirect === null && !respelled) return `${shape}`;
    return `${shape} ${JSON.stringify([rule.redirect === null ? '' : prefix, respelled ? literal : ''])}`;
  }

  /** The same but for whom it lets in. */
  effects({ rule, prefix, literal }: Link): string {
    return JSON.stringify([rule.effects, rule.sealed, literal, rule.redirect === null ? '' : prefix]);
  }

  limit(limit: RateLimit | null): number {
    if (limit === null) return -1;
    const overrides = [...limit.overrides].map(([name, { entry, rate }]) => `${name} ${entry} ${rate}`);
    return this.of(`q ${limit.total} ${limit.identity} ${overrides.join()}`);
  }
}
