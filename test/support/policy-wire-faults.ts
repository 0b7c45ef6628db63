import type { Labels } from './metrics.ts';
import type { CaseClient, SingleCheck } from './policy-cases.ts';
import type { SeenRequest } from './sniffing-app.ts';
import type { ExchangeResult } from './wire-exchange.ts';

/** Every request and every raw connection moves exactly one of these. */
export const decisionCounters = [
  'inbound_http_authz_allow_total',
  'inbound_http_authz_deny_total',
  'inbound_http_route_not_found_total',
  'inbound_tcp_authz_allow_total',
  'inbound_tcp_authz_deny_total',
];

/** What TLS told, as Linkerd labels it. On an opaque port nothing is read, so nothing is told. */
export function tlsLabels(client: CaseClient, opaque: boolean): Labels {
  if (opaque) return {};
  switch (client.tls) {
    case 'none':
      return { tls: 'no_identity', no_tls_reason: 'no_tls_from_remote' };
    case 'passthrough':
      return { tls: 'opaque', sni: client.sni ?? '' };
    case 'mesh-no-cert':
      return { tls: 'true', client_id: '' };
    case 'mesh':
      return { tls: 'true', client_id: client.identity ?? '' };
  }
}

/** What is wrong with a response; empty where it is the one that the check expects. `adminPort` is served by the proxy itself. */
export function wireFaults(
  { expect, client, request }: SingleCheck,
  result: ExchangeResult,
  adminPort: number,
): string[] {
  const seen = JSON.stringify(result).slice(0, 300);
  switch (expect.wire) {
    case 'tcp':
      return result.kind === 'echo' ? [] : [`wanted forwarded bytes, was ${seen}`];
    case 'closed':
      return result.kind === 'closed' && result.text === ''
        ? []
        : [`wanted the connection closed silently, was ${seen}`];
    case 'http':
    case 'grpc': {
      if (result.kind !== 'http') return [`wanted ${expect.status}, was ${seen}`];
      const faults: string[] = [];
      if (result.status !== (expect.status ?? 200)) faults.push(`wanted status ${expect.status}, was ${result.status}`);
      if (expect.wire === 'grpc') {
        const wanted = expect.grpc_status ?? 0;
        if (result.grpcStatus !== String(wanted)) faults.push(`wanted grpc-status ${wanted}, was ${result.grpcStatus}`);
        if (expect.decision !== 'allow' && !result.bodiless) faults.push('a gRPC refusal that is not trailers-only');
      }
      if (expect.decision !== 'allow' && !result.bodiless) faults.push('a refusal with a body');
      if (expect.decision !== 'allow' && result.headers.connection === 'close')
        faults.push('a refusal that ends the connection');
      // Nothing tells a client without an identity why.
      if (client.identity === undefined && result.headers['l5d-proxy-error'] !== undefined) {
        faults.push('l5d-proxy-error to a client without an identity');
      }
      if (
        result.status === 200 &&
        expect.decision === 'allow' &&
        request.proto !== 'grpc' &&
        request.port !== adminPort &&
        request.method !== 'HEAD'
      ) {
        const forwarded = JSON.parse(result.body) as SeenRequest;
        const clientId = forwarded.headers['l5d-client-id'];
        // Where nothing is decided by the request nothing is told, either.
        const told = expect.metric.startsWith('inbound_http_') ? client.identity : undefined;
        if (clientId !== told) faults.push(`the app was told l5d-client-id ${clientId}`);
        if (forwarded.url !== request.path) faults.push(`forwarded as ${forwarded.url}`);
      }
      return faults;
    }
  }
}
