import http2 from 'node:http2';
import type { Socket } from 'node:net';
import type { Admitted } from '../../../lib/proxy/http/admitted.ts';
import { appLimits } from '../../../lib/proxy/http2/app/limits.ts';

type Connect = (admitted: Admitted, done: (error: Error | null, socket: Socket) => void) => void;
type Waiter = (error: Error | null, session: http2.ClientHttp2Session | null) => void;

interface PooledSession {
  readonly session: http2.ClientHttp2Session;
  streams: number;
  resets: number;
  /** No new streams: GOAWAY, closing, or broken. */
  retired: boolean;
}

/** Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows. */
export class Http2Pool {
  readonly #authority: string;
  readonly #connect: Connect;
  readonly #lanes: PooledSession[] = [];
  #connecting = false;
  readonly #waiting: Waiter[] = [];

  constructor(authority: string, connect: Connect) {
    this.#authority = authority;
    this.#connect = connect;
  }

  /**
   * Opens a stream, at once if a session has room. The headers are a raw list, pseudo-headers first.
   *
   * @param isWanted asked again after a wait: the client may be gone.
   */
  request(
    admitted: Admitted,
    headers: string[],
    options: http2.ClientSessionRequestOptions,
    isWanted: () => boolean,
    done: (error: Error | null, stream: http2.ClientHttp2Stream | null) => void,
  ): void {
    const lane = this.#lanes.find((candidate) => !candidate.retired && candidate.streams < limitOf(candidate));
    if (lane !== undefined) {
      this.#open(lane, headers, options, done);
      return;
    }
    this.#session(admitted, (error, session) => {
      const fresh = this.#lanes.find((candidate) => candidate.session === session);
      // To reset what has not left yet costs the app nothing.
      if (!isWanted()) done(new Error('no longer wanted'), null);
      else if (error !== null || fresh === undefined) done(error ?? new Error('no session'), null);
      // Many may have waited for this one session: go round again, so that none exceeds the app's limit.
      else if (fresh.streams >= limitOf(fresh)) this.request(admitted, headers, options, isWanted, done);
      else this.#open(fresh, headers, options, done);
    });
  }

  #open(
    lane: PooledSession,
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
      if (stream.rstCode !== http2.constants.NGHTTP2_NO_ERROR && ++lane.resets >= appLimits.resets) this.#retire(lane);
      if (lane.retired && lane.streams === 0) lane.session.close();
    });
    done(null, stream);
  }

  #session(admitted: Admitted, waiter: Waiter): void {
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
    this.#connect(admitted, (error, socket) => {
      if (error !== null) return settle(error, null);
      const session = http2.connect(this.#authority, {
        createConnection: () => socket,
        settings: { enablePush: false, initialWindowSize: appLimits.streamWindow },
        // Header blocks are bounded by the client's side already; the app is ours.
        maxHeaderListPairs: appLimits.headerFields,
        maxSessionMemory: 64,
      });
      const lane: PooledSession = { session, streams: 0, resets: 0, retired: false };
      const retire = (): void => this.#retire(lane);
      session.on('goaway', retire);
      session.on('close', () => {
        retire();
        settle(new Error('the application closed the session'), null);
      });
      session.on('error', retire);
      // The session reads from the handle itself; of the stream it needs to hear only that the app has ended it. Otherwise
      // the next request would leave on a connection that is gone. With an error: half an answer is not a whole one.
      socket.once('end', () => session.destroy(new Error('the application closed the session')));
      setImmediate(() => socket.resume());
      // An app that speaks no HTTP/2 never sends SETTINGS: wait for them, so that it is a connect failure and not a hang.
      session.once('remoteSettings', () => {
        session.setLocalWindowSize(appLimits.connectionWindow);
        this.#lanes.push(lane);
        settle(null, session);
      });
    });
  }

  #retire(lane: PooledSession): void {
    lane.retired = true;
    const at = this.#lanes.indexOf(lane);
    if (at !== -1) this.#lanes.splice(at, 1);
  }

  close(): void {
    for (const { session } of [...this.#lanes]) session.destroy();
  }
}

function limitOf(lane: PooledSession): number {
  const { maxConcurrentStreams = appLimits.defaultStreams } = lane.session.remoteSettings;
  return Math.min(appLimits.streams, Math.max(1, maxConcurrentStreams));
}
