import type { CodeOf } from '../../errors/problems.ts';
import type { Problem } from '../../problem.ts';
import type { ResourceRef } from '../../resource-ref.ts';
import {
  type AuthorizationPolicyDocument,
  type DocumentMeta,
  type GrpcRouteDocument,
  groupOf,
  type HttpRouteDocument,
  isRefusedAuthentication,
  locate,
  type MeshTLSAuthenticationDocument,
  type NamespaceDocument,
  type NetworkAuthenticationDocument,
  type NetworkPolicyDocument,
  type PodDocument,
  type PolicyDocument,
  type RateLimitDocument,
  type RouteGroup,
  resourceOf,
  type ServerAuthorizationDocument,
  type ServerDocument,
} from '../documents/types.ts';
import { push } from '../lists.ts';
import { didYouMean, templateHint } from '../nearest.ts';
import type { Workload } from '../workload.ts';

/** Hints are a courtesy: with thousands of dangling references, the first few get one and the load stays fast. */
const mostHints = 25;

class Hints {
  #left = mostHints;

  /** As `didYouMean`, until there have been enough. `known` is only read when a hint is given. */
  for(typed: string, known: () => Iterable<string>): string {
    if (this.#left === 0) return '';
    this.#left--;
    return didYouMean(typed, known());
  }
}

/** Oldest first, a missing timestamp after all, then by name: how Linkerd settles ties. */
export function byAge(a: DocumentMeta, b: DocumentMeta): number {
  const [left, right] = [a.createdMs ?? Infinity, b.createdMs ?? Infinity];
  return left === right ? byText(a.name, b.name) : left - right;
}

/** By code unit, the same on every machine. */
export function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function routeKey(group: RouteGroup, kind: string, name: string): string {
  // Linkerd compares the names of targeted routes without case.
  return `${group}/${kind}/${name.toLowerCase()}`;
}

/**
 * The documents by kind, those that others point at by name. Only authentications, and what a cluster says of itself, are
 * looked up across namespaces.
 */
class DocumentIndex {
  readonly servers = new Map<string, ServerDocument>();
  readonly routes = new Map<string, HttpRouteDocument | GrpcRouteDocument>();
  readonly authorizationPolicies: AuthorizationPolicyDocument[] = [];
  readonly serverAuthorizations: ServerAuthorizationDocument[] = [];
  readonly rateLimits: RateLimitDocument[] = [];
  /** By `namespace/name`. */
  readonly meshTls = new Map<string, MeshTLSAuthenticationDocument>();
  readonly networks = new Map<string, NetworkAuthenticationDocument>();
  /** Authentications that were refused, by `kind namespace/name`: they are in no other list. */
  readonly refused = new Map<string, PolicyDocument>();
  readonly networkPolicies: NetworkPolicyDocument[] = [];
  /** Of the whole cluster, by namespace. */
  readonly pods = new Map<string, PodDocument[]>();
  readonly namespaces = new Map<string, NamespaceDocument>();
  /** What the pods that are listed run as, by namespace. */
  readonly accounts = new Map<string, Set<string>>();
  readonly #namespace: string;

  constructor(namespace: string) {
    this.#namespace = namespace;
  }

  add(document: PolicyDocument): void {
    if (isRefusedAuthentication(document)) {
      const { kind, namespace, name } = document;
      this.refused.set(`${kind} ${namespace}/${name}`, document);
      return;
    }
    if (document.kind === 'MeshTLSAuthentication') this.meshTls.set(`${document.namespace}/${document.name}`, document);
    if (document.kind === 'NetworkAuthentication')
      this.networks.set(`${document.namespace}/${document.name}`, document);
    if (document.kind === 'Pod') this.#addPod(document);
    if (document.kind === 'Namespace') this.namespaces.set(document.name, document);
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
      case 'NetworkPolicy':
        this.networkPolicies.push(document);
        break;
    }
  }

  #addPod(pod: PodDocument): void {
    push(this.pods, pod.namespace, pod);
    const { account } = pod.spec;
    if (account === null) return;
    const known = this.accounts.get(pod.namespace) ?? new Set<string>();
    this.accounts.set(pod.namespace, known.add(account));
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

/** What every stage of linking works on: the documents, the workload, and the doubts so far. */
export class Linking {
  readonly index: DocumentIndex;
  readonly workload: Workload;
  readonly hints = new Hints();
  readonly problems: Problem[] = [];

  constructor(workload: Workload) {
    this.workload = workload;
    this.index = new DocumentIndex(workload.namespace);
  }

  /** A doubt about how a document points at others. Nothing is refused here: the documents are valid, each by itself. */
  warn(
    document: PolicyDocument,
    path: readonly (string | number)[],
    code: CodeOf<'warning'>,
    message: string,
    hint = '',
  ): void {
    const resource = resourceOf(document);
    const place = locate(document, ...path);
    this.problems.push({ severity: 'warning', code, message, ...place, resource, hint: templateHint(message) ?? hint });
  }
}

/** Where what is referred to was refused; null where it is simply missing. */
export function refusedAt({ index }: Linking, kind: string, key: string): string | null {
  const document = index.refused.get(`${kind} ${key}`);
  if (document === undefined) return null;
  const { file, line } = locate(document);
  return `${file}:${line}`;
}

/** Work is handed out in slices of about this many documents, or route matches. */
const sliceSize = 50;

/** Handles items one after the other, yielding after each slice; `weight` is the work in one item, 1 if not given. */
export function* inSlices<Item>(
  items: Iterable<Item>,
  handle: (item: Item) => void,
  weight: (item: Item) => number = () => 1,
): Generator<void, void, void> {
  let done = 0;
  for (const item of items) {
    handle(item);
    done += weight(item);
    if (done >= sliceSize) {
      done = 0;
      yield;
    }
  }
  yield;
}
