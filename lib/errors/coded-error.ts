import type { ErrorCode } from './error-codes.ts';

/** An error with a code of the catalogue, for whoever looks at it in a program or a log. */
export class CodedError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
