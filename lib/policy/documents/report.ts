import type * as z from 'zod';
import type { Coded, CodeOf } from '../../errors/problems.ts';
import type { Problem } from '../../problem.ts';
import { didYouMean, templateHint } from '../nearest.ts';
import type { DocumentMeta } from './types.ts';

export type Path = readonly (string | number)[];

/** For hints: an issue of a shape then has the value that it is about. */
export const withInput = { reportInput: true } as const;

/**
 * Collects what is wrong with one document. An error means that the document is refused, as admission would refuse it:
 * it must have no effect at all.
 */
export class AdmissionReport {
  readonly problems: Problem[] = [];
  readonly #resource: NonNullable<Problem['resource']> | null;
  readonly #locate: (path: Path) => { readonly file: string; readonly line: number; readonly column: number };
  #refused = false;
  readonly #faulty = new Set<string>();

  constructor(
    resource: NonNullable<Problem['resource']> | null,
    locate: (path: Path) => { readonly file: string; readonly line: number; readonly column: number },
  ) {
    this.#resource = resource;
    this.#locate = locate;
  }

  get refused(): boolean {
    return this.#refused;
  }

  /** The document has no effect. */
  refuse(code: CodeOf<'error'>, path: Path, message: string, hint = ''): void {
    this.#refused = true;
    this.#add({ severity: 'error', code }, path, message, hint);
  }

  /** An error that leaves the document in force, where taking it away would loosen more than keeping the rest of it. */
  fault(code: CodeOf<'error'>, path: Path, message: string, hint = ''): void {
    this.#add({ severity: 'error', code }, path, message, hint);
  }

  warn(code: CodeOf<'warning'>, path: Path, message: string, hint = ''): void {
    this.#add({ severity: 'warning', code }, path, message, hint);
  }

  /** A field counts as absent: said where nothing else is wrong with it. */
  warnOfNull(path: Path): void {
    const at = pathText(path);
    if (!this.#faulty.has(at)) this.warn('null-field', path, `${at} has no value, and counts as absent`);
  }

  /** What a shape found, each at its field (`withInput`, if there is to be a hint); `fate` says whether the document is refused. */
  issues(issues: readonly z.core.$ZodIssue[], base: Path, fate: 'refuse' | 'fault'): void {
    for (const issue of issues) {
      const path = [...base, ...(issue.path as Path)];
      if (issue.input === null) {
        this[fate]('null-field', path, `${pathText(path)} has no value: absent, more might be let in than was meant`);
        continue;
      }
      const missing = issue.code === 'invalid_type' && /received undefined$/.test(issue.message);
      const enumerated = issue.code === 'invalid_value' ? `must be one of ${issue.values.join(', ')}` : undefined;
      const text = missing ? 'is required' : (enumerated ?? issue.message.replace(/^Invalid input: /, ''));
      this[fate](missing ? 'missing-field' : 'invalid-field', path, `${pathText(path)} ${text}`, hintFor(issue, path));
    }
  }

  #add(coded: Coded, path: Path, message: string, hint: string): void {
    const { file, line, column } = this.#locate(path);
    if (coded.severity === 'error') this.#faulty.add(pathText(path));
    this.problems.push({
      ...coded,
      message,
      file,
      line,
      column,
      resource: this.#resource,
      hint: templateHint(message) ?? hint,
    });
  }
}

/** How to write what has the wrong form; empty where the message says all there is to say. */
function hintFor(issue: z.core.$ZodIssue, path: Path): string {
  const { input } = issue;
  const template = typeof input === 'string' ? templateHint(input) : null;
  if (template !== null) return template;
  if (issue.code === 'invalid_value' && typeof input === 'string') {
    const values = issue.values.map(String);
    const holding = values.filter((value) => value.toLowerCase().includes(input.toLowerCase()));
    return didYouMean(input, values, input !== '' && holding.length === 1 ? `Did you mean "${holding[0]}"?` : '');
  }
  if (issue.code !== 'invalid_type' || input === undefined) return '';
  if (issue.expected === 'array') return 'Write it as a list, with - before each item or in [ ].';
  if (issue.expected === 'string' && typeof input !== 'object') return 'Write it in quotes.';
  if (issue.expected !== 'object' || typeof input !== 'string') return '';
  return path.at(-2) === 'networks' ? `Write { cidr: ${input.slice(0, 64)} }.` : 'Write its fields: { name: value }.';
}

/** `spec.networks[2].cidr` */
export function pathText(path: Path): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : text === '' ? key : `${text}.${key}`),
    '',
  );
}

/** What is known of a document beside its spec. */
export interface AdmissionContext {
  readonly report: AdmissionReport;
  readonly meta: DocumentMeta;
  /** Where sealed fields stand. */
  readonly sealed: readonly Path[];
  /** Read of pods alone. */
  readonly status: unknown;
}
