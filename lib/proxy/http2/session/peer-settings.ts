import { defaultWindow, errorCode, maxPayload, maxWindow, setting } from './protocol.ts';

/** Bytes of a table of header fields, of either side, before any SETTINGS (RFC 9113 6.5.2). */
export const headerTableBytes = 4096;

const maxFramePayload = 2 ** 24 - 1;

/** Who must say that a table has been made smaller. */
interface TableOwner {
  shrinkTable(): void;
}

/** What the peer has asked for in its SETTINGS (RFC 9113 6.5), and whether it keeps their order. */
export class PeerSettings {
  maxStreams = Number.POSITIVE_INFINITY;
  initialWindow = defaultWindow;
  /** Advice; some end the connection where it is not taken. */
  maxListBytes = Number.POSITIVE_INFINITY;
  /** Its first SETTINGS, the end of its preface, have come (RFC 9113 3.4). */
  haveCome = false;
  readonly #maxEnablePush: number;
  readonly #table: TableOwner;
  #tableBytes = headerTableBytes;
  /** Of our own frames, which are one. */
  #unacknowledged = 1;

  /** @param maxEnablePush what ENABLE_PUSH may be: of a server nothing but 0. */
  constructor(maxEnablePush: 0 | 1, table: TableOwner) {
    this.#maxEnablePush = maxEnablePush;
    this.#table = table;
  }

  /** Takes over one of them; the error of the connection, or NO_ERROR. Unknown ones are ignored. */
  set(id: number, value: number): number {
    switch (id) {
      case setting.headerTableSize:
        if (value < this.#tableBytes) this.#table.shrinkTable();
        this.#tableBytes = value;
        return errorCode.noError;
      case setting.enablePush:
        return value > this.#maxEnablePush ? errorCode.protocolError : errorCode.noError;
      case setting.enableConnectProtocol:
      case setting.noRfc7540Priorities:
        // Switches; nothing else is made of them.
        return value > 1 ? errorCode.protocolError : errorCode.noError;
      case setting.maxConcurrentStreams:
        this.maxStreams = value;
        return errorCode.noError;
      case setting.maxFrameSize:
        return value < maxPayload || value > maxFramePayload ? errorCode.protocolError : errorCode.noError;
      case setting.initialWindowSize:
        if (value > maxWindow) return errorCode.flowControlError;
        this.initialWindow = value;
        return errorCode.noError;
      case setting.maxHeaderListSize:
        this.maxListBytes = value;
        return errorCode.noError;
      default:
        return errorCode.noError;
    }
  }

  /** It has taken over ours. An error where it says so before its own, or once more than there were. */
  acknowledged(): number {
    return !this.haveCome || --this.#unacknowledged < 0 ? errorCode.protocolError : errorCode.noError;
  }
}
