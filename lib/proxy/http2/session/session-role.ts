import type { IpAddress } from '../../../ip.ts';
import type { Keeper } from '../../kept.ts';
import type { LimitName } from '../../limits.ts';
import type { FlowLimits } from './flow-control.ts';
import type { IntakeLimits } from './intake.ts';
import type { Stream } from './stream.ts';

/** What one side promises the other, and how much it puts up with. */
export interface SessionLimits extends FlowLimits, IntakeLimits {
  /** Whether long work is shared out among the turns of the event loop. */
  readonly takesTurns: boolean;
  /** Our SETTINGS; HEADER_TABLE_SIZE and MAX_FRAME_SIZE stay as they are by default. */
  readonly settings: readonly (readonly [id: number, value: number])[];
  /** What the peer may set ENABLE_PUSH to: a server nothing but 0 (RFC 9113 6.5.2). */
  readonly maxEnablePush: 0 | 1;
  /** Bytes of a header list as RFC 9113 6.5.2 counts them, and its fields. */
  readonly maxListBytes: number;
  readonly maxFields: number;
  /**
   * Streams that may end in a reset, of the peer (CVE-2023-44487) or of ours for what it did (CVE-2025-8671): at once, and
   * a tenth of them a second; null: any number.
   */
  readonly maxResets: number | null;
}

/** What frames mean for the peer that sends them: a client or the app. */
export interface SessionRole<S extends Stream> {
  /** Whose connection it is; null for the app's. */
  readonly client: IpAddress | null;
  /** Who pays for what is kept of what it sends. */
  readonly keeper: Keeper;
  /** The highest stream of the peer that we may have acted on. */
  readonly lastAccepted: number;
  /** A complete header block: bytes [from, to), lent. Undefined: of a stream that is not open. */
  headers(streamId: number, stream: S | undefined, bytes: Buffer, from: number, to: number, endStream: boolean): void;
  /** The peer's SETTINGS have come, for the first time or again. */
  ready(): void;
  /** The peer takes more DATA on the connection. */
  roomGiven(): void;
  /** The peer will take no streams above `lastStreamId` (GOAWAY). */
  goingAway(lastStreamId: number): void;
  /** The peer does not begin with a client's preface where it must. */
  noPreface(): void;
  /** For counting. */
  limitReached(limit: LimitName): void;
  /** For counting: the peer has broken the rules, which ends the connection; the code says how. */
  brokenProtocol(code: number): void;
  /** The connection is about to end, before its streams are. */
  ending(): void;
  destroy(): void;
}
