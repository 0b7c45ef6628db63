import type { ClientIdentity } from '../client.ts';

const dnsLabel = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?';
const dnsName = new RegExp(`^(?:\\*|(?:\\*\\.)?${dnsLabel}(?:\\.${dnsLabel})*)$`);
const spiffeTrustDomain = /^[a-z0-9._-]+$/;
const spiffeSegment = /^[A-Za-z0-9._-]+$/;

/**
 * What is wrong with an identity in a document, or undefined. As Linkerd's admission: a lower-case DNS-like name whose
 * first label may be `*`, or a SPIFFE ID (SPIFFE-ID section 2: lower-case trust domain, no empty or dot segments, no
 * trailing slash, no port, query or fragment).
 */
export function identityFault(text: string): string | undefined {
  if (!text.includes('://')) {
    return dnsName.test(text) ? undefined : 'is neither a lower-case DNS name (first label may be "*") nor a SPIFFE ID';
  }
  if (!text.startsWith('spiffe://')) return 'has a scheme other than spiffe://';
  const [trustDomain = '', ...segments] = text.slice('spiffe://'.length).split('/');
  if (!spiffeTrustDomain.test(trustDomain)) return 'has a trust domain with characters outside a-z, 0-9, ".", "-", "_"';
  for (const segment of segments) {
    if (segment === '') return 'has an empty path segment or a trailing slash';
    if (segment === '.' || segment === '..') return 'has a dot segment in its path';
    if (!spiffeSegment.test(segment))
      return 'has a path segment with characters outside letters, digits, ".", "-", "_"';
  }
  return undefined;
}

/** Whom a document accepts. */
export type AcceptedIdentity =
  | { readonly kind: 'exact'; readonly name: string }
  /** Every DNS name with this behind at least one character; the empty text is any name. */
  | { readonly kind: 'suffix'; readonly suffix: string };

/**
 * An identity as documents write it: `*` and `*.suffix` stand for many; a star anywhere else is an ordinary character, which
 * no certificate name holds. Of a name that is made of others, such as a ServiceAccount's, no part is read like this.
 */
export function acceptedIdentity(text: string): AcceptedIdentity {
  const isWildcard = text === '*' || text.startsWith('*.');
  return isWildcard ? { kind: 'suffix', suffix: text.slice(1) } : { kind: 'exact', name: text };
}

/**
 * A set of accepted identities. No identity (null) is never in it, and neither is anything in an empty set.
 * Suffixes, `*` (the empty suffix) included, apply to DNS names only: Linkerd matches SPIFFE IDs exactly.
 */
export class IdentitySet {
  readonly #exact: ReadonlySet<string>;
  readonly #suffixes: readonly string[];
  #text: string | null = null;

  constructor(accepted: readonly AcceptedIdentity[]) {
    this.#exact = new Set(accepted.flatMap((one) => (one.kind === 'exact' ? [one.name] : [])));
    this.#suffixes = [...new Set(accepted.flatMap((one) => (one.kind === 'suffix' ? [one.suffix] : [])))];
  }

  has(identity: ClientIdentity | null): boolean {
    if (identity === null || identity.name === '') return false;
    const { form, name } = identity;
    if (this.#exact.has(name)) return true;
    if (form !== 'dns') return false;
    for (const suffix of this.#suffixes) {
      if (name.length > suffix.length && name.endsWith(suffix)) return true;
    }
    return false;
  }

  /** Names in full. */
  get exact(): ReadonlySet<string> {
    return this.#exact;
  }

  /** What DNS names may end with, behind at least one character; the empty text is any name. */
  get suffixes(): readonly string[] {
    return this.#suffixes;
  }

  /** For reasons: the identities as a policy would spell them, shortened when there are many. */
  get text(): string {
    this.#text ??= this.#shown();
    return this.#text;
  }

  #shown(): string {
    const count = this.#exact.size + this.#suffixes.length;
    if (count === 0) return 'no identity';
    const shown = [
      ...this.#exact.values().take(mostShown),
      ...this.#suffixes.slice(0, Math.max(0, mostShown - this.#exact.size)).map((suffix) => `*${suffix}`),
    ].join(' or ');
    return count > mostShown ? `${shown} or ${count - mostShown} more` : shown;
  }
}

/** A refused request may ask for the text of many sets. */
const mostShown = 5;
