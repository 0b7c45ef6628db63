import type { KeyObject, X509Certificate } from 'node:crypto';

/** Signatures by intermediates that one search verifies at most: the names that lead it on are the client's own. */
const mostSignatures = 8;

/** An issuer that a client sent may have a key made to cost; these take a millisecond at most (as rustls bounds RSA). */
function isAffordable({ asymmetricKeyType: type, asymmetricKeyDetails: details = {} }: KeyObject): boolean {
  if (type === 'ec') return details.namedCurve !== undefined;
  if (type === 'ed25519' || type === 'ed448') return true;
  const { modulusLength = Number.POSITIVE_INFINITY, publicExponent = 2n ** 64n } = details;
  return type === 'rsa' && modulusLength <= 8192 && publicExponent < 2n ** 33n;
}

interface Step {
  readonly certificate: X509Certificate;
  /** When the first certificate on the way to here expires, the leaf and this one included. In ms since 1970. */
  readonly endsAtMs: number;
}

/**
 * When the first certificate of a leaf's chain expires, the leaf and the anchor included: of all chains to an anchor, the
 * one that lasts longest. The end may have come already. Issuers are names and signatures here; whether a chain is allowed
 * (RFC 5280 section 6.1) OpenSSL has judged.
 *
 * @returns milliseconds since 1970; null where no chain leads to an anchor.
 */
export function chainEndsAt(
  leaf: X509Certificate,
  intermediates: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  now: Date,
): number | null {
  let signatures = 0;
  const isIssuedBy = (subject: X509Certificate, issuer: X509Certificate): boolean =>
    now >= issuer.validFromDate && subject.checkIssued(issuer) && subject.verify(issuer.publicKey);
  const step = (certificate: X509Certificate, from: number): Step => ({
    certificate,
    endsAtMs: Math.min(from, certificate.validToDate.getTime()),
  });
  // What lasts longest is followed first, so that the first chain that is found is the best. Each issuer is used once.
  const reached = [step(leaf, Number.POSITIVE_INFINITY)];
  const unused = new Set(intermediates.filter(({ ca }) => ca));
  let best: number | null = null;
  for (let next = takeLast(reached); next !== undefined; next = takeLast(reached)) {
    const { certificate, endsAtMs } = next;
    if (best !== null && endsAtMs <= best) break;
    for (const anchor of anchors) {
      const end = step(anchor, endsAtMs).endsAtMs;
      if ((best === null || end > best) && isIssuedBy(certificate, anchor)) best = end;
    }
    for (const issuer of unused) {
      if (!certificate.checkIssued(issuer) || !isAffordable(issuer.publicKey)) continue;
      if (++signatures > mostSignatures) return best;
      if (!isIssuedBy(certificate, issuer)) continue;
      unused.delete(issuer);
      reached.push(step(issuer, endsAtMs));
    }
  }
  return best;
}

/** The one that lasts longest. */
function takeLast(steps: Step[]): Step | undefined {
  steps.sort((a, b) => a.endsAtMs - b.endsAtMs);
  return steps.pop();
}
