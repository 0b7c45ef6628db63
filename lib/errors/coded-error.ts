import type { ErrorCode } from './error-codes.ts';

/** An error with a code of the catalogue, for programs and for readers of the log. */
export class CodedError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The system or library code of an error, or else of its `cause`, and so on; empty where there is none. */
export function systemErrorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (typeof code === 'string' && code !== 'UND_ERR_SOCKET') return code;
  if (cause !== undefined && cause !== error) {
    const inner = systemErrorCode(cause);
    if (inner !== '') return inner;
  }
  return typeof code === 'string' ? code : '';
}

/** The process (EMFILE), or the machine (ENFILE), has no file descriptor left. */
export function isWantOfDescriptors(error: unknown): boolean {
  const code = systemErrorCode(error);
  return code === 'EMFILE' || code === 'ENFILE';
}
