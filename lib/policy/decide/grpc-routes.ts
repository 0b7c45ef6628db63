import { byteText } from '../bytes.ts';
import { push } from '../lists.ts';
import type { GrpcMatch, RoutesOf } from '../route-rule.ts';
import { HostGroups } from './host-groups.ts';
import { foldCase } from './path-readings.ts';
import type { CompiledRule, RouteMatch, RouteTable } from './policy-index.ts';
import { noQueryNames } from './query-readings.ts';
import type { Question, TableTraits } from './question.ts';
import { type Entry, eachMatch, entryOf, firstHolding, rank, Traits } from './route-entries.ts';

/**
 * Service and method of a gRPC call; undefined for what is none. Either may be empty, which is then its name, and further
 * segments are ignored, as in Linkerd.
 */
function grpcTarget({ method: verb, path }: Question): { service: string; method: string } | undefined {
  if (verb !== 'POST') return undefined;
  const [before, service, method] = path.split('/', 3);
  return before === '' && service !== undefined && method !== undefined ? { service, method } : undefined;
}

const anyCall: GrpcMatch = { service: null, method: null, headers: [] };

/** By `service/method`, either empty where any will do. */
type GrpcIndex = Map<string, Entry[]>;

class GrpcGroup {
  readonly #entries: Entry[] = [];
  readonly #own: GrpcIndex = new Map();
  readonly #folded: GrpcIndex = new Map();
  /** Of rules without matches: every request, be it a call or not. */
  readonly #everything: Entry[] = [];

  /** @returns whether some path that is folded already may be another's spelling. */
  add(rule: CompiledRule, match: GrpcMatch | null): boolean {
    if (match === null) {
      const entry = entryOf(rule, anyCall, { prefix: null, literal: null });
      this.#entries.push(entry);
      this.#everything.push(entry);
      return false;
    }
    const literal = `${byteText(match.service ?? '')}/${byteText(match.method ?? '')}`;
    const folded = foldCase(literal);
    const entry = entryOf(rule, match, { prefix: null, literal });
    this.#entries.push(entry);
    push(this.#own, literal, entry);
    push(this.#folded, folded, entry);
    return folded !== literal;
  }

  seal(): void {
    rank(this.#entries, [...this.#own.values(), ...this.#folded.values(), this.#everything]);
  }

  /** Precedence: length of the service, then of the method, then headers. */
  find(question: Question): Entry | null {
    const target = grpcTarget(question);
    let best: Entry | null = null;
    if (target !== undefined) {
      const lists = question.folded === null ? this.#own : this.#folded;
      const service = question.folded === null ? target.service : foldCase(target.service);
      const method = question.folded === null ? target.method : foldCase(target.method);
      if (service !== '' && method !== '') best = firstHolding(lists.get(`${service}/${method}`), null, question);
      if (service !== '') best ??= firstHolding(lists.get(`${service}/`), null, question);
      if (method !== '') best ??= firstHolding(lists.get(`/${method}`), null, question);
      if (best !== null) return best;
      best = firstHolding(lists.get('/'), null, question);
    }
    return firstHolding(this.#everything, best, question);
  }
}

/** A call is POST to a path of two segments; anything else is found by rules without matches alone. */
export class GrpcRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly traits = new Traits();
  readonly #hosts = new HostGroups(() => new GrpcGroup());

  /** Routes are added in the order in which ties are settled; `rules` has one for each rule of the document. */
  add({ hostnames, rules: ruled }: RoutesOf<GrpcMatch>, rules: readonly CompiledRule[]): void {
    this.rules.push(...rules);
    const spec = { hostnames, rules: ruled.map(({ matches }) => ({ matches: matches.length > 0 ? matches : [null] })) };
    eachMatch(spec, rules, (hostname, rule, match) => {
      if (match !== null) this.traits.add(match);
      if (this.#hosts.at(hostname).add(rule, match)) this.traits.respelled = true;
    });
  }

  /** Once, after the last route and before the first question. */
  seal(): void {
    this.traits.seal();
    for (const group of this.#hosts.groups()) group.seal();
  }

  get namesHosts(): boolean {
    return this.#hosts.named;
  }

  find(question: Question): RouteMatch | null {
    return this.#hosts.first(question, findGrpc);
  }
}

const findGrpc = (group: GrpcGroup, question: Question): Entry | null => group.find(question);

/** Any POST to a path of two segments (Linkerd). */
export class DefaultGrpcRoute implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits = { patterns: 0, queryNames: noQueryNames, guarded: null, respelled: false };
  readonly namesHosts = false;
  readonly #default: RouteMatch;

  constructor(rule: CompiledRule) {
    this.rules = [rule];
    this.#default = { rule, prefix: null, literal: null };
  }

  find(question: Question): RouteMatch | null {
    return grpcTarget(question) === undefined ? null : this.#default;
  }
}
