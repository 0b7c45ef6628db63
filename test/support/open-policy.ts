import { join } from 'node:path';
import { replaceFile } from './files.ts';

/** A Server that anybody may use, on a port; `proxyProtocol` as in the document. */
export function openServer(name: string, port: number | string, proxyProtocol = 'unknown'): string {
  return guardedServer(name, port, proxyProtocol, '');
}

/** A Server for those who meet `refs`, the authentications that its policy requires. */
export function guardedServer(name: string, port: number | string, proxyProtocol: string, refs: string): string {
  return `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: ${name}, namespace: shop}
spec: {podSelector: {}, port: ${port}, proxyProtocol: ${proxyProtocol}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: ${name}}
  requiredAuthenticationRefs: [${refs}]
`;
}

/** Lets tests scrape: they call from 127.0.0.1, which means nothing here. */
export const openAdmin = openServer('proxy-admin', 'linkerd-admin', 'HTTP/1');

/** Puts documents into a policy folder under `folder` and yields the variables for a proxy that reads them. */
export function policyEnvironment(folder: string, documents: string): Record<string, string> {
  replaceFile(join(folder, 'policy', 'policy.yaml'), documents + openAdmin);
  return {
    SALLYPORT_POLICY: join(folder, 'policy'),
    SALLYPORT_POD_NAMESPACE: 'shop',
    // Every client here calls from 127.0.0.1; it shall need a policy like any other.
    SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
  };
}
