import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, issueCertificate } from '../certs/authority.ts';
import { type Io, type Main, UsageError } from './arguments.ts';
import { demoPolicy } from './demo-policy.ts';
import { run } from './run.ts';

const appPort = 3000;
const proxyPort = 8080;
const webName = 'web.demo.serviceaccount.identity.linkerd.cluster.local';
const ordersName = 'orders.demo.serviceaccount.identity.linkerd.cluster.local';

export const main: Main<'demo'> = async (_line, io) => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-demo-'));
  // At the exit, which a second signal causes too.
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const app = http.createServer((request, response) => {
    const caller = request.headers['l5d-client-id'] ?? 'nobody in particular';
    request.resume();
    response.end(`The app got ${request.method} ${request.url} from ${caller}\n`);
  });
  try {
    await startApp(app);
    const file = (name: string): string => join(folder, name);
    writeMaterial(file);
    const env = {
      ...withoutOurs(io.env),
      SALLYPORT_POLICY: file('policy.yaml'),
      SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${proxyPort}=127.0.0.1:${appPort}`,
      SALLYPORT_ADMIN_LISTEN: '127.0.0.1:4191',
      SALLYPORT_HEALTH_LISTEN: '127.0.0.1:4192',
      SALLYPORT_POD_NAME: 'web-0',
      SALLYPORT_POD_NAMESPACE: 'demo',
      SALLYPORT_POD_LABELS: 'app=web',
      SALLYPORT_POD_PORTS: `http=${proxyPort}`,
      SALLYPORT_POD_IPS: '127.0.0.1',
      // Everything here comes from 127.0.0.1, which would otherwise be let in as the pod's own traffic.
      SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
      SALLYPORT_IDENTITY_CERT: file('web.crt'),
      SALLYPORT_IDENTITY_KEY: file('web.key'),
      SALLYPORT_IDENTITY_TRUST_ANCHORS: file('ca.crt'),
      SALLYPORT_LOG_FORMAT: 'plain',
    };
    return await run({ ...io, env }, () => io.stdout.write(instructions(folder)));
  } finally {
    app.close();
    app.closeAllConnections();
  }
};

function startApp(app: http.Server): Promise<void> {
  return new Promise((resolve, reject) => {
    app.once('error', (error: NodeJS.ErrnoException) => {
      const inUse = `127.0.0.1:${appPort} is in use; the demo's app needs it`;
      reject(error.code === 'EADDRINUSE' ? new UsageError(inUse, 'stop what listens there') : error);
    });
    app.listen(appPort, '127.0.0.1', resolve);
  });
}

function writeMaterial(file: (name: string) => string): void {
  const authority = createAuthority({ commonName: 'Sallyport demo CA', days: 1 });
  const web = issueCertificate(authority, { dnsNames: [webName], days: 1 });
  const orders = issueCertificate(authority, { dnsNames: [ordersName], days: 1 });
  writeFileSync(file('policy.yaml'), demoPolicy);
  writeFileSync(file('ca.crt'), authority.certificatePem);
  for (const [name, issued] of [
    ['web', web],
    ['orders', orders],
  ] as const) {
    writeFileSync(file(`${name}.crt`), issued.certificatePem);
    writeFileSync(file(`${name}.key`), issued.keyPem, { mode: 0o600 });
  }
}

/** The shell's own settings must not bend what the printed lines promise. */
function withoutOurs(env: Io['env']): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SALLYPORT_')));
}

function instructions(folder: string): string {
  const tls = `--resolve ${webName}:${proxyPort}:127.0.0.1 --cacert ${folder}/ca.crt`;
  const identity = `--cert ${folder}/orders.crt --key ${folder}/orders.key`;
  return `
Sallyport stands before the app. In another terminal:

  # allowed: everybody may read /public
  curl -i http://127.0.0.1:${proxyPort}/public/hello

  # refused, 403: /orders wants an identity
  curl -i http://127.0.0.1:${proxyPort}/orders/1

  # allowed: the same, with the certificate of the ServiceAccount "orders"
  curl -i ${tls} ${identity} https://${webName}:${proxyPort}/orders/1

  # the metrics, behind the policy of their own port
  curl -s http://127.0.0.1:4191/metrics | grep authz

  # ready? (on a port that no policy governs)
  curl -i http://127.0.0.1:4192/ready

The policy is ${folder}/policy.yaml: edit it, save it, ask again. Ctrl-C ends the demo.

`;
}
