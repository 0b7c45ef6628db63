import type { ExplainQuery } from '../policy/explain.ts';
import type { AskedProtocol } from './blocks.ts';
import type { ClientCell } from './clients.ts';
import type { Leaf } from './leaves.ts';
import { queryText } from './other-readings.ts';

/** The question that stands for clients of a cell, without a request. */
export function connectionQuestion(port: number, protocol: AskedProtocol, { sample }: ClientCell): ExplainQuery {
  const { ip, tls } = sample;
  const client = tls.kind === 'identity' ? { identity: tls.name } : tls.kind === 'none' ? {} : { tls: tls.kind };
  return { port, ip, ...client, protocol };
}

/** The question that stands for clients of a cell and requests of a leaf. */
export function requestQuestion(port: number, protocol: AskedProtocol, client: ClientCell, leaf: Leaf): ExplainQuery {
  const { witness, sampleHost } = leaf;
  const { method, bare } = witness;
  const search = queryText(witness);
  const connects = leaf.path.kind === 'none' && leaf.path.method === 'CONNECT';
  const path = connects ? `${sampleHost.replace(/:\d*$/, '')}:443` : witness.path;
  const headers = bare ? witness.headers : [...witness.headers, ['content-length', '1'] as const];
  return {
    ...connectionQuestion(port, protocol, client),
    method,
    path: search === '' ? path : `${path}?${search}`,
    ...(connects || isHostless(protocol, leaf) ? {} : { host: sampleHost }),
    ...(headers.length === 0 ? {} : { headers }),
  };
}

/** Whether a request may do without a host, and nothing depends on it. */
function isHostless(protocol: AskedProtocol, { host, found }: Leaf): boolean {
  return protocol === 'http1' && host.kind === 'any' && found.every((link) => (link?.rule.redirect ?? null) === null);
}

/** Of the protocols that requests come by, those by which a leaf's may. */
export function protocolsOf(leaf: Leaf, protocols: readonly AskedProtocol[]): readonly AskedProtocol[] {
  const { holding, failing, path } = leaf;
  const isCall = holding.some(({ kind }) => kind === 'grpc');
  const isNone = failing.some(({ kind }) => kind === 'grpc');
  const connects = holding.some((test) => test.kind === 'method' && test.method === 'CONNECT');
  return protocols.filter((protocol) => {
    if (path.kind === 'none' && path.method === 'CONNECT') return protocol === 'http1';
    if (connects && protocol === 'http1') return false;
    return protocol === 'grpc' ? !isNone : !isCall;
  });
}
