import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { type DocumentsRead, readDocuments } from '../../lib/policy/documents/read.ts';
import type { ExplainQuery } from '../../lib/policy/explain.ts';
import { parseDefaultPolicy, parsePortSet, type Workload } from '../../lib/policy/workload.ts';
import { workloadFromPod } from './pod-workload.ts';
import type { CaseClient, CasePod, CaseRequest, CaseSettings, PolicyDocument } from './policy-cases.ts';

/* Cases in this process: what the policy core is given for their pods, documents, clients and requests. */

const protocols = { 'http/1.1': 'http1', 'http/2': 'http2', grpc: 'grpc', tcp: 'tcp' } as const;

/** @throws where the pod cannot be read; `id` is the case's. */
export function workloadOf(id: string, pod: CasePod, settings: Omit<CaseSettings, 'detectTimeout'>): Workload {
  const { workload } = workloadFromPod(pod, {
    defaultPolicy: parseDefaultPolicy(settings.defaultInboundPolicy) ?? 'deny',
    opaquePorts: parsePortSet('').ports,
    clusterNetworks: settings.clusterNetworks,
    probeNetworks: settings.probeNetworks,
    authorizeLocalhost: true,
    controlPlaneNamespace: settings.controlPlaneNamespace,
    trustDomain: settings.identityDomain,
    detectTimeoutMs: 10_000,
  });
  if (workload === null) throw new Error(`${id}: the pod cannot be read`);
  return workload;
}

export function readAll(documents: readonly PolicyDocument[], { namespace }: Workload): DocumentsRead {
  return readDocuments(
    documents.map((value) => ({ value, file: 'case.yaml', position: () => ({ line: 1, column: 1 }) })),
    { namespace },
  );
}

/** What `explain` is asked for a request. */
export function queryOf(client: CaseClient, request: CaseRequest): ExplainQuery {
  const { port, method, path, host, headers } = request;
  return {
    port,
    ip: parseIp(client.ip) as IpAddress,
    ...(client.tls === 'mesh' && client.identity !== undefined ? { identity: client.identity } : {}),
    tls: client.tls === 'passthrough' ? 'passthrough' : client.tls === 'none' ? 'none' : 'anonymous',
    protocol: protocols[request.proto],
    ...(method === undefined ? {} : { method }),
    ...(path === undefined ? {} : { path }),
    ...(host === undefined ? {} : { host }),
    headers: headers ?? [],
  };
}
