import type { ErrorCode } from './error-codes.ts';
import type { FaultCode } from './faults.ts';
import type { ProblemCode } from './problems.ts';

/** Any code of a catalogue: a fault may be of a document that a variable or a flag names, or our own. */
export type AnyCode = FaultCode | ProblemCode | ErrorCode;

/** What is said to a person of one fault. */
export interface Complaint {
  readonly code: AnyCode;
  readonly message: string;
  /** The remedy, in a few words; empty where the message says it, or the code's has to do. */
  readonly hint: string;
}

/** `"loud" is not known (one of trace, …) [bad-choice]` */
export function complaintText({ code, message, hint }: Complaint): string {
  return `${message}${hint === '' ? '' : ` (${hint})`} [${code}]`;
}

/** Fields of a line of the log that says what is wrong. */
export interface CodedFields {
  readonly code: AnyCode;
  readonly [field: string]: unknown;
}

/** The log as those see it who write warnings and errors: none without a code. */
export interface CodedLog {
  info(fields: object, message: string): void;
  warn(fields: CodedFields, message: string): void;
  error(fields: CodedFields, message: string): void;
}
