import type { Problem } from '../problem.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { Authorization, BrokenAuthorization, TlsRule } from './client-match.ts';
import {
  type AuthorizationPolicyDocument,
  type DocumentMeta,
  type GrpcRouteDocument,
  groupOf,
  type HttpRouteDocument,
  type IdentitySource,
  linkerdGroup,
  type MeshTLSAuthenticationDocument,
  type NetworkAuthenticationDocument,
  type PolicyDocument,
  type RateLimitDocument,
  type RouteGroup,
  type ServerAuthorizationDocument,
  type ServerDocument,
} from './document-types.ts';
import { locate, resourceOf } from './documents.ts';
import { IdentitySet } from './identities.ts';
import { didYouMean } from './nearest.ts';
import { type NetworkEntry, type NetworkSet, networkSet } from './networks.ts';
import { serviceAccountIdentity, type Workload } from './workload.ts';

/** A doubt about how documents point at each other. */
export function linkProblem(
  document: PolicyDocument,
  path: readonly (string | number)[],
  code: string,
  message: string,
  hint = '',
): Problem {
  return { severity: 'warning', code, message, ...locate(document, ...path), resource: resourceOf(document), hint };
}

/** Oldest first, a missing timestamp before all, then by name: how Linkerd settles ties. */
export function byAge(a: DocumentMeta, b: DocumentMeta): number {
  return (a.createdMs ?? -Infinity) - (b.createdMs ?? -Infinity) || byText(a.name, b.name);
}

/** By code unit, the same on every machine. */
export function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function routeKey(group: RouteGroup, kind: string, name: string): string {
  // Linkerd compares the names of targeted routes without case.
  return `${group}/${kind}/${name.toLowerCase()}`;
}

/** The documents by kind, those that others point at by name. Only authentications are looked up across namespaces. */
export class DocumentIndex {
  readonly servers = new Map<string, ServerDocument>();
  readonly routes = new Map<string, HttpRouteDocument | GrpcRouteDocument>();
  readonly authorizationPolicies: AuthorizationPolicyDocument[] = [];
  readonly serverAuthorizations: ServerAuthorizationDocument[] = [];
  readonly rateLimits: RateLimitDocument[] = [];
  /** By `namespace/name`. */
  readonly meshTls = new Map<string, MeshTLSAuthenticationDocument>();
  readonly networks = new Map<string, NetworkAuthenticationDocument>();
  readonly #namespace: string;

  constructor(namespace: string) {
    this.#namespace = namespace;
  }

  add(document: PolicyDocument): void {
    if (document.kind === 'MeshTLSAuthentication') this.meshTls.set(`${document.namespace}/${document.name}`, document);
    if (document.kind === 'NetworkAuthentication')
      this.networks.set(`${document.namespace}/${document.name}`, document);
    // Everything else works only in the pod's own namespace; a folder may be shared by several.
    if (document.namespace !== this.#namespace) return;
    switch (document.kind) {
      case 'Server':
        this.servers.set(document.name, document);
        break;
      case 'HTTPRoute':
      case 'GRPCRoute':
        this.routes.set(routeKey(document.group, document.kind, document.name), document);
        break;
      case 'AuthorizationPolicy':
        this.authorizationPolicies.push(document);
        break;
      case 'ServerAuthorization':
        this.serverAuthorizations.push(document);
        break;
      case 'HTTPLocalRateLimitPolicy':
        this.rateLimits.push(document);
        break;
    }
  }
}

export function refOf(document: PolicyDocument): ResourceRef {
  // Linkerd writes servers and authorizations in lower case and routes as in the CRD.
  const lower = ['Server', 'ServerAuthorization', 'AuthorizationPolicy'].includes(document.kind);
  return Object.freeze({
    group: groupOf(document),
    kind: lower ? document.kind.toLowerCase() : document.kind,
    name: document.name,
  });
}

function identityOf(source: IdentitySource, workload: Workload): string {
  switch (source.kind) {
    case 'literal':
      return source.text;
    case 'service-account':
      return serviceAccountIdentity(workload, source.namespace, source.name);
    case 'namespace':
      // Every ServiceAccount of the namespace.
      return `*${serviceAccountIdentity(workload, source.name, '')}`;
  }
}

function identitiesRule(sources: readonly IdentitySource[], workload: Workload): TlsRule {
  return { kind: 'identities', identities: new IdentitySet(sources.map((source) => identityOf(source, workload))) };
}

const unauthenticated: TlsRule = Object.freeze({ kind: 'unauthenticated' });

/** Turns authorization documents into grants, remembering what several of them share. */
export class AuthorizationLinker {
  readonly #index: DocumentIndex;
  readonly #workload: Workload;
  readonly #clusterNetworks: NetworkSet;
  readonly #networkSets = new Map<NetworkAuthenticationDocument, NetworkSet>();
  readonly #identityRules = new Map<MeshTLSAuthenticationDocument, TlsRule>();

  constructor(index: DocumentIndex, workload: Workload, clusterNetworks: NetworkSet) {
    this.#index = index;
    this.#workload = workload;
    this.#clusterNetworks = clusterNetworks;
  }

  /**
   * All required authentications must hold. None required admits everyone; one that is missing makes the policy grant
   * nothing at all, as in Linkerd.
   */
  policy(document: AuthorizationPolicyDocument): Authorization | BrokenAuthorization {
    const ref = refOf(document);
    let tls = unauthenticated;
    let networks: NetworkSet | null = null;
    for (const required of document.spec.required) {
      const key = `${required.namespace}/${required.name}`;
      if (required.kind === 'ServiceAccount') {
        tls = identitiesRule([{ ...required, kind: 'service-account' }], this.#workload);
      } else if (required.kind === 'MeshTLSAuthentication') {
        const found = this.#index.meshTls.get(key);
        if (found === undefined) return { ref, detail: `wanted ${required.kind} ${key}, was missing` };
        tls = this.#identities(found);
      } else {
        const found = this.#index.networks.get(key);
        if (found === undefined) return { ref, detail: `wanted ${required.kind} ${key}, was missing` };
        networks = this.#networks(found);
      }
    }
    return { ref, audit: false, networks, tls };
  }

  /** Null where the document says nothing of authentication; without networks only the cluster's are let in. */
  serverAuthorization(document: ServerAuthorizationDocument): Authorization | null {
    const { tls, networks } = document.spec;
    if (tls === null) return null;
    return {
      ref: refOf(document),
      audit: false,
      networks: networks === null ? this.#clusterNetworks : networkSet(networks, this.#workload.ips),
      tls: tls.kind === 'identities' ? identitiesRule(tls.identities, this.#workload) : tls,
    };
  }

  #identities(document: MeshTLSAuthenticationDocument): TlsRule {
    let rule = this.#identityRules.get(document);
    if (rule === undefined) {
      rule = identitiesRule(document.spec.identities, this.#workload);
      this.#identityRules.set(document, rule);
    }
    return rule;
  }

  #networks(document: NetworkAuthenticationDocument): NetworkSet {
    let set = this.#networkSets.get(document);
    if (set === undefined) {
      set = networkSet(document.spec.networks, this.#workload.ips);
      this.#networkSets.set(document, set);
    }
    return set;
  }

  /** What is doubtful about an AuthorizationPolicy's references. */
  policyProblems(document: AuthorizationPolicyDocument): Problem[] {
    const { target, required } = document.spec;
    const problems: Problem[] = [];
    const names = (keys: Iterable<string>, prefix: string): string[] =>
      [...keys].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
    if (target.kind === 'server' && !this.#index.servers.has(target.name)) {
      problems.push(
        linkProblem(
          document,
          ['spec', 'targetRef', 'name'],
          'dangling-target',
          `there is no Server ${target.name} in namespace ${document.namespace}, so this policy applies to nothing`,
          didYouMean(target.name, this.#index.servers.keys()),
        ),
      );
    } else if (target.kind === 'route') {
      const prefix = `${target.group}/${target.route}/`;
      if (!this.#index.routes.has(routeKey(target.group, target.route, target.name))) {
        const other = target.group === linkerdGroup ? 'gateway.networking.k8s.io' : linkerdGroup;
        const elsewhere = this.#index.routes.has(routeKey(other, target.route, target.name));
        problems.push(
          linkProblem(
            document,
            ['spec', 'targetRef', 'name'],
            'dangling-target',
            `there is no ${target.route} ${target.name} of group ${target.group} in namespace ${document.namespace}`,
            elsewhere ? `It is in group ${other}.` : didYouMean(target.name, names(this.#index.routes.keys(), prefix)),
          ),
        );
      }
    }
    required.forEach((ref, i) => {
      if (ref.kind === 'ServiceAccount') return;
      const known = ref.kind === 'MeshTLSAuthentication' ? this.#index.meshTls : this.#index.networks;
      if (known.has(`${ref.namespace}/${ref.name}`)) return;
      problems.push(
        linkProblem(
          document,
          ['spec', 'requiredAuthenticationRefs', i, 'name'],
          'dangling-authentication',
          `there is no ${ref.kind} ${ref.name} in namespace ${ref.namespace}, so this policy grants nothing`,
          didYouMean(ref.name, names(known.keys(), `${ref.namespace}/`)),
        ),
      );
    });
    if (required.length === 0) {
      problems.push(
        linkProblem(
          document,
          ['spec', 'requiredAuthenticationRefs'],
          'admits-everyone',
          'requiredAuthenticationRefs is empty, so this policy admits everyone from anywhere',
          'If that is not meant, require a MeshTLSAuthentication, a NetworkAuthentication or a ServiceAccount.',
        ),
      );
    }
    return problems;
  }

  /** Entries that depend on the pod's own addresses, which are known only now. */
  networkProblems(
    document: ServerAuthorizationDocument | NetworkAuthenticationDocument,
    entries: readonly NetworkEntry[],
    path: readonly string[],
  ): Problem[] {
    const symbolic = entries.some(
      ({ network, except }) => network === 'podClusterIp' || except.includes('podClusterIp'),
    );
    if (symbolic && this.#workload.ips.length === 0) {
      return [
        linkProblem(
          document,
          path,
          'pod-address-unknown',
          'podClusterIp is used but the pod has no known address, so these entries admit nobody',
          'Set SALLYPORT_POD_IPS.',
        ),
      ];
    }
    return [];
  }
}
