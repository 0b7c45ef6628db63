import t from 'tap';
import { account, document, load, policy, server } from '../../../support/policy-fixtures.ts';

const mesh = '{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}';

t.test('a star in the name of a ServiceAccount or a namespace is none of many', async (t) => {
  const mtls = (refs: string): string => document('MeshTLSAuthentication', 'm', `{identityRefs: [${refs}]}`);
  const rows: readonly string[] = [
    policy('p', 'kind: Server, name: web', '{kind: ServiceAccount, name: "*"}'),
    policy('p', 'kind: Server, name: web', '{kind: ServiceAccount, name: "*", namespace: shop}'),
    policy('p', 'kind: Server, name: web', '{kind: ServiceAccount, name: "*.shop"}'),
    policy('p', 'kind: Server, name: web', '{kind: ServiceAccount, name: a, namespace: "*"}'),
    policy('p', 'kind: Server, name: web', mesh) + mtls('{kind: ServiceAccount, name: "*"}'),
    policy('p', 'kind: Server, name: web', mesh) + mtls('{kind: Namespace, name: "*"}'),
  ];
  for (const text of rows) t.equal(load(server() + text).ask({ identity: account('a') }).verdict, 'deny', text);
  const all = policy('p', 'kind: Server, name: web', mesh) + mtls('{kind: Namespace, name: shop}');
  t.equal(load(server() + all).ask({ identity: account('a') }).verdict, 'permit');
});
