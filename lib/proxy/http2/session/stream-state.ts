import { errorCode, frameType } from './protocol.ts';

/**
 * Where a stream is in its life (RFC 9113 5.1). There are no reserved ones: pushes are neither made nor wanted. `reset` is
 * the closed of a stream that was broken off, so that frames that were on their way may still come.
 */
export type StreamState = 'idle' | 'open' | 'half-closed (local)' | 'half-closed (remote)' | 'closed' | 'reset';

/** `RST_STREAM` is of either side, or what stands for it: a GOAWAY below the stream, the end of the connection. */
export type StreamEvent = 'HEADERS' | 'END_STREAM received' | 'END_STREAM sent' | 'RST_STREAM';

/** @throws for what cannot happen to such a stream: what the peer may not do is refused before, by `verdictOn`. */
export function afterEvent(state: StreamState, event: StreamEvent): StreamState {
  switch (event) {
    case 'HEADERS':
      if (state === 'idle') return 'open';
      break;
    case 'END_STREAM received':
      if (state === 'open') return 'half-closed (remote)';
      if (state === 'half-closed (local)') return 'closed';
      break;
    case 'END_STREAM sent':
      if (state === 'open') return 'half-closed (local)';
      if (state === 'half-closed (remote)') return 'closed';
      break;
    case 'RST_STREAM':
      if (state !== 'idle') return 'reset';
  }
  throw new Error(`${event} of an HTTP/2 stream that is ${state}`);
}

/** What becomes of a frame. */
export type Verdict =
  | { readonly kind: 'taken' }
  /** It was on its way when the stream ended. */
  | { readonly kind: 'ignored' }
  /** RFC 9113 5.4.2 and 5.4.1. */
  | { readonly kind: 'stream error' | 'connection error'; readonly code: number };

const taken: Verdict = { kind: 'taken' };
const ignored: Verdict = { kind: 'ignored' };
const behindTheEnd: Verdict = { kind: 'stream error', code: errorCode.streamClosed };
const closed: Verdict = { kind: 'connection error', code: errorCode.streamClosed };
const forbidden: Verdict = { kind: 'connection error', code: errorCode.protocolError };

/**
 * What becomes of the peer's frame on a stream in this state; of a type that belongs to no stream, or an unknown one, a
 * connection error.
 *
 * @param mayOpen the peer may open this stream: the client does, with an odd number (RFC 9113 5.1.1).
 */
export function verdictOn(type: number, state: StreamState, mayOpen: boolean): Verdict {
  switch (type) {
    case frameType.headers:
      return state === 'idle' && mayOpen ? taken : verdictOnMessage(state);
    case frameType.data:
      return verdictOnMessage(state);
    case frameType.windowUpdate:
    case frameType.rstStream:
      if (state === 'idle') return forbidden;
      return state === 'closed' || state === 'reset' ? ignored : taken;
    default:
      return forbidden;
  }
}

function verdictOnMessage(state: StreamState): Verdict {
  switch (state) {
    case 'open':
    case 'half-closed (local)':
      return taken;
    case 'half-closed (remote)':
      return behindTheEnd;
    case 'reset':
      return ignored;
    case 'closed':
      return closed;
    case 'idle':
      return forbidden;
  }
}
