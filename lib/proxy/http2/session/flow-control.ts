import { defaultWindow, errorCode, maxPayload, maxWindow } from './protocol.ts';

/** The windows of one stream, in bytes of DATA (RFC 9113 5.2, 6.9). */
export class StreamWindows {
  /** What the peer lets us send; negative after it has shrunk its window. */
  send: number;
  /** What the peer may send. */
  receive: number;
  /** What it may send before any is consumed. */
  full: number;
  /** Received, and not consumed. */
  unconsumed = 0;
  /** Consumed, but not yet told to the peer. */
  unannounced = 0;
  /** What has come or left. */
  moved = 0;

  constructor(send: number, receive: number) {
    this.send = send;
    this.receive = receive;
    this.full = receive;
  }
}

/** Bytes of DATA that the peer may send. */
export interface FlowLimits {
  /** On a stream, of which all has been consumed so far, while little is held for the others. */
  readonly grownStreamWindow: number;
  /** On all streams, that may be on their way to us. */
  readonly connectionWindow: number;
}

/**
 * Flow control of one connection. What waits for somebody slow is bounded by the windows of streams and by memory: the
 * connection's window is given back at once, so that no stream can hold what the others need (RFC 9113 5.2.2).
 */
export class FlowControl {
  readonly #limits: FlowLimits;
  #send = defaultWindow;
  #receive: number;
  /** Held for somebody, on all streams. */
  #unconsumed = 0;

  constructor(limits: FlowLimits) {
    this.#limits = limits;
    this.#receive = limits.connectionWindow;
  }

  /** Bytes of DATA that the peer takes on the connection, whatever it takes on a stream. */
  get sendRoom(): number {
    return this.#send;
  }

  /** How many of these bytes may leave in one frame; 0 or less: none for now. */
  roomFor(stream: StreamWindows, bytes: number): number {
    return Math.min(bytes, maxPayload, this.#send, stream.send);
  }

  sent(stream: StreamWindows, bytes: number): void {
    this.#send -= bytes;
    stream.send -= bytes;
    stream.moved += bytes;
  }

  /**
   * WINDOW_UPDATE of the peer.
   *
   * @param stream null for the connection.
   * @returns NO_ERROR, or the error of that stream or connection (RFC 9113 6.9, 6.9.1).
   */
  widen(stream: StreamWindows | null, increment: number): number {
    if (increment === 0) return errorCode.protocolError;
    const window = (stream === null ? this.#send : stream.send) + increment;
    if (stream === null) this.#send = window;
    else stream.send = window;
    return window > maxWindow ? errorCode.flowControlError : errorCode.noError;
  }

  /**
   * The peer has changed SETTINGS_INITIAL_WINDOW_SIZE by so many bytes (RFC 9113 6.9.2).
   *
   * @returns false when the window would be larger than any may be.
   */
  resize(stream: StreamWindows, change: number): boolean {
    stream.send += change;
    return stream.send <= maxWindow;
  }

  /**
   * Takes the payload of DATA off the connection's window.
   *
   * @returns what the peer is to be given back of it now, or 0; -1 when there was no room for it.
   */
  arrived(bytes: number): number {
    this.#receive -= bytes;
    if (this.#receive < 0) return -1;
    const { connectionWindow } = this.#limits;
    const due = connectionWindow - this.#receive;
    if (due < connectionWindow >> 1) return 0;
    this.#receive += due;
    return due;
  }

  /** Takes it off the stream's window; false when there was no room for it. */
  arrivedOn(stream: StreamWindows, bytes: number): boolean {
    stream.receive -= bytes;
    return stream.receive >= 0;
  }

  /** What has arrived is held for somebody, until `consumed` or `settle`. */
  hold(stream: StreamWindows, bytes: number): void {
    stream.unconsumed += bytes;
    stream.moved += bytes;
    this.#unconsumed += bytes;
  }

  /**
   * So many of the held bytes have been dealt with.
   *
   * @param wantsMore false where the peer will send no more.
   * @returns what the peer is to be given back on the stream now, or 0.
   */
  consumed(stream: StreamWindows, bytes: number, wantsMore: boolean): number {
    stream.unconsumed -= bytes;
    this.#unconsumed -= bytes;
    if (!wantsMore) return 0;
    stream.unannounced += bytes;
    if (stream.unannounced < stream.full >> 1) return 0;
    const { grownStreamWindow, connectionWindow } = this.#limits;
    let due = stream.unannounced;
    if (stream.full < grownStreamWindow && this.#unconsumed < connectionWindow) {
      due += grownStreamWindow - stream.full;
      stream.full = grownStreamWindow;
    }
    stream.receive += due;
    stream.unannounced = 0;
    return due;
  }

  /** The stream is over: what it holds may never be dealt with. */
  settle(stream: StreamWindows): void {
    this.#unconsumed -= stream.unconsumed;
  }
}
