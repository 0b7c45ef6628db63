import type { IpAddress } from '../../ip.ts';
import type { Problem } from '../../problem.ts';
import type { PortProtocol } from '../decision.ts';
import type { NetworkEntry } from '../networks.ts';
import type { GrpcMatch, HttpMatch, RouteRule } from '../route-rule.ts';
import type { Selector } from '../selectors.ts';
import type { DefaultPolicy } from '../workload.ts';

/** Line and column of fields that a later stage may have to point at; `path` is joined with dots, empty for the document. */
export type Mark = readonly [path: string, line: number, column: number];

/** What every document carries. Plain data throughout: documents are read in a worker thread and cloned. */
export interface DocumentMeta {
  readonly namespace: string;
  readonly name: string;
  readonly labels: readonly (readonly [string, string])[];
  /** From `creationTimestamp`; null, which sorts last, where absent. */
  readonly createdMs: number | null;
  /** The annotation `sallyport.dev/allow`: warnings that are meant to be so. Absent where it is not written. */
  readonly allowed?: string;
  readonly file: string;
  readonly marks: readonly Mark[];
}

export interface ServerDocument extends DocumentMeta {
  readonly kind: 'Server';
  readonly spec: {
    /** Null: selects ExternalWorkloads, hence no pod. */
    readonly podSelector: Selector | null;
    /** Null: selects pods alone. */
    readonly externalWorkloadSelector: Selector | null;
    /** A number, or a port name (a quoted number is a name). Null: it cannot be read, so every port is taken to be meant. */
    readonly port: number | string | null;
    readonly protocol: PortProtocol;
    readonly accessPolicy: DefaultPolicy;
    /** It was refused, or its selector holds a field we do not know: it keeps its place but grants nothing. */
    readonly sealed: boolean;
  };
}

/** An identity as a document names it; references become identities when the trust domain is known. */
export type IdentitySource =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'service-account'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'namespace'; readonly name: string };

export type ClientTlsRequirement =
  | { readonly kind: 'unauthenticated' }
  | { readonly kind: 'any-tls' }
  /** An empty list is satisfied by nobody. */
  | { readonly kind: 'identities'; readonly identities: readonly IdentitySource[] };

export interface ServerAuthorizationDocument extends DocumentMeta {
  readonly kind: 'ServerAuthorization';
  readonly spec: {
    readonly server: { readonly name: string } | { readonly selector: Selector };
    /** Null: nothing configured, so the document grants nothing. */
    readonly tls: ClientTlsRequirement | null;
    /** Null: absent, which means the cluster networks. */
    readonly networks: readonly NetworkEntry[] | null;
  };
}

export type PolicyTarget =
  | { readonly kind: 'server'; readonly name: string }
  | { readonly kind: 'namespace' }
  | {
      readonly kind: 'route';
      readonly group: RouteGroup;
      readonly route: 'HTTPRoute' | 'GRPCRoute';
      readonly name: string;
    };

export interface AuthenticationRef {
  readonly kind: 'MeshTLSAuthentication' | 'NetworkAuthentication' | 'ServiceAccount';
  readonly namespace: string;
  readonly name: string;
}

export interface AuthorizationPolicyDocument extends DocumentMeta {
  readonly kind: 'AuthorizationPolicy';
  readonly spec: {
    readonly target: PolicyTarget;
    /** All must hold. Empty admits everyone. At most one of identity kind, at most one NetworkAuthentication. */
    readonly required: readonly AuthenticationRef[];
  };
}

export interface MeshTLSAuthenticationDocument extends DocumentMeta {
  readonly kind: 'MeshTLSAuthentication';
  readonly spec: {
    readonly identities: readonly IdentitySource[];
    /** It was refused, and is here for whoever refers to it to say so. */
    readonly refused?: true;
  };
}

export interface NetworkAuthenticationDocument extends DocumentMeta {
  readonly kind: 'NetworkAuthentication';
  readonly spec: { readonly networks: readonly NetworkEntry[]; readonly refused?: true };
}

export type RouteGroup = 'policy.linkerd.io' | 'gateway.networking.k8s.io';

/** A Server, of the route's own namespace, that a route attaches to. */
export interface RouteParent {
  readonly name: string;
  /** Its place in `parentRefs`. */
  readonly index: number;
}

/** Of a route that was refused and stands only to refuse. */
export interface RefusedRoute {
  /** Its parents cannot be read: any Server of the namespace may be one. */
  readonly everyServer: boolean;
  /** By rule: it cannot be read whole, so that it comes before every other rule; else it has the place it would have had. */
  readonly vague: readonly boolean[];
}

interface RouteDocumentMeta extends DocumentMeta {
  readonly group: RouteGroup;
}
export interface HttpRouteDocument extends RouteDocumentMeta {
  readonly kind: 'HTTPRoute';
  readonly spec: {
    readonly parents: readonly RouteParent[];
    readonly hostnames: readonly string[];
    readonly rules: readonly RouteRule<HttpMatch>[];
    readonly refused?: RefusedRoute;
  };
}
export interface GrpcRouteDocument extends RouteDocumentMeta {
  readonly kind: 'GRPCRoute';
  readonly spec: {
    readonly parents: readonly RouteParent[];
    readonly hostnames: readonly string[];
    readonly rules: readonly RouteRule<GrpcMatch>[];
    readonly refused?: RefusedRoute;
  };
}

export interface RateLimitDocument extends DocumentMeta {
  readonly kind: 'HTTPLocalRateLimitPolicy';
  readonly spec: {
    readonly server: string;
    /** It was refused: nobody knows what it would have let through. `everyServer`: nor of which Server. */
    readonly refused?: { readonly everyServer: boolean };
    /** Requests a second; null is no limit. */
    readonly total: number | null;
    readonly identity: number | null;
    readonly overrides: readonly {
      readonly requestsPerSecond: number;
      readonly clients: readonly { readonly namespace: string; readonly name: string }[];
    }[];
  };
}

/** TCP ports that an ingress rule opens, first and last included; or the name of a port, for the pod to resolve. */
export type IngressPort = { readonly first: number; readonly last: number } | { readonly name: string };

export type IngressPeer =
  | { readonly kind: 'block'; readonly block: NetworkEntry }
  /** `pods` null: all of them. `namespaces` null: the policy's own namespace. */
  | { readonly kind: 'pods'; readonly pods: Selector | null; readonly namespaces: Selector | null };

export interface IngressRule {
  /** Null: every port. An empty list opens none: all of its entries were for protocols other than TCP. */
  readonly ports: readonly IngressPort[] | null;
  /** Null: everyone. */
  readonly from: readonly IngressPeer[] | null;
  /** Holds something that cannot be read: opens nothing. */
  readonly sealed: boolean;
}

export interface NetworkPolicyDocument extends DocumentMeta {
  readonly kind: 'NetworkPolicy';
  readonly spec: {
    /** Null: it cannot be read, so every pod of the namespace is taken to be selected. */
    readonly podSelector: Selector | null;
    /** False: `policyTypes` leaves ingress out. */
    readonly ingress: boolean;
    /** It has egress rules or claims the egress type, of which nothing is enforced here. */
    readonly egress: boolean;
    readonly rules: readonly IngressRule[];
  };
}

/** What a NetworkPolicy must know of a pod. */
export interface PodDocument extends DocumentMeta {
  readonly kind: 'Pod';
  readonly spec: {
    /** Where its connections come from; empty while it has no address of its own, or no more. */
    readonly ips: readonly IpAddress[];
    readonly nodeIps: readonly IpAddress[];
    /** Why it has no address of its own although its status shows one. */
    readonly without: 'host-network' | 'terminated' | null;
    /** The ServiceAccount it runs as; null where the listing does not say. */
    readonly account: string | null;
  };
}

/** The API server sets it on every Namespace, with the name. */
export const namespaceNameLabel = 'kubernetes.io/metadata.name';

/** Of no namespace itself: `namespace` is empty. */
export interface NamespaceDocument extends DocumentMeta {
  readonly kind: 'Namespace';
  readonly spec: Readonly<Record<string, never>>;
}

/** What a cluster says of itself. No policy, but what the selectors of NetworkPolicies are resolved by. */
export type ClusterDocument = PodDocument | NamespaceDocument;

export type PolicyDocument =
  | ServerDocument
  | ServerAuthorizationDocument
  | AuthorizationPolicyDocument
  | MeshTLSAuthenticationDocument
  | NetworkAuthenticationDocument
  | HttpRouteDocument
  | GrpcRouteDocument
  | RateLimitDocument
  | NetworkPolicyDocument
  | ClusterDocument;

/** What `sallyport test` reads. It may stand beside policy, and says nothing to a proxy. */
export const policyTest = { group: 'sallyport.dev', apiVersion: 'sallyport.dev/v1alpha1', kind: 'PolicyTest' } as const;

export const linkerdGroup = 'policy.linkerd.io';
export const gatewayGroup = 'gateway.networking.k8s.io';

export const networkPolicyGroup = 'networking.k8s.io';

export function isClusterDocument(document: PolicyDocument): document is ClusterDocument {
  return document.kind === 'Pod' || document.kind === 'Namespace';
}

/** The API group of a document; only routes come in two. */
export function groupOf(document: PolicyDocument): string {
  if (isClusterDocument(document)) return '';
  if (document.kind === 'NetworkPolicy') return networkPolicyGroup;
  return 'group' in document ? document.group : linkerdGroup;
}

/** What names a document in the whole set. */
export function documentKey(document: PolicyDocument): string {
  return keyOf(groupOf(document), document.kind, document.namespace, document.name);
}

export function keyOf(group: string, kind: string, namespace: string, name: string): string {
  return [group, kind, namespace, name].join('/');
}

/** An authentication that authenticates nobody, since it was refused. */
export function isRefusedAuthentication(document: PolicyDocument): boolean {
  const { kind } = document;
  return (kind === 'MeshTLSAuthentication' || kind === 'NetworkAuthentication') && document.spec.refused === true;
}

/** Line and column of a field that linking points at; of the nearest recorded ancestor otherwise. */
export function locate(
  document: DocumentMeta,
  ...path: readonly (string | number)[]
): { file: string; line: number; column: number } {
  const wanted = path.join('.');
  let best: Mark | undefined;
  for (const mark of document.marks) {
    const [at] = mark;
    const above = at === '' || wanted === at || wanted.startsWith(`${at}.`);
    if (above && (best === undefined || at.length >= best[0].length)) best = mark;
  }
  return { file: document.file, line: best?.[1] ?? 1, column: best?.[2] ?? 1 };
}

export function resourceOf(document: PolicyDocument): NonNullable<Problem['resource']> {
  return { kind: document.kind, namespace: document.namespace, name: document.name };
}
