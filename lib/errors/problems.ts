import { documentProblems } from './document-problems.ts';
import { fileProblems } from './file-problems.ts';
import { linkProblems } from './link-problems.ts';
import { podProblems } from './pod-problems.ts';
import { reviewProblems } from './review-problems.ts';

/**
 * Every code that a problem may have. Commands and lib/errors/README.md print its meaning and remedy; all others import types
 * alone from here, and so load none of the text.
 */
export const problemCatalogue = {
  ...fileProblems,
  ...documentProblems,
  ...linkProblems,
  ...podProblems,
  ...reviewProblems,
} as const;

type Catalogue = typeof problemCatalogue;

export type ProblemCode = keyof Catalogue;

/** The codes that a problem of this severity may have. */
export type CodeOf<Severity extends 'error' | 'warning'> = {
  [Code in ProblemCode]: Catalogue[Code]['severity'] extends Severity | 'either' ? Code : never;
}[ProblemCode];

/** Severity and code as they fit together. */
export type Coded =
  | { readonly severity: 'error'; readonly code: CodeOf<'error'> }
  | { readonly severity: 'warning'; readonly code: CodeOf<'warning'> };

/** What it came with, or else the catalogue's remedy; of a code of another catalogue none. */
export function hintOf({ code, hint }: { readonly code: string; readonly hint: string }): string {
  if (hint !== '' || !Object.hasOwn(problemCatalogue, code)) return hint;
  return problemCatalogue[code as ProblemCode].remedy;
}

/** With the catalogue's remedy, where the problem came with no better one. */
export function withRemedy<P extends { readonly code: ProblemCode; readonly hint: string }>(problem: P): P {
  return { ...problem, hint: hintOf(problem) };
}
