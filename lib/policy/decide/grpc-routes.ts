import { byteText } from '../bytes.ts';
import { push } from '../lists.ts';
import type { GrpcMatch, RoutesOf } from '../route-rule.ts';
import { HostGroups } from './host-groups.ts';
import { foldCase } from './path-readings.ts';
import type { CompiledRule, RouteMatch, RouteTable, TableOutline } from './policy-index.ts';
import { noQueryNames } from './query-readings.ts';
import type { Question, TableTraits } from './question.ts';
import { type Entry, eachMatch, entryOf, firstHolding, rank, Traits } from './route-entries.ts';

/**
 * Where the service of a gRPC call ends in its path: at the second slash; -1 for what is none. Service and method may be
 * empty, which is then their name, and further segments are ignored, as in Linkerd.
 */
function endOfService({ method, path }: Question): number {
  return method === 'POST' && path.startsWith('/') ? path.indexOf('/', 1) : -1;
}

const anyCall: GrpcMatch = { service: null, method: null, headers: [] };

/** Entries that name the same parts of a call, by what they name: `service/method`, `service/`, `/method` or `/`. */
class NamedCalls {
  readonly #own = new Map<string, Entry[]>();
  readonly #folded = new Map<string, Entry[]>();

  /** @returns whether it may be found by another spelling. */
  add(literal: string, entry: Entry): boolean {
    const folded = foldCase(literal);
    push(this.#own, literal, entry);
    push(this.#folded, folded, entry);
    return folded !== literal;
  }

  get entries(): Entry[] {
    return [...this.#own.values()].flat();
  }

  get lists(): Entry[][] {
    return [...this.#own.values(), ...this.#folded.values()];
  }

  /** By the name that stands in the path from `from` to `to`. */
  find(question: Question, from: number, to: number): Entry | null {
    if (this.#own.size === 0) return null;
    const name = question.path.slice(from, to);
    const list = question.folded === null ? this.#own.get(name) : this.#folded.get(foldCase(name));
    return firstHolding(list, null, question);
  }
}

class GrpcGroup {
  readonly #entries: Entry[] = [];
  readonly #methods = new NamedCalls();
  readonly #services = new NamedCalls();
  readonly #methodsOfAny = new NamedCalls();
  readonly #calls = new NamedCalls();
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
    const service = byteText(match.service ?? '');
    const method = byteText(match.method ?? '');
    const literal = `${service}/${method}`;
    const entry = entryOf(rule, match, { prefix: null, literal });
    this.#entries.push(entry);
    if (service === '') return (method === '' ? this.#calls : this.#methodsOfAny).add(literal, entry);
    return (method === '' ? this.#services : this.#methods).add(literal, entry);
  }

  /**
   * @returns entries before which there are none to be found by another spelling, beside them at most what is spelled out
   * as well; see `RouteTable.anyCase`.
   */
  seal(): readonly Entry[] {
    const named = [this.#methods, this.#services, this.#methodsOfAny, this.#calls];
    rank(this.#entries, [...named.flatMap(({ lists }) => lists), this.#everything]);
    const first = named.find(({ entries }) => entries.length > 0) ?? this.#calls;
    return first === this.#calls ? this.#entries : first.entries;
  }

  /** In order of precedence. */
  get entries(): readonly Entry[] {
    return [...this.#entries].sort((a, b) => a.rank - b.rank);
  }

  /** Precedence: length of the service, then of the method, then headers. */
  find(question: Question): Entry | null {
    const slash = endOfService(question);
    if (slash === -1) return firstHolding(this.#everything, null, question);
    const next = question.path.indexOf('/', slash + 1);
    const end = next === -1 ? question.path.length : next;
    const named =
      this.#methods.find(question, 1, end) ??
      this.#services.find(question, 1, slash + 1) ??
      this.#methodsOfAny.find(question, slash, end);
    if (named !== null) return named;
    return firstHolding(this.#everything, this.#calls.find(question, slash, slash + 1), question);
  }
}

/** A call is POST to a path of two segments; anything else is found by rules without matches alone. */
export class GrpcRouteTable implements RouteTable {
  readonly rules: CompiledRule[] = [];
  readonly traits = new Traits();
  anyCase: ReadonlySet<RouteMatch> = new Set();
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
    const groups = this.#hosts.groups();
    const entries = groups.flatMap((group) => group.seal());
    // What one host's routes find comes before what another's do.
    if (groups.length === 1) this.anyCase = new Set(entries);
  }

  get namesHosts(): boolean {
    return this.#hosts.named;
  }

  find(question: Question): RouteMatch | null {
    return this.#hosts.first(question, findGrpc);
  }

  outline(): TableOutline {
    const hosts = [...this.#hosts.byName()].map(([hostname, { entries }]) => ({
      hostname,
      entries: entries.flatMap(({ match, rule }) =>
        match !== null && 'path' in match ? [] : [{ match: match === anyCall ? null : match, rule }],
      ),
    }));
    return { kind: 'grpc', hosts };
  }
}

const findGrpc = (group: GrpcGroup, question: Question): Entry | null => group.find(question);

/** Any POST to a path of two segments (Linkerd). */
export class DefaultGrpcRoute implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits = { patterns: 0, queryNames: noQueryNames, guarded: null, respelled: false };
  readonly anyCase: ReadonlySet<RouteMatch>;
  readonly namesHosts = false;
  readonly #default: RouteMatch;

  constructor(rule: CompiledRule) {
    this.rules = [rule];
    this.#default = { rule, prefix: null, literal: null };
    this.anyCase = new Set([this.#default]);
  }

  find(question: Question): RouteMatch | null {
    return endOfService(question) === -1 ? null : this.#default;
  }

  outline(): TableOutline {
    return { kind: 'calls', found: this.#default };
  }
}
