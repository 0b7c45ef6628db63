/** The demo's policy. It is written to a file that the demo's user may edit while everything runs. */
export const demoPolicy = `# Sallyport reloads this file as soon as it is saved. Try: change a path, delete a grant, break the YAML.
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: demo }
spec:
  podSelector: { matchLabels: { app: web } }
  port: http
  proxyProtocol: HTTP/1
---
# What everybody may read.
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: public, namespace: demo }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches:
        - { path: { type: PathPrefix, value: /public }, method: GET }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: anyone, namespace: demo }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: public }
  requiredAuthenticationRefs: []
---
# What only one workload may use: the one whose certificate says that it is the ServiceAccount "orders".
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders-api, namespace: demo }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches:
        - path: { type: PathPrefix, value: /orders }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: orders-only, namespace: demo }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: orders-api }
  requiredAuthenticationRefs:
    - { kind: ServiceAccount, name: orders }
---
# The admin port obeys policy too: metrics are for the pod itself, by whatever address it has.
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: admin, namespace: demo }
spec:
  podSelector: { matchLabels: { app: web } }
  port: linkerd-admin
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: { name: this-pod, namespace: demo }
spec:
  networks: [podClusterIp]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: self-scrape, namespace: demo }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: admin }
  requiredAuthenticationRefs:
    - { group: policy.linkerd.io, kind: NetworkAuthentication, name: this-pod }
`;
