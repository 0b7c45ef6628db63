import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { KnownCertificate, SoundChain } from './known-certificates.ts';

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

/** Of what a session is made: what tells of the client's certificate, and what it has sent with it. */
export type SessionSocket = Pick<TLSSocket, 'getPeerX509Certificate'>;

/** Milliseconds over which the chains of sessions are looked at: each takes some tenths of one. */
const spreadMs = 5000;

/** More certificates than anybody sends. */
const maxChain = 8;

/** What is known of the chain. */
type Chain =
  /** OpenSSL has verified it, and not said until when. */
  { readonly kind: 'unread' } | SoundChain | { readonly kind: 'expired'; readonly generation: number };

const unread: Chain = { kind: 'unread' };

/** A TLS session of a client that has shown a certificate: what its identity rests on, for as long as it is open. */
export class PeerSession {
  readonly #socket: SessionSocket;
  readonly #leaf: KnownCertificate;
  #chain: Chain = unread;
  /** When the chain is looked at, on the clock of `performance.now()`; null where there is no reason to. */
  #checkAt: number | null = null;
  /** Of the anchors by which the handshake has verified it. */
  readonly #verifiedBy: number;
  /** Of the last ones to which no chain led, where `holds` has asked. */
  #distrustedBy: number | null = null;

  /**
   * @param leaf the client's certificate.
   * @param anchors by which the handshake has verified it.
   */
  constructor(socket: SessionSocket, leaf: KnownCertificate, anchors: Pick<TrustAnchors, 'generation'>) {
    this.#socket = socket;
    this.#leaf = leaf;
    this.#verifiedBy = anchors.generation;
  }

  /**
   * Asked a few times a second. The chain is read once, after the handshake, which must not wait for it, and again when an
   * anchor has gone or when it has come to its end, since another anchor may vouch for it by now. A chain that is sound is so
   * for every session of the same certificate, and only one of them reads it: it takes some tenths of a millisecond, and
   * kilobytes outside of V8, which does not hurry to collect them. That there is none is said of a session's own alone.
   *
   * @param nowMs on the clock of `performance.now()`.
   * @param anchors null where there are none any more, and then nothing is trusted.
   */
  standing(nowMs: number, anchors: TrustAnchors | null): 'sound' | 'expired' | 'untrusted' {
    if (this.#isInDoubt(this.#chain, anchors)) {
      const { chain } = this.#leaf;
      this.#checkAt ??= nowMs + Math.random() * spreadMs;
      if (chain !== null && !this.#isInDoubt(chain, anchors)) {
        this.#checkAt = null;
        this.#chain = chain;
      } else if (nowMs >= this.#checkAt) {
        this.#checkAt = null;
        const endsAtMs = anchors === null ? null : this.#endOfChain(anchors);
        if (anchors === null || endsAtMs === null) return 'untrusted';
        const { generation } = anchors;
        if (Date.now() > endsAtMs) {
          this.#chain = { kind: 'expired', generation };
        } else {
          this.#leaf.chain = { kind: 'sound', generation, untilMs: endsAtMs };
          this.#chain = this.#leaf.chain;
        }
      }
    }
    return this.#chain.kind === 'expired' || Date.now() > this.#leaf.expiresAtMs ? 'expired' : 'sound';
  }

  /**
   * Whether the client is vouched for at this moment, and nothing of its chain has expired, as far as that has been read: of a
   * request that has waited, for which no look of `standing` may be waited. The chain is read where an anchor has gone, once.
   */
  holds(anchors: TrustAnchors | null): boolean {
    if (anchors === null || this.#distrustedBy === anchors.generation) return false;
    const isAsVerified = this.#chain.kind === 'unread' && this.#verifiedBy === anchors.generation;
    if (isAsVerified) return Date.now() <= this.#leaf.expiresAtMs;
    if (this.#isInDoubt(this.#chain, anchors)) this.#checkAt = Number.NEGATIVE_INFINITY;
    const standing = this.standing(performance.now(), anchors);
    if (standing === 'untrusted') this.#distrustedBy = anchors.generation;
    return standing === 'sound';
  }

  #isInDoubt(chain: Chain, anchors: TrustAnchors | null): boolean {
    if (chain.kind === 'unread' || chain.generation !== anchors?.generation) return true;
    return chain.kind === 'sound' && Date.now() > chain.untilMs;
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
