/** `granted`: to everybody, to the workload `orders` alone, or to nobody. */
function route(name: string, granted: 'all' | 'orders' | 'none'): string {
  const refs = granted === 'all' ? '' : '{kind: ServiceAccount, name: orders, namespace: shop}';
  const grant = `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: ${name}}
  requiredAuthenticationRefs: [${refs}]
`;
  return `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /${name}}}]}]
${granted === 'none' ? '' : grant}`;
}

export function isToggleOpen(swap: number): boolean {
  return swap % 2 === 1;
}

/** The documents of one swap. Only /toggle changes. */
export function soakPolicy(port: number, swap: number): string {
  return [
    `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop, annotations: {swap: '${swap}'}}
spec: {podSelector: {}, port: ${port}}
`,
    route('open', 'all'),
    route('closed', 'none'),
    route('toggle', isToggleOpen(swap) ? 'all' : 'none'),
    route('mesh', 'orders'),
  ].join('');
}
