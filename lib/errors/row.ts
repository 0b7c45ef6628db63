/** One code of the catalogue: what it says of the input, and what to do about it. Both one sentence. */
export interface ProblemRow {
  /** `either`: an error or a warning, by what it costs where it stands. */
  readonly severity: 'error' | 'warning' | 'either';
  readonly meaning: string;
  readonly remedy: string;
}

interface Row<Severity extends ProblemRow['severity']> extends ProblemRow {
  readonly severity: Severity;
}

export function error(meaning: string, remedy: string): Row<'error'> {
  return { severity: 'error', meaning, remedy };
}

export function warning(meaning: string, remedy: string): Row<'warning'> {
  return { severity: 'warning', meaning, remedy };
}

export function either(meaning: string, remedy: string): Row<'either'> {
  return { severity: 'either', meaning, remedy };
}
