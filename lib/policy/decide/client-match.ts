import type { Client, ClientTls } from '../../client.ts';
import type { ResourceRef } from '../../resource-ref.ts';
import type { Candidate } from '../decision.ts';
import type { IdentitySet } from '../identities.ts';
import type { NetworkSet } from '../networks.ts';
import type { ProbeKind } from '../probes.ts';

/** What an authorization asks of the client's TLS. */
export type TlsRule =
  | { readonly kind: 'unauthenticated' }
  /** TLS terminated here, with or without a client certificate. */
  | { readonly kind: 'any-tls' }
  | { readonly kind: 'identities'; readonly identities: IdentitySet };

/** A compiled grant: a client is let in when networks AND TLS rule hold. */
export interface Authorization {
  readonly ref: ResourceRef;
  readonly audit: boolean;
  /** Null: from anywhere. */
  readonly networks: NetworkSet | null;
  readonly tls: TlsRule;
  /** What it lets in is a probe of this kind, and nothing else. */
  readonly probe?: ProbeKind;
}

/** A policy that grants nothing because something it refers to is missing; kept to explain itself. */
export interface BrokenAuthorization {
  readonly ref: ResourceRef;
  /** `wanted …, was …`. */
  readonly detail: string;
}

function tlsHolds(rule: TlsRule, tls: ClientTls): boolean {
  switch (rule.kind) {
    case 'unauthenticated':
      return true;
    case 'any-tls':
      return tls.kind === 'mesh';
    case 'identities':
      return tls.kind === 'mesh' && rule.identities.has(tls.identity);
  }
}

/** No identity satisfies no identity rule, and an address outside every network is refused. */
export function covers(authorization: Authorization, client: Client): boolean {
  return (
    (authorization.networks === null || authorization.networks.contains(client.ip)) &&
    tlsHolds(authorization.tls, client.tls)
  );
}

/** Beyond this many grants a client's answer is remembered; below it, asking again costs less than remembering. */
const rememberedFrom = 5;

/**
 * The authorizations of a route or of a whole server, in the order in which they are credited. A route's list is its own
 * entries and then its server's (Linkerd: route policies only widen). An empty list grants nothing.
 */
export class GrantList {
  readonly entries: readonly Authorization[];
  readonly broken: readonly BrokenAuthorization[];
  readonly tail: GrantList | null;
  readonly #size: number;
  /** The answer depends on the client alone, and a client is one object per connection. */
  readonly #remembered = new WeakMap<Client, { readonly grant: Authorization | null }>();

  constructor(
    entries: readonly Authorization[],
    tail: GrantList | null = null,
    broken: readonly BrokenAuthorization[] = [],
  ) {
    this.entries = entries;
    this.tail = tail;
    this.broken = broken;
    this.#size = entries.length + (tail === null ? 0 : tail.#size);
  }

  /** The first authorization that covers the client; null, which denies, where none does. */
  find(client: Client): Authorization | null {
    if (this.#size < rememberedFrom) return this.#search(client);
    const known = this.#remembered.get(client);
    if (known !== undefined) return known.grant;
    const grant = this.#search(client);
    this.#remembered.set(client, { grant });
    return grant;
  }

  #search(client: Client): Authorization | null {
    for (const authorization of this.entries) if (covers(authorization, client)) return authorization;
    return this.tail === null ? null : this.tail.find(client);
  }

  /** Every authorization with the first clause that failed for this client, computed one by one as they are read. */
  *candidates(client: Client): Generator<Candidate> {
    for (const authorization of this.entries) yield candidate(authorization, client);
    for (const { ref, detail } of this.broken) yield { authz: ref, granted: false, failed: 'reference', detail };
    if (this.tail !== null) yield* this.tail.candidates(client);
  }
}

function candidate({ ref, networks, tls }: Authorization, client: Client): Candidate {
  if (networks !== null && !networks.contains(client.ip)) {
    return {
      authz: ref,
      granted: false,
      failed: 'network',
      detail: `wanted ${shortened(networks.text)}, was ${client.ip.text}`,
    };
  }
  if (!tlsHolds(tls, client.tls)) {
    const wanted = tls.kind === 'identities' ? tls.identities.text : 'TLS terminated here';
    return { authz: ref, granted: false, failed: 'identity', detail: `wanted ${wanted}, was ${tlsText(client.tls)}` };
  }
  return { authz: ref, granted: true, failed: null, detail: '' };
}

/** Lists of networks may be of any length, and reasons are for people. */
function shortened(text: string): string {
  return text.length <= 512 ? text : `${text.slice(0, 512)}…`;
}

/** What TLS says of a client, for people. */
export function tlsText(tls: ClientTls): string {
  switch (tls.kind) {
    case 'none':
      return tls.reason === 'port_skipped' ? 'not inspected, for the port is opaque' : 'without TLS';
    case 'mesh':
      return tls.identity === null ? 'TLS without an identity' : tls.identity.name;
    case 'passthrough':
      return `TLS for another name`;
  }
}
