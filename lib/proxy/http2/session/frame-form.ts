import { errorCode, flag, frameType, maxStreamId } from './protocol.ts';

/** Bytes of a priority, in PRIORITY and HEADERS (RFC 9113 6.2, 6.3). */
export const priorityBytes = 5;

/**
 * What is wrong with a frame whatever has come before it: its stream, or its length (RFC 9113 6).
 *
 * @returns the error that ends the connection; NO_ERROR for one in due form, and for extensions (RFC 9113 5.5).
 */
export function formFault(type: number, flags: number, streamId: number, length: number): number {
  switch (type) {
    case frameType.data:
    case frameType.headers:
    case frameType.continuation:
      return streamId === 0 ? errorCode.protocolError : errorCode.noError;
    case frameType.priority:
      return streamId === 0 ? errorCode.protocolError : sizeFault(length === priorityBytes);
    case frameType.rstStream:
      return streamId === 0 ? errorCode.protocolError : sizeFault(length === 4);
    case frameType.windowUpdate:
      return sizeFault(length === 4);
    case frameType.settings:
      if (streamId !== 0) return errorCode.protocolError;
      return sizeFault((flags & flag.ack) === 0 ? length % 6 === 0 : length === 0);
    case frameType.ping:
      return streamId !== 0 ? errorCode.protocolError : sizeFault(length === 8);
    case frameType.goaway:
      return streamId !== 0 ? errorCode.protocolError : sizeFault(length >= 8);
    case frameType.pushPromise:
      // A client may not send it, and a server was told not to.
      return errorCode.protocolError;
    default:
      return errorCode.noError;
  }
}

function sizeFault(isRight: boolean): number {
  return isRight ? errorCode.noError : errorCode.frameSizeError;
}

/** Whether a priority, which is not used otherwise (RFC 9113 5.3.2), makes a stream depend on itself. */
export function dependsOnItself(streamId: number, bytes: Buffer, at: number): boolean {
  return (bytes.readUInt32BE(at) & maxStreamId) === streamId;
}
