import t from 'tap';
import { http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * A rule that looks at Host must see the one that the app gets, however the client has named it: over HTTP/1 in the field,
 * over HTTP/2 that becomes HTTP/1 again (`l5d-orig-proto`) in `:authority` or in the field.
 */
const policy = (port: number): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, port: ${port}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: admin, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{headers: [{name: Host, value: admin.internal}]}]}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: all, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {value: /}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: everybody, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: all}
  requiredAuthenticationRefs: []
`;

async function http1Outcome(port: number, host: string): Promise<string> {
  const client = await RawClient.open({ port });
  try {
    client.send(latin1(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`));
    const [response] = await client.responses(['GET']);
    return String(response?.status);
  } finally {
    client.destroy();
  }
}

t.test('a rule that looks at Host', async (t) => {
  const port = await freePort();
  const app = await startWitness(t);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), policy(port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
    },
  });
  for (const [host, status] of [
    ['admin.internal', '403'],
    ['web', '200'],
  ] as const) {
    t.equal(await http1Outcome(port, host), status, `${host} over HTTP/1`);
    const plain = requestFields('/').filter(([name]) => name !== ':authority');
    const marked = [...plain, ['l5d-orig-proto', 'HTTP/1.1']] as const;
    const named = [':authority', host] as const;
    t.equal(await http2Outcome(port, [named, ...marked]), status, `${host} in :authority`);
    t.equal(await http2Outcome(port, [...marked, ['host', host]]), status, `${host} in the field`);
    t.equal(await http2Outcome(port, [named, ...marked, ['host', host]]), status, `${host} in both`);
  }
  const hosts = app.requests.flatMap(({ headers }) => headers).filter(([name]) => name.toLowerCase() === 'host');
  t.same(new Set(hosts.map(([, value]) => value)), new Set(['web']));
  t.match(await sallyport.stop(), { code: 0 });
});
