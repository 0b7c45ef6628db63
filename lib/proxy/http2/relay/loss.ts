import { CodedError } from '../../../errors/coded-error.ts';
import type { LostBy } from '../../http/retry.ts';
import type { ExchangeLoss } from '../app/app-exchange.ts';
import { errorCode, reasonName } from '../session/protocol.ts';

/*
 * What the loss of an exchange with the app means for the client's stream. Of what the app says of its stream, or we of its
 * connection, nothing is said of the client's, except that it was cancelled or not processed.
 */

/** What an app has said of its stream is true of the client's, and says more than any response of ours. */
export class ToldByReset extends CodedError {
  readonly reset: number;
  /**
   * @param reset REFUSED_STREAM: the app has done nothing with the request (RFC 9113 8.7), and it cannot be sent again from
   * here. CANCEL: a gRPC server ends a call so, at its deadline for one; UNAVAILABLE would ask for another one.
   */
  constructor(reset: typeof errorCode.refusedStream | typeof errorCode.cancel) {
    const code = reset === errorCode.cancel ? 'ERR_SALLYPORT_CANCELLED' : 'ERR_SALLYPORT_NOT_PROCESSED';
    super(code, `the application ended the stream: ${reasonName(reset)}`);
    this.reset = reset;
  }
}

/** Whether the request may be sent again depends on it. */
export function lostBy(loss: ExchangeLoss): LostBy {
  if (loss.kind === 'connection') return loss.by;
  return loss.kind === 'reset' && loss.code === errorCode.refusedStream ? 'unprocessed' : 'other';
}

/** The code that ends the stream of a client that has the response's head. */
export function clientReset(loss: ExchangeLoss): number {
  return loss.kind === 'reset' && loss.code === errorCode.cancel ? errorCode.cancel : errorCode.internalError;
}

/**
 * What has become of the request of a client that has no head.
 *
 * @param isAnswered some of a response, a 1xx, had come.
 */
export function errorOf(loss: Exclude<ExchangeLoss, { kind: 'fault' }>, isAnswered: boolean, isGrpc: boolean): Error {
  switch (loss.kind) {
    case 'connection':
      return loss.error;
    case 'unread':
      // As over HTTP/1: 504.
      return new CodedError('ERR_SALLYPORT_REQUEST_TIMEOUT', 'the application has read no content for too long');
    case 'reset':
      if (loss.code === errorCode.refusedStream && !isAnswered) return new ToldByReset(loss.code);
      if (loss.code === errorCode.cancel && isGrpc) return new ToldByReset(loss.code);
      return new Error('the application closed the stream');
  }
}

/** For telemetry: what ended the response. */
export function streamError(loss: ExchangeLoss): string {
  return loss.kind === 'reset' ? `h2(${reasonName(loss.code)})` : 'unclassified';
}
