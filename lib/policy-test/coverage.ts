import { refOf } from '../policy/compile/linking.ts';
import type { GrantList } from '../policy/decide/client-match.ts';
import type { PolicyIndex } from '../policy/decide/policy-index.ts';
import { locate, type PolicyDocument } from '../policy/documents/types.ts';
import type { ExplainJson } from '../policy/explain.ts';
import { type ResourceRef, refText } from '../resource-ref.ts';

/*
 * What the cases have exercised of the policy that is in force for their pods: of documents alone, for nobody writes the
 * built-in defaults.
 */

interface Item {
  readonly ref: ResourceRef;
  readonly file: string;
  readonly line: number;
}
export interface AuthorizationCoverage extends Item {
  /** Cases that it let in, be it to be redirected or limited. */
  admitted: number;
  /** Cases for which it was weighed and did not hold. */
  refused: number;
}
export interface RouteCoverage extends Item {
  /** By the rule's place in its document: cases that belonged to it. */
  readonly rules: number[];
}

export interface CoverageReport {
  readonly authorizations: readonly AuthorizationCoverage[];
  readonly routes: readonly RouteCoverage[];
  readonly counts: CoverageCounts;
  /** Of authorizations that admitted and rules that matched, among all of them; 100 where there are none. */
  readonly percent: number;
}
interface CoverageCounts {
  readonly authorizations: readonly [exercised: number, of: number];
  readonly routes: readonly [exercised: number, of: number];
  readonly rules: readonly [exercised: number, of: number];
}

/** Of one set of documents, whichever pods and files ask about it. */
export class Coverage {
  readonly #authorizations = new Map<string, AuthorizationCoverage>();
  readonly #routes = new Map<string, RouteCoverage>();
  /** Rules share their lists, and each ends in its server's. */
  readonly #seen = new Set<GrantList>();

  /** Takes in what is in force for one pod. */
  add(index: PolicyIndex, documents: readonly PolicyDocument[], namespace: string): void {
    const places = new Map<string, PolicyDocument>();
    for (const document of documents) {
      if (document.namespace === namespace) places.set(refText(refOf(document)), document);
    }
    const item = (ref: ResourceRef): Item | null => {
      const document = places.get(refText(ref));
      return document === undefined ? null : { ref, ...locate(document) };
    };
    for (const { grants, routes } of index.servers) {
      this.#addGrants(grants, item);
      for (const rule of routes?.rules ?? []) {
        this.#addGrants(rule.grants, item);
        this.#addRule(rule.route, rule.place, item);
      }
    }
  }

  count({ route, rule, authz, candidates }: ExplainJson): void {
    if (authz !== null) {
      const entry = this.#authorizations.get(refText(authz));
      if (entry !== undefined) entry.admitted += 1;
    }
    for (const candidate of candidates) {
      if (candidate.granted) continue;
      const entry = this.#authorizations.get(refText(candidate.authz));
      if (entry !== undefined) entry.refused += 1;
    }
    if (route === null || rule === null) return;
    const rules = this.#routes.get(refText(route))?.rules;
    const before = rules?.[rule];
    if (rules !== undefined && before !== undefined) rules[rule] = before + 1;
  }

  report(): CoverageReport {
    return reportOf([...this.#authorizations.values()], [...this.#routes.values()]);
  }

  #addGrants(grants: GrantList, item: (ref: ResourceRef) => Item | null): void {
    for (let list: GrantList | null = grants; list !== null && !this.#seen.has(list); list = list.tail) {
      this.#seen.add(list);
      for (const { ref } of [...list.entries, ...list.broken]) {
        const name = refText(ref);
        if (this.#authorizations.has(name)) continue;
        const found = item(ref);
        if (found !== null) this.#authorizations.set(name, { ...found, admitted: 0, refused: 0 });
      }
    }
  }

  #addRule(ref: ResourceRef, place: number | null, item: (ref: ResourceRef) => Item | null): void {
    if (place === null) return;
    const name = refText(ref);
    let route = this.#routes.get(name);
    if (route === undefined) {
      const found = item(ref);
      if (found === null) return;
      route = { ...found, rules: [] };
      this.#routes.set(name, route);
    }
    while (route.rules.length <= place) route.rules.push(0);
  }
}

/** Of several sets of documents together. */
export function joinedReport(reports: readonly CoverageReport[]): CoverageReport {
  return reportOf(
    reports.flatMap(({ authorizations }) => authorizations),
    reports.flatMap(({ routes }) => routes),
  );
}

function reportOf(authorizations: readonly AuthorizationCoverage[], routes: readonly RouteCoverage[]): CoverageReport {
  const rules = routes.flatMap((route) => route.rules);
  const counts: CoverageCounts = {
    authorizations: [authorizations.filter(({ admitted }) => admitted > 0).length, authorizations.length],
    routes: [routes.filter((route) => route.rules.some((count) => count > 0)).length, routes.length],
    rules: [rules.filter((count) => count > 0).length, rules.length],
  };
  const of = counts.authorizations[1] + counts.rules[1];
  const exercised = counts.authorizations[0] + counts.rules[0];
  return { authorizations, routes, counts, percent: of === 0 ? 100 : (exercised / of) * 100 };
}
