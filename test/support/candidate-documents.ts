const linkerd = 'policy.linkerd.io';

/** Who is let in on a port. */
export interface GuardedPort {
  readonly protocol?: string;
  /** Of the Server, where the rest lets nobody in. */
  readonly access?: string;
  /** Networks that are let in. */
  readonly from?: readonly string[];
  /** Identities that are let in, `*` for all. */
  readonly who?: readonly string[];
  /** Of a route, by which the requests are let in then. */
  readonly path?: string;
  /** What the route wants of a header besides. */
  readonly header?: string;
  readonly filters?: string;
  /** Requests a second. */
  readonly limit?: number;
  /** Networks that may connect, by a NetworkPolicy for this port. */
  readonly admits?: readonly string[];
}

/** The documents of one port of one policy. */
export function documentsOf(port: number, wanted: GuardedPort): string {
  const { protocol = 'unknown', access = 'deny', from = [], who = [], path, header, filters, limit } = wanted;
  const name = `s${port}`;
  const meta = `metadata: {name: ${name}, namespace: shop}`;
  const target = path === undefined ? 'Server' : 'HTTPRoute';
  const networks = from.map((cidr) => `{cidr: ${cidr}}`).join(', ');
  const refs = [
    ...(from.length === 0 ? [] : [`{group: ${linkerd}, kind: NetworkAuthentication, name: ${name}}`]),
    ...(who.length === 0 ? [] : [`{group: ${linkerd}, kind: MeshTLSAuthentication, name: ${name}}`]),
  ];
  return [
    `apiVersion: ${linkerd}/v1beta3\nkind: Server\n${meta}`,
    `spec: {podSelector: {}, port: ${port}, proxyProtocol: ${protocol}, accessPolicy: ${access}}\n---`,
    ...(from.length === 0
      ? []
      : [
          `apiVersion: ${linkerd}/v1alpha1\nkind: NetworkAuthentication\n${meta}\nspec: {networks: [${networks}]}\n---`,
        ]),
    ...(who.length === 0
      ? []
      : [
          `apiVersion: ${linkerd}/v1alpha1\nkind: MeshTLSAuthentication\n${meta}`,
          `spec: {identities: ${JSON.stringify(who)}}\n---`,
        ]),
    ...(path === undefined
      ? []
      : [
          `apiVersion: ${linkerd}/v1beta3\nkind: HTTPRoute\n${meta}`,
          `spec:\n  parentRefs: [{group: ${linkerd}, kind: Server, name: ${name}}]`,
          `  rules: [{matches: [{path: {value: ${path}}, headers: [${header ?? ''}]}], filters: [${filters ?? ''}]}]\n---`,
        ]),
    ...(refs.length === 0
      ? []
      : [
          `apiVersion: ${linkerd}/v1alpha1\nkind: AuthorizationPolicy\n${meta}`,
          `spec: {targetRef: {group: ${linkerd}, kind: ${target}, name: ${name}}, requiredAuthenticationRefs: [${refs}]}\n---`,
        ]),
    ...(limit === undefined
      ? []
      : [
          `apiVersion: ${linkerd}/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n${meta}`,
          `spec: {targetRef: {group: ${linkerd}, kind: Server, name: ${name}}, total: {requestsPerSecond: ${limit}}}\n---`,
        ]),
    '',
  ].join('\n');
}
