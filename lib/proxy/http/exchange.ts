import type { PortPolicy, RequestDecision } from '../../policy/decision.ts';
import type { HeaderList } from '../../request-fields.ts';
import type { ConnectionFacts } from '../connection-facts.ts';
import type { RecordedFacts } from '../recorder.ts';
import type { Refusal } from './refuse.ts';

/** A request as far as it matters to decisions and logs. */
export interface Request extends RecordedFacts {
  /** As on the wire: `HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0`. */
  readonly version: string;
  /** Path and query, byte for byte as received. */
  readonly target: string;
  /**
   * Bytes of memory that its head takes until the response has ended: as received, and as sent to the app. 0 where its
   * connection has counted them (HTTP/2, whose streams have heads before they are requests).
   */
  readonly headBytes: number;
  /**
   * Only where the same request comes again as the same object, on one connection: what was decided on it, null while
   * nothing was.
   */
  decided?: Decided | null;
}

/** A decision that holds for as long as the policy it was made by. */
export interface Decided {
  readonly policy: PortPolicy;
  readonly decision: RequestDecision;
}

/**
 * The client's side of one request and its response, whichever HTTP version carries it: what forwarding needs, so that
 * each way to the app is written once. It is also what policy decides on, so both see the very same strings.
 */
export interface Exchange extends Request {
  readonly connection: ConnectionFacts;
  /** Called at most once, when the client is gone before request and response have both ended. */
  onAborted: (() => void) | null;
  respond(status: number, statusText: string, headers: HeaderList, hasBody: boolean): void;
  /** False when the client is slow: wait for `onDrain`. */
  write(chunk: Buffer): boolean;
  onDrain(resume: () => void): void;
  end(trailers: HeaderList): void;
  /** Ends the message so that the client sees that it is incomplete. */
  abort(): void;
  readonly responded: boolean;
  /** Answers with a refusal, or, when a response has begun, as `abort` (gRPC: synthesized trailers). */
  refuse(refusal: Refusal): void;
}
