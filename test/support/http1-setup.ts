import type { Teardown } from './children.ts';
import { policyEnvironment } from './open-policy.ts';
import { type Sallyport, startSallyport } from './sallyport.ts';

/** How a Server's protocol is given in the HTTP/1 cases: declared, or left to detection. */
export const protocols = ['HTTP/1', 'unknown'] as const;

/** One listener of the proxy and the app behind it. */
export interface Door {
  readonly port: number;
  readonly protocol: (typeof protocols)[number];
  readonly app: number;
}

/** The setup of the cases' conventions, once per door: /DENIED without authorization, / open. */
export async function startHttp1Proxy(t: Teardown, folder: string, doors: readonly Door[]): Promise<Sallyport> {
  const server = (door: Door): string => `{group: policy.linkerd.io, kind: Server, name: web-${door.port}}`;
  const route = (name: string, path: string): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop}
spec:
  parentRefs: [${doors.map(server).join(', ')}]
  rules: [{matches: [{path: {type: PathPrefix, value: ${path}}}]}]
`;
  const documents = [
    ...doors.map(
      ({ port, protocol }) => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web-${port}, namespace: shop}
spec: {podSelector: {}, port: ${port}, proxyProtocol: ${protocol}}
`,
    ),
    route('denied', '/DENIED'),
    route('open', '/'),
    `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: open, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: open}
  requiredAuthenticationRefs: []
`,
  ];
  return startSallyport(t, {
    env: {
      ...policyEnvironment(folder, documents.join('')),
      SALLYPORT_INBOUND_PORTS: doors.map(({ port, app }) => `${port}=127.0.0.1:${app}`).join(','),
      SALLYPORT_LOG: 'warn',
    },
  });
}
