import { type Finding, foundRules, type SearchBudget } from '../analysis/found-rules.ts';
import type { Authorization, GrantList } from '../policy/decide/client-match.ts';
import type { CompiledPort, CompiledRule, PolicyIndex } from '../policy/decide/policy-index.ts';
import { type ResourceRef, refText } from '../resource-ref.ts';
import { Admitting } from './admitted.ts';

/** What is known of a route's rule: on any port of any pod. */
export type RuleReach =
  | { readonly kind: 'found' | 'unexamined' }
  | { readonly kind: 'never'; readonly takers: ReadonlyMap<string, CompiledRule> };

/** What is known of an authorization. */
export interface AuthorizationReach {
  /** It is asked where it may hold for somebody. */
  applies: boolean;
  /** One that admits whomever it admits; null where somebody has no other. */
  instead: ResourceRef | null;
}

/** Matches that are held against requests in all: some two seconds at most. */
const mostWork = 20_000_000;
/** States of automata that are looked at for that. */
const mostEffort = 60_000_000;

/** Rules and authorizations of documents, gathered from what they become on the ports of one pod after another. */
export class Reach {
  /** By document, then by the place of the rule. */
  readonly rules = new Map<string, Map<number, RuleReach>>();
  readonly authorizations = new Map<string, AuthorizationReach>();
  readonly #work: SearchBudget = { left: mostWork, effort: { left: mostEffort } };
  readonly #admitting = new WeakMap<GrantList, Admitting>();

  add({ servers }: PolicyIndex): void {
    for (const port of servers) {
      this.#addRules(port);
      this.#addAuthorizations(port);
    }
  }

  #addRules({ routes, document }: CompiledPort): void {
    // Of routes that were refused nobody knows what they were to take.
    if (routes === null || document === null || routes.outline().kind === 'refused') return;
    const { namespace } = document;
    const isOpen = ({ route, place }: CompiledRule): boolean =>
      place !== null && this.rules.get(reachKey(namespace, route))?.get(place)?.kind !== 'found';
    if (!routes.rules.some(isOpen)) return;
    for (const [{ route, place }, finding] of foundRules(routes, isOpen, this.#work)) {
      const key = reachKey(namespace, route);
      const known = this.rules.get(key) ?? new Map<number, RuleReach>();
      this.rules.set(key, known);
      if (place !== null) known.set(place, together(known.get(place), finding));
    }
  }

  #addAuthorizations({ document, grants, routes, protocol }: CompiledPort): void {
    if (document === null) return;
    const { namespace } = document;
    this.#addList(namespace, grants, protocol);
    const own = new Set((routes?.rules ?? []).map((rule) => rule.grants));
    own.delete(grants);
    for (const list of own) if (list.tail === grants) this.#addList(namespace, list, protocol);
  }

  #addList(namespace: string, list: GrantList, protocol: CompiledPort['protocol']): void {
    for (const entry of list.entries) {
      if (entry.ref.kind === 'default') continue;
      const key = reachKey(namespace, entry.ref);
      const applies = protocol !== 'opaque' || entry.tls.kind === 'unauthenticated';
      const known = this.authorizations.get(key);
      // Where it does not apply nobody needs it either.
      if (!applies) {
        if (known === undefined) this.authorizations.set(key, { applies, instead: null });
        continue;
      }
      const wider = known?.applies === true && known.instead === null ? null : this.#wider(list, entry);
      if (known === undefined) this.authorizations.set(key, { applies, instead: wider?.ref ?? null });
      else {
        known.instead = wider === null ? null : (known.instead ?? wider.ref);
        known.applies = true;
      }
    }
  }

  #wider(list: GrantList, entry: Authorization): Authorization | null {
    const own = this.#admittingOf(list).wider(entry, true);
    if (own !== null || list.tail === null) return own;
    return this.#admittingOf(list.tail).wider(entry, false);
  }

  #admittingOf(list: GrantList): Admitting {
    const known = this.#admitting.get(list) ?? new Admitting(list);
    this.#admitting.set(list, known);
    return known;
  }
}

export function reachKey(namespace: string, ref: ResourceRef): string {
  return `${namespace} ${refText(ref)}`;
}

/** Found on one port is found; where nothing is known of one port, nothing is known. */
function together(known: RuleReach | undefined, finding: Finding): RuleReach {
  if (finding.kind === 'found' || known?.kind === 'found') return { kind: 'found' };
  if (finding.kind === 'unexamined' || known?.kind === 'unexamined') return { kind: 'unexamined' };
  const takers = new Map(known?.kind === 'never' ? known.takers : []);
  for (const taker of finding.takers) takers.set(`${refText(taker.route)} ${taker.place}`, taker);
  return { kind: 'never', takers };
}
