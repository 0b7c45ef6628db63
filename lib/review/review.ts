import type { CodeOf } from '../errors/problems.ts';
import { refOf } from '../policy/compile/linking.ts';
import type { PolicyIndex } from '../policy/decide/policy-index.ts';
import { type Judged, judged } from '../policy/documents/allowed.ts';
import {
  type AuthorizationPolicyDocument,
  type GrpcRouteDocument,
  type HttpRouteDocument,
  isRefusedAuthentication,
  locate,
  type PolicyDocument,
  resourceOf,
  type ServerDocument,
} from '../policy/documents/types.ts';
import type { Workload } from '../policy/workload.ts';
import type { Problem } from '../problem.ts';
import { isCovered, isEverywhere } from './admitted.ts';
import { impossibleIdentity } from './names.ts';
import { Reach, type RuleReach, reachKey } from './reach.ts';

/*
 * What documents say that is valid and hardly what was meant: what can never apply, who nobody can be, and what is open to
 * everybody.
 */

type Warn = (code: CodeOf<'warning'>, path: readonly (string | number)[], message: string) => void;

/** Of the documents of one check, with what becomes of them on pods. */
export class Review {
  readonly #documents: readonly PolicyDocument[];
  readonly #reach = new Reach();
  readonly #problems: Problem[] = [];
  readonly #byKey = new Map<string, PolicyDocument>();

  constructor(documents: readonly PolicyDocument[]) {
    this.#documents = documents;
    for (const document of documents)
      this.#byKey.set(`${document.kind} ${document.namespace}/${document.name}`, document);
  }

  /** What the documents become for a pod. */
  pod(index: PolicyIndex): void {
    this.#reach.add(index);
  }

  /** Rules of routes of which it is not known whether any request finds them. */
  get unexamined(): number {
    return [...this.#reach.rules.values()].reduce(
      (sum, rules) => sum + [...rules.values()].filter(({ kind }) => kind === 'unexamined').length,
      0,
    );
  }

  findings(workload: Workload): Judged {
    const required = new Set(
      this.#documents.flatMap((document) =>
        document.kind === 'AuthorizationPolicy'
          ? document.spec.required.map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`)
          : [],
      ),
    );
    const requires = this.#documents.some(({ kind }) => kind === 'AuthorizationPolicy');
    for (const document of this.#documents) {
      const { kind, namespace, name } = document;
      const warn: Warn = (code, path, message) => {
        const resource = resourceOf(document);
        const place = locate(document, ...path);
        this.#problems.push({ severity: 'warning', code, message, ...place, resource, hint: '' });
      };
      this.#names(document, workload, warn);
      this.#breadth(document, warn);
      if (kind === 'HTTPRoute' || kind === 'GRPCRoute') this.#route(document, warn);
      if (kind === 'AuthorizationPolicy' || kind === 'ServerAuthorization') this.#authorization(document, warn);
      const isAuthentication = kind === 'MeshTLSAuthentication' || kind === 'NetworkAuthentication';
      if (isRefusedAuthentication(document)) continue;
      if (isAuthentication && requires && !required.has(`${kind} ${namespace}/${name}`)) {
        warn('authentication-unused', ['metadata', 'name'], 'no AuthorizationPolicy requires it');
      }
    }
    return judged(this.#documents, this.#problems);
  }

  #route(document: HttpRouteDocument | GrpcRouteDocument, warn: Warn): void {
    const known = this.#reach.rules.get(reachKey(document.namespace, refOf(document)));
    if (known === undefined || document.spec.refused !== undefined) return;
    const never = [...known].filter(
      (entry): entry is [number, RuleReach & { kind: 'never' }] => entry[1].kind === 'never',
    );
    if (never.length === document.spec.rules.length) {
      const takers = new Map(never.flatMap(([, { takers: of }]) => [...of]));
      warn('route-never-found', ['metadata', 'name'], `no request finds this route: ${takersText(takers, document)}`);
      return;
    }
    for (const [place, { takers }] of never) {
      const message = `no request finds rule ${place + 1}: ${takersText(takers, document)}`;
      warn('rule-never-found', ['spec', 'rules', place], message);
    }
  }

  #authorization(document: PolicyDocument, warn: Warn): void {
    const known = this.#reach.authorizations.get(reachKey(document.namespace, refOf(document)));
    if (known === undefined) return;
    if (!known.applies) {
      const message = 'it asks for an identity, which no client has where it applies: the ports are opaque';
      warn('authorization-never-applies', ['metadata', 'name'], message);
    } else if (known.instead !== null) {
      const { kind, name } = known.instead;
      const by = kind === 'default' ? `the default or access policy ${name}` : `${kind} ${name}`;
      warn('authorization-redundant', ['metadata', 'name'], `${by} admits whomever it admits, wherever it applies`);
    }
  }

  #names(document: PolicyDocument, workload: Workload, warn: Warn): void {
    const isAccess = document.kind === 'ServerAuthorization';
    if (!isAccess && document.kind !== 'MeshTLSAuthentication') return;
    const sources = isAccess
      ? document.spec.tls?.kind === 'identities'
        ? document.spec.tls.identities
        : []
      : document.spec.identities;
    for (const source of sources) {
      if (source.kind !== 'literal') continue;
      const why = impossibleIdentity(source.text, workload);
      if (why === null) continue;
      const path = isAccess ? ['spec', 'client', 'meshTLS'] : ['spec', 'identities'];
      warn('identity-impossible', path, `no ServiceAccount has the identity "${source.text}": ${why}`);
    }
  }

  #breadth(document: PolicyDocument, warn: Warn): void {
    switch (document.kind) {
      case 'Server':
        this.#access(document.spec, warn);
        break;
      case 'AuthorizationPolicy':
        if (document.spec.target.kind !== 'route' && !this.#isIdle(document)) this.#required(document, warn);
        break;
      case 'ServerAuthorization': {
        const { tls, networks } = document.spec;
        this.#covered(networks ?? [], ['spec', 'client', 'networks'], warn);
        if (tls === null || networks === null || !isEverywhere(networks)) break;
        const path = ['spec', 'client'];
        if (tls.kind !== 'identities') warn('admits-everyone', path, 'it admits everyone from all networks');
        else if (tls.identities.some(isAnybody) && !this.#isIdle(document))
          warn('admits-every-identity', path, anyIdentity);
        break;
      }
      case 'NetworkAuthentication':
        this.#covered(document.spec.networks, ['spec', 'networks'], warn);
        break;
      case 'NetworkPolicy':
        document.spec.rules.forEach(({ from }, i) => {
          const blocks = (from ?? []).flatMap((peer) => (peer.kind === 'block' ? [peer.block] : []));
          this.#covered(blocks, ['spec', 'ingress', i], warn);
        });
        break;
    }
  }

  /** It never applies, which is said of it. */
  #isIdle(document: PolicyDocument): boolean {
    return this.#reach.authorizations.get(reachKey(document.namespace, refOf(document)))?.applies === false;
  }

  #access({ accessPolicy: policy, protocol }: ServerDocument['spec'], warn: Warn): void {
    const path = ['spec', 'accessPolicy'];
    if (policy.endsWith('-authenticated') && protocol === 'opaque') {
      warn(
        'authorization-never-applies',
        path,
        `accessPolicy: ${policy} asks for an identity, which no client has: the port is opaque`,
      );
      return;
    }
    if (policy === 'audit') warn('audit-left-on', path, 'accessPolicy: audit lets everyone in, and only says so');
    if (policy === 'all-unauthenticated') warn('admits-everyone', path, `accessPolicy: ${policy} admits everyone`);
    if (policy === 'all-authenticated')
      warn('admits-every-identity', path, `accessPolicy: ${policy} admits every identity that is a DNS name`);
  }

  #required({ spec }: AuthorizationPolicyDocument, warn: Warn): void {
    const { required } = spec;
    // Compiling says so of what requires nothing.
    if (required.length === 0) return;
    const found = required.map(({ kind, namespace, name }) => this.#byKey.get(`${kind} ${namespace}/${name}`));
    const isOpen = (document: PolicyDocument | undefined): boolean =>
      (document?.kind === 'NetworkAuthentication' && isEverywhere(document.spec.networks)) ||
      (document?.kind === 'MeshTLSAuthentication' && document.spec.identities.some(isAnybody));
    if (!found.every(isOpen)) return;
    const path = ['spec', 'requiredAuthenticationRefs'];
    if (found.some((document) => document?.kind === 'MeshTLSAuthentication')) {
      warn('admits-every-identity', path, anyIdentity);
    } else warn('admits-everyone', path, 'its networks are all networks, so this policy admits everyone');
  }

  #covered(entries: Parameters<typeof isEverywhere>[0], path: readonly (string | number)[], warn: Warn): void {
    for (const entry of entries) {
      if (!isCovered(entry) || entry.network === 'podClusterIp') continue;
      warn('network-covered', path, `the exceptions of ${entry.network.text} leave nothing of it`);
    }
  }
}

const anyIdentity = 'it admits every client whose identity is a DNS name, from anywhere';

function isAnybody(source: { readonly kind: string; readonly text?: string }): boolean {
  return source.kind === 'literal' && source.text === '*';
}

type Takers = Extract<RuleReach, { kind: 'never' }>['takers'];

const mostNamed = 3;

function takersText(takers: Takers, of: PolicyDocument): string {
  if (takers.size === 0) return 'it matches no request';
  const own = refOf(of);
  const texts = [...takers.values()].map(({ route, place }) => {
    const isOwn = route.kind === own.kind && route.name === own.name && route.group === own.group;
    return isOwn
      ? `rule ${(place ?? 0) + 1}`
      : place === null
        ? 'others'
        : `rule ${place + 1} of ${route.kind} ${route.name}`;
  });
  const named = texts.slice(0, mostNamed).join(' and ');
  const more = texts.length - mostNamed;
  const all = more > 0 ? `${named} and ${more} more` : named;
  return `${all} ${texts.length === 1 ? 'takes' : 'take'} all that it matches`;
}
