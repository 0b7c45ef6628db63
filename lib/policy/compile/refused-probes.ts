import { type IpAddress, parseIp } from '../../ip.ts';
import type { Authorization, GrantList } from '../decide/client-match.ts';
import { takesRequestsAlone } from '../decide/decide.ts';
import type { CompiledPort, PolicyIndex } from '../decide/policy-index.ts';
import { Question } from '../decide/question.ts';
import { noOddNames, type RequestFacts } from '../decision.ts';
import type { ServerDocument } from '../documents/types.ts';
import { healthCheck, type Probe, probeText } from '../probes.ts';
import type { Workload } from '../workload.ts';
import type { Linking } from './linking.ts';

/**
 * Warns of each declared probe that the policy of its port refuses, from any address where the kubelet may be. Those of
 * the admin port are not of the app. Nothing is said of what only the application can refuse.
 */
export function checkProbes(index: PolicyIndex, servers: ReadonlyMap<number, ServerDocument>, linking: Linking): void {
  const { workload } = linking;
  for (const [port, probes] of workload.probes) {
    if (port === workload.adminPort) continue;
    const document = servers.get(port);
    for (const probe of probes) {
      const refused = refusalOf(index.port(port), probe, workload);
      if (refused === null) continue;
      const message = `probe ${probeText(port, probe)} is refused: ${refused}`;
      if (document !== undefined) linking.warn(document, ['spec', 'port'], 'probe-refused', message);
      else {
        const place = { file: 'SALLYPORT_PROBES', line: 1, column: 1, resource: null };
        linking.problems.push({ severity: 'warning', code: 'probe-refused', message, ...place, hint: '' });
      }
    }
  }
}

/** Why, or null where it is let in, or may be. */
function refusalOf(port: CompiledPort, probe: Probe, workload: Workload): string | null {
  // The kernel accepts before anybody is asked.
  if (probe.kind === 'tcp') return null;
  const { name } = port.server;
  if (probe.kind === 'https' || probe.kind === 'https-hook') return refusalInTls(port, probe.path, workload);
  const isCall = probe.kind === 'grpc';
  if (port.routes === null) {
    const reads = `${name} is ${port.protocol}, so that nobody reads requests there, and no authorization of it covers the kubelet`;
    return admits(port.grants, workload) ? null : reads;
  }
  if (isCall ? port.protocol === 'http1' : port.protocol === 'http2' || port.protocol === 'grpc') {
    return `the kubelet asks by HTTP/${isCall ? '2' : '1'}, which ${name} (${port.protocol}) does not take`;
  }
  const facts = factsOf('path' in probe ? probe.path : null);
  const match = port.routes.find(new Question(facts, null, port.routes.traits));
  if (match === null) return `no route of ${name} matches ${facts.method} ${facts.path}`;
  const { rule } = match;
  if (rule.sealed) return `a document about this part of ${rule.route.name} cannot be read`;
  return admits(rule.grants, workload)
    ? null
    : `no authorization of ${rule.route.name} of ${name} covers the kubelet, which comes without TLS`;
}

/** It passes as such, or as bytes that nobody reads. */
function refusalInTls(port: CompiledPort, path: string, workload: Workload): string | null {
  if (!takesRequestsAlone(port) && admits(port.grants, workload)) return null;
  const { name } = port.server;
  const table = port.tlsProbes;
  const isKubelets = table?.find(new Question(factsOf(path), null, table.traits))?.rule.grants;
  if (isKubelets !== undefined && admits(isKubelets, workload)) return null;
  return table === null
    ? `${name} has routes or cannot be read, or nobody knows from where the kubelet comes`
    : `no authorization of ${name} for HTTPS probes covers the kubelet`;
}

function factsOf(path: string | null): RequestFacts {
  return {
    method: path === null ? 'POST' : 'GET',
    path: path ?? healthCheck,
    query: '',
    host: '',
    grpc: path === null,
    carries: path === null ? 'body' : 'nothing',
    header: () => [],
    oddNames: noOddNames,
  };
}

/** Whether it covers some place where the kubelet may be, without TLS. Where it may be anywhere, any network may hold it. */
function admits(grants: GrantList, workload: Workload): boolean {
  const places = kubeletAddresses(workload);
  const covers = ({ tls, networks, ref }: Authorization): boolean => {
    if (tls.kind !== 'unauthenticated' || (ref.kind === 'default' && ref.name === 'localhost')) return false;
    return networks === null || places === null || places.some((ip) => networks.contains(ip));
  };
  return grants.entries.some(covers) || (grants.tail !== null && admits(grants.tail, workload));
}

/** One of each network from which it is to be expected; null where that is everywhere. */
function kubeletAddresses({ nodeIps, probeNetworks }: Workload): readonly IpAddress[] | null {
  if (nodeIps.length > 0) return nodeIps;
  if (probeNetworks.length === 0 || probeNetworks.some((cidr) => cidr.endsWith('/0'))) return null;
  return probeNetworks.flatMap((cidr) => parseIp(cidr.split('/')[0] ?? '') ?? []);
}
