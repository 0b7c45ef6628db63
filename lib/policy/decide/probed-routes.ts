import type { ResourceRef } from '../../resource-ref.ts';
import { byteText } from '../bytes.ts';
import { healthCheck } from '../probes.ts';
import { type Authorization, GrantList } from './client-match.ts';
import { foldsOf } from './http-routes.ts';
import {
  type CompiledRule,
  compiledRule,
  type RouteMatch,
  type RouteTable,
  type TableOutline,
} from './policy-index.ts';
import type { Question, TableTraits } from './question.ts';

/** One kind of probe: the requests that are it, and who may send them. */
export interface ProbedRequests {
  readonly grant: Authorization;
  /** Null: calls of the gRPC health check. */
  readonly paths: readonly string[] | null;
}

/**
 * A request is a probe by its exact path and method, and by having nothing else: `GET` without content or upgrade, as in
 * Linkerd, or a gRPC call of the health check, whose one message nobody reads here.
 */
class ProbeRequests {
  readonly grant: Authorization;
  readonly respelled: boolean;
  readonly #isCall: boolean;
  readonly #paths: ReadonlySet<string>;
  readonly #folded: ReadonlySet<string>;

  constructor({ grant, paths }: ProbedRequests) {
    this.grant = grant;
    this.#isCall = paths === null;
    const own = (paths ?? [healthCheck]).map(byteText);
    this.#paths = new Set(own);
    this.#folded = new Set(own.flatMap(foldsOf));
    this.respelled = [...this.#folded].some((path) => !this.#paths.has(path));
  }

  has({ request, method, path, folded }: Question): boolean {
    const fits = this.#isCall
      ? request.grpc && method === 'POST' && request.carries !== 'upgrade'
      : method === 'GET' && request.carries === 'nothing';
    return fits && (folded === null ? this.#paths.has(path) : this.#folded.has(folded));
  }
}

/**
 * Routes with the permission of probes on top. A probe keeps the route that it has, and whom that lets in; where it has
 * none, or the default one, its route is `probe` (Linkerd). What a document that cannot be read may cover stays refused.
 */
export class ProbedRoutes implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits;
  /** A probe's permission only comes on top of what the same request has in another spelling. */
  readonly anyCase: ReadonlySet<RouteMatch>;
  readonly namesHosts: boolean;
  readonly #own: RouteTable;
  readonly #outlines: readonly ProbedRequests[];
  readonly #probes: readonly { readonly requests: ProbeRequests; readonly routed: RoutedProbe }[];

  constructor(own: RouteTable, server: ResourceRef, route: ResourceRef, probes: readonly ProbedRequests[]) {
    this.#own = own;
    this.#outlines = probes;
    this.#probes = probes.map((probed) => ({
      requests: new ProbeRequests(probed),
      routed: new RoutedProbe(server, route, probed.grant),
    }));
    this.rules = [...this.#probes.map(({ routed }) => routed.alone.rule), ...own.rules];
    const respelled = own.traits.respelled || this.#probes.some(({ requests }) => requests.respelled);
    this.traits = { ...own.traits, respelled };
    this.anyCase = own.anyCase;
    this.namesHosts = own.namesHosts;
  }

  find(question: Question): RouteMatch | null {
    const found = this.#own.find(question);
    if (found?.rule.sealed === true) return found;
    for (const { requests, routed } of this.#probes) if (requests.has(question)) return routed.with(found);
    return found;
  }

  outline(): TableOutline {
    return { kind: 'probed', own: this.#own.outline(), probes: this.#outlines };
  }
}

/** What a probe of one kind finds: the route that it would have found, and its own permission before that route's. */
class RoutedProbe {
  readonly alone: RouteMatch;
  readonly #server: ResourceRef;
  readonly #route: ResourceRef;
  readonly #grant: Authorization;
  readonly #with = new WeakMap<RouteMatch, RouteMatch>();

  constructor(server: ResourceRef, route: ResourceRef, grant: Authorization) {
    this.#server = server;
    this.#route = route;
    this.#grant = grant;
    const rule = compiledRule({ server, route, grants: new GrantList([grant]) });
    this.alone = { rule, prefix: null, literal: null };
  }

  with(found: RouteMatch | null): RouteMatch {
    if (found === null) return this.alone;
    let both = this.#with.get(found);
    if (both === undefined) {
      both = this.#join(found);
      this.#with.set(found, both);
    }
    return both;
  }

  #join(found: RouteMatch): RouteMatch {
    const { rule } = found;
    const grants = new GrantList([this.#grant], rule.grants);
    if (rule.route.kind === 'default') {
      return { rule: compiledRule({ server: this.#server, route: this.#route, grants }), prefix: null, literal: null };
    }
    return { ...found, rule: { ...rule, grants, deny: Object.freeze({ ...rule.deny }), permits: new Map() } };
  }
}
