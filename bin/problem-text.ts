import { styleText } from 'node:util';
import type { Complaint } from '../lib/errors/complaint.ts';
import { hintOf } from '../lib/errors/problems.ts';
import { oneLine } from '../lib/printable.ts';
import type { Problem } from '../lib/problem.ts';

/** A problem, or a fault of another catalogue that has a place in a file. */
export type PrintedProblem = Complaint & Pick<Problem, 'severity' | 'file' | 'line' | 'column' | 'resource'>;

/** As compilers print it, so that editors can jump there; coloured only where a person reads it on a terminal. */
export function problemText(problem: PrintedProblem, stream: NodeJS.WriteStream): string {
  const { severity, code, line, column, resource } = problem;
  const [file, message, hint] = [problem.file, problem.message, hintOf(problem)].map(oneLine) as [
    string,
    string,
    string,
  ];
  const paint = (format: Parameters<typeof styleText>[0], text: string): string => styleText(format, text, { stream });
  const about = resource === null ? '' : `${oneLine(`${resource.kind} ${resource.namespace}/${resource.name}`)}: `;
  const head = `${paint('bold', `${file}:${line}:${column}`)}: ${paint(severity === 'error' ? 'red' : 'yellow', severity)}`;
  const body = `${head}: ${about}${message} ${paint('dim', `[${code}]`)}`;
  return hint === '' ? body : `${body}\n    ${paint('cyan', 'hint')}: ${hint}`;
}
