import { parseAllDocuments } from 'yaml';
import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { createAuthorizer, type PolicyAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { readDocuments, type SourceDocument } from '../../lib/policy/documents/read.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../../lib/policy/explain.ts';
import type { Probe } from '../../lib/policy/probes.ts';
import { noPorts, type Workload } from '../../lib/policy/workload.ts';
import type { Problem } from '../../lib/problem.ts';

export function ip(text: string): IpAddress {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new Error(`not an address: ${text}`);
  return parsed;
}

/** `httpGet` of each path. */
export function httpProbes(...paths: string[]): Probe[] {
  return paths.map((path) => ({ kind: 'http', path }));
}

/** A pod `web-0` in `shop` with ports http (8080) and grpc (7070), closed by default, probed on 8080/live. */
export function workload(over: Partial<Workload> = {}): Workload {
  return {
    podName: 'web-0',
    namespace: 'shop',
    namespaceStated: true,
    labels: new Map([
      ['app', 'web'],
      ['tier', 'front'],
    ]),
    ips: [ip('10.244.1.10'), ip('fd00:10:244:1::10')],
    ipsStated: true,
    containerPorts: new Set([8080, 7070]),
    nodeIps: [],
    namedPorts: new Map([
      ['http', [8080]],
      ['grpc', [7070]],
    ]),
    adminPort: null,
    probes: new Map([[8080, httpProbes('/live')]]),
    probesWithRoutes: false,
    defaultPolicy: 'deny',
    opaquePorts: noPorts,
    requireIdentityPorts: noPorts,
    clusterNetworks: ['10.0.0.0/8'],
    probeNetworks: ['0.0.0.0/0', '::/0'],
    authorizeLocalhost: true,
    controlPlaneNamespace: 'linkerd',
    trustDomain: 'cluster.local',
    detectTimeoutMs: 10_000,
    ...over,
  };
}

/** YAML as in a policy file. A position is the depth of the field asked for, so that tests can tell fields apart. */
export function sources(text: string): SourceDocument[] {
  return parseAllDocuments(text).map((document, i) => ({
    value: document.toJS(),
    file: 'policy.yaml',
    position: (path) => ({ line: i + 1, column: path.length + 1 }),
  }));
}

export interface Loaded {
  readonly authorizer: PolicyAuthorizer;
  readonly problems: readonly Problem[];
  readonly clock: { nowMs: number };
  ask(query: Partial<Omit<ExplainQuery, 'ip'>> & { readonly ip?: string }): ExplainJson;
}

/** Documents in force. Questions come from 10.20.0.5 without TLS to port 8080 unless they say otherwise. */
/** The request of a client that asks for nothing in particular. */
export const plainFacts = {
  method: 'GET',
  path: '/',
  query: '',
  host: 'h',
  grpc: false,
  carries: 'nothing',
  header: () => [],
  oddNames: [],
} as const;

export function load(text: string, over: Partial<Workload> = {}): Loaded {
  const clock = { nowMs: 1_000_000 };
  const authorizer = createAuthorizer({ nowMs: () => clock.nowMs });
  const read = readDocuments(sources(text), { namespace: 'shop' });
  const compiled = compileNow(read.documents, workload(over));
  authorizer.swap(compiled.index);
  return {
    authorizer,
    clock,
    problems: [...read.problems, ...compiled.problems],
    ask: ({ ip: from = '10.20.0.5', ...query }) => explain(authorizer, { port: 8080, ...query, ip: ip(from) }),
  };
}

export function account(name: string, namespace = 'shop'): string {
  return `${name}.${namespace}.serviceaccount.identity.linkerd.cluster.local`;
}

/** A Server `web` for port 8080. */
export function server(spec = ''): string {
  return `
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, labels: {app: web}}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080${spec === '' ? '' : `, ${spec}`}}
`;
}

/** An HTTPRoute on Server `web` with one rule for each match, in YAML's flow style. */
export function route(name: string, match: string, extra = '', meta = ''): string {
  return `
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}${meta}}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [${match}]${extra}}]
`;
}

/** An AuthorizationPolicy; `required` in flow style, empty for everyone. */
export function policy(name: string, target: string, required = ''): string {
  return `
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}}
spec:
  targetRef: {group: policy.linkerd.io, ${target}}
  requiredAuthenticationRefs: [${required}]
`;
}

/** A policy that lets everyone use a route. */
export function open(name: string): string {
  return policy(`${name}-open`, `kind: HTTPRoute, name: ${name}`);
}

export function document(kind: string, name: string, spec: string, apiVersion = 'policy.linkerd.io/v1alpha1'): string {
  return `
---
apiVersion: ${apiVersion}
kind: ${kind}
metadata: {name: ${name}}
spec: ${spec}
`;
}
