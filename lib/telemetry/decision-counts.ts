/** One decision by its line of the record without time and count, and how often it was made. Times are Unix milliseconds. */
export interface CountedDecision {
  readonly text: string;
  /** The field of the reason behind it; empty where there is none. */
  readonly reason: string;
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** What is counted, and how many decisions are no longer. */
export interface DecisionTally {
  readonly counted: readonly CountedDecision[];
  readonly lost: number;
}

/** Different decisions that are counted apart, and the characters that they may take: whatever clients ask, and for ever. */
interface MostCounted {
  readonly decisions: number;
  readonly chars: number;
}

/**
 * Decisions since the start, each different one once with its count. Where there are more than may be kept, half are dropped
 * and counted as lost, of whatever there is most: of what was refused or of what was not, of one client, of one method and
 * first segment of a path, the oldest first. So a flood pushes out itself, and what comes once a day stays.
 */
export class DecisionCounts {
  #counted = new Map<string, { -readonly [K in keyof CountedDecision]: CountedDecision[K] }>();
  readonly #most: MostCounted;
  #chars = 0;
  #lost = 0;

  constructor(most: MostCounted = { decisions: 2048, chars: 1024 * 1024 }) {
    this.#most = most;
  }

  add({ text, reason, count, firstMs, lastMs }: CountedDecision): void {
    if (!this.#again(text, count, firstMs, lastMs)) this.#begin(text, reason, count, firstMs, lastMs);
  }

  /** One decision, made now. */
  one(text: string, reason: string, nowMs: number): void {
    if (!this.#again(text, 1, nowMs, nowMs)) this.#begin(text, reason, 1, nowMs, nowMs);
  }

  lose(decisions: number): void {
    this.#lost += decisions;
  }

  tally(): DecisionTally {
    return { counted: [...this.#counted.values()], lost: this.#lost };
  }

  #again(text: string, count: number, firstMs: number, lastMs: number): boolean {
    const known = this.#counted.get(text);
    if (known === undefined) return false;
    known.count += count;
    if (firstMs < known.firstMs) known.firstMs = firstMs;
    if (lastMs > known.lastMs) known.lastMs = lastMs;
    return true;
  }

  #begin(text: string, reason: string, count: number, firstMs: number, lastMs: number): void {
    this.#counted.set(text, { text, reason, count, firstMs, lastMs });
    this.#chars += text.length + reason.length;
    if (this.#counted.size > this.#most.decisions || this.#chars > this.#most.chars) this.#thin();
  }

  #thin(): void {
    const kept = new Set<CountedDecision>();
    let chars = 0;
    for (const each of byTurns([...this.#counted.values()], [outcomeOf, clientOf, kindOf])) {
      chars += each.text.length + each.reason.length;
      if (kept.size >= this.#most.decisions / 2 || chars > this.#most.chars / 2) break;
      kept.add(each);
    }
    this.#chars = 0;
    for (const [text, each] of this.#counted) {
      if (kept.has(each)) this.#chars += text.length + each.reason.length;
      else {
        this.#counted.delete(text);
        this.#lost += each.count;
      }
    }
  }
}

type Grouping = (decision: CountedDecision) => string;

/** One of each group in turn, the groups' own in the order of the groupings that follow; the latest first at the end. */
function byTurns(decisions: readonly CountedDecision[], [grouping, ...finer]: readonly Grouping[]): CountedDecision[] {
  if (grouping === undefined) return decisions.toSorted((a, b) => b.lastMs - a.lastMs);
  let groups = [...Map.groupBy(decisions, grouping).values()].map((group) => byTurns(group, finer));
  const inTurn: CountedDecision[] = [];
  let round = 0;
  for (; groups.length > 1; round++) {
    for (const group of groups) inTurn.push(group[round] as CountedDecision);
    groups = groups.filter(({ length }) => length > round + 1);
  }
  // What one group alone has left needs no turns: most of a flood.
  return [...inTurn, ...(groups[0]?.slice(round) ?? [])];
}

/*
 * What of the text of a record tells its group: quotes of clients' own text are escaped in it, so that none of them is taken
 * for the name of a field.
 */

const permitted = ',"verdict":"permit"';

function outcomeOf({ text }: CountedDecision): string {
  return text.includes(permitted) ? 'permit' : 'other';
}

function clientOf({ text }: CountedDecision): string {
  return text.slice(0, text.indexOf(',"protocol":'));
}

function kindOf({ text }: CountedDecision): string {
  const [, method = '', segment = ''] = /"method":"([^"]*)","path":"(\/?[^/?"]*)/.exec(text) ?? [];
  return `${method} ${segment}`;
}
