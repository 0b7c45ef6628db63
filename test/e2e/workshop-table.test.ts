import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { freePort } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { type Exchange, runExchange } from '../support/wire-exchange.ts';

// The six default policies against every kind of client and protocol, as Linkerd's workshop shows them. On Linux all of
// 127.0.0.0/8 is local, so one part of it can be "the cluster" and another "outside" without any privilege.
const inCluster = '127.1.0.5';
const outside = '127.2.0.5';
const ownName = workloadName('web', 'shop');

type Verdict = 'allowed' | 'refused';
const clients = ['unmeshed in-cluster', 'unmeshed outside', 'meshed in-cluster', 'meshed outside'] as const;
const table: Readonly<Record<string, readonly Verdict[]>> = {
  'all-unauthenticated': ['allowed', 'allowed', 'allowed', 'allowed'],
  'all-authenticated': ['refused', 'refused', 'allowed', 'allowed'],
  'cluster-unauthenticated': ['allowed', 'refused', 'allowed', 'refused'],
  'cluster-authenticated': ['refused', 'refused', 'allowed', 'refused'],
  deny: ['refused', 'refused', 'refused', 'refused'],
  audit: ['allowed', 'allowed', 'allowed', 'allowed'],
};

/** Per protocol: the request, and what allowed and refused look like on the wire. */
const protocols: readonly {
  readonly name: string;
  readonly request: Pick<Exchange, 'proto' | 'path' | 'payload'>;
  readonly allowed: object;
  readonly refused: object;
}[] = [
  {
    name: 'HTTP',
    request: { proto: 'http/1.1', path: '/' },
    allowed: { kind: 'http', status: 200 },
    refused: { kind: 'http', status: 403, bodiless: true },
  },
  {
    name: 'HTTP/2',
    request: { proto: 'http/2', path: '/' },
    allowed: { kind: 'http', status: 200 },
    refused: { kind: 'http', status: 403, bodiless: true },
  },
  {
    name: 'gRPC',
    request: { proto: 'grpc', path: '/shop.Web/Get' },
    allowed: { kind: 'http', status: 200, grpcStatus: '0' },
    // PERMISSION_DENIED, trailers-only.
    refused: { kind: 'http', status: 200, grpcStatus: '7', bodiless: true },
  },
  {
    name: 'raw TCP',
    request: { proto: 'tcp', payload: 'hello-not-http\n' },
    allowed: { kind: 'echo' },
    refused: { kind: 'closed', text: '' },
  },
];

if (process.platform !== 'linux') t.plan(0, 'addresses of 127.0.0.0/8 beside 127.0.0.1 are local on Linux only');
else for (const [policy, verdicts] of Object.entries(table)) await t.test(policy, (t) => column(t, policy, verdicts));

async function column(t: Test, policy: string, verdicts: readonly Verdict[]): Promise<void> {
  const folder = temporaryFolder(t);
  replaceFile(join(folder, 'policy', 'none.yaml'), '');
  const app = await startSniffingApp(t);
  const port = await freePort();
  const own = testCertificate({ dnsNames: [ownName] });
  const orders = workloadCertificate('orders', 'shop');
  const sallyport = await startSallyport(t, {
    env: {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_DEFAULT_INBOUND_POLICY: policy,
      SALLYPORT_CLUSTER_NETWORKS: '127.1.0.0/16',
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
      ...identityEnvironment(join(folder, 'identity'), own),
    },
  });
  const tls = { servername: ownName, ca: own.trustAnchorsPem, cert: orders.certificatePem, key: orders.keyPem };
  for (const [index, client] of clients.entries()) {
    const verdict = verdicts[index] as Verdict;
    for (const { name, request, ...wire } of protocols) {
      const connectionsBefore = app.counts.connections;
      const requestsBefore = app.counts.requests;
      const result = await runExchange({
        ...request,
        host: '127.0.0.1',
        port,
        localAddress: client.endsWith('outside') ? outside : inCluster,
        ...(client.startsWith('meshed') ? { tls } : {}),
      });
      t.match(result, wire[verdict], `${client}, ${name}: ${verdict}`);
      if (verdict === 'refused') {
        t.equal(app.counts.connections, connectionsBefore, `${client}, ${name}: the app is not dialled`);
        t.equal(app.counts.requests, requestsBefore, `${client}, ${name}: the app sees no request`);
      }
    }
  }
  const metrics = await scrape(sallyport.adminPort);
  const labels = { srv_kind: 'default', srv_name: policy, srv_port: String(port) };
  const allowed = verdicts.filter((verdict) => verdict === 'allowed').length;
  for (const [counter, count] of [
    ['inbound_http_authz_allow_total', allowed * 3],
    ['inbound_http_authz_deny_total', (verdicts.length - allowed) * 3],
    ['inbound_tcp_authz_allow_total', allowed],
    ['inbound_tcp_authz_deny_total', verdicts.length - allowed],
  ] as const) {
    t.equal(metrics.sum(counter, labels), count, `${counter} is ${count}`);
  }
  t.match(await sallyport.stop(), { code: 0 });
}
