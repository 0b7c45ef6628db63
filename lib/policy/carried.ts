import type { Client } from '../client.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { Authorizer, ConnectionDecision, PortPolicy, PortProtocol } from './decision.ts';

/*
 * What the data plane makes of a connection by the policy of its port, for those who must know without being it: `explain`,
 * `replay` and the candidate policy.
 */

/** `tcp`: bytes that are not HTTP. */
export type Carried = 'http1' | 'http2' | 'grpc' | 'tcp';

/** Whether the data plane would carry this as bytes, or close it, without ever seeing a request. */
export function isBytes(policy: PortPolicy, client: Client, protocol: Carried): boolean {
  if (protocol === 'tcp' || client.tls.kind === 'passthrough') return true;
  switch (policy.protocol) {
    case 'opaque':
    case 'tls':
      return true;
    // Where a Server declares HTTP/2, the data plane reads HTTP/1 as a broken preface.
    case 'http2':
    case 'grpc':
      return protocol === 'http1';
    // Without TLS the port is taken at its word; inside TLS it is detected, for a meshed client may speak HTTP/2.
    case 'http1':
      return protocol !== 'http1' && client.tls.kind === 'none';
    case 'detect':
      return false;
  }
}

/** TLS for others that would not go on as bytes, and may be an HTTPS probe: it ends here, and its requests are decided. */
export function takesTls(authorizer: Authorizer, policy: PortPolicy, client: Client): boolean {
  return authorizer.probes(policy, client).tls && authorizer.connection(policy, client).kind === 'deny';
}

/** As this port sees a client: where it is opaque, nobody looks for TLS. */
export function seenBy({ protocol }: PortPolicy, client: Client): Client {
  if (protocol !== 'opaque' || (client.tls.kind === 'none' && client.tls.reason === 'port_skipped')) return client;
  return { ip: client.ip, tls: { kind: 'none', reason: 'port_skipped' } };
}

/**
 * Whether the port would look for more in bytes than has been looked for.
 *
 * @param looked the protocol of the port where they came; undefined where that is not known.
 */
export function looksFurther(
  { protocol: wanted }: PortPolicy,
  { tls }: Client,
  looked: PortProtocol | undefined,
): boolean {
  if (wanted === 'opaque' || wanted === looked) return false;
  if (looked === 'opaque' || looked === undefined) return true;
  // In TLS for others nobody looks for HTTP.
  return looked === 'tls' && wanted !== 'tls' && tls.kind !== 'passthrough';
}

/** Nothing came on the connection, which was let in as a TCP probe, and nothing of it goes on. */
export interface Probed {
  readonly kind: 'probed';
  readonly server: ResourceRef;
}

/** What lets a TCP probe in, and why nothing of it goes on. */
export const probeAuthz: ResourceRef = { group: '', kind: 'default', name: 'probe' };
export const probedReason = 'a TCP probe of the port: accepted, and closed without a byte of it going on';

/**
 * A connection that ends before a byte has come. On an opaque port who is let in reaches the app all the same; anywhere else
 * it is closed, as a probe or as nothing.
 */
export function decideSilence(authorizer: Authorizer, policy: PortPolicy, client: Client): ConnectionDecision | Probed {
  const { server } = policy;
  const decision = authorizer.connection(policy, client);
  if (policy.protocol === 'opaque' && decision.kind === 'permit') return decision;
  return { kind: authorizer.probes(policy, client).silence ? 'probed' : 'deny', server };
}
