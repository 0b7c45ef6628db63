import { identityFault } from '../identities.ts';
import { didYouMean } from '../nearest.ts';
import { isWellFormed, type Selector } from '../selectors.ts';
import { defaultPolicies, parseDefaultPolicy } from '../workload.ts';
import { readNetworks } from './admit-networks.ts';
import type { AdmissionReport, Path } from './report.ts';
import type {
  AuthorizationPolicyShape,
  MeshTlsAuthenticationShape,
  NetworkAuthenticationShape,
  RateLimitShape,
  SelectorShape,
  ServerAuthorizationShape,
  ServerShape,
  TargetRefShape,
} from './shapes.ts';
import type {
  AuthenticationRef,
  AuthorizationPolicyDocument,
  ClientTlsRequirement,
  IdentitySource,
  MeshTLSAuthenticationDocument,
  NetworkAuthenticationDocument,
  PolicyTarget,
  RateLimitDocument,
  ServerAuthorizationDocument,
  ServerDocument,
} from './types.ts';
import { gatewayGroup, linkerdGroup } from './types.ts';

/*
 * What Linkerd's admission webhook refuses, kind by kind, and the plain values that compilation works on. Each function
 * gets a spec of the right shape. Where it refuses, its result is never used.
 */

/** Group and kind compare without case; an absent or empty group is `core`. */
export function refersTo(
  ref: { readonly group?: string | undefined; readonly kind: string },
  group: string,
  kind: string,
): boolean {
  const own = ref.group === undefined || ref.group === '' ? 'core' : ref.group.toLowerCase();
  return own === group && ref.kind.toLowerCase() === kind.toLowerCase();
}

function kindText(ref: { readonly group?: string | undefined; readonly kind: string }): string {
  return `${ref.group === undefined || ref.group === '' ? 'core' : ref.group} ${ref.kind}`;
}

export function readSelector(shape: SelectorShape, path: Path, report: AdmissionReport): Selector {
  const selector: Selector = {
    matchLabels: shape.matchLabels ?? [],
    matchExpressions: (shape.matchExpressions ?? []).map(({ key, operator, values }) => ({
      key,
      operator,
      values: values ?? null,
    })),
  };
  selector.matchExpressions.forEach((expression, i) => {
    if (isWellFormed(expression)) return;
    const needs =
      expression.operator === 'In' || expression.operator === 'NotIn' ? 'needs values' : 'must have no values';
    report.warn(
      'selector-never-holds',
      [...path, 'matchExpressions', i],
      `operator ${expression.operator} ${needs}, so the selector selects nothing`,
    );
  });
  return selector;
}

export const protocols = {
  unknown: 'detect',
  'HTTP/1': 'http1',
  'HTTP/2': 'http2',
  gRPC: 'grpc',
  opaque: 'opaque',
  TLS: 'tls',
} as const;

export function admitServer(spec: ServerShape, report: AdmissionReport, sealed: boolean): ServerDocument['spec'] {
  if ((spec.podSelector === undefined) === (spec.externalWorkloadSelector === undefined)) {
    report.refuse(
      'server-selector',
      ['spec'],
      'a Server needs exactly one of podSelector and externalWorkloadSelector',
      'Use podSelector: {} to select every pod of the namespace.',
    );
  }
  const accessPolicy = parseDefaultPolicy(spec.accessPolicy ?? 'deny');
  if (accessPolicy === undefined) {
    report.refuse(
      'access-policy',
      ['spec', 'accessPolicy'],
      `accessPolicy "${spec.accessPolicy}" is none of ${defaultPolicies.join(', ')}`,
      didYouMean(
        spec.accessPolicy ?? '',
        defaultPolicies,
        'all-unauthenticated lets everyone in; deny is the default.',
      ),
    );
  }
  const selectorAt = (field: 'podSelector' | 'externalWorkloadSelector'): Selector | null =>
    spec[field] === undefined ? null : readSelector(spec[field], ['spec', field], report);
  return {
    podSelector: selectorAt('podSelector'),
    externalWorkloadSelector: selectorAt('externalWorkloadSelector'),
    port: spec.port,
    protocol: protocols[spec.proxyProtocol],
    accessPolicy: accessPolicy ?? 'deny',
    sealed,
  };
}

/** v1alpha1 alone refuses a selector that has both kinds of terms, or none. */
export function admitServerV1alpha1(
  spec: ServerShape,
  report: AdmissionReport,
  sealed: boolean,
): ServerDocument['spec'] {
  const { matchLabels, matchExpressions } = spec.podSelector ?? {};
  if ((matchLabels === undefined) === (matchExpressions === undefined)) {
    report.refuse(
      'server-selector',
      ['spec', 'podSelector'],
      'in v1alpha1 a podSelector needs exactly one of matchLabels and matchExpressions',
      'Use apiVersion policy.linkerd.io/v1beta3.',
    );
  }
  return admitServer(spec, report, sealed);
}

function readIdentities(texts: readonly string[], path: Path, report: AdmissionReport): IdentitySource[] {
  return texts.map((text, i) => {
    const fault = identityFault(text);
    if (fault !== undefined) report.refuse('identity', [...path, i], `identity "${text}" ${fault}`);
    return { kind: 'literal', text };
  });
}

export function admitServerAuthorization(
  spec: ServerAuthorizationShape,
  report: AdmissionReport,
  namespace: string,
): ServerAuthorizationDocument['spec'] {
  const { server, client } = spec;
  if ((server.name === undefined) === (server.selector === undefined)) {
    report.refuse('server-target', ['spec', 'server'], 'server needs exactly one of name and selector');
  }
  const { meshTLS } = client;
  if (client.unauthenticated === true && meshTLS !== undefined) {
    report.refuse('client-conflict', ['spec', 'client'], 'unauthenticated and meshTLS exclude each other');
  }
  if (
    meshTLS?.unauthenticatedTLS === true &&
    (meshTLS.identities !== undefined || meshTLS.serviceAccounts !== undefined)
  ) {
    report.refuse(
      'client-conflict',
      ['spec', 'client', 'meshTLS'],
      'unauthenticatedTLS excludes identities and serviceAccounts',
    );
  }
  const at: Path = ['spec', 'client'];
  return {
    server:
      server.name !== undefined
        ? { name: server.name }
        : { selector: readSelector(server.selector ?? {}, ['spec', 'server', 'selector'], report) },
    tls: clientTls(client, report, namespace),
    networks: client.networks === undefined ? null : readNetworks(client.networks, [...at, 'networks'], report),
  };
}

/** Null when the client says nothing of authentication: Linkerd ignores such a document. */
function clientTls(
  client: ServerAuthorizationShape['client'],
  report: AdmissionReport,
  namespace: string,
): ClientTlsRequirement | null {
  const at: Path = ['spec', 'client'];
  if (client.unauthenticated === true) return { kind: 'unauthenticated' };
  if (client.meshTLS === undefined) {
    report.warn(
      'no-client',
      at,
      'the client has neither unauthenticated nor meshTLS, so this grants nothing',
      'Write unauthenticated: true to admit clients without mTLS from these networks.',
    );
    return null;
  }
  if (client.meshTLS.unauthenticatedTLS === true) return { kind: 'any-tls' };
  const identities = [
    ...readIdentities(client.meshTLS.identities ?? [], [...at, 'meshTLS', 'identities'], report),
    ...(client.meshTLS.serviceAccounts ?? []).map(
      ({ name, namespace: own }): IdentitySource => ({ kind: 'service-account', namespace: own ?? namespace, name }),
    ),
  ];
  if (identities.length === 0) {
    report.warn(
      'empty-identities',
      [...at, 'meshTLS'],
      'meshTLS names no identity, so this authorizes nobody',
      'List identities or serviceAccounts.',
    );
  }
  return { kind: 'identities', identities };
}

export function admitAuthorizationPolicy(
  spec: AuthorizationPolicyShape,
  report: AdmissionReport,
  namespace: string,
): AuthorizationPolicyDocument['spec'] {
  const required = spec.requiredAuthenticationRefs.flatMap((ref, i): AuthenticationRef[] => {
    const kind = authenticationKind(ref);
    if (kind === undefined) {
      const hint = ['MeshTLSAuthentication', 'NetworkAuthentication'].includes(ref.kind)
        ? `Write group: ${linkerdGroup}.`
        : didYouMean(ref.kind, ['MeshTLSAuthentication', 'NetworkAuthentication', 'ServiceAccount']);
      report.refuse(
        'authentication-kind',
        ['spec', 'requiredAuthenticationRefs', i],
        `${kindText(ref)} is no kind of authentication`,
        hint,
      );
      return [];
    }
    return [{ kind, namespace: ref.namespace ?? namespace, name: ref.name }];
  });
  const networks = required.filter(({ kind }) => kind === 'NetworkAuthentication').length;
  if (networks > 1 || required.length - networks > 1) {
    report.refuse(
      'too-many-authentications',
      ['spec', 'requiredAuthenticationRefs'],
      'at most one NetworkAuthentication and one of MeshTLSAuthentication and ServiceAccount may be required',
      'All of the list must hold; for alternatives write one AuthorizationPolicy each.',
    );
  }
  return { target: readTarget(spec.targetRef, report, namespace), required };
}

function authenticationKind(ref: { group?: string | undefined; kind: string }): AuthenticationRef['kind'] | undefined {
  if (refersTo(ref, linkerdGroup, 'MeshTLSAuthentication')) return 'MeshTLSAuthentication';
  if (refersTo(ref, linkerdGroup, 'NetworkAuthentication')) return 'NetworkAuthentication';
  if (refersTo(ref, 'core', 'ServiceAccount')) return 'ServiceAccount';
  return undefined;
}

function readTarget(ref: TargetRefShape, report: AdmissionReport, namespace: string): PolicyTarget {
  if (refersTo(ref, linkerdGroup, 'Server')) return { kind: 'server', name: ref.name };
  for (const group of [linkerdGroup, gatewayGroup] as const) {
    if (refersTo(ref, group, 'HTTPRoute')) return { kind: 'route', group, route: 'HTTPRoute', name: ref.name };
  }
  if (refersTo(ref, gatewayGroup, 'GRPCRoute')) {
    return { kind: 'route', group: gatewayGroup, route: 'GRPCRoute', name: ref.name };
  }
  if (refersTo(ref, 'core', 'Namespace')) {
    if (ref.name !== namespace) {
      report.refuse(
        'target-namespace',
        ['spec', 'targetRef', 'name'],
        `a policy in namespace ${namespace} cannot target Namespace ${ref.name}`,
        `Name ${namespace}, or move the policy.`,
      );
    }
    return { kind: 'namespace' };
  }
  const hint = ['server', 'httproute'].includes(ref.kind.toLowerCase())
    ? `Write group: ${linkerdGroup}.`
    : didYouMean(ref.kind, ['Server', 'HTTPRoute', 'GRPCRoute', 'Namespace']);
  report.refuse('target-kind', ['spec', 'targetRef', 'kind'], `a policy cannot target ${kindText(ref)}`, hint);
  return { kind: 'server', name: ref.name };
}

export function admitMeshTlsAuthentication(
  spec: MeshTlsAuthenticationShape,
  report: AdmissionReport,
  namespace: string,
): MeshTLSAuthenticationDocument['spec'] {
  if ((spec.identities === undefined) === (spec.identityRefs === undefined)) {
    report.refuse(
      'identities',
      ['spec'],
      'exactly one of identities and identityRefs is needed',
      'List at least one identity; "*" is any.',
    );
  }
  const identities = readIdentities(spec.identities ?? [], ['spec', 'identities'], report);
  (spec.identityRefs ?? []).forEach((ref, i) => {
    const at: Path = ['spec', 'identityRefs', i];
    if (ref.name === undefined) {
      report.refuse('identity-ref', at, 'name is required');
    } else if (refersTo(ref, 'core', 'ServiceAccount')) {
      identities.push({ kind: 'service-account', namespace: ref.namespace ?? namespace, name: ref.name });
    } else if (refersTo(ref, 'core', 'Namespace')) {
      if (ref.namespace !== undefined)
        report.refuse('identity-ref', [...at, 'namespace'], 'a Namespace has no namespace');
      identities.push({ kind: 'namespace', name: ref.name });
    } else {
      report.refuse(
        'identity-ref',
        [...at, 'kind'],
        `${kindText(ref)} has no identity`,
        didYouMean(ref.kind, ['ServiceAccount', 'Namespace'], 'Refer to a ServiceAccount or a Namespace.'),
      );
    }
  });
  return { identities };
}

export function admitNetworkAuthentication(
  spec: NetworkAuthenticationShape,
  report: AdmissionReport,
): NetworkAuthenticationDocument['spec'] {
  return { networks: readNetworks(spec.networks, ['spec', 'networks'], report) };
}

export function admitRateLimit(
  spec: RateLimitShape,
  report: AdmissionReport,
  namespace: string,
): RateLimitDocument['spec'] {
  if (!refersTo(spec.targetRef, linkerdGroup, 'Server')) {
    report.refuse(
      'target-kind',
      ['spec', 'targetRef', 'kind'],
      `a rate limit cannot target ${kindText(spec.targetRef)}`,
      `Write group: ${linkerdGroup}, kind: Server.`,
    );
  }
  const total = spec.total?.requestsPerSecond ?? null;
  const check = (limit: number | null, path: Path): void => {
    if (limit === 0) report.refuse('rate-limit-zero', path, 'a limit is above 0', 'Leave it out where there is none.');
    if (limit !== null && total !== null && total > 0 && limit > total) {
      report.refuse('rate-limit-above-total', path, `the limit of ${limit} is above the total of ${total}`);
    }
  };
  const identity = spec.identity?.requestsPerSecond ?? null;
  check(total, ['spec', 'total', 'requestsPerSecond']);
  check(identity, ['spec', 'identity', 'requestsPerSecond']);
  const overrides = (spec.overrides ?? []).map(({ requestsPerSecond, clientRefs }, i) => {
    check(requestsPerSecond, ['spec', 'overrides', i, 'requestsPerSecond']);
    const clients = clientRefs.map((ref, j) => {
      if (!refersTo(ref, 'core', 'ServiceAccount')) {
        report.refuse(
          'client-kind',
          ['spec', 'overrides', i, 'clientRefs', j],
          `${kindText(ref)} is no kind of client`,
          'Refer to a ServiceAccount.',
        );
      }
      return { namespace: ref.namespace ?? namespace, name: ref.name };
    });
    return { requestsPerSecond, clients };
  });
  return { server: spec.targetRef.name, total, identity, overrides };
}
