import type { ExplainJson, ExplainQuery } from '../policy/explain.ts';
import { askedText } from './asked-text.ts';
import type { CoverageReport } from './coverage.ts';
import type { Mismatch } from './judge.ts';

/** One question, answered and held against what was expected. It passes where there is no mismatch. */
export interface CaseResult {
  /** Of the case and of its variant; null where neither has one. */
  readonly name: string | null;
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly query: ExplainQuery;
  /** Which of `everyone`, or a client's name. */
  readonly who: string | null;
  /** How often it was asked; the answer is the last one. */
  readonly repeat: number;
  readonly answer: ExplainJson;
  readonly mismatches: readonly Mismatch[];
}

export interface TestTotals {
  readonly passed: number;
  readonly failed: number;
  readonly files: number;
  /** Ports that cases ask about and that no Server has: what answers there is a default. Ascending. */
  readonly portsWithoutServer: readonly number[];
}

/** A form of output for programs, each part of it text as it comes. */
export interface TestFormat {
  begin(): string;
  result(result: CaseResult): string;
  end(totals: TestTotals, coverage: CoverageReport): string;
}

export function isPassed({ mismatches }: CaseResult): boolean {
  return mismatches.length === 0;
}

/** What was asked, by whom and how often, in one line. */
export function questionText({ query, who, repeat }: CaseResult): string {
  const times = repeat === 1 ? '' : `, the last of ${repeat} at once`;
  return `${askedText(query)}${who === null ? '' : ` (${who})`}${times}`;
}

/** The case in one line: its name, if it has one, and what was asked. */
export function resultTitle(result: CaseResult): string {
  const { name } = result;
  return name === null ? questionText(result) : `${name}: ${questionText(result)}`;
}

/** Field by field, what was expected or what was answered. */
export function expectedText({ mismatches }: CaseResult): string {
  return mismatches.map(({ field, expected }) => named(field, expected)).join(', ');
}
export function gotText({ mismatches }: CaseResult): string {
  return mismatches.map(({ field, got }) => named(field, got)).join(', ');
}

function named(field: string, value: string): string {
  return field === 'verdict' ? value : `${field} ${value}`;
}
