import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import tls from 'node:tls';
import type { ClientIdentity } from '../../client.ts';
import type { Deadlines, Expirable } from '../fairness/deadlines.ts';
import type { Asker } from '../fairness/fair-queue.ts';
import { HandshakeTurn, type HandshakeTurns } from '../fairness/handshake-turns.ts';
import type { Line } from '../fairness/line.ts';
import { guarded, internalFault } from '../guard.ts';
import type { HandshakeFailure } from '../recorder.ts';
import {
  closedFailure,
  errorFailure,
  type HandshakeContext,
  internalFailure,
  objectionFailure,
} from './handshake-failure.ts';
import { leaveOutListeners, releaseTls } from './node-tls.ts';
import type { PeerSession } from './peer-session.ts';
import type { Objection } from './shown-certificates.ts';
import { WatchedReads } from './watched-reads.ts';

/** Whom a client is, or that it is none we know. */
export interface JudgedClient {
  readonly kind: 'established';
  readonly socket: tls.TLSSocket;
  readonly identity: ClientIdentity | null;
  /** Null where the client has shown no certificate. */
  readonly session: PeerSession | null;
}

/** The client gave up, or presented a certificate that does not verify. */
export interface FailedHandshake {
  readonly kind: 'failed';
  readonly failure: HandshakeFailure;
}

/** `reads`: to be released at the connection's end, if not before. */
export type Handshake = (JudgedClient & { readonly reads: WatchedReads }) | FailedHandshake;

export function failed(failure: HandshakeFailure): FailedHandshake {
  return { kind: 'failed', failure };
}

/** What all handshakes of a termination share. */
export interface HandshakeServices {
  readonly secureContext: tls.SecureContext;
  readonly turns: HandshakeTurns;
  readonly deadlines: Deadlines;
  readonly context: () => HandshakeContext;
  /** Whom a handshake that TLS has completed was with. */
  readonly judge: (socket: tls.TLSSocket) => JudgedClient | FailedHandshake;
}

/** Where a fault of ours was met. */
const entry = 'a TLS handshake';

const nothing = Buffer.alloc(0);

/** A TLS socket that nobody has taken: its end is all there is to know. */
const ignore = (): void => {};

/**
 * The server's side of TLS on a connection that was accepted. A client is asked for a certificate and need not have one;
 * what it shows is judged when the handshake is over.
 */
export function securedBy(secureContext: tls.SecureContext, stream: Duplex, alpn: Buffer | null): tls.TLSSocket {
  return new tls.TLSSocket(stream, {
    isServer: true,
    secureContext,
    requestCert: true,
    rejectUnauthorized: false,
    ...(alpn === null ? {} : { ALPNProtocols: alpn }),
  });
}

/** One handshake of a client's, from its ClientHello to its end. */
export class ServerHandshake implements Expirable {
  since = 0;
  line: Line<Expirable> | null = null;
  earlier: Expirable | null = null;
  later: Expirable | null = null;
  readonly #services: HandshakeServices;
  /** The connection as it is without TLS. */
  readonly #socket: Socket;
  /** What the client has sent, until OpenSSL has it. */
  #unread: Buffer;
  readonly #alpn: Buffer | null;
  readonly #done: (result: Handshake) => void;
  readonly #turn: HandshakeTurn;
  #secure: tls.TLSSocket | null = null;
  /** What is read of the connection, until it is established, or over. */
  #reads: WatchedReads | null = null;
  /** What TLS has said, before the turn in which it is passed on. */
  #result: Handshake | null = null;
  #isPassed = false;

  /**
   * @param asker whose turn it takes.
   * @param unread the client's first bytes, which have been read from the socket; it is paused.
   * @param alpn as the protocol lists them (RFC 7301 section 3.1); null: none is agreed on.
   * @param done called once.
   */
  constructor(
    services: HandshakeServices,
    socket: Socket,
    asker: Asker,
    unread: Buffer,
    alpn: Buffer | null,
    done: (result: Handshake) => void,
  ) {
    this.#services = services;
    this.#socket = socket;
    this.#unread = unread;
    this.#alpn = alpn;
    this.#turn = new HandshakeTurn(socket, () => this.#begin());
    this.#done = done;
    // A client that vanishes in the middle of the handshake may cause no TLS event.
    socket.once('close', this.#onVanished);
    // Read before TLS begins, the end is the socket's, and behind that TLS's.
    socket.once('end', this.#onEnd);
    services.turns.add(asker, this.#turn);
  }

  #begin(): void {
    if (this.#result !== null) return;
    const { secureContext, deadlines } = this.#services;
    const secure = securedBy(secureContext, this.#socket, this.#alpn);
    this.#secure = secure;
    // First of all: it listens for the keys, and once somebody does Node has no further listeners announced to see whether.
    const reads = new WatchedReads(this.#socket, secure, this.#onObjection);
    this.#reads = reads;
    leaveOutListeners(secure, this.#socket);
    secure.once('secure', this.#onSecure);
    secure.on('error', this.#onError);
    secure.once('end', this.#onEnd);
    this.since = performance.now();
    deadlines.add(this);
    const unread = this.#unread;
    this.#unread = nothing;
    reads.feed(unread);
  }

  readonly #onSecure = (): void => {
    const secure = this.#secure;
    const reads = this.#reads;
    if (secure === null || reads === null) return;
    let result: Handshake;
    try {
      releaseTls(secure);
      reads.handshakeOver();
      const judged = this.#services.judge(secure);
      result = judged.kind === 'failed' ? judged : { ...judged, reads };
    } catch (error) {
      internalFault(entry, null, error);
      result = failed(internalFailure(this.#services.context()));
    }
    this.#settle(result);
  };

  readonly #onError = (error: unknown): void => {
    // What breaks TLS right behind the handshake is told here alone. Node destroys nothing; nor may we, from inside OpenSSL.
    if (this.#result?.kind === 'established') setImmediate(() => this.#secure?.destroy());
    this.#settle(failed(errorFailure(error, this.#services.context())));
  };

  readonly #onObjection = (objection: Objection): void => {
    this.#settle(failed(objectionFailure(objection, this.#services.context())));
  };

  /** The client says nothing more, and what it has said is no handshake. */
  readonly #onEnd = (): void => {
    this.#settle(failed(closedFailure(this.#services.context())));
  };

  expire(): void {
    const late = (): void => this.#onError({ code: 'ERR_TLS_HANDSHAKE_TIMEOUT' });
    // It may have said all in time, and wait for its turn since.
    this.#services.turns.onceRead(this.#turn, guarded(entry, this, late));
  }

  /** Ends it at once, for whatever reason. */
  destroy(): void {
    this.#socket.destroy();
  }

  /**
   * In a later turn: these events come from inside OpenSSL, and a socket that is destroyed there takes away memory that
   * is still in use. A client whose certificate did not verify could end the process so (SIGSEGV, Node 26.10).
   */
  #settle(result: Handshake): void {
    if (this.#result !== null) return;
    this.#result = result;
    this.#over();
    const settle = (): void => {
      this.#pass(result);
      if (result.kind === 'failed') this.#secure?.destroy();
    };
    setImmediate(guarded(entry, this, settle));
  }

  readonly #onVanished = (): void => {
    try {
      this.#over();
      // It may have said why: an alert, and the end, come in one turn.
      const said = this.#result;
      this.#pass(said?.kind === 'failed' ? said : failed(closedFailure(this.#services.context())));
    } catch (error) {
      internalFault(entry, null, error);
    }
  };

  #over(): void {
    this.#services.turns.over(this.#turn);
    this.#services.deadlines.delete(this);
  }

  /** Once; what comes later has nobody to hear it. */
  #pass(result: Handshake): void {
    if (this.#isPassed) return;
    this.#isPassed = true;
    this.#socket.removeListener('close', this.#onVanished);
    this.#socket.removeListener('end', this.#onEnd);
    const secure = this.#secure;
    secure?.removeListener('error', this.#onError);
    secure?.removeListener('end', this.#onEnd);
    if (result.kind === 'failed') this.#reads?.release();
    this.#reads = null;
    try {
      this.#done(result);
    } finally {
      if (secure?.listenerCount('error') === 0) secure.on('error', ignore);
    }
  }
}
