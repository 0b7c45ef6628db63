/** What the two policies disagree on: each thing once, with how often, an example and the reasons of both. */
import type { Client } from '../../client.ts';
import { clientId } from '../../client.ts';
import type { Reasons } from '../../policy/decision.ts';
import type { ClientLines } from '../../telemetry/client-lines.ts';
import { clip } from '../../telemetry/line-bounds.ts';
import { TokenBucket } from '../../token-bucket.ts';
import type { AskedQuestion } from './question.ts';

/** One policy's part. Names as logs show them; null where it names none. */
export interface JudgedSide {
  readonly verdict: string;
  readonly server: string;
  readonly route: string | null;
  readonly authz: string | null;
  readonly limit: string | null;
  /** Of a redirect. */
  readonly status: number | null;
}

export interface ReasonedSide extends JudgedSide {
  readonly reason: string;
  /** Where nothing let it in: the first of the authorizations that were looked at, and why not. */
  readonly clauses: readonly { readonly authz: string; readonly detail: string }[];
}

/** Plain, so that it can be sent from one thread to another. */
export interface Disagreement {
  readonly subject: string;
  readonly port: number;
  readonly enforced: ReasonedSide;
  readonly candidate: ReasonedSide;
  readonly times: number;
  /** Unix time in milliseconds. */
  readonly firstMs: number;
  readonly lastMs: number;
  /** Identities, and addresses of clients without one. */
  readonly clients: readonly string[];
  /** There were more of them. */
  readonly moreClients: boolean;
  /** As a line for `explain --requests`. */
  readonly example: AskedQuestion;
}

/** What is known of a disagreement when it is first met. */
export interface Met {
  readonly subject: string;
  readonly port: number;
  readonly enforced: JudgedSide;
  readonly candidate: JudgedSide;
}

/** Costs a second walk through both policies. */
export interface Explained {
  readonly enforced: Reasons;
  readonly candidate: Reasons;
  readonly example: AskedQuestion;
}

export const mostDisagreements = 100;
const mostClients = 10;
const mostClauses = 5;
const maxReason = 1024;
/** Reasons that are looked for in a second: who has many things disagreed on shall not make us look for those of each. */
const explainedASecond = 20;
/** And at once, so that no disagreement that is met once goes untold where not even the table is full. */
const explainedAtOnce = mostDisagreements;

export class Disagreements {
  readonly #rows = new Map<string, DisagreementRow>();
  readonly #lines: ClientLines;
  readonly #explanations: TokenBucket;
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;

  constructor(lines: ClientLines, nowMs: () => number) {
    this.#lines = lines;
    this.nowMs = nowMs;
    this.#explanations = new TokenBucket(explainedAtOnce, explainedASecond, nowMs);
  }

  /** Those of before belong to policies that are no more. */
  clear(): void {
    this.#rows.clear();
  }

  /** Null: it is the first of its kind, and reasons have been looked for too often of late. */
  row(met: Met, explain: () => Explained): DisagreementRow | null {
    const key = disagreementKey(met);
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    return this.#explanations.take() ? new DisagreementRow(key, met, explain(), this) : null;
  }

  /** As one of the last hundred. */
  keep(row: DisagreementRow): void {
    if (this.#rows.has(row.key)) return;
    if (this.#rows.size >= mostDisagreements) {
      const [oldest] = [...this.#rows.values()].sort((a, b) => a.lastAt - b.lastAt);
      if (oldest !== undefined) this.#rows.delete(oldest.key);
    }
    this.#rows.set(row.key, row);
  }

  tell(row: DisagreementRow): void {
    this.#lines.tell('The candidate policy would decide otherwise', { cause: '', client: row.key }, () => {
      const { subject, port, enforced, candidate, clients, example } = row.plain();
      return { code: 'candidate-differs', subject, port, enforced, candidate, clients, example };
    });
  }

  all(): Disagreement[] {
    return Array.from(this.#rows.values(), (row) => row.plain());
  }
}

/** Made of names of documents alone, so that clients cannot make as many as they like. */
export function disagreementKey({ subject, port, enforced, candidate }: Met): string {
  return [subject, port, ...sideKey(enforced), ...sideKey(candidate)].join('\n');
}

function sideKey({ verdict, server, route, authz, limit, status }: JudgedSide): readonly (string | number | null)[] {
  return [verdict, server, route, authz, limit, status];
}

export class DisagreementRow {
  readonly key: string;
  readonly #met: Met;
  readonly #explained: Explained;
  readonly #table: Disagreements;
  readonly #clients = new Set<string>();
  readonly #firstMs = Date.now();
  readonly #firstAt: number;
  #moreClients = false;
  #times = 0;
  /** By the table's clock. */
  lastAt: number;

  constructor(key: string, met: Met, explained: Explained, table: Disagreements) {
    this.key = key;
    this.#met = met;
    this.#explained = explained;
    this.#table = table;
    this.#firstAt = table.nowMs();
    this.lastAt = this.#firstAt;
  }

  saw(client: Client): void {
    const name = clip(clientId(client) ?? client.ip.text, 256);
    if (this.#clients.has(name)) return;
    if (this.#clients.size < mostClients) this.#clients.add(name);
    else this.#moreClients = true;
  }

  /** Once more. @param at by the table's clock. */
  add(at: number): void {
    this.#times++;
    this.lastAt = at;
    this.#table.keep(this);
    this.#table.tell(this);
  }

  plain(): Disagreement {
    const { subject, port, enforced, candidate } = this.#met;
    return {
      ...{ subject, port },
      enforced: reasoned(enforced, this.#explained.enforced),
      candidate: reasoned(candidate, this.#explained.candidate),
      ...{ times: this.#times, firstMs: this.#firstMs },
      lastMs: this.#firstMs + Math.round(this.lastAt - this.#firstAt),
      clients: [...this.#clients],
      moreClients: this.#moreClients,
      example: this.#explained.example,
    };
  }
}

function reasoned(side: JudgedSide, { reason, candidates }: Reasons): ReasonedSide {
  // What did not let in where another did is no answer to any question.
  const failed = side.authz === null ? candidates.filter(({ granted }) => !granted) : [];
  const clauses = failed.slice(0, mostClauses).map(({ authz, detail }) => ({
    authz: authz.name,
    detail: clip(detail, 512),
  }));
  return { ...side, reason: clip(reason, maxReason), clauses };
}
