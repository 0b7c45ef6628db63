import { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** Whom clients' certificates must lead to, now. */
export interface TrustAnchors {
  /** Another number than before: an anchor has gone since. */
  readonly generation: number;
  /** Whether a certificate leads to one of them, at this moment. */
  verifies(leaf: X509Certificate, intermediates: readonly X509Certificate[]): boolean;
}

/** Milliseconds over which sessions are verified again after an anchor has gone: each takes a tenth of one. */
const spreadMs = 5000;

/** More certificates than anybody sends; chains of the store are followed no further. */
const maxChain = 8;

/** A TLS session of a client that has shown a certificate: what its identity rests on, for as long as it is open. */
export class PeerSession {
  readonly #socket: TLSSocket;
  readonly #expiresAtMs: number;
  /** The anchors under which it was verified last. */
  #generation: number;
  /** When it is looked at again, on the clock of `performance.now()`; null where there is no reason to. */
  #checkAt: number | null = null;

  /** @param expiresAtMs on the clock of `Date.now()`. */
  constructor(socket: TLSSocket, expiresAtMs: number, generation: number) {
    this.#socket = socket;
    this.#expiresAtMs = expiresAtMs;
    this.#generation = generation;
  }

  /**
   * Asked a few times a second.
   *
   * @param nowMs on the clock of `performance.now()`.
   * @param anchors null where there are none any more, and then nothing is trusted.
   */
  standing(nowMs: number, anchors: TrustAnchors | null): 'sound' | 'expired' | 'untrusted' {
    const generation = anchors?.generation ?? -1;
    if (generation !== this.#generation) {
      this.#checkAt ??= nowMs + Math.random() * spreadMs;
      if (nowMs >= this.#checkAt) {
        this.#checkAt = null;
        this.#generation = generation;
        if (anchors === null || !this.#isTrusted(anchors)) return 'untrusted';
      }
    }
    return Date.now() > this.#expiresAtMs ? 'expired' : 'sound';
  }

  /** False, too, for a session that tells nothing of its certificate any more. */
  #isTrusted(anchors: TrustAnchors): boolean {
    const leaf = this.#socket.getPeerX509Certificate();
    if (leaf === undefined) return false;
    const intermediates: X509Certificate[] = [];
    let each = this.#socket.getPeerCertificate(true);
    for (let i = 0; i < maxChain; i++) {
      const issuer = each.issuerCertificate;
      // A root is its own issuer.
      if (issuer === undefined || issuer === each || issuer.raw === undefined) break;
      intermediates.push(new X509Certificate(issuer.raw));
      each = issuer;
    }
    return anchors.verifies(leaf, intermediates);
  }
}
