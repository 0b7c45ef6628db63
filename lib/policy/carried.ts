import type { Client } from '../client.ts';
import type { Authorizer, PortPolicy } from './decision.ts';

/*
 * What the data plane makes of a connection by the policy of its port, for those who must know without being it: `explain`,
 * and the candidate policy.
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
