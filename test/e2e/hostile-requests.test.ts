import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../support/files.ts';
import { policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { type SeenRequest, type SniffingApp, startSniffingApp } from '../support/sniffing-app.ts';
import { type Exchange, type ExchangeResult, runExchange } from '../support/wire-exchange.ts';

// Requests that try to be one thing to policy and another to the app. CVE numbers name where others were caught.

const ownName = workloadName('web', 'shop');

const policy = (port: number): string => `
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, port: ${port}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: public, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /public}}]}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: admin, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /admin}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: public, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: public}
  requiredAuthenticationRefs: []
`;

/** Spellings that some server reads as /admin, or that no target may hold. */
const evasions: readonly (readonly [path: string, seenIn: string])[] = [
  ['/public/../admin', 'CVE-2019-9901'],
  ['/public/%2e%2e/admin', 'CVE-2021-29492'],
  ['/public/%2E%2e/admin', 'case of escapes'],
  ['/public/.%2e/admin', 'half escaped'],
  ['/public/%252e%252e/admin', 'escaped twice'],
  ['/public%2f..%2fadmin', 'CVE-2021-29492'],
  ['/public/..%2fadmin', 'CVE-2025-32431'],
  ['/public/..%5cadmin', 'escaped backslash'],
  ['/public\\..\\admin', 'CVE-2021-29492'],
  ['/public/..;/admin', 'CVE-2026-73551'],
  ['/public/..;a=b/admin', 'CVE-2026-73553'],
  ['/public/x/..//../admin', 'merged slashes'],
  ['//admin', 'CVE-2021-31920'],
  ['/admin/../admin', 'refused whichever way'],
  ['/%61dmin', 'escaped letter'],
  ['/admin;x', 'a parameter'],
  ['/public/%00', 'NUL'],
  ['/public/a%0d%0aX: 1', 'escaped CR LF, and a space'],
  ['/public#/../admin', 'CVE-2021-32779'],
];

/** Spellings that are odd and honest; they must arrive byte for byte. */
const honest: readonly (readonly [path: string, usedBy: string])[] = [
  ['/public', 'the prefix itself'],
  ['/public/a%2Fb', 'GitLab: a project path as one segment'],
  ['/public/@scope%2fname', 'npm: a scoped package'],
  ['/public/caf%C3%A9', 'UTF-8'],
  ['/public/a%20b', 'a space'],
  ['/public/a;v=1', 'a parameter'],
  ['/public/a+b,c:d@e!$&()*', 'every delimiter'],
  ['/public/...', 'three dots'],
  ['/public/.hidden', 'a dot file'],
  ['/public/?next=/../admin%2f..', 'a query is no path'],
];

async function hostileRequests(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  const app = await startSniffingApp(t);
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, policy(port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  await t.test('paths', (t) => paths(t, port, app));
  await t.test('identity headers', (t) => identityHeaders(t, port));
  await t.test('authority', (t) => authority(t, port, app));
  t.match(await sallyport.stop(), { code: 0 });
}

async function paths(t: Test, port: number, app: SniffingApp): Promise<void> {
  for (const proto of ['http/1.1', 'http/2'] as const) {
    for (const [path, why] of evasions) {
      const before = app.counts.requests;
      const result = await runExchange({ host: '127.0.0.1', port, proto, path });
      const refused = result.kind === 'closed' || (result.kind === 'http' && [400, 403, 404].includes(result.status));
      t.ok(refused, `${proto} ${path} (${why}): ${result.kind === 'http' ? result.status : result.kind}`);
      t.equal(app.counts.requests, before, `${proto} ${path}: the app sees nothing`);
    }
    for (const [path, why] of honest) {
      const result = await runExchange({ host: '127.0.0.1', port, proto, path });
      t.equal(seenBy(result)?.url, path, `${proto} ${path} (${why}): arrives as it is`);
    }
  }
}

async function identityHeaders(t: Test, port: number): Promise<void> {
  const orders = workloadCertificate('orders', 'shop');
  const mesh: Exchange['tls'] = {
    servername: ownName,
    ca: orders.trustAnchorsPem,
    cert: orders.certificatePem,
    key: orders.keyPem,
  };
  const truth = workloadName('orders', 'shop');
  const forged = workloadName('admin', 'shop');
  const rows: readonly { name: string; headers: readonly (readonly [string, string])[]; http1Only?: boolean }[] = [
    { name: 'as it is', headers: [['l5d-client-id', forged]] },
    {
      name: 'twice',
      headers: [
        ['l5d-client-id', forged],
        ['l5d-client-id', forged],
      ],
      http1Only: true,
    },
    { name: 'in another case', headers: [['L5D-Client-ID', forged]], http1Only: true },
    { name: 'with underscores (CVE-2026-54763)', headers: [['l5d_client_id', forged]] },
    { name: 'with dots (CVE-2026-88011)', headers: [['l5d.client.id', forged]] },
    { name: 'named by Connection (CVE-2024-45410)', headers: [['Connection', 'l5d-client-id']], http1Only: true },
  ];
  for (const { name, headers, http1Only } of rows) {
    for (const proto of http1Only ? (['http/1.1'] as const) : (['http/1.1', 'http/2'] as const)) {
      for (const tls of [undefined, mesh]) {
        const exchange: Exchange = { host: '127.0.0.1', port, proto, path: '/public', headers };
        const seen = seenBy(await runExchange(tls === undefined ? exchange : { ...exchange, tls }));
        const told = Object.entries(seen?.headers ?? {}).filter(
          ([key]) => key.replace(/[_.]/g, '-') === 'l5d-client-id',
        );
        const wanted = tls === undefined ? [] : [['l5d-client-id', truth]];
        t.same(seen && told, wanted, `${name}, ${proto}, ${tls === undefined ? 'without the mesh' : 'meshed'}`);
      }
    }
  }
}

async function authority(t: Test, port: number, app: SniffingApp): Promise<void> {
  const before = app.counts.requests;
  // RFC 9113 section 8.3.1: a Host that differs from :authority makes the request malformed.
  const result = await runExchange({
    host: '127.0.0.1',
    port,
    proto: 'http/2',
    path: '/public',
    authority: 'a.example',
    headers: [['host', 'b.example']],
  });
  const arrived = seenBy(result);
  if (arrived === undefined) t.equal(app.counts.requests, before, 'two authorities: refused');
  else
    t.equal(arrived.headers[':authority'] ?? arrived.headers.host, 'a.example', 'two authorities: the one policy saw');
  t.notMatch(JSON.stringify(arrived ?? {}), 'b.example', 'and the other reaches nobody');
}

/** What the app saw; undefined where it was not asked. */
function seenBy(result: ExchangeResult): SeenRequest | undefined {
  return result.kind === 'http' && result.status === 200 ? (JSON.parse(result.body) as SeenRequest) : undefined;
}

await t.test('hostile requests', { timeout: 840_000 }, hostileRequests);
