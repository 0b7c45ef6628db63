import * as z from 'zod';
import {
  admitAuthorizationPolicy,
  admitMeshTlsAuthentication,
  admitNetworkAuthentication,
  admitRateLimit,
  admitServer,
  admitServerAuthorization,
  admitServerV1alpha1,
} from './admit.ts';
import { admitNamespace, admitPod } from './admit-cluster.ts';
import { admitNetworkPolicy, networkPolicyMarks, unreadablePolicy } from './admit-network-policy.ts';
import { admitGrpcRoute, admitHttpRoute, isKindMisspelt, mayMeanServer } from './admit-routes.ts';
import type { Holder } from './nulls.ts';
import type { AdmissionContext, Path } from './report.ts';
import {
  type AuthorizationPolicyShape,
  authorizationPolicyShapes,
  type GrpcRouteShape,
  gatewayHttpRouteShapes,
  grpcRouteShapes,
  type HttpRouteShape,
  linkerdHttpRouteShapes,
  type MeshTlsAuthenticationShape,
  meshTlsAuthenticationShapes,
  type NetworkAuthenticationShape,
  networkAuthenticationShapes,
  networkPolicyParts,
  type RateLimitShape,
  rateLimitShapes,
  type ServerAuthorizationShape,
  type ServerShape,
  serverAuthorizationShapes,
  serverShapes,
} from './shapes.ts';
import { grpcRouteStandIn, httpRouteStandIn, rateLimitStandIn, serverStandIn } from './stand-ins.ts';
import {
  type DocumentMeta,
  gatewayGroup,
  linkerdGroup,
  networkPolicyGroup,
  type PolicyDocument,
  type RouteGroup,
} from './types.ts';

/**
 * What becomes of a document that holds a field we do not know. The API server would drop such a field, which is harmless
 * only where the field could not have narrowed anything:
 * - `prune`: drop it and warn;
 * - `refuse`: the document has no effect, because without the field it might grant more than was meant;
 * - `seal`: the part that holds it keeps its place but refuses what it matches, because taking it away (or reading it
 *   without the field) might hand the same requests to something wider;
 * - `fault`: drop it and call it an error, where neither refusing nor sealing would narrow anything.
 */
export type UnknownFieldFate = 'prune' | 'refuse' | 'seal' | 'fault';

export interface DocumentKind {
  readonly group: string;
  readonly kind: PolicyDocument['kind'];
  /** The shape of `spec` by version. */
  readonly shapes: Readonly<Record<string, z.ZodType>>;
  /** For the names of fields, where `shapes` reads none. */
  readonly fields?: z.ZodType;
  /** `path` leads to `holder`, the object that holds the field. */
  unknownField(path: Path, field: string, holder: Holder, namespace: string): UnknownFieldFate;
  /** `spec` has the version's shape. The result is never used where the report has refused the document. */
  admit(spec: unknown, version: string, context: AdmissionContext): PolicyDocument;
  /** Fields that linking may have to point at. */
  marks(spec: unknown): readonly Path[];
  /** Present for routes: whether a spec of any shape concerns inbound policy at all. */
  concerns?(spec: unknown): boolean;
  /**
   * Present where a refused document must not be without effect, since it might have refused something, or where others refer
   * to it: what stands for it.
   * `spec` is of any shape.
   */
  standIn?(spec: unknown, meta: DocumentMeta): PolicyDocument | null;
  /** Fields that may be without a value (null), though elsewhere that is refused: without them the document closes more. */
  mayLack?(path: Path): boolean;
  /** It belongs to no namespace. */
  readonly clusterScoped?: boolean;
}

const serverKind: DocumentKind = {
  group: linkerdGroup,
  kind: 'Server',
  shapes: serverShapes,
  unknownField: (path, field) => {
    // A port that was to speak one protocol would carry any bytes.
    if (path.length === 0 && /proto/i.test(field)) return 'seal';
    if (!path.includes('podSelector') && !path.includes('externalWorkloadSelector')) return 'prune';
    // Without its `values` an expression holds for no pod, and the port would be nobody's.
    return path.includes('matchExpressions') ? 'refuse' : 'seal';
  },
  admit: (spec, version, { report, meta, sealed }) => {
    const admit = version === 'v1alpha1' ? admitServerV1alpha1 : admitServer;
    return { kind: 'Server', ...meta, spec: admit(spec as ServerShape, report, sealed.length > 0) };
  },
  marks: () => [
    ['spec', 'port'],
    ['spec', 'podSelector'],
    ['spec', 'externalWorkloadSelector'],
    ['spec', 'proxyProtocol'],
    ['spec', 'accessPolicy'],
  ],
  standIn: serverStandIn,
};

const serverAuthorizationKind: DocumentKind = {
  group: linkerdGroup,
  kind: 'ServerAuthorization',
  shapes: serverAuthorizationShapes,
  unknownField: () => 'refuse',
  admit: (spec, _version, { report, meta }) => ({
    kind: 'ServerAuthorization',
    ...meta,
    spec: admitServerAuthorization(spec as ServerAuthorizationShape, report, meta.namespace),
  }),
  marks: () => [
    ['spec', 'server', 'name'],
    ['spec', 'server', 'selector'],
    ['spec', 'client'],
    ['spec', 'client', 'networks'],
    ['spec', 'client', 'meshTLS'],
  ],
};

const authorizationPolicyKind: DocumentKind = {
  group: linkerdGroup,
  kind: 'AuthorizationPolicy',
  shapes: authorizationPolicyShapes,
  // `targetRef.namespace` is a common slip. It may be dropped where it says what is so anyway; else the policy would
  // apply to a Server that was not meant.
  unknownField: (path, field, holder, namespace) =>
    path.at(-1) === 'targetRef' && field === 'namespace' && holder[field] === namespace ? 'prune' : 'refuse',
  admit: (spec, _version, { report, meta }) => ({
    kind: 'AuthorizationPolicy',
    ...meta,
    spec: admitAuthorizationPolicy(spec as AuthorizationPolicyShape, report, meta.namespace),
  }),
  marks: (spec) => [
    ['spec', 'targetRef', 'name'],
    ['spec', 'requiredAuthenticationRefs'],
    ...(spec as AuthorizationPolicyShape).requiredAuthenticationRefs.map(
      (_, i): Path => ['spec', 'requiredAuthenticationRefs', i, 'name'],
    ),
  ],
};

const meshTlsAuthenticationKind: DocumentKind = {
  group: linkerdGroup,
  kind: 'MeshTLSAuthentication',
  shapes: meshTlsAuthenticationShapes,
  unknownField: () => 'refuse',
  admit: (spec, _version, { report, meta }) => ({
    kind: 'MeshTLSAuthentication',
    ...meta,
    spec: admitMeshTlsAuthentication(spec as MeshTlsAuthenticationShape, report, meta.namespace),
  }),
  marks: () => [['spec', 'identities']],
  standIn: (_spec, meta) => ({ kind: 'MeshTLSAuthentication', ...meta, spec: { identities: [], refused: true } }),
};

const networkAuthenticationKind: DocumentKind = {
  group: linkerdGroup,
  kind: 'NetworkAuthentication',
  shapes: networkAuthenticationShapes,
  unknownField: () => 'refuse',
  admit: (spec, _version, { report, meta }) => ({
    kind: 'NetworkAuthentication',
    ...meta,
    spec: admitNetworkAuthentication(spec as NetworkAuthenticationShape, report),
  }),
  marks: () => [['spec', 'networks']],
  standIn: (_spec, meta) => ({ kind: 'NetworkAuthentication', ...meta, spec: { networks: [], refused: true } }),
};

const rateLimitKind: DocumentKind = {
  group: linkerdGroup,
  kind: 'HTTPLocalRateLimitPolicy',
  shapes: rateLimitShapes,
  unknownField: () => 'refuse',
  admit: (spec, _version, { report, meta }) => ({
    kind: 'HTTPLocalRateLimitPolicy',
    ...meta,
    spec: admitRateLimit(spec as RateLimitShape, report, meta.namespace),
  }),
  marks: () => [['spec', 'targetRef', 'name']],
  standIn: rateLimitStandIn,
};

/** A parent of kind Server, in whatever group, or one that cannot be known: only then is a route read further. */
function mayHaveServerParent(spec: unknown): boolean {
  const parents = (spec as { parentRefs?: unknown } | undefined)?.parentRefs;
  if (parents === undefined) return false;
  if (!Array.isArray(parents)) return true;
  return parents.some((ref: object | null) => typeof ref !== 'object' || ref === null || mayMeanServer(ref));
}

/** Without the kind or the group of its parent a route might be attached to nothing, and refuse nothing. */
const routeField =
  (own: RouteGroup) =>
  (path: Path, field: string, holder: Holder): UnknownFieldFate =>
    path[0] === 'parentRefs' && (isKindMisspelt(field) || isDetached(holder, own)) ? 'refuse' : 'seal';

/** Whether a reference that may mean a Server is none to one, as it stands. */
function isDetached({ group, kind }: Holder, own: RouteGroup): boolean {
  return group === undefined && own !== linkerdGroup && mayMeanServer({ group, kind });
}

/** A field outside every rule seals them all. */
function sealedRules(sealed: readonly Path[]): (rule: number) => boolean {
  return (rule) => sealed.some(([, field, index]) => field !== 'rules' || index === undefined || index === rule);
}

const routeMarks = (spec: unknown): readonly Path[] => [
  ['spec', 'hostnames'],
  ...(spec as HttpRouteShape).parentRefs.map((_, i): Path => ['spec', 'parentRefs', i, 'name']),
  ...((spec as HttpRouteShape).rules ?? []).map((_, i): Path => ['spec', 'rules', i]),
];

function httpRouteKind(group: RouteGroup, shapes: DocumentKind['shapes']): DocumentKind {
  return {
    group,
    kind: 'HTTPRoute',
    shapes,
    unknownField: routeField(group),
    admit: (spec, _version, { report, meta, sealed }) => ({
      kind: 'HTTPRoute',
      group,
      ...meta,
      spec: admitHttpRoute(spec as HttpRouteShape, group, report, meta.namespace, sealedRules(sealed)),
    }),
    marks: routeMarks,
    concerns: mayHaveServerParent,
    standIn: (spec, meta) => httpRouteStandIn(group, spec, meta),
  };
}

const grpcRouteKind: DocumentKind = {
  group: gatewayGroup,
  kind: 'GRPCRoute',
  shapes: grpcRouteShapes,
  unknownField: routeField(gatewayGroup),
  admit: (spec, _version, { report, meta, sealed }) => ({
    kind: 'GRPCRoute',
    group: gatewayGroup,
    ...meta,
    spec: admitGrpcRoute(spec as GrpcRouteShape, report, meta.namespace, sealedRules(sealed)),
  }),
  marks: routeMarks,
  concerns: mayHaveServerParent,
  standIn: grpcRouteStandIn,
};

/** A NetworkPolicy reads itself, part by part: see there. */
const networkPolicyKind: DocumentKind = {
  group: networkPolicyGroup,
  kind: 'NetworkPolicy',
  shapes: { v1: z.unknown() },
  fields: networkPolicyParts.whole,
  // Then every pod of the namespace is selected, as the API server has it, and closed but for what the rules open.
  mayLack: ([first, field, ...rest]) =>
    first === 'podSelector' && (field === 'matchLabels' || field === 'matchExpressions') && rest.length === 0,
  unknownField: () => 'fault',
  admit: (spec, _version, { report, meta }) => ({
    kind: 'NetworkPolicy',
    ...meta,
    spec: admitNetworkPolicy(spec, report),
  }),
  marks: networkPolicyMarks,
  standIn: (_spec, meta) => ({ kind: 'NetworkPolicy', ...meta, spec: unreadablePolicy }),
};

const podKind: DocumentKind = {
  group: '',
  kind: 'Pod',
  shapes: { v1: z.unknown() },
  unknownField: () => 'prune',
  admit: (spec, _version, context) => admitPod(spec, context),
  marks: () => [],
};

const namespaceKind: DocumentKind = {
  group: '',
  kind: 'Namespace',
  shapes: { v1: z.unknown() },
  unknownField: () => 'prune',
  admit: (_spec, _version, context) => admitNamespace(context),
  marks: () => [],
  clusterScoped: true,
};

/** Every kind of document that has an effect. */
export const documentKinds: readonly DocumentKind[] = [
  serverKind,
  serverAuthorizationKind,
  authorizationPolicyKind,
  meshTlsAuthenticationKind,
  networkAuthenticationKind,
  httpRouteKind(linkerdGroup, linkerdHttpRouteShapes),
  httpRouteKind(gatewayGroup, gatewayHttpRouteShapes),
  grpcRouteKind,
  rateLimitKind,
  networkPolicyKind,
  podKind,
  namespaceKind,
];
