import { join } from 'node:path';
import t, { type Test } from 'tap';
import { replaceFile, temporaryFolder } from '../support/files.ts';
import { type Scrape, scrape } from '../support/metrics.ts';
import { freePort } from '../support/ports.ts';
import { type LogLine, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { runExchange } from '../support/wire-exchange.ts';

// What audit is for: put it on, see exactly what the policies at hand do not cover, and break nothing meanwhile.
const covered = '127.1.0.5';
const uncovered = '127.2.0.5';

const policy = (port: number): string => `
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, port: ${port}, accessPolicy: audit}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: cluster, namespace: shop}
spec: {networks: [{cidr: 127.1.0.0/16}]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cluster, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: cluster}]
`;

if (process.platform !== 'linux') t.plan(0, 'addresses of 127.0.0.0/8 beside 127.0.0.1 are local on Linux only');
else await t.test('audit first', auditFirst);

async function auditFirst(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  const [withServer, withoutServer] = [await freePort(), await freePort()];
  replaceFile(join(folder, 'policy', 'policy.yaml'), policy(withServer));
  const app = await startSniffingApp(t);
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_DEFAULT_INBOUND_POLICY: 'audit',
      SALLYPORT_INBOUND_PORTS: [withServer, withoutServer].map((port) => `${port}=127.0.0.1:${app.port}`).join(),
    },
  });

  const requests = [
    { proto: 'http/1.1', path: '/orders' },
    { proto: 'http/2', path: '/orders' },
    { proto: 'grpc', path: '/shop.Web/Get' },
    { proto: 'tcp', payload: 'hello-not-http\n' },
  ] as const;
  const rows: readonly { name: string; port: number; from: string; authz: string; server: string }[] = [
    { name: 'covered by a policy', port: withServer, from: covered, authz: 'cluster', server: 'web' },
    { name: 'covered by none', port: withServer, from: uncovered, authz: 'audit', server: 'web' },
    { name: 'on a port without a Server', port: withoutServer, from: covered, authz: 'audit', server: 'audit' },
  ];
  for (const row of rows) {
    await t.test(row.name, async (t) => {
      const before = await scrape(sallyport.adminPort);
      const linesBefore = audited(sallyport).length;
      for (const request of requests) {
        const result = await runExchange({ ...request, host: '127.0.0.1', port: row.port, localAddress: row.from });
        t.match(result, request.proto === 'tcp' ? { kind: 'echo' } : { kind: 'http', status: 200 }, request.proto);
      }
      const after = await scrape(sallyport.adminPort);
      const labels = { srv_port: String(row.port), srv_name: row.server };
      for (const [counter, count] of [
        ['inbound_http_authz_allow_total', 3],
        ['inbound_tcp_authz_allow_total', 1],
      ] as const) {
        t.same(byAuthz(before, after, counter, labels), { [row.authz]: count }, `${counter} credits ${row.authz} only`);
      }
      const expected = row.authz === 'audit' ? requests.length : 0;
      if (expected > 0) {
        await sallyport.waitForLog(
          'the last audited connection',
          () => audited(sallyport).length >= linesBefore + expected,
        );
      }
      const lines = audited(sallyport).slice(linesBefore);
      t.equal(lines.length, expected, `${expected} audit lines`);
      for (const line of lines) {
        t.match(line, { server: { name: row.server }, authz: { name: 'audit' }, client: { ip: row.from } });
      }
    });
  }

  await t.test('nothing was refused', async (t) => {
    const metrics = await scrape(sallyport.adminPort);
    for (const counter of ['inbound_http_authz_deny_total', 'inbound_tcp_authz_deny_total'])
      t.equal(metrics.sum(counter), 0);
  });
  t.match(await sallyport.stop(), { code: 0 });
  t.same(
    sallyport.logs().filter((line) => /denied/.test(String(line.msg))),
    [],
  );
}

function audited(sallyport: Sallyport): LogLine[] {
  return sallyport.logs().filter((line) => line.msg === 'Request allowed' || line.msg === 'Connection allowed');
}

/** Growth of a counter by the authorization it credits; authorizations that did not grow are left out. */
function byAuthz(
  before: Scrape,
  after: Scrape,
  counter: string,
  labels: Readonly<Record<string, string>>,
): Record<string, number> {
  const names = new Set(after.find(counter, labels).map((sample) => sample.labels.get('authz_name') ?? ''));
  const rows = [...names].map((name): [string, number] => {
    const narrowed = { ...labels, authz_name: name };
    return [name, after.sum(counter, narrowed) - before.sum(counter, narrowed)];
  });
  return Object.fromEntries(rows.filter(([, count]) => count !== 0));
}
