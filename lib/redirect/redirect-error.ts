import type { Complaint } from '../errors/complaint.ts';
import type { FaultCode } from '../errors/faults.ts';

/** Rules cannot be set. `message` says why; `hint` is the remedy, empty where none is known. */
export class RedirectError extends Error implements Complaint {
  readonly code: FaultCode;
  readonly hint: string;
  constructor(code: FaultCode, message: string, hint: string) {
    super(message);
    this.code = code;
    this.name = 'RedirectError';
    this.hint = hint;
  }
}
