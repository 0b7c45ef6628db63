/**
 * Writes `lib/policy/rust-tables.ts` anew, from the crate that Linkerd matches by: `node test/support/rust-regex/write-tables.ts`.
 * The names stay those that it has; a new version of Unicode may bring scripts, to be added by hand.
 */

import { writeFileSync } from 'node:fs';
import { categories, scripts } from '../../../lib/policy/rust-tables.ts';
import { askRust } from './ask-rust.ts';

type Row = readonly [names: string, ranges: string];

function tablesOf(kind: string, rows: readonly Row[]): Row[] {
  const firsts = rows.map(([names]) => `\\p{${kind}=${names.split(' ')[0]}}`);
  return askRust('tables', firsts).map((line, i): Row => [rows[i]?.[0] ?? '', line.split('\t')[1] ?? '']);
}

const [d, s, w] = askRust('tables', ['\\d', '\\s', '\\w']).map((line) => line.split('\t')[1] ?? '');
const text = (rows: readonly Row[]): string =>
  rows.map((row) => `  [${row.map((cell) => `'${cell}'`).join(', ')}],`).join('\n');
writeFileSync(
  new URL('../../../lib/policy/rust-tables.ts', import.meta.url),
  `/*
 * What Rust's crate regex knows of Unicode (16.0), and so Linkerd: written by test/support/rust-regex/write-tables.ts. Of each
 * set its ranges in base 36: the distance from the end of the range before, and behind a plus the length less one.
 */

export const perlClasses = {
  d: '${d}',
  s: '${s}',
  w: '${w}',
} as const;

/** Names in lower case, as Rust compares them: without spaces, hyphens and underscores. */
export type NamedRanges = readonly [names: string, ranges: string];

/** General categories. */
export const categories: readonly NamedRanges[] = [
${text(tablesOf('gc', categories))}
];

export const scripts: readonly NamedRanges[] = [
${text(tablesOf('sc', scripts))}
];
`,
);
