import type { IpAddress } from './ip.ts';

/** A verified name from the client's certificate. Only a certificate that chains to the trust anchors yields one. */
export interface ClientIdentity {
  /** Linkerd matches `*` and `*.suffix` against DNS names only; SPIFFE IDs match exactly. */
  readonly form: 'dns' | 'spiffe';
  readonly name: string;
}

/** What TLS found out about the client of one connection. */
export type ClientTls =
  | { readonly kind: 'none'; readonly reason: 'no_tls_from_remote' | 'port_skipped' }
  /** Terminated here. `identity` is null when no certificate, or none with a usable name, was presented. */
  | { readonly kind: 'mesh'; readonly identity: ClientIdentity | null }
  /** A ClientHello for somebody else's name: forwarded as bytes. */
  | { readonly kind: 'passthrough'; readonly sni: string };

/** Everything policy may know about who is calling. Made once per connection. */
export interface Client {
  readonly ip: IpAddress;
  readonly tls: ClientTls;
}

/** The verified name, or null; null never satisfies any identity rule. */
export function clientId(client: Client): string | null {
  return client.tls.kind === 'mesh' && client.tls.identity !== null ? client.tls.identity.name : null;
}

/** As the data plane sees a client without an identity, from its word in a question. */
export function tlsOfKind(kind: 'none' | 'anonymous' | 'passthrough'): ClientTls {
  switch (kind) {
    case 'none':
      return { kind: 'none', reason: 'no_tls_from_remote' };
    case 'anonymous':
      return { kind: 'mesh', identity: null };
    case 'passthrough':
      return { kind: 'passthrough', sni: '' };
  }
}

/** TLS in the words of `explain`, where a client without an identity says which it used. */
export function tlsKind({ tls }: Client): 'identity' | 'none' | 'anonymous' | 'passthrough' {
  if (tls.kind !== 'mesh') return tls.kind;
  return tls.identity === null ? 'anonymous' : 'identity';
}
