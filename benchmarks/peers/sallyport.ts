import { publishedCommand } from '../published.ts';
import { answers, rule } from '../rule.ts';
import type { Workbench } from '../workbench.ts';
import type { Carriage, Peer, Site } from './peer.ts';

export const sallyport: Peer = peerFrom('sallyport', undefined);

/** Sallyport as another checkout has it: what a change did to it. */
export function before(checkout: string): Peer {
  return peerFrom('before', checkout);
}

function peerFrom(name: Peer['name'], checkout: string | undefined): Peer {
  return {
    name,
    program: null,
    can: () => true,
    configure: async (site) => {
      const metricsPort = await site.bench.freePort();
      return {
        command: await publishedCommand(checkout),
        args: ['run'],
        env: environment(site, metricsPort),
        metricsPort,
      };
    },
  };
}

/** Metrics on, logs at info, no access log: the defaults. */
function environment(
  { bench, name, carriage, mutualTls, listenPort, appPort }: Site,
  adminPort: number,
): Record<string, string> {
  const { files, clientName } = bench.credentials;
  return {
    SALLYPORT_POLICY: policyFile(
      bench,
      name,
      policy(carriage, listenPort, mutualTls ? clientName : null) + scraping(adminPort),
    ),
    SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${listenPort}=127.0.0.1:${appPort}`,
    SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SALLYPORT_HEALTH_LISTEN: 'off',
    SALLYPORT_POD_NAMESPACE: 'bench',
    SALLYPORT_POD_LABELS: 'app=web',
    // The load comes from 127.0.0.1: the policy is to decide, not the exemption of localhost.
    SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
    ...(mutualTls
      ? {
          SALLYPORT_IDENTITY_CERT: files.serverCertificate,
          SALLYPORT_IDENTITY_KEY: files.serverKey,
          SALLYPORT_IDENTITY_TRUST_ANCHORS: files.trustAnchors,
        }
      : {}),
  };
}

/** What a Linkerd user writes; HTTP is left to detection, which is Linkerd's default. */
const proxyProtocol: Readonly<Record<Carriage, string>> = {
  http1: 'unknown',
  websocket: 'unknown',
  http2: 'unknown',
  'http2-to-http1': 'unknown',
  grpc: 'gRPC',
  tcp: 'opaque',
};

/** In a folder of its own, as a ConfigMap's volume is: Sallyport watches it, and the logs of the loads are no news of it. */
function policyFile(bench: Workbench, name: string, text: string): string {
  bench.subfolder(`${name}.policy`);
  return bench.write(`${name}.policy/policy.yaml`, text);
}

/** A Server, a route where there are requests, and one AuthorizationPolicy; with an identity where there is TLS. */
function policy(carriage: Carriage, port: number, identity: string | null): string {
  const route = carriage === 'grpc' ? grpcRoute : carriage === 'tcp' ? '' : httpRoute;
  const target = carriage === 'grpc' ? 'GRPCRoute' : carriage === 'tcp' ? 'Server' : 'HTTPRoute';
  const group = carriage === 'grpc' ? 'gateway.networking.k8s.io' : 'policy.linkerd.io';
  return `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: bench }
spec:
  podSelector: { matchLabels: { app: web } }
  port: ${port}
  proxyProtocol: ${proxyProtocol[carriage]}
${route}---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: { name: load, namespace: bench }
spec:
  networks: [${rule.networks.map((cidr) => `{ cidr: ${cidr} }`).join(', ')}]
${identity === null ? '' : meshTls(identity)}---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: load, namespace: bench }
spec:
  targetRef: { group: ${group}, kind: ${target}, name: web }
  requiredAuthenticationRefs:
    - { group: policy.linkerd.io, kind: NetworkAuthentication, name: load }
${identity === null ? '' : '    - { group: policy.linkerd.io, kind: MeshTLSAuthentication, name: load }\n'}`;
}

/** Lets the benchmark read the metrics between rounds. */
const scraping = (port: number): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: metrics, namespace: bench }
spec: { podSelector: { matchLabels: { app: web } }, port: ${port} }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: metrics, namespace: bench }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: metrics }
  requiredAuthenticationRefs:
    - { group: policy.linkerd.io, kind: NetworkAuthentication, name: load }
`;

const httpRoute = `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: web, namespace: bench }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches: [{ path: { type: PathPrefix, value: ${rule.pathPrefix} } }]
`;

const grpcRoute = `---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: { name: web, namespace: bench }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches: [{ method: { service: ${answers.grpcService} } }]
`;

const meshTls = (identity: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: { name: load, namespace: bench }
spec:
  identities: ['${identity}']
`;
