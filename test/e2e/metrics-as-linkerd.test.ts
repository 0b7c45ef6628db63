/** Figures whose family, label or value Linkerd has its own way with: each as Linkerd's, on real traffic. */
import { join } from 'node:path';
import t from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, temporaryFolder } from '../support/files.ts';
import { growth, type Labels, type Scrape, scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';
import { type Exchange, runExchange } from '../support/wire-exchange.ts';

const ownName = workloadName('web', 'shop');

type Moved = readonly (readonly [name: string, labels: Labels, by: number])[];
interface Row {
  readonly title: string;
  readonly exchange: Partial<Exchange> & { readonly port: number };
  readonly moved: Moved;
  readonly headers?: Readonly<Record<string, string>>;
}

await t.test("figures as Linkerd's", { timeout: 840_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const app = await startSniffingApp(t);
  const [http1 = 0, http2 = 0, grpc = 0, unknown = 0, absent = 0, moved = 0, nobody = 0] = await freePorts(7);
  const redirect = `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: moved, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: moved}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: new.example}}]}]
`;
  const policy =
    openServer('http1', http1, 'HTTP/1') +
    openServer('http2', http2, 'HTTP/2') +
    openServer('grpc', grpc, 'gRPC') +
    openServer('unknown', unknown) +
    openServer('absent', absent) +
    openServer('moved', moved) +
    redirect;
  const ports = [http1, http2, grpc, unknown, moved].map((port) => `${port}=127.0.0.1:${app.port}`);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, policy),
      SALLYPORT_INBOUND_PORTS: [...ports, `${absent}=127.0.0.1:${nobody}`].join(),
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const orders = workloadCertificate('orders', 'shop');
  const ca = orders.trustAnchorsPem;
  const mesh = { servername: ownName, ca, cert: orders.certificatePem, key: orders.keyPem };
  const unexpected = (port: number): Moved => [
    ['inbound_tcp_errors_total', { error: 'unexpected', target_port: String(port) }, 1],
    ['inbound_tcp_authz_deny_total', { srv_port: String(port) }, 0],
  ];
  const answered = (port: number, labels: Labels): Moved => [
    ['response_total', { srv_port: String(port), classification: 'failure', error: '', ...labels }, 1],
    ['inbound_http_statuses_total', { parent_port: String(port), status: labels.status_code as string }, 1],
  ];
  const call = { proto: 'grpc', method: 'POST', path: '/a.B/C' } as const;
  const get = { proto: 'http/1.1', method: 'GET', path: '/' } as const;
  const junk = { proto: 'tcp', payload: '\u0000\u0001 no HTTP\r\n\r\n' } as const;
  const rows: readonly Row[] = [
    {
      title: 'gRPC over the default route of a Server of unknown protocol',
      exchange: { ...call, port: unknown },
      moved: [
        ['inbound_http_requests_total', { parent_port: String(unknown) }, 1],
        ['inbound_http_statuses_total', { parent_port: String(unknown), status: '200' }, 1],
        ['inbound_grpc_requests_total', { parent_port: String(unknown) }, 0],
        ['response_total', { srv_port: String(unknown), grpc_status: '0', classification: 'success' }, 1],
      ],
    },
    {
      title: 'gRPC on a gRPC Server',
      exchange: { ...call, port: grpc },
      moved: [
        ['inbound_grpc_requests_total', { parent_port: String(grpc) }, 1],
        ['inbound_grpc_statuses_total', { parent_port: String(grpc), status: '0' }, 1],
        ['inbound_http_requests_total', { parent_port: String(grpc) }, 0],
      ],
    },
    { title: 'no HTTP on HTTP/1', exchange: { ...junk, port: http1 }, moved: unexpected(http1) },
    { title: 'no HTTP on HTTP/2', exchange: { ...junk, port: http2 }, moved: unexpected(http2) },
    { title: 'no HTTP on gRPC', exchange: { ...junk, port: grpc }, moved: unexpected(grpc) },
    {
      title: 'TLS for another name on a Server of unknown protocol',
      exchange: { ...junk, port: unknown, tls: { servername: 'db.example.com', ca } },
      moved: [['inbound_tcp_detect_http_results_total', { result: 'not_http', srv_port: String(unknown) }, 1]],
    },
    {
      title: 'an app that refuses, over HTTP/1',
      exchange: { ...get, port: absent },
      moved: answered(absent, { status_code: '502', grpc_status: '' }),
    },
    {
      title: 'an app that refuses, over HTTP/2',
      exchange: { ...get, proto: 'http/2', port: absent },
      moved: answered(absent, { status_code: '502', grpc_status: '' }),
    },
    {
      title: 'an app that refuses, over gRPC',
      exchange: { ...call, port: absent },
      moved: answered(absent, { status_code: '200', grpc_status: '14' }),
    },
    {
      title: 'a redirect, to a client with an identity',
      exchange: { ...get, port: moved, tls: mesh },
      moved: [['inbound_http_authz_allow_total', { srv_port: String(moved) }, 1]],
      headers: { location: 'http://new.example/', 'l5d-proxy-error': 'redirected' },
    },
  ];
  for (const { title, exchange, moved: wanted, headers } of rows) {
    const before = await scrape(sallyport.adminPort);
    const result = await runExchange({ host: '127.0.0.1', ...get, ...exchange }).catch((error: Error) => error.message);
    const by = (after: Scrape): number[] => wanted.map(([name, labels]) => growth(before, after, name, labels));
    const expected = wanted.map(([, , count]) => count);
    let after = before;
    const same = async (): Promise<boolean> => {
      after = await scrape(sallyport.adminPort);
      return by(after).join() === expected.join();
    };
    await until('the figures', same, { timeoutMs: 3_000 }).catch(() => {});
    t.same(by(after), expected, `${title}: ${wanted.map(([name]) => name).join(', ')}`);
    if (headers !== undefined) t.match(result, { headers }, title);
  }
  const { samples } = await scrape(sallyport.adminPort);
  const bounds = (name: string): string[] => [
    ...new Set(
      samples.filter((sample) => sample.name === `${name}_bucket`).map(({ labels }) => labels.get('le') ?? ''),
    ),
  ];
  t.same(bounds('inbound_http_response_frame_size_bytes'), ['128.0', '1024.0', '10240.0', '+Inf']);
  t.same(bounds('inbound_http_response_duration_seconds'), ['0.05', '0.5', '1.0', '10.0', '+Inf']);
  t.same(bounds('response_latency_ms').slice(0, 3), ['1', '2', '3']);
});
