import { latin1, RawClient } from './raw-http.ts';

/** The two HTTP/1 engines; an attack must fail on either. */
export const lanes = [
  { name: 'fast lane', env: { SALLYPORT_HTTP1_FAST_LANE: 'true' } },
  { name: 'library lane', env: { SALLYPORT_HTTP1_FAST_LANE: 'false' } },
] as const;

/** An HTTPRoute with one path match. */
export function route(name: string, server: string, path: string, pathType = 'PathPrefix'): string {
  return `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: ${server}}]
  rules: [{matches: [{path: {type: ${pathType}, value: ${path}}}]}]
`;
}

/** Lets everybody use an HTTPRoute. */
export function openRoute(name: string): string {
  return `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: ${name}}
  requiredAuthenticationRefs: []
`;
}

/** A Server that nobody may use unless something else says so. */
export function closedServer(name: string, port: number, proxyProtocol = 'unknown', accessPolicy = 'deny'): string {
  return `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: ${name}, namespace: shop}
spec: {podSelector: {}, port: ${port}, proxyProtocol: ${proxyProtocol}, accessPolicy: ${accessPolicy}}
`;
}

/** What an HTTP/1 client is told: a status, or `ended` where the connection ended without a response. */
export async function http1Outcome(port: number, bytes: string, method = 'GET'): Promise<string> {
  const client = await RawClient.open({ port });
  try {
    client.send(latin1(bytes));
    const [response] = await client.responses([method]).catch((error: unknown) => {
      if (client.ended) return [];
      throw error;
    });
    return response === undefined ? 'ended' : String(response.status);
  } finally {
    client.destroy();
  }
}

/** A request without a body, with `Host: web` unless the fields have their own. */
export function http1Request(target: string, fields: readonly string[] = [], method = 'GET'): string {
  const host = fields.some((field) => /^host\s*:/i.test(field)) ? [] : ['Host: web'];
  return `${[`${method} ${target} HTTP/1.1`, ...host, ...fields].join('\r\n')}\r\n\r\n`;
}
