import * as z from 'zod';
import { token } from '../../http-message.ts';
import { gatewayGroup, linkerdGroup } from './types.ts';

/*
 * The shapes of the documents' specs, as the CRDs give them, with the defaults that the API server would fill in.
 * Objects are strict so that unknown fields can be named; what becomes of a document that has one is decided per field
 * in `kinds.ts`. Shapes say nothing of meaning: that is admission's part.
 */

const name = z.string().min(1);
/** References, with the patterns and lengths of the CRDs. */
const refGroup = z
  .string()
  .max(253)
  .regex(/^$|^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/, 'must be an API group');
const refKind = z
  .string()
  .min(1)
  .max(63)
  .regex(/^[a-zA-Z](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$/, 'must be the name of a kind');
const refName = z.string().min(1).max(253);
const refNamespace = z.string().min(1).max(253);
const dnsLabel = z
  .string()
  .regex(/^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens');
/** An own type, because a record type would lose a label called `__proto__`. */
const stringMap = z
  .custom<Record<string, string>>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      !Array.isArray(value) &&
      Object.values(value).every((entry) => typeof entry === 'string'),
    'must be a map from strings to strings (quote numbers and booleans)',
  )
  .transform((map): readonly (readonly [string, string])[] => Object.entries(map));

export const metadataShape = z.looseObject({
  name: z
    .string()
    .max(253)
    .regex(/^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/, 'must be a lower-case DNS name'),
  namespace: z
    .string()
    .max(63)
    // An empty text is none, as to the API server.
    .regex(/^$|^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/, 'must be a lower-case DNS label')
    .optional(),
  labels: stringMap.optional(),
  // YAML readers turn an unquoted timestamp into a Date.
  creationTimestamp: z
    .union([z.date(), z.string()])
    .transform((value) => (typeof value === 'string' ? Date.parse(value) : value.getTime()))
    .refine((ms) => Number.isFinite(ms), 'must be a timestamp')
    .optional(),
});

export const selector = z.strictObject({
  matchLabels: stringMap.optional(),
  matchExpressions: z
    .array(
      z.strictObject({
        key: name,
        operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
        values: z.array(z.string()).optional(),
      }),
    )
    .optional(),
});
export type SelectorShape = z.infer<typeof selector>;

const portNumber = z.int().min(1).max(65535);
const serverPort = z.union([portNumber, z.string().min(1)], 'must be a port from 1 to 65535 or the name of a port');
export const serverFields = {
  port: serverPort,
  proxyProtocol: z.enum(['unknown', 'HTTP/1', 'HTTP/2', 'gRPC', 'opaque', 'TLS']).default('unknown'),
};
const externalServerFields = {
  ...serverFields,
  podSelector: selector.optional(),
  externalWorkloadSelector: selector.optional(),
};
export const serverShapes = {
  v1alpha1: z.strictObject({ ...serverFields, podSelector: selector }),
  v1beta1: z.strictObject({ ...serverFields, podSelector: selector }),
  v1beta2: z.strictObject(externalServerFields),
  v1beta3: z.strictObject({ ...externalServerFields, accessPolicy: z.string().default('deny') }),
};
export interface ServerShape {
  readonly port: number | string;
  readonly proxyProtocol: 'unknown' | 'HTTP/1' | 'HTTP/2' | 'gRPC' | 'opaque' | 'TLS';
  readonly podSelector?: SelectorShape | undefined;
  readonly externalWorkloadSelector?: SelectorShape | undefined;
  /** Older versions are stored as v1beta3, hence with its default: deny. */
  readonly accessPolicy?: string;
}

/** `{cidr}` or, in `except` and for `podClusterIp`, the bare string. */
const bareCidr = z.preprocess(
  (value) => (typeof value === 'string' ? { cidr: value } : value),
  z.strictObject({ cidr: name }),
);
const network = z.preprocess(
  (value) => (value === 'podClusterIp' ? { cidr: value } : value),
  z.strictObject({ cidr: name.optional(), except: z.array(bareCidr).optional() }),
);
export type NetworkShape = z.infer<typeof network>;

const accountRef = z.strictObject({ name: dnsLabel, namespace: dnsLabel.optional() });
const serverAuthorization = z.strictObject({
  server: z.strictObject({ name: dnsLabel.optional(), selector: selector.optional() }),
  client: z.strictObject({
    unauthenticated: z.boolean().optional(),
    networks: z.array(network).optional(),
    meshTLS: z
      .strictObject({
        unauthenticatedTLS: z.boolean().optional(),
        identities: z.array(z.string()).optional(),
        serviceAccounts: z.array(accountRef).optional(),
      })
      .optional(),
  }),
});
export const serverAuthorizationShapes = { v1alpha1: serverAuthorization, v1beta1: serverAuthorization };
export type ServerAuthorizationShape = z.infer<typeof serverAuthorization>;

const group = refGroup.optional();
const targetRef = z.strictObject({ group, kind: refKind, name: refName });
export type TargetRefShape = z.infer<typeof targetRef>;
const namespacedRef = z.strictObject({ group, kind: refKind, name: refName, namespace: refNamespace.optional() });
const authorizationPolicy = z.strictObject({ targetRef, requiredAuthenticationRefs: z.array(namespacedRef) });
export const authorizationPolicyShapes = { v1alpha1: authorizationPolicy };
export type AuthorizationPolicyShape = z.infer<typeof authorizationPolicy>;

const meshTlsAuthentication = z.strictObject({
  identities: z.array(z.string()).min(1).optional(),
  identityRefs: z
    .array(z.strictObject({ group, kind: refKind, name: refName.optional(), namespace: refNamespace.optional() }))
    .min(1)
    .optional(),
});
export const meshTlsAuthenticationShapes = { v1alpha1: meshTlsAuthentication };
export type MeshTlsAuthenticationShape = z.infer<typeof meshTlsAuthentication>;

const networkAuthentication = z.strictObject({ networks: z.array(network).min(1) });
export const networkAuthenticationShapes = { v1alpha1: networkAuthentication };
export type NetworkAuthenticationShape = z.infer<typeof networkAuthentication>;

const rate = z.strictObject({ requestsPerSecond: z.int().min(0) });
const rateLimit = z.strictObject({
  targetRef,
  total: rate.optional(),
  identity: rate.optional(),
  overrides: z.array(z.strictObject({ ...rate.shape, clientRefs: z.array(namespacedRef).min(1) })).optional(),
});
export const rateLimitShapes = { v1alpha1: rateLimit };
export type RateLimitShape = z.infer<typeof rateLimit>;

const fieldName = z.string().regex(token, 'must be an HTTP field name');
/** A value that can be sent in a header as it stands (RFC 9110 section 5.5). */
const headerValue = z.string().regex(/^[\t\x20-\x7e\x80-\uffff]*$/, 'must not hold control characters');
const matchType = z.enum(['Exact', 'RegularExpression']).default('Exact');
const headerMatches = z
  .array(z.strictObject({ type: matchType, name: fieldName.max(256), value: z.string().min(1).max(4096) }))
  .default([]);
const headerSetting = z.strictObject({ name: fieldName.max(256), value: headerValue.min(1).max(4096) });
const headerModifier = z.strictObject({
  add: z.array(headerSetting).default([]),
  set: z.array(headerSetting).default([]),
  remove: z.array(fieldName).default([]),
});
export type HeaderModifierShape = z.infer<typeof headerModifier>;
const redirect = (status: readonly [number, ...number[]]) =>
  z.strictObject({
    scheme: z.enum(['http', 'https']).optional(),
    hostname: z
      .string()
      .regex(/^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/, 'must be a host name')
      .optional(),
    port: portNumber.optional(),
    path: z
      .strictObject({
        type: z.enum(['ReplaceFullPath', 'ReplacePrefixMatch']),
        replaceFullPath: z.string().optional(),
        replacePrefixMatch: z.string().optional(),
      })
      .optional(),
    statusCode: z.literal([...status]).default(302),
  });
export type RedirectShape = z.infer<ReturnType<typeof redirect>>;
const filter = (status: readonly [number, ...number[]]) =>
  z.strictObject({
    type: name,
    requestHeaderModifier: headerModifier.optional(),
    responseHeaderModifier: z.unknown().optional(),
    requestRedirect: redirect(status).optional(),
    // Of the Gateway API, unsupported inbound: admission says so with the filter's type.
    urlRewrite: z.unknown().optional(),
    requestMirror: z.unknown().optional(),
    extensionRef: z.unknown().optional(),
    cors: z.unknown().optional(),
    externalAuth: z.unknown().optional(),
  });
export type FilterShape = z.infer<ReturnType<typeof filter>>;

/** Fields that say where a request goes, which is settled inbound: known, and without effect here. */
const ignoredRuleFields = {
  name: z.unknown().optional(),
  backendRefs: z.unknown().optional(),
  timeouts: z.unknown().optional(),
  retry: z.unknown().optional(),
  sessionPersistence: z.unknown().optional(),
};
const parentRef = (ownGroup: string) =>
  z.strictObject({
    group: refGroup.default(ownGroup),
    kind: refKind.default('Gateway'),
    namespace: dnsLabel.optional(),
    name: refName,
    sectionName: refName.optional(),
    port: portNumber.optional(),
  });
/** All that is read of a route that attaches to no Server: whether it does must be beyond doubt. */
export const unattachedRouteShape = z.looseObject({
  parentRefs: z.array(parentRef(gatewayGroup).loose()).optional(),
});
export const routeFields = (ownGroup: string) => ({
  parentRefs: z.array(parentRef(ownGroup)).default([]),
  hostnames: z
    .array(
      z
        .string()
        .regex(
          /^(?:\*\.)?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/,
          'must be a lower-case host name, or one that begins with "*."',
        ),
    )
    .default([]),
  useDefaultGateways: z.unknown().optional(),
});

const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH'] as const;
const anyPath = { type: 'PathPrefix' as const, value: '/' };
const httpMatch = (parameter: z.ZodType<string, string>) =>
  z.strictObject({
    path: z
      .strictObject({
        type: z.enum(['Exact', 'PathPrefix', 'RegularExpression']).default('PathPrefix'),
        value: z.string().default('/'),
      })
      .default(anyPath),
    headers: headerMatches,
    queryParams: z
      .array(z.strictObject({ type: matchType, name: parameter, value: z.string().min(1).max(1024) }))
      .default([]),
    method: z.enum(httpMethods).optional(),
  });
export type HttpMatchShape = z.infer<ReturnType<typeof httpMatch>>;
const anyHttp: HttpMatchShape = { path: anyPath, headers: [], queryParams: [] };
const httpRoute = (
  ownGroup: string,
  redirectStatus: readonly [number, ...number[]],
  parameter: z.ZodType<string, string>,
) =>
  z.strictObject({
    ...routeFields(ownGroup),
    rules: z
      .array(
        z.strictObject({
          matches: z.array(httpMatch(parameter)).default([anyHttp]),
          filters: z.array(filter(redirectStatus)).default([]),
          ...ignoredRuleFields,
        }),
      )
      .default([{ matches: [anyHttp], filters: [] }]),
  });
const linkerdParameter = z.string().min(1).max(256);
const gatewayParameter = fieldName.max(256);
const linkerdHttpRoute = httpRoute(linkerdGroup, [301, 302], linkerdParameter);
const gatewayHttpRoute = httpRoute(gatewayGroup, [301, 302, 303, 307, 308], gatewayParameter);
/** One match of an HTTPRoute, by the route's group. */
export const httpMatchShapes = {
  [linkerdGroup]: httpMatch(linkerdParameter),
  [gatewayGroup]: httpMatch(gatewayParameter),
} as const;
export const linkerdHttpRouteShapes = {
  v1alpha1: linkerdHttpRoute,
  v1beta1: linkerdHttpRoute,
  v1beta2: linkerdHttpRoute,
  v1beta3: linkerdHttpRoute,
};
export const gatewayHttpRouteShapes = { v1beta1: gatewayHttpRoute, v1: gatewayHttpRoute };
export type HttpRouteShape = z.infer<typeof linkerdHttpRoute>;

export const grpcMatch = z.strictObject({
  method: z
    .strictObject({
      type: z.enum(['Exact', 'RegularExpression']).default('Exact'),
      service: name.max(1024).optional(),
      method: name.max(1024).optional(),
    })
    .optional(),
  headers: headerMatches,
});
export type GrpcMatchShape = z.infer<typeof grpcMatch>;
const grpcRoute = z.strictObject({
  ...routeFields(gatewayGroup),
  rules: z
    .array(
      z.strictObject({
        matches: z.array(grpcMatch).default([]),
        filters: z.array(filter([302])).default([]),
        ...ignoredRuleFields,
      }),
    )
    // Unlike an HTTPRoute's, an absent list has no default: such a route matches nothing.
    .default([]),
});
export const grpcRouteShapes = { v1alpha2: grpcRoute, v1: grpcRoute };
export type GrpcRouteShape = z.infer<typeof grpcRoute>;
export type RouteShape = HttpRouteShape | GrpcRouteShape;

/** A quoted number is no port's name: IANA service names hold a letter (RFC 6335 section 5.1). */
const portName = z
  .string()
  .max(15)
  .regex(/^(?=.*[a-z])[a-z0-9](?:-?[a-z0-9])*$/, 'must be a port from 1 to 65535 or the name of a port');
const ingressPeer = z.strictObject({
  podSelector: selector.optional(),
  namespaceSelector: selector.optional(),
  ipBlock: z.strictObject({ cidr: name, except: z.array(name).default([]) }).optional(),
});
export type IngressPeerShape = z.infer<typeof ingressPeer>;
const ingressPort = z.strictObject({
  protocol: z.enum(['TCP', 'UDP', 'SCTP']).default('TCP'),
  port: z.union([portNumber, portName], 'must be a port from 1 to 65535 or the name of a port').optional(),
  endPort: portNumber.optional(),
});
export type IngressPortShape = z.infer<typeof ingressPort>;
const ingressRule = z.strictObject({
  ports: z.array(ingressPort).default([]),
  from: z.array(ingressPeer).default([]),
});
const networkPolicy = z.strictObject({
  podSelector: z.unknown().optional(),
  policyTypes: z.array(z.enum(['Ingress', 'Egress'])).default([]),
  ingress: z.array(z.unknown()).default([]),
  egress: z.array(z.unknown()).default([]),
});
/** The parts of a NetworkPolicy, apart from each other: a fault in one must not take the others away. */
export const networkPolicyParts = {
  spec: networkPolicy,
  podSelector: selector,
  rule: ingressRule,
  /** For the names of fields: nothing is read by it. */
  whole: z.strictObject({
    ...networkPolicy.shape,
    podSelector: selector,
    ingress: z.array(ingressRule),
    egress: z.unknown(),
  }),
};
