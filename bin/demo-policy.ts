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
# It requires nothing of who comes, of which sallyport check and the log warn unless the annotation says that it is meant.
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata:
  name: anyone
  namespace: demo
  annotations: { sallyport.dev/allow: "admits-everyone: what is public is for everybody" }
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

/** The test of that policy, written beside it. The pod is the demo's. */
export const demoPolicyTest = `# What policy.yaml is meant to say: sallyport test asks it, and tells what it answers otherwise.
apiVersion: sallyport.dev/v1alpha1
kind: PolicyTest
pod:
  name: web-0
  namespace: demo
  labels: { app: web }
  ports: { http: 8080 }
  ips: 127.0.0.1
  authorizeLocalhost: false
policy: policy.yaml
clients:
  orders: { serviceAccount: demo/orders }
  itself: { client: 127.0.0.1, tls: none }
defaults: { port: http, client: 10.1.2.3 }
cases:
  - name: everybody may read what is public
    from: [everyone, orders, itself]
    path: [/public, /public/hello]
    expect: { verdict: permit, route: public, rule: 0, authorization: anyone }
  - name: nobody may write there
    from: [everyone, orders, itself]
    path: /public/hello
    method: [POST, DELETE]
    expect: { verdict: no-route, status: 404 }
  - name: orders may do anything with orders
    from: orders
    path: [/orders, /orders/1]
    method: [GET, POST, DELETE]
    expect: { verdict: permit, route: orders-api, authorization: orders-only }
  - name: nobody else may
    from: [everyone, itself]
    path: [/orders, /orders/1]
    method: [GET, POST]
    expect: { status: 403, failing: { orders-only: identity } }
  - name: there is nothing else
    from: [everyone, orders, itself]
    path: [/, /orders-of-others, /publicity]
    expect: 404
  - name: nothing but HTTP/1 goes on
    from: [everyone, orders]
    protocol: tcp
    expect: { verdict: deny, tcp: close }
  - name: metrics are for the pod itself
    from: itself
    port: linkerd-admin
    path: /metrics
    expect: { verdict: permit, authorization: self-scrape }
  - name: and for nobody else
    from: [everyone, orders]
    port: [linkerd-admin, 4191]
    path: /metrics
    expect: { status: 403, failing: { self-scrape: network } }
  - name: the kubelet's probes of the proxy pass
    port: 4191
    path: [/live, /ready]
    expect: permit
  - name: other ports are closed
    from: [everyone, orders]
    port: [80, 9999]
    expect: refused
`;
