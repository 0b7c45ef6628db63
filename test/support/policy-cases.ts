import { type CaseSets, readCases } from './cases.ts';

/** A policy document, as it stands in the cases; only what tests need of it is named. */
export interface PolicyDocument {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec?: Readonly<Record<string, unknown>>;
}

export interface CaseClient {
  readonly ip: string;
  readonly tls: 'none' | 'mesh' | 'mesh-no-cert' | 'passthrough';
  readonly identity?: string;
  readonly sni?: string;
}

export interface CaseRequest {
  readonly proto: 'http/1.1' | 'http/2' | 'grpc' | 'tcp';
  readonly port: number;
  readonly method?: string;
  readonly host?: string;
  readonly path?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly payload?: string;
}

export interface SingleExpectation {
  readonly decision: 'allow' | 'deny' | 'not-found' | 'rate-limited';
  readonly wire: 'http' | 'grpc' | 'tcp' | 'closed';
  readonly status?: number;
  readonly grpc_status?: number;
  readonly metric: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly authz_any_of?: readonly string[];
  /** In place of what the client's TLS and the case say. */
  readonly tls?: Readonly<Record<string, string>>;
}

export interface BurstExpectation {
  readonly allow: number;
  readonly rate_limited: number;
  readonly other: number;
  readonly scopes?: readonly string[];
}

interface CheckFacts {
  readonly id: string;
  readonly client: CaseClient;
  readonly request: CaseRequest;
  readonly note?: string;
}
export interface SingleCheck extends CheckFacts {
  readonly burst?: undefined;
  readonly expect: SingleExpectation;
}
export interface BurstCheck extends CheckFacts {
  readonly burst: number;
  readonly expect: BurstExpectation;
}
export type PolicyCheck = SingleCheck | BurstCheck;

export interface PolicyStep {
  readonly title: string;
  readonly apply?: readonly PolicyDocument[];
  /** `Kind/namespace/name`. */
  readonly delete?: readonly string[];
  readonly checks: readonly PolicyCheck[];
}

export interface CaseSettings {
  readonly defaultInboundPolicy: string;
  readonly clusterNetworks: readonly string[];
  readonly probeNetworks: readonly string[];
  readonly identityDomain: string;
  readonly controlPlaneNamespace: string;
  readonly detectTimeout: string;
}

/** A Pod, of which tests only add annotations. */
export interface CasePod {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly status: { readonly podIPs: readonly { readonly ip: string }[] };
}

export interface PolicyCase {
  readonly id: string;
  readonly title: string;
  readonly tags: readonly string[];
  readonly settings?: Partial<CaseSettings>;
  readonly pod?: CasePod;
  readonly podAnnotations?: Readonly<Record<string, string>>;
  readonly resources: readonly PolicyDocument[];
  /** `Kind/name` of documents that admission refuses: they must have no effect. */
  readonly rejected?: readonly string[];
  readonly same_connection?: boolean;
  readonly checks: readonly PolicyCheck[];
  readonly steps?: readonly PolicyStep[];
}

export interface PolicyCases {
  readonly defaults: { readonly settings: CaseSettings; readonly pod: CasePod };
  readonly cases: readonly PolicyCase[];
}

export function readPolicyCases(): CaseSets<PolicyCases> {
  return readCases<PolicyCases>('policy-cases.yaml', 'policy-cases.yaml');
}

export function allChecks(policyCase: PolicyCase): PolicyCheck[] {
  return [...policyCase.checks, ...(policyCase.steps ?? []).flatMap(({ checks }) => checks)];
}

/** The Pod with the case's annotations, as a manifest. */
export function podOf({ defaults }: PolicyCases, policyCase: PolicyCase): CasePod {
  const pod = policyCase.pod ?? defaults.pod;
  return { ...pod, metadata: { ...pod.metadata, annotations: policyCase.podAnnotations ?? {} } };
}

/** The documents after a step: deletions by `Kind/namespace/name`, then additions, which replace by the same key. */
export function afterStep(documents: readonly PolicyDocument[], step: PolicyStep): PolicyDocument[] {
  const key = ({ kind, metadata }: PolicyDocument): string => `${kind}/${metadata.namespace}/${metadata.name}`;
  const gone = new Set([...(step.delete ?? []), ...(step.apply ?? []).map(key)]);
  return [...documents.filter((document) => !gone.has(key(document))), ...(step.apply ?? [])];
}
