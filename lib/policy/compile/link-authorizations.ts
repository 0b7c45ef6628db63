import type { ResourceRef } from '../../resource-ref.ts';
import type { Authorization, BrokenAuthorization, TlsRule } from '../decide/client-match.ts';
import {
  type AuthorizationPolicyDocument,
  gatewayGroup,
  type IdentitySource,
  linkerdGroup,
  type MeshTLSAuthenticationDocument,
  type NetworkAuthenticationDocument,
  type ServerAuthorizationDocument,
} from '../documents/types.ts';
import { type AcceptedIdentity, acceptedIdentity, IdentitySet } from '../identities.ts';
import { push } from '../lists.ts';
import { cidrOf, contains, type NetworkEntry, type NetworkSet, networkSet, podClusterIp } from '../networks.ts';
import { type Labels, type Selector, selects } from '../selectors.ts';
import { serviceAccountIdentity, type Workload } from '../workload.ts';
import { byText, inSlices, type Linking, refOf, refusedAt, routeKey } from './linking.ts';

/** In the order in which they are credited: by name, then kind, whatever the order of the documents. */
export interface LinkedGrants {
  readonly grants: readonly Authorization[];
  readonly broken: readonly BrokenAuthorization[];
}

/** Every authorization by what it applies to. */
export class AuthorizationsByTarget {
  readonly #byServer = new Map<string, (Authorization | BrokenAuthorization)[]>();
  readonly #byRoute = new Map<string, (Authorization | BrokenAuthorization)[]>();
  readonly #everyServer: (Authorization | BrokenAuthorization)[] = [];

  addToServer(name: string, grant: Authorization | BrokenAuthorization): void {
    push(this.#byServer, name, grant);
  }

  addToRoute(key: string, grant: Authorization | BrokenAuthorization): void {
    push(this.#byRoute, key, grant);
  }

  addToEveryServer(grant: Authorization | BrokenAuthorization): void {
    this.#everyServer.push(grant);
  }

  ofServer(name: string): LinkedGrants {
    return inOrder([...(this.#byServer.get(name) ?? []), ...this.#everyServer]);
  }

  /** The route's own; its server's come on top. */
  ofRoute(key: string): LinkedGrants {
    return inOrder(this.#byRoute.get(key) ?? []);
  }
}

function inOrder(all: readonly (Authorization | BrokenAuthorization)[]): LinkedGrants {
  const ordered = [...all].sort((a, b) => byText(a.ref.name, b.ref.name) || byText(a.ref.kind, b.ref.kind));
  return {
    grants: ordered.filter((entry): entry is Authorization => 'tls' in entry),
    broken: ordered.filter((entry): entry is BrokenAuthorization => !('tls' in entry)),
  };
}

/** Links AuthorizationPolicies and ServerAuthorizations. `effective` names the Servers that have a port of the pod. */
export function* linkAuthorizations(
  linking: Linking,
  effective: ReadonlySet<string>,
  clusterNetworks: NetworkSet,
): Generator<void, AuthorizationsByTarget, void> {
  const { index } = linking;
  const linked = new AuthorizationsByTarget();
  const compiler = new GrantCompiler(linking, clusterNetworks);
  yield* inSlices(index.authorizationPolicies, (policy) => {
    const applies = checkTarget(policy, linking);
    checkRequired(policy, linking, applies);
    const { target } = policy.spec;
    if (target.kind === 'namespace') linked.addToEveryServer(compiler.policy(policy));
    else if (target.kind === 'route') {
      linked.addToRoute(routeKey(target.group, target.route, target.name), compiler.policy(policy));
    } else if (effective.has(target.name)) linked.addToServer(target.name, compiler.policy(policy));
  });
  const servers = new ServersByLabel();
  yield* inSlices(index.servers.values(), ({ name, labels }) => servers.add(name, new Map(labels)));
  yield* inSlices(index.serverAuthorizations, (document) => {
    const { networks, tls } = document.spec;
    if (tls?.kind === 'identities') {
      checkAccounts(document, tls.identities, ['spec', 'client', 'meshTLS', 'serviceAccounts'], linking);
    }
    if (networks !== null) checkNetworks(document, networks, ['spec', 'client', 'networks'], linking);
    const targets = serverTargets(document, servers, linking).filter((name) => effective.has(name));
    const grant = targets.length === 0 ? null : compiler.serverAuthorization(document);
    if (grant !== null) for (const name of targets) linked.addToServer(name, grant);
  });
  yield* inSlices(index.meshTls.values(), (document) => {
    checkAccounts(document, document.spec.identities, ['spec', 'identityRefs'], linking);
  });
  yield* inSlices(index.networks.values(), (document) => {
    checkNetworks(document, document.spec.networks, ['spec', 'networks'], linking);
  });
  return linked;
}

/** Servers by their labels, so that one selector need not be held against all of them. */
class ServersByLabel {
  readonly #all = new Map<string, Labels>();
  readonly #byLabel = new Map<string, string[]>();

  add(name: string, labels: Labels): void {
    this.#all.set(name, labels);
    for (const [key, value] of labels) push(this.#byLabel, JSON.stringify([key, value]), name);
  }

  has(name: string): boolean {
    return this.#all.has(name);
  }

  names(): Iterable<string> {
    return this.#all.keys();
  }

  selected(selector: Selector): string[] {
    const [first] = selector.matchLabels;
    const candidates = first === undefined ? [...this.#all.keys()] : (this.#byLabel.get(JSON.stringify(first)) ?? []);
    return candidates.filter((name) => selects(selector, this.#all.get(name) as Labels));
  }
}

function serverTargets(document: ServerAuthorizationDocument, servers: ServersByLabel, linking: Linking): string[] {
  const { server } = document.spec;
  if ('selector' in server) {
    const selected = servers.selected(server.selector);
    if (selected.length === 0) {
      linking.warn(
        document,
        ['spec', 'server', 'selector'],
        'selects-no-server',
        'the selector selects no Server, so this applies to nothing',
        'It is compared with the labels of Servers, not of pods.',
      );
    }
    return selected;
  }
  if (servers.has(server.name)) return [server.name];
  linking.warn(
    document,
    ['spec', 'server', 'name'],
    'dangling-target',
    `there is no Server ${server.name} in namespace ${document.namespace}, so this applies to nothing`,
    linking.hints.for(server.name, () => servers.names()),
  );
  return [];
}

function acceptedBy(source: IdentitySource, workload: Workload): AcceptedIdentity {
  switch (source.kind) {
    case 'literal':
      return acceptedIdentity(source.text);
    case 'service-account':
      return { kind: 'exact', name: serviceAccountIdentity(workload, source.namespace, source.name) };
    case 'namespace':
      // Every ServiceAccount of the namespace.
      return { kind: 'suffix', suffix: serviceAccountIdentity(workload, source.name, '') };
  }
}

const unauthenticated: TlsRule = Object.freeze({ kind: 'unauthenticated' });

/** Turns authorization documents into grants, making once what several of them share. */
class GrantCompiler {
  readonly #linking: Linking;
  readonly #clusterNetworks: NetworkSet;
  readonly #networkSets = new Map<NetworkAuthenticationDocument, NetworkSet>();
  readonly #identityRules = new Map<MeshTLSAuthenticationDocument, TlsRule>();

  constructor(linking: Linking, clusterNetworks: NetworkSet) {
    this.#linking = linking;
    this.#clusterNetworks = clusterNetworks;
  }

  /**
   * All required authentications must hold. None required admits everyone; one that is missing makes the policy grant
   * nothing at all, as in Linkerd.
   */
  policy(document: AuthorizationPolicyDocument): Authorization | BrokenAuthorization {
    const ref = refOf(document);
    const { meshTls, networks: networkDocuments } = this.#linking.index;
    let tls = unauthenticated;
    let networks: NetworkSet | null = null;
    for (const required of document.spec.required) {
      const key = `${required.namespace}/${required.name}`;
      switch (required.kind) {
        case 'ServiceAccount':
          tls = this.#identitiesRule([{ kind: 'service-account', namespace: required.namespace, name: required.name }]);
          break;
        case 'MeshTLSAuthentication': {
          const found = meshTls.get(key);
          if (found === undefined) return missing(ref, required.kind, key, this.#linking);
          tls = this.#identities(found);
          break;
        }
        case 'NetworkAuthentication': {
          const found = networkDocuments.get(key);
          if (found === undefined) return missing(ref, required.kind, key, this.#linking);
          networks = this.#networks(found);
          break;
        }
      }
    }
    return { ref, audit: false, networks, tls };
  }

  /** Null where the document says nothing of authentication. Without networks only the cluster's are let in. */
  serverAuthorization(document: ServerAuthorizationDocument): Authorization | null {
    const { tls, networks } = document.spec;
    if (tls === null) return null;
    return {
      ref: refOf(document),
      audit: false,
      networks: networks === null ? this.#clusterNetworks : networkSet(networks, this.#linking.workload.ips),
      tls: tls.kind === 'identities' ? this.#identitiesRule(tls.identities) : tls,
    };
  }

  #identitiesRule(sources: readonly IdentitySource[]): TlsRule {
    const identities = new IdentitySet(sources.map((source) => acceptedBy(source, this.#linking.workload)));
    return { kind: 'identities', identities };
  }

  #identities(document: MeshTLSAuthenticationDocument): TlsRule {
    let rule = this.#identityRules.get(document);
    if (rule === undefined) {
      rule = this.#identitiesRule(document.spec.identities);
      this.#identityRules.set(document, rule);
    }
    return rule;
  }

  #networks(document: NetworkAuthenticationDocument): NetworkSet {
    let set = this.#networkSets.get(document);
    if (set === undefined) {
      set = networkSet(document.spec.networks, this.#linking.workload.ips);
      this.#networkSets.set(document, set);
    }
    return set;
  }
}

function missing(ref: ResourceRef, kind: string, key: string, linking: Linking): BrokenAuthorization {
  const place = refusedAt(linking, kind, key);
  return { ref, detail: `wanted ${kind} ${key}, was ${place === null ? 'missing' : `refused, see ${place}`}` };
}

/** The names under a prefix of the keys of a map of documents. */
function namesUnder(keys: Iterable<string>, prefix: string): string[] {
  return [...keys].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
}

/** Whether there is what it targets. */
function checkTarget(policy: AuthorizationPolicyDocument, linking: Linking): boolean {
  const { index, hints } = linking;
  const { target } = policy.spec;
  const dangling = (what: string, hint: string): false => {
    linking.warn(
      policy,
      ['spec', 'targetRef', 'name'],
      'dangling-target',
      `there is no ${what} in namespace ${policy.namespace}, so this policy applies to nothing`,
      hint,
    );
    return false;
  };
  if (target.kind === 'server') {
    if (index.servers.has(target.name)) return true;
    return dangling(
      `Server ${target.name}`,
      hints.for(target.name, () => index.servers.keys()),
    );
  }
  if (target.kind === 'route') {
    const { group, route, name } = target;
    if (index.routes.has(routeKey(group, route, name))) return true;
    const other = group === linkerdGroup ? gatewayGroup : linkerdGroup;
    return dangling(
      `${route} ${name} of group ${group}`,
      index.routes.has(routeKey(other, route, name))
        ? `It is in group ${other}.`
        : hints.for(name, () => namesUnder(index.routes.keys(), `${group}/${route}/`)),
    );
  }
  return true;
}

function checkRequired(policy: AuthorizationPolicyDocument, linking: Linking, applies: boolean): void {
  const { required } = policy.spec;
  required.forEach(({ kind, namespace, name }, i) => {
    if (kind === 'ServiceAccount') {
      checkAccount(policy, ['spec', 'requiredAuthenticationRefs', i, 'name'], namespace, name, linking);
      return;
    }
    const known = kind === 'MeshTLSAuthentication' ? linking.index.meshTls : linking.index.networks;
    if (known.has(`${namespace}/${name}`)) return;
    const at = ['spec', 'requiredAuthenticationRefs', i, 'name'];
    const place = refusedAt(linking, kind, `${namespace}/${name}`);
    if (place !== null) {
      const message = `${kind} ${name} is refused, see ${place}; until it is mended this policy grants nothing`;
      linking.warn(policy, at, 'refused-authentication', message);
      return;
    }
    linking.warn(
      policy,
      at,
      'dangling-authentication',
      `there is no ${kind} ${name} in namespace ${namespace}, so this policy grants nothing`,
      linking.hints.for(name, () => namesUnder(known.keys(), `${namespace}/`)),
    );
  });
  if (required.length === 0 && applies) {
    linking.warn(
      policy,
      ['spec', 'requiredAuthenticationRefs'],
      'admits-everyone',
      'requiredAuthenticationRefs is empty, so this policy admits everyone from anywhere',
      'If that is not meant, require a MeshTLSAuthentication, a NetworkAuthentication or a ServiceAccount.',
    );
  }
}

/** Only a listing of pods tells which ServiceAccounts there are. */
function checkAccount(
  document: AuthorizationPolicyDocument | MeshTLSAuthenticationDocument | ServerAuthorizationDocument,
  path: readonly (string | number)[],
  namespace: string,
  name: string,
  linking: Linking,
): void {
  const accounts = linking.index.accounts.get(namespace);
  if (accounts === undefined || accounts.has(name)) return;
  linking.warn(
    document,
    path,
    'service-account-unknown',
    `no pod that is listed in namespace ${namespace} runs as ServiceAccount ${name}`,
    linking.hints.for(name, () => accounts),
  );
}

function checkAccounts(
  document: MeshTLSAuthenticationDocument | ServerAuthorizationDocument,
  sources: readonly IdentitySource[],
  path: readonly string[],
  linking: Linking,
): void {
  for (const source of sources) {
    if (source.kind === 'service-account') checkAccount(document, path, source.namespace, source.name, linking);
  }
}

/** What depends on the pod's own addresses, which are known only now. */
function checkNetworks(
  document: ServerAuthorizationDocument | NetworkAuthenticationDocument,
  entries: readonly NetworkEntry[],
  path: readonly string[],
  linking: Linking,
): void {
  if (entries.length === 0) {
    linking.warn(document, path, 'empty-networks', 'networks is empty, so this authorizes nobody');
  }
  const own = linking.workload.ips.map(cidrOf);
  const uses = ({ network, except }: NetworkEntry): boolean =>
    network === podClusterIp || except.includes(podClusterIp);
  if (own.length === 0 && entries.some(uses)) {
    linking.warn(
      document,
      path,
      'pod-address-unknown',
      'podClusterIp is used but the pod has no known address, so these entries admit nobody',
      'Set SALLYPORT_POD_IPS.',
    );
    return;
  }
  for (const { network, except } of entries) {
    if (network !== podClusterIp) continue;
    for (const source of except) {
      if (source === podClusterIp || own.some((ip) => contains(source, ip))) continue;
      linking.warn(document, path, 'except-outside', `exception ${source.text} holds none of the pod's addresses`);
    }
  }
}
