import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** Whom clients' certificates must lead to, now. */
export interface TrustAnchors {
  /** Another number than before: an anchor has gone since. */
  readonly generation: number;
  /**
   * When the first certificate between this one and one of them expires, both included, by `Date.now()`; null where it
   * leads to none.
   */
  endOfChain(leaf: X509Certificate, intermediates: readonly X509Certificate[]): number | null;
}

/** Milliseconds over which the chains of sessions are looked at: each takes some tenths of one. */
const spreadMs = 5000;

/** More certificates than anybody sends. */
const maxChain = 8;

/** What is known of the chain. */
type Chain =
  /** OpenSSL has verified it, and not said until when. */
  | { readonly kind: 'unread' }
  /** `untilMs` on the clock of `Date.now()`. */
  | { readonly kind: 'read'; readonly generation: number; readonly untilMs: number }
  | { readonly kind: 'expired'; readonly generation: number };

const unread: Chain = { kind: 'unread' };

/** A TLS session of a client that has shown a certificate: what its identity rests on, for as long as it is open. */
export class PeerSession {
  readonly #socket: TLSSocket;
  readonly #leafUntilMs: number;
  #chain: Chain = unread;
  /** When the chain is looked at, on the clock of `performance.now()`; null where there is no reason to. */
  #checkAt: number | null = null;

  /** @param leafUntilMs when its certificate expires, on the clock of `Date.now()`. */
  constructor(socket: TLSSocket, leafUntilMs: number) {
    this.#socket = socket;
    this.#leafUntilMs = leafUntilMs;
  }

  /**
   * Asked a few times a second. The chain is read once, after the handshake, which must not wait for it, and again when an
   * anchor has gone or when it has come to its end, since another anchor may vouch for it by now.
   *
   * @param nowMs on the clock of `performance.now()`.
   * @param anchors null where there are none any more, and then nothing is trusted.
   */
  standing(nowMs: number, anchors: TrustAnchors | null): 'sound' | 'expired' | 'untrusted' {
    if (this.#isInDoubt(anchors)) {
      this.#checkAt ??= nowMs + Math.random() * spreadMs;
      if (nowMs >= this.#checkAt) {
        this.#checkAt = null;
        const endsAtMs = anchors === null ? null : this.#endOfChain(anchors);
        if (anchors === null || endsAtMs === null) return 'untrusted';
        const { generation } = anchors;
        this.#chain =
          Date.now() > endsAtMs ? { kind: 'expired', generation } : { kind: 'read', generation, untilMs: endsAtMs };
      }
    }
    return this.#chain.kind === 'expired' || Date.now() > this.#leafUntilMs ? 'expired' : 'sound';
  }

  #isInDoubt(anchors: TrustAnchors | null): boolean {
    const chain = this.#chain;
    if (chain.kind === 'unread' || chain.generation !== anchors?.generation) return true;
    return chain.kind === 'read' && Date.now() > chain.untilMs;
  }

  /** Null, too, for a session that tells nothing of its certificate any more. */
  #endOfChain(anchors: TrustAnchors): number | null {
    const leaf = this.#socket.getPeerX509Certificate();
    if (leaf === undefined) return null;
    const sent: X509Certificate[] = [];
    // Not issuers, whatever Node calls them: what the client sent, in its order.
    for (
      let each = leaf.issuerCertificate;
      each !== undefined && sent.length < maxChain;
      each = each.issuerCertificate
    ) {
      sent.push(each);
    }
    return anchors.endOfChain(leaf, sent);
  }
}
