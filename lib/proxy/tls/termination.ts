import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import type { SecureContext, TLSSocket } from 'node:tls';
import type { ClientHello } from '../detect/client-hello.ts';
import { Deadlines } from '../fairness/deadlines.ts';
import type { Asker } from '../fairness/fair-queue.ts';
import { HandshakeTurns } from '../fairness/handshake-turns.ts';
import type { OwnCertificate } from '../recorder.ts';
import {
  type FailedHandshake,
  failed,
  type Handshake,
  type HandshakeServices,
  type JudgedClient,
  ServerHandshake,
  securedBy,
} from './handshake.ts';
import { certificateFailure, type HandshakeContext } from './handshake-failure.ts';
import { certificateInSession, KnownCertificates } from './known-certificates.ts';
import { checkTls, verifyErrorOf } from './node-tls.ts';
import { PeerSession, type TrustAnchors } from './peer-session.ts';

/** Our side of mutual TLS: one immutable snapshot; a rotation makes the next. */
export interface ServerCredentials {
  /** SNI names for which TLS ends here, lower case. */
  readonly names: ReadonlySet<string>;
  /** Certificate, key and trust anchors, with every protocol limit already set. */
  readonly secureContext: SecureContext;
  /** As of this snapshot. */
  readonly anchors: TrustAnchors;
  /** For records of handshakes that fail. */
  readonly own: OwnCertificate;
}

/** Which ALPN protocol we would rather speak, if the client offers one that we know. */
export type AlpnPreference = 'http/1.1' | 'h2';

/** As ALPN lists them: each name after its length, the one that we would rather speak first. */
function protocolList(names: readonly AlpnPreference[]): Buffer {
  return Buffer.concat(names.map((name) => Buffer.from([name.length, ...Buffer.from(name, 'latin1')])));
}

const offered: Record<AlpnPreference, Buffer> = {
  'http/1.1': protocolList(['http/1.1', 'h2']),
  h2: protocolList(['h2', 'http/1.1']),
};

/** Milliseconds from the ClientHello to the end of the handshake, whatever comes on the way. */
const handshakeMs = 10_000;

/**
 * Ends TLS for clients that call us by one of our names. Asks for a certificate, does not insist on one (policy decides
 * whether an identity was needed), and breaks off if one is presented that does not chain to the anchors.
 */
export class TlsTermination {
  readonly names: ReadonlySet<string>;
  readonly anchors: TrustAnchors;
  readonly secureContext: SecureContext;
  readonly #own: OwnCertificate;
  readonly #services: HandshakeServices;
  readonly #certificates = new KnownCertificates();

  /**
   * @param timeoutMs for a whole handshake.
   * @throws `ERR_SALLYPORT_NODE` where Node lacks what TLS takes without documentation.
   */
  constructor({ names, secureContext, anchors, own }: ServerCredentials, timeoutMs = handshakeMs) {
    const sample = securedBy(secureContext, new PassThrough(), null);
    checkTls(sample);
    sample.destroy();
    this.names = names;
    this.anchors = anchors;
    this.secureContext = secureContext;
    this.#own = own;
    this.#services = {
      secureContext,
      turns: new HandshakeTurns(),
      deadlines: new Deadlines(timeoutMs),
      context: () => this.#context(),
      judge: (socket) => this.#verified(socket),
    };
  }

  /**
   * @param socket the raw connection, paused.
   * @param asker whose turn it takes.
   * @param unread all that has been read of it: the ClientHello, and what may follow.
   * @param done called once.
   */
  accept(
    socket: Socket,
    asker: Asker,
    unread: Buffer,
    hello: ClientHello,
    prefer: AlpnPreference,
    done: (result: Handshake) => void,
  ): void {
    // A name list without overlap would be answered with a fatal alert, so unknown offers get no ALPN at all.
    const offersKnown = hello.alpn.includes('h2') || hello.alpn.includes('http/1.1');
    new ServerHandshake(this.#services, socket, asker, unread, offersKnown ? offered[prefer] : null, done);
  }

  /**
   * No certificate: established without an identity. A certificate that verifies: its first usable name, or none.
   * A certificate that does not verify: failed.
   */
  #verified(socket: TLSSocket): JudgedClient | FailedHandshake {
    const fault = verifyErrorOf(socket);
    let known = fault === null ? this.#certificates.find(certificateInSession(socket.getSession())) : null;
    if (known === null) {
      const certificate = socket.getPeerX509Certificate();
      if (certificate === undefined) return { kind: 'established', socket, identity: null, session: null };
      if (fault !== null) return failed(certificateFailure(certificate, fault, this.#context()));
      known = this.#certificates.add(certificate);
    }
    return {
      kind: 'established',
      socket,
      identity: known.identity,
      session: new PeerSession(socket, known, this.anchors),
    };
  }

  #context(): HandshakeContext {
    return { own: this.#own, clockMs: Date.now() };
  }
}
