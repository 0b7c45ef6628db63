import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { emojis, GrpcClient, startEmojiService, startVotingService } from '../support/grpc-shop.ts';
import { freePorts } from '../support/ports.ts';
import { type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { type Exchange, runExchange } from '../support/wire-exchange.ts';

// A shop of three pods, each behind a proxy of its own, all reading the same documents: what applies to a pod is found by
// its labels and its named ports.

interface Ports {
  readonly http: number;
  readonly grpc: number;
  readonly prom: number;
  readonly admin: number;
}

const documents = `
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web-http, namespace: shop}
spec: {podSelector: {matchLabels: {app: web-svc}}, port: http, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: web-public, namespace: shop}
spec:
  server: {name: web-http}
  client: {unauthenticated: true, networks: [{cidr: 0.0.0.0/0}, {cidr: '::/0'}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: emoji-grpc, namespace: shop, labels: {internal: 'true'}}
spec: {podSelector: {matchLabels: {app: emoji-svc}}, port: grpc, proxyProtocol: gRPC}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: voting-grpc, namespace: shop, labels: {internal: 'true'}}
spec: {podSelector: {matchLabels: {app: voting-svc}}, port: grpc}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: internal-grpc, namespace: shop}
spec:
  server: {selector: {matchLabels: {internal: 'true'}}}
  client:
    networks: [{cidr: 127.0.0.0/8}]
    meshTLS: {serviceAccounts: [{name: web}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: prom, namespace: shop}
spec:
  podSelector: {matchExpressions: [{key: app, operator: In, values: [emoji-svc, voting-svc, web-svc]}]}
  port: prom
  proxyProtocol: HTTP/1
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: prom-prometheus, namespace: shop}
spec:
  server: {name: prom}
  client:
    networks: [{cidr: 127.0.0.0/8}]
    meshTLS: {serviceAccounts: [{name: prometheus, namespace: monitoring}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: admin, namespace: shop}
spec: {podSelector: {}, port: linkerd-admin, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: admin-everyone-meshed, namespace: shop}
spec:
  server: {name: admin}
  client:
    networks: [{cidr: 127.0.0.0/8}]
    meshTLS: {identities: ['*']}
`;

await t.test('an emoji-voting shop', { timeout: 840_000 }, emojiVotingShop);

interface Pod {
  readonly ports: Ports;
  readonly name: string;
  readonly sallyport: Sallyport;
}

async function emojiVotingShop(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  replaceFile(join(folder, 'policy', 'shop.yaml'), documents);
  const startPod = async (account: string, app: number): Promise<Pod> => {
    const [http = 0, grpc = 0, prom = 0, admin = 0] = await freePorts(4);
    const name = workloadName(account, 'shop');
    const metricsApp = await startSniffingApp(t);
    const sallyport = await startSallyport(t, {
      env: {
        SALLYPORT_POLICY: join(folder, 'policy'),
        SALLYPORT_POD_NAMESPACE: 'shop',
        SALLYPORT_POD_LABELS: `app=${account}-svc`,
        // The web pod has no port named grpc, the others none named http.
        SALLYPORT_POD_PORTS: `${account === 'web' ? `http=${http}` : `grpc=${grpc}`},prom=${prom}`,
        SALLYPORT_INBOUND_PORTS: `${account === 'web' ? http : grpc}=127.0.0.1:${app},${prom}=127.0.0.1:${metricsApp.port}`,
        SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${admin}`,
        SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
        ...identityEnvironment(join(folder, account), testCertificate({ dnsNames: [name] })),
      },
    });
    return { ports: { http, grpc, prom, admin }, name, sallyport };
  };
  const webApp = await startSniffingApp(t);
  const web = await startPod('web', webApp.port);
  const emoji = await startPod('emoji', await startEmojiService(t));
  const voting = await startPod('voting', await startVotingService(t));

  const asWeb = workloadCertificate('web', 'shop');
  const asOther = workloadCertificate('web', 'elsewhere');

  await t.test('web is open to all', async (t) => {
    const to = { proto: 'http/1.1', host: '127.0.0.1', port: web.ports.http, path: '/api/list' } as const;
    t.match(await runExchange(to), { kind: 'http', status: 200 });
    t.match(await runExchange({ ...to, tls: meshTo(web, asOther) }), { kind: 'http', status: 200 }, 'meshed as well');
  });

  await t.test('web may call emoji and voting', async (t) => {
    const list = new GrpcClient(t, 'EmojiService', {
      port: emoji.ports.grpc,
      mesh: { certificate: asWeb, servername: emoji.name },
    });
    t.same(await list.unary('ListAll', {}), { ok: true, reply: { list: emojis } });
    t.match(
      await list.unary('FindByShortcode', { shortcode: ':none:' }),
      { ok: false, code: status.NOT_FOUND, details: 'no such emoji' },
      "the service's own status and message come through",
    );
    const vote = new GrpcClient(t, 'VotingService', {
      port: voting.ports.grpc,
      mesh: { certificate: asWeb, servername: voting.name },
    });
    for (let n = 0; n < 3; n++) t.match(await vote.unary('Vote', { shortcode: ':cat2:' }), { ok: true });
    t.match(await vote.unary('Results', {}), { ok: true, reply: { list: [{ shortcode: ':cat2:', votes: 3 }] } });
  });

  await t.test('nobody else may', async (t) => {
    for (const [service, method, pod] of [
      ['EmojiService', 'ListAll', emoji],
      ['VotingService', 'Results', voting],
    ] as const) {
      const meshed = new GrpcClient(t, service, {
        port: pod.ports.grpc,
        mesh: { certificate: asOther, servername: pod.name },
      });
      t.match(
        await meshed.unary(method, {}),
        { ok: false, code: status.PERMISSION_DENIED },
        `${service}: another namespace's web`,
      );
      const plain = new GrpcClient(t, service, { port: pod.ports.grpc });
      t.match(
        await plain.unary(method, {}),
        { ok: false, code: status.PERMISSION_DENIED },
        `${service}: without the mesh`,
      );
    }
  });

  await t.test('metrics for Prometheus, admin for the mesh', async (t) => {
    const prometheus = workloadCertificate('prometheus', 'monitoring');
    for (const pod of [web, emoji, voting]) {
      const get = (port: number, tls?: Exchange['tls']): ReturnType<typeof runExchange> =>
        runExchange({
          proto: 'http/1.1',
          host: '127.0.0.1',
          port,
          path: '/metrics',
          ...(tls === undefined ? {} : { tls }),
        });
      t.match(await get(pod.ports.prom, meshTo(pod, prometheus)), { status: 200 }, 'prom: prometheus');
      t.match(await get(pod.ports.prom, meshTo(pod, asWeb)), { status: 403 }, 'prom: web');
      t.match(await get(pod.ports.prom), { status: 403 }, 'prom: without the mesh');
      t.match(await get(pod.ports.admin, meshTo(pod, asWeb)), { status: 200 }, 'admin: web');
      t.match(await get(pod.ports.admin), { status: 403 }, 'admin: without the mesh');
    }
  });

  await t.test('the denials name their server', async (t) => {
    const denied = await emoji.sallyport.waitForLog('a gRPC denial', (line) => /denied/.test(String(line.msg)));
    t.match(denied, { msg: 'Request denied', server: { kind: 'server', name: 'emoji-grpc' } });
  });
  for (const { sallyport } of [web, emoji, voting]) t.match(await sallyport.stop(), { code: 0 });
}

function meshTo(pod: Pod, certificate: ReturnType<typeof workloadCertificate>): Exchange['tls'] & {} {
  return {
    servername: pod.name,
    ca: certificate.trustAnchorsPem,
    cert: certificate.certificatePem,
    key: certificate.keyPem,
  };
}
