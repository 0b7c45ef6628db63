import { type Ending, internalFault } from '../../guard.ts';
import type { FloodLedger } from './flood-ledger.ts';
import type { FlowControl, StreamWindows } from './flow-control.ts';
import type { Output } from './output.ts';
import { frameType } from './protocol.ts';

/** Who sends DATA. */
export interface Sending {
  readonly id: number;
  readonly windows: StreamWindows;
}

/** Who has data that waits for room. */
export interface Queued extends Ending {
  /** It is in the queue. Nobody else's to set. */
  queued: boolean;
  readonly closed: boolean;
  /** Sends as much as there is room for. True when nothing waits any more. */
  pump(): boolean;
}

/** DATA on its way out: as far as there is room, and the streams whose data waits for some, in the order of their turns. */
export class SendQueue {
  readonly #output: Pick<Output, 'blocked' | 'frame' | 'buffer'>;
  readonly #flow: FlowControl;
  readonly #ledger: Pick<FloodLedger, 'earn'>;
  #waiting = new Set<Queued>();
  #pumping = false;
  #hasNewRoom = false;

  constructor(
    output: Pick<Output, 'blocked' | 'frame' | 'buffer'>,
    flow: FlowControl,
    ledger: Pick<FloodLedger, 'earn'>,
  ) {
    this.#output = output;
    this.#flow = flow;
    this.#ledger = ledger;
  }

  /** Sends bytes [start, to) as far as the windows and the socket have room; returns where it stopped. */
  send(stream: Sending, bytes: Buffer, start: number, to: number): number {
    let from = start;
    const output = this.#output;
    while (from < to && !output.blocked) {
      const step = this.#flow.roomFor(stream.windows, to - from);
      if (step <= 0) break;
      const at = output.frame(frameType.data, 0, stream.id, step);
      bytes.copy(output.buffer, at, from, from + step);
      from += step;
      this.#flow.sent(stream.windows, step);
      this.#ledger.earn(step);
    }
    return from;
  }

  /** The stream waits for room. */
  add(stream: Queued): void {
    if (stream.queued) return;
    stream.queued = true;
    this.#waiting.add(stream);
  }

  remove(stream: Queued): void {
    if (stream.queued) this.#waiting.delete(stream);
  }

  /** The peer has given room for data that may be waiting. */
  roomGiven(): void {
    this.#hasNewRoom = true;
  }

  /**
   * Once for all room that has come at once. Peers give it back frame by frame: data that fills each bit of it at once
   * leaves in ever smaller frames.
   */
  pumpNewRoom(): void {
    if (!this.#hasNewRoom) return;
    this.#hasNewRoom = false;
    this.pump();
  }

  /** Gives everyone a turn, for as long as the output takes data. */
  pump(): void {
    if (this.#pumping || this.#waiting.size === 0) return;
    this.#pumping = true;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const stream of waiting) {
      stream.queued = false;
      try {
        if (!stream.closed && (this.#output.blocked || !stream.pump())) this.add(stream);
      } catch (error) {
        internalFault('an HTTP/2 stream that has room again', stream, error);
      }
    }
    this.#pumping = false;
  }
}
