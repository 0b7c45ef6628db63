import type { Workbench } from '../workbench.ts';

export interface Target {
  readonly bench: Workbench;
  readonly port: number;
  /** What the Host header says. */
  readonly host: string;
  readonly seconds: number;
  /** Who is asked, as the tables name it; absent where nobody is compared. */
  readonly contender?: string;
}

export interface LoadResult {
  /** Correct answers; mebibytes for bulk. */
  readonly units: number;
  readonly seconds: number;
  /** Null where a unit is no exchange. */
  readonly p50Micros: number | null;
  readonly p99Micros: number | null;
}

/** @throws WrongAnswers, or when the load program itself fails. */
export type Load = (target: Target) => Promise<LoadResult>;

/** The proxy, or the app behind it, did not do what the load asked: no number of such a run is worth anything. */
export class WrongAnswers extends Error {
  constructor(what: string) {
    super(`wrong answers: ${what}`);
    this.name = 'WrongAnswers';
  }
}

/** What a load may take beyond its measured time: starting, connecting, and letting the last answers in. */
export const graceMs = 30_000;
