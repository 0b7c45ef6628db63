import { AsyncLocalStorage } from 'node:async_hooks';
import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import tls from 'node:tls';
import { identityFromCertificate } from '../../certificate-names.ts';
import type { ClientIdentity } from '../../client.ts';
import type { ClientHello } from '../detect/client-hello.ts';
import { guarded, internalFault } from '../guard.ts';
import type { HandshakeFailure, OwnCertificate } from '../recorder.ts';
import {
  certificateFailure,
  closedFailure,
  errorFailure,
  type HandshakeContext,
  internalFailure,
} from './handshake-failure.ts';
import { HandshakeTurns } from './handshake-turns.ts';
import { PeerSession, type TrustAnchors } from './peer-session.ts';

/** Our side of mutual TLS: one immutable snapshot; a rotation makes the next. */
export interface ServerCredentials {
  /** SNI names for which TLS ends here, lower case. */
  readonly names: ReadonlySet<string>;
  /** Certificate, key and trust anchors, with every protocol limit already set. */
  readonly options: tls.TlsOptions;
  /** As of this snapshot. */
  readonly anchors: TrustAnchors;
  /** For records of handshakes that fail. */
  readonly own: OwnCertificate;
}

export type Handshake =
  | {
      readonly kind: 'established';
      readonly socket: tls.TLSSocket;
      readonly identity: ClientIdentity | null;
      /** Null where the client has shown no certificate. */
      readonly session: PeerSession | null;
    }
  /** The client gave up, or presented a certificate that does not verify. */
  | { readonly kind: 'failed'; readonly failure: HandshakeFailure };

function failed(failure: HandshakeFailure): Handshake {
  return { kind: 'failed', failure };
}

/** Which ALPN protocol we would rather speak, if the client offers one that we know. */
export type AlpnPreference = 'http/1.1' | 'h2';

const known: Record<AlpnPreference, string[]> = {
  'http/1.1': ['http/1.1', 'h2'],
  h2: ['h2', 'http/1.1'],
};

/**
 * Clients come back with the certificate that they had, and reading names takes a thirtieth of a handshake. Only what has
 * verified gets here, so nobody can fill this with certificates of their own making.
 */
const maxKnown = 256;
const maxKnownBytes = 4096;

interface KnownCertificate {
  readonly identity: ClientIdentity | null;
  readonly expiresAtMs: number;
}

function readKnown(certificate: X509Certificate): KnownCertificate {
  return { identity: identityFromCertificate(certificate.raw), expiresAtMs: certificate.validToDate.getTime() };
}

/**
 * Which handshake an event is about. It comes with a TLS socket, from which no documented way leads back to the connection
 * that it was made of; not even an address, where the client is gone. A number: what a connection begins later, to the app
 * too, keeps it.
 */
const underWay = new AsyncLocalStorage<number>();

/** Of all terminations: a handshake of one may end inside an event of another's. */
let lastId = 0;

/** Milliseconds from the ClientHello to the end of the handshake: node:tls grants no more for bytes on the way. */
const handshakeMs = 10_000;

interface Pending {
  /** The raw connection. */
  readonly socket: Socket;
  readonly done: (result: Handshake) => void;
  /** What TLS has said, before the turn in which it is passed on. */
  result: Handshake | null;
}

/**
 * Ends TLS for clients that call us by one of our names. Asks for a certificate, does not insist on one (policy decides
 * whether an identity was needed), and breaks off if one is presented that does not chain to the anchors.
 */
export class TlsTermination {
  readonly names: ReadonlySet<string>;
  readonly anchors: TrustAnchors;
  readonly #own: OwnCertificate;
  readonly #servers: ReadonlyMap<AlpnPreference | 'none', tls.Server>;
  readonly #pending = new Map<number, Pending>();
  readonly #turns = new HandshakeTurns();
  /** By the whole certificate, which alone decides. */
  readonly #certificates = new Map<string, KnownCertificate>();

  /**
   * @param timeoutMs for a whole handshake.
   * @throws when the certificate, key or anchors cannot be used.
   */
  constructor(credentials: ServerCredentials, timeoutMs = handshakeMs) {
    this.names = credentials.names;
    this.anchors = credentials.anchors;
    this.#own = credentials.own;
    const make = (alpn: string[] | undefined): tls.Server => {
      const server = tls.createServer({
        ...credentials.options,
        requestCert: true,
        rejectUnauthorized: false,
        handshakeTimeout: timeoutMs,
        ...(alpn === undefined ? {} : { ALPNProtocols: alpn }),
      });
      server.on('secureConnection', (socket) => {
        try {
          this.#settle(socket, this.#verified(socket));
        } catch (error) {
          internalFault('a TLS handshake', null, error);
          this.#settle(socket, failed(internalFailure(this.#context())));
        }
      });
      server.on('tlsClientError', (error, socket) =>
        this.#settle(socket, failed(errorFailure(error, this.#context()))),
      );
      return server;
    };
    this.#servers = new Map([
      // A name list without overlap would be answered with a fatal alert, so unknown offers get no ALPN at all.
      ['none', make(undefined)],
      ['http/1.1', make(known['http/1.1'])],
      ['h2', make(known.h2)],
    ]);
  }

  /**
   * @param socket the raw connection, its ClientHello put back unread.
   * @param done called once.
   */
  accept(socket: Socket, hello: ClientHello, prefer: AlpnPreference, done: (result: Handshake) => void): void {
    const offersKnown = hello.alpn.includes('h2') || hello.alpn.includes('http/1.1');
    const server = this.#servers.get(offersKnown ? prefer : 'none') as tls.Server;
    const id = ++lastId;
    this.#pending.set(id, { socket, done, result: null });
    // A client that vanishes in the middle of the handshake may cause no TLS event.
    const vanished = (): void => {
      this.#turns.over(socket);
      // It may have said why: an alert, and the end, come in one turn.
      const said = this.#pending.get(id)?.result;
      this.#pass(id, said?.kind === 'failed' ? said : failed(closedFailure(this.#context())));
    };
    socket.once('close', guarded('a TLS handshake', null, vanished));
    const begin = (): void => underWay.run(id, () => void server.emit('connection', socket));
    this.#turns.add(socket.remoteAddress ?? '', socket, begin);
  }

  /**
   * In a later turn: these events come from inside OpenSSL, and a socket that is destroyed there takes away memory that
   * is still in use. A client whose certificate did not verify could end the process so (SIGSEGV, Node 26.10).
   */
  #settle(socket: tls.TLSSocket, result: Handshake): void {
    const id = underWay.getStore();
    const pending = id === undefined ? undefined : this.#pending.get(id);
    if (pending !== undefined) {
      this.#turns.over(pending.socket);
      pending.result = result;
    }
    // Until somebody takes the socket, its end is all there is to know.
    socket.on('error', () => {});
    const settle = (): void => {
      if (id !== undefined) this.#pass(id, result);
      if (result.kind === 'failed') socket.destroy();
    };
    setImmediate(guarded('a TLS handshake', socket, settle));
  }

  /**
   * No certificate: established without an identity. A certificate that verifies: its first usable name, or none.
   * A certificate that does not verify: failed.
   */
  #verified(socket: tls.TLSSocket): Handshake {
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return { kind: 'established', socket, identity: null, session: null };
    if (!socket.authorized) {
      return failed(certificateFailure(certificate, String(socket.authorizationError), this.#context()));
    }
    const { identity, expiresAtMs } = this.#known(certificate);
    const session = new PeerSession(socket, expiresAtMs);
    return { kind: 'established', socket, identity, session };
  }

  #known(certificate: X509Certificate): KnownCertificate {
    const der = certificate.raw;
    if (der.length > maxKnownBytes) return readKnown(certificate);
    const key = der.toString('latin1');
    let known = this.#certificates.get(key);
    if (known === undefined) {
      known = readKnown(certificate);
      if (this.#certificates.size >= maxKnown) this.#certificates.clear();
      this.#certificates.set(key, known);
    }
    return known;
  }

  #context(): HandshakeContext {
    return { own: this.#own, clockMs: Date.now() };
  }

  /** Once; what comes later has nobody to hear it. */
  #pass(id: number, result: Handshake): void {
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    this.#pending.delete(id);
    pending.done(result);
  }
}
