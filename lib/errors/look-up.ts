import { errorCatalogue } from './error-codes.ts';
import { faultCatalogue } from './faults.ts';
import { problemCatalogue } from './problems.ts';

/** What a code means, and what to do about it: a sentence each. */
export interface CodeMeaning {
  /** Where a person meets it, such as `an error of a document`. */
  readonly kind: string;
  readonly meaning: string;
  readonly remedy: string;
}

const severities = { error: 'an error', warning: 'a warning', either: 'an error or a warning' } as const;
const places = {
  variable: 'a fault of a variable',
  command: 'a fault of a command',
  identity: 'a fault of a certificate',
  log: 'a line of the log',
} as const;
const ends = {
  start: 'the proxy does not start',
  request: 'a request fails',
  handshake: 'a TLS handshake fails',
} as const;

/** Every code there is. */
export const allCodes: readonly string[] = [errorCatalogue, faultCatalogue, problemCatalogue].flatMap((catalogue) =>
  Object.keys(catalogue),
);

/** What a code means, wherever it has been met: once for each catalogue that has it; empty for what is none. */
export function meaningsOf(code: string): readonly CodeMeaning[] {
  const found: CodeMeaning[] = [];
  const error = Object.entries(errorCatalogue).find(([known]) => known === code)?.[1];
  if (error !== undefined) found.push({ kind: ends[error.ends], meaning: error.meaning, remedy: error.remedy });
  const fault = Object.entries(faultCatalogue).find(([known]) => known === code)?.[1];
  if (fault !== undefined) found.push({ kind: places[fault.place], meaning: fault.meaning, remedy: fault.remedy });
  const problem = Object.entries(problemCatalogue).find(([known]) => known === code)?.[1];
  if (problem !== undefined) {
    const kind = `${severities[problem.severity]} of a document`;
    found.push({ kind, meaning: problem.meaning, remedy: problem.remedy });
  }
  return found;
}
