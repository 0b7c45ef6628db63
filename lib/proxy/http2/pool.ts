import http2 from 'node:http2';
import type { Socket } from 'node:net';

type Connect = (done: (error: Error | null, socket: Socket) => void) => void;
type Waiter = (error: Error | null, session: http2.ClientHttp2Session | null) => void;

/** Streams per session when the app names no limit. */
const defaultStreams = 100;

interface Lane {
  readonly session: http2.ClientHttp2Session;
  streams: number;
  /** No new streams: GOAWAY, closing, or broken. */
  retired: boolean;
}

/** Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows. */
export class Http2Pool {
  readonly #authority: string;
  readonly #connect: Connect;
  readonly #lanes: Lane[] = [];
  #connecting = false;
  readonly #waiting: Waiter[] = [];

  constructor(authority: string, connect: Connect) {
    this.#authority = authority;
    this.#connect = connect;
  }

  /** Opens a stream, at once if a session has room. The headers are a raw list, pseudo-headers first. */
  request(
    headers: string[],
    options: http2.ClientSessionRequestOptions,
    done: (error: Error | null, stream: http2.ClientHttp2Stream | null) => void,
  ): void {
    const lane = this.#lanes.find((candidate) => !candidate.retired && candidate.streams < limitOf(candidate));
    if (lane !== undefined) {
      this.#open(lane, headers, options, done);
      return;
    }
    this.#session((error, session) => {
      const fresh = this.#lanes.find((candidate) => candidate.session === session);
      if (error !== null || fresh === undefined) done(error ?? new Error('no session'), null);
      // Many may have waited for this one session: go round again, so that none exceeds the app's limit.
      else if (fresh.streams >= limitOf(fresh)) this.request(headers, options, done);
      else this.#open(fresh, headers, options, done);
    });
  }

  #open(
    lane: Lane,
    headers: string[],
    options: http2.ClientSessionRequestOptions,
    done: (error: Error | null, stream: http2.ClientHttp2Stream | null) => void,
  ): void {
    let stream: http2.ClientHttp2Stream;
    try {
      stream = lane.session.request(headers, options);
    } catch (error) {
      // A session that is going away refuses synchronously; header faults of the client do too.
      done(error as Error, null);
      return;
    }
    lane.streams++;
    stream.once('close', () => {
      lane.streams--;
      if (lane.retired && lane.streams === 0) lane.session.close();
    });
    done(null, stream);
  }

  #session(waiter: Waiter): void {
    this.#waiting.push(waiter);
    if (this.#connecting) return;
    this.#connecting = true;
    let settled = false;
    const settle: Waiter = (error, session) => {
      if (settled) return;
      settled = true;
      this.#connecting = false;
      for (const waiting of this.#waiting.splice(0)) waiting(error, session);
    };
    this.#connect((error, socket) => {
      if (error !== null) return settle(error, null);
      const session = http2.connect(this.#authority, {
        createConnection: () => socket,
        settings: { enablePush: false, initialWindowSize: 1 << 20 },
        // Header blocks are bounded by the client's side already; the app is ours.
        maxHeaderListPairs: 2000,
        maxSessionMemory: 64,
      });
      const lane: Lane = { session, streams: 0, retired: false };
      const retire = (): void => {
        lane.retired = true;
        const at = this.#lanes.indexOf(lane);
        if (at !== -1) this.#lanes.splice(at, 1);
      };
      session.on('goaway', retire);
      session.on('close', () => {
        retire();
        settle(new Error('the application closed the session'), null);
      });
      session.on('error', retire);
      // An app that speaks no HTTP/2 never sends SETTINGS: wait for them, so that it is a connect failure and not a hang.
      session.once('remoteSettings', () => {
        session.setLocalWindowSize(16 << 20);
        this.#lanes.push(lane);
        settle(null, session);
      });
    });
  }

  close(): void {
    for (const { session } of [...this.#lanes]) session.destroy();
  }
}

function limitOf(lane: Lane): number {
  return Math.max(1, lane.session.remoteSettings.maxConcurrentStreams ?? defaultStreams);
}
