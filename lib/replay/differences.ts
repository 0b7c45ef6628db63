import type { Authorizer } from '../policy/decision.ts';
import { Recent } from '../records/recent.ts';
import type { DecisionRecord, Occurrence, RecordedDecision } from '../records/record.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { type Answer, answerTo, type Decision, failedClauses, type PortOf } from './answer.ts';
import type { WantedValues } from './hashed.ts';

/** Worst first. `moved`: answered alike, but by another document, or audited by one alone. */
export const differenceKinds = ['allowed', 'refused', 'otherwise', 'moved'] as const;
export type DifferenceKind = (typeof differenceKinds)[number];

/** Decisions that differ alike, for the same reason. */
export interface Difference {
  readonly change: DifferenceKind;
  readonly port: number | string | null;
  readonly before: Ruling;
  readonly after: Ruling;
  /** The clauses of the new policy that refuse, as `checkout-only identity`; empty where it allows. */
  readonly failed: string;
  count: number;
  first: string | null;
  last: string | null;
  /** Decisions by client, an identity or else an address: of the first `mostClients`; then null stands for all others. */
  readonly clients: Map<string | null, number>;
  readonly examples: Example[];
}

export interface Ruling {
  readonly verdict: RecordedDecision['verdict'];
  readonly audit: boolean;
  readonly server: ResourceRef | null;
  readonly route: ResourceRef | null;
  readonly authz: ResourceRef | null;
}

export interface Example {
  readonly record: DecisionRecord;
  readonly reason: string;
  readonly file: string;
  readonly line: number;
}

export interface ReplayTally {
  /** Of those compared. */
  same: number;
  /** Over a rate limit then; limits are not replayed, so each counts as what it would have been below it. */
  overLimit: number;
  /** Lines that do not say what was decided, where there is nothing else to compare with. */
  notDecided: number;
  /** Differences beyond the number that is kept apart. */
  uncounted: number;
  /** What lines lack that decides, with how many decisions lack it. */
  readonly unknown: Map<string, number>;
}

/**
 * `differences`, and `chars` of all that is kept of lines: for each kind, so that however many are harmless, there is room for
 * what is worse.
 */
const most = { differences: 10_000, clients: 1_000, examples: 2, unknown: 1_000, chars: 16 * 1024 * 1024 } as const;

/** What became of a record: the same each time it comes. */
type ComparedRecord =
  | { readonly kind: 'same' | 'overLimit' | 'notDecided' | 'uncounted' }
  | { readonly kind: 'unknown'; readonly lacks: string }
  | { readonly kind: 'different'; readonly difference: Difference };

/** What is compared with what was recorded, or with another of its kind. */
export interface Against {
  readonly authorizer: Authorizer;
  readonly portOf: PortOf;
  readonly wanted: WantedValues;
}

/** Holds decisions of a log against a policy; what it keeps is bounded, however long the log. */
export class Comparison {
  readonly #after: Against;
  /** Null: what was recorded. */
  readonly #before: Against | null;
  readonly #known = new Recent<DecisionRecord, ComparedRecord>();
  readonly #differences = new Map<string, Difference>();
  readonly #kept: Readonly<Record<DifferenceKind, { differences: number; chars: number }>> = {
    allowed: { differences: 0, chars: 0 },
    refused: { differences: 0, chars: 0 },
    otherwise: { differences: 0, chars: 0 },
    moved: { differences: 0, chars: 0 },
  };
  #decidesOtherwise = false;
  readonly tally: ReplayTally = { same: 0, overLimit: 0, notDecided: 0, uncounted: 0, unknown: new Map() };

  constructor(after: Against, before: Against | null) {
    this.#after = after;
    this.#before = before;
  }

  add(record: DecisionRecord, occurrence: Occurrence): void {
    let compared = occurrence.comesAgain ? this.#known.get(record) : undefined;
    if (compared === undefined) {
      compared = this.#compare(record, occurrence);
      if (occurrence.comesAgain) this.#known.set(record, compared);
    }
    const { count } = occurrence;
    switch (compared.kind) {
      case 'unknown': {
        const { unknown } = this.tally;
        const lacks = unknown.has(compared.lacks) || unknown.size < most.unknown ? compared.lacks : 'something else';
        unknown.set(lacks, (unknown.get(lacks) ?? 0) + count);
        return;
      }
      case 'different':
        this.#addTo(compared.difference, record, occurrence);
        return;
      case 'overLimit':
        this.tally.overLimit += count;
        this.tally.same += count;
        return;
      default:
        this.tally[compared.kind] += count;
    }
  }

  /** Whether a client would have met something else, kept apart or not. */
  get decidesOtherwise(): boolean {
    return this.#decidesOtherwise;
  }

  /** Worst first, and of one kind the most frequent. */
  differences(): Difference[] {
    return [...this.#differences.values()].sort(
      (a, b) => differenceKinds.indexOf(a.change) - differenceKinds.indexOf(b.change) || b.count - a.count,
    );
  }

  #compare(record: DecisionRecord, { file, line }: Occurrence): ComparedRecord {
    const before = this.#decidedBefore(record);
    if (before === null) return { kind: 'notDecided' };
    if ('kind' in before && before.kind === 'unknown') return before;
    const answer = this.#answer(this.#after, record);
    if (answer.kind === 'unknown') return answer;
    const then = rulingOf(before);
    const now = rulingOf(answer);
    const change = changeOf(then, now);
    if (change === null) return { kind: before.verdict === 'rate-limited' ? 'overLimit' : 'same' };
    if (change !== 'moved') this.#decidesOtherwise = true;
    return this.#differenceOf(change, record, then, now, answer, { file, line });
  }

  #decidedBefore(record: DecisionRecord): RecordedDecision | Answer | null {
    return this.#before === null ? record.decided : this.#answer(this.#before, record);
  }

  #answer({ authorizer, portOf, wanted }: Against, record: DecisionRecord): Answer {
    return answerTo(authorizer, record, portOf, wanted);
  }

  #differenceOf(
    change: DifferenceKind,
    record: DecisionRecord,
    before: Ruling,
    after: Ruling,
    answer: Decision,
    place: Pick<Occurrence, 'file' | 'line'>,
  ): ComparedRecord {
    const { reason, candidates } = answer.reasons();
    const failed = isRefused(after) ? failedClauses(candidates) : '';
    const port = record.question.port ?? null;
    const key = JSON.stringify([change, port, before, after, failed]);
    let difference = this.#differences.get(key);
    if (difference === undefined) {
      const kept = this.#kept[change];
      if (kept.differences >= most.differences || !this.#hasRoom(change, key.length)) return { kind: 'uncounted' };
      kept.differences++;
      const counted = { count: 0, first: null, last: null, clients: new Map(), examples: [] };
      difference = { change, port, before, after, failed, ...counted };
      this.#differences.set(key, difference);
    }
    const { examples } = difference;
    const isNew = examples.length < most.examples && !examples.some((known) => areEqual(known.record, record));
    if (isNew && this.#hasRoom(change, JSON.stringify(record).length)) examples.push({ record, reason, ...place });
    return { kind: 'different', difference };
  }

  #addTo(difference: Difference, { question }: DecisionRecord, { count, first, last }: Occurrence): void {
    difference.count += count;
    if (first !== null && (difference.first === null || first < difference.first)) difference.first = first;
    if (last !== null && (difference.last === null || last > difference.last)) difference.last = last;
    const { clients } = difference;
    const named = question.identity ?? question.client;
    const isKept =
      clients.has(named) || (clients.size < most.clients && this.#hasRoom(difference.change, named.length + 64));
    const client = isKept ? named : null;
    clients.set(client, (clients.get(client) ?? 0) + count);
  }

  /** Takes the room, where there is that much. */
  #hasRoom(change: DifferenceKind, chars: number): boolean {
    const kept = this.#kept[change];
    if (kept.chars + chars > most.chars) return false;
    kept.chars += chars;
    return true;
  }
}

/** Equal lines do not always come with one object. */
function areEqual(one: DecisionRecord, other: DecisionRecord): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function rulingOf({ verdict, audit, server, route, authz }: RecordedDecision | Decision): Ruling {
  // A limit is spent by what is let in; replayed are no limits.
  return { verdict: verdict === 'rate-limited' ? 'permit' : verdict, audit, server, route, authz };
}

export function isRefused({ verdict }: Ruling): boolean {
  return verdict === 'deny' || verdict === 'no-route' || verdict === 'invalid';
}

/** Null: the same, as far as both say it. */
function changeOf(before: Ruling, after: Ruling): DifferenceKind | null {
  if (isRefused(before) !== isRefused(after)) return isRefused(before) ? 'allowed' : 'refused';
  if (before.verdict !== after.verdict) return 'otherwise';
  const moved =
    before.audit !== after.audit ||
    differ(before.server, after.server) ||
    differ(before.route, after.route) ||
    differ(before.authz, after.authz);
  return moved ? 'moved' : null;
}

/** One that is not named is not compared: not every line names all. */
function differ(one: ResourceRef | null, other: ResourceRef | null): boolean {
  if (one === null || other === null) return false;
  return one.name !== other.name || one.kind !== other.kind || one.group !== other.group;
}
