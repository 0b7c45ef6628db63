import type { Coded } from './errors/problems.ts';

/** One fault or doubt in what a user wrote. `check`, `run` and reload print the same ones. */
export type Problem = Coded & Statement;

interface Statement {
  readonly message: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly resource: { readonly kind: string; readonly namespace: string; readonly name: string } | null;
  /** The remedy, one sentence; empty where none is known. */
  readonly hint: string;
}
