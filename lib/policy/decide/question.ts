import type { RequestFacts } from '../decision.ts';
import type { GuardedNames } from './header-names.ts';
import { hostName } from './host-groups.ts';
import type { Parameters, QueryNames, QueryReadings } from './query-readings.ts';

/** Thrown where a value cannot be judged for certain: the request is refused, neither matched nor passed over. */
export class UnexaminedValue extends Error {}

/**
 * Steps that regular expressions may take in one decision, and as many more for each that a port has: 4096 characters and
 * 1024 for one of 32 steps a character, which few exceed that do not count. A step is 20 ns at worst.
 */
const examined = 4096 * 32;
const examinedEach = 1024 * 32;

/** Regular expressions that one request may have compiled: a millisecond each, once. */
const mostCompiled = 32;

/** More values of one field than this are not searched for one that holds. */
const mostHeaderValues = 64;

/** What about a route table decides how a request must be read for it. */
export interface TableTraits {
  /** The request headers that matches look at. */
  readonly guarded: GuardedNames | null;
  /** Some rule's path stands for other bytes than its own when case and other spellings are no matter. */
  readonly respelled: boolean;
  /** Regular expressions in all. */
  readonly patterns: number;
  readonly queryNames: QueryNames;
}

/**
 * One request as route tables are asked about it: a reading of its path and of its query at a time, and whatever is worth
 * remembering from one asking to the next. What it does for one request is bounded; beyond it throws `UnexaminedValue`.
 */
export class Question {
  readonly request: RequestFacts;
  /** The verified identity, or nothing. */
  readonly clientId: string | null;
  readonly method: string;
  /** The reading of the path that is asked about. */
  path: string;
  /** The same as servers without a sense of case take it (see `foldPath`); null to compare byte by byte. */
  folded: string | null = null;
  /** Whether any test has looked at the query. */
  askedQuery = false;
  readonly #traits: TableTraits;
  #host: string | null = null;
  #parameters: Parameters | null = null;
  #query: QueryReadings | null = null;
  #headers: Map<string, readonly string[]> | null = null;
  #examinedLeft: number;
  #compilesLeft = mostCompiled;

  constructor(request: RequestFacts, clientId: string | null, traits: TableTraits) {
    this.request = request;
    this.clientId = clientId;
    this.method = request.method;
    this.path = request.path;
    this.#traits = traits;
    this.#examinedLeft = examined + examinedEach * traits.patterns;
  }

  /** Lower case, without port. */
  get host(): string {
    this.#host ??= hostName(this.request.host);
    return this.#host;
  }

  header(name: string): readonly string[] {
    this.#headers ??= new Map();
    let values = this.#headers.get(name);
    if (values === undefined) {
      values = this.request.header(name);
      if (values.length > mostHeaderValues) {
        throw new UnexaminedValue(`header ${name} has more than ${mostHeaderValues} values and a rule must examine it`);
      }
      this.#headers.set(name, values);
    }
    return values;
  }

  get queryReadings(): QueryReadings {
    if (this.#query === null) {
      const read = this.#traits.queryNames.read(this.request.query);
      if (typeof read === 'string') throw new UnexaminedValue(read);
      this.#query = read;
    }
    return this.#query;
  }

  /** The reading of the query that is asked about; null for Linkerd's. */
  set parameters(parameters: Parameters | null) {
    this.#parameters = parameters;
  }

  parameter(name: string): readonly string[] {
    this.askedQuery = true;
    return (this.#parameters ?? this.queryReadings.own).get(name) ?? none;
  }

  /** Before a regular expression is compiled for values beyond ASCII, which is put off until one comes. */
  compile(what: string): void {
    if (--this.#compilesLeft < 0) {
      throw new UnexaminedValue(
        `${what} is not ASCII, and more regular expressions than ${mostCompiled} are not ready for it`,
      );
    }
  }

  /** Before a regular expression that takes so many steps a character looks at a value. */
  examine(value: string, steps: number, what: string): void {
    this.#examinedLeft -= value.length * Math.max(steps, 32);
    if (this.#examinedLeft < 0) {
      throw new UnexaminedValue(`${what} is too long for the regular expressions that must examine it`);
    }
  }
}

const none: readonly string[] = [];
