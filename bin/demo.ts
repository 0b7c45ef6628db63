import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, issueCertificate } from '../certs/authority.ts';
import type { Io, Main } from './arguments.ts';
import { openFiles, openInstructions, openSettings } from './demo-open.ts';
import { demoPolicy, demoPolicyTest } from './demo-policy.ts';
import { run } from './run.ts';
import { shellWord } from './shell-word.ts';

/** The ports of the demo, as everybody knows them; one that is taken gives way to a free one. */
const wellKnown = { app: 3000, proxy: 8080, admin: 4191, health: 4192 } as const;
type Ports = Readonly<Record<keyof typeof wellKnown, number>>;

/** Milliseconds between two looks at who our parent is. */
const parentWatchMs = 250;

const webName = 'web.demo.serviceaccount.identity.linkerd.cluster.local';
const ordersName = 'orders.demo.serviceaccount.identity.linkerd.cluster.local';

export const main: Main<'demo'> = async (line, io) => {
  const ending = new DemoEnd();
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-demo-'));
  // At the exit, whatever it comes from.
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const app = http.createServer((request, response) => {
    const caller = request.headers['l5d-client-id'] ?? 'nobody in particular';
    request.resume();
    response.end(`The app got ${request.method} ${request.url} from ${caller}\n`);
  });
  try {
    const ports = await listenAndChoose(app);
    const file = (name: string): string => join(folder, name);
    const curl = curlFor(io.env);
    const orders = asOrders(file, ports);
    const origin = `https://${webName}:${ports.proxy}`;
    const files = line.has('open')
      ? openFiles({ proxyPort: ports.proxy, curl, asOrders: orders, origin })
      : new Map([
          ['policy.yaml', demoPolicy],
          ['policy-test.yaml', demoPolicyTest],
        ]);
    writeMaterial(file, files);
    const env = {
      ...withoutOurs(io.env),
      SALLYPORT_POLICY: file('policy.yaml'),
      SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${ports.proxy}=127.0.0.1:${ports.app}`,
      SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${ports.admin}`,
      SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${ports.health}`,
      SALLYPORT_POD_NAME: 'web-0',
      SALLYPORT_POD_NAMESPACE: 'demo',
      SALLYPORT_POD_LABELS: 'app=web',
      SALLYPORT_POD_PORTS: `http=${ports.proxy}`,
      SALLYPORT_POD_IPS: '127.0.0.1',
      // Everything here comes from 127.0.0.1, which would otherwise be let in as the pod's own traffic.
      SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
      SALLYPORT_IDENTITY_CERT: file('web.crt'),
      SALLYPORT_IDENTITY_KEY: file('web.key'),
      SALLYPORT_IDENTITY_TRUST_ANCHORS: file('ca.crt'),
      SALLYPORT_LOG_FORMAT: 'plain',
      SALLYPORT_SHUTDOWN_GRACE_PERIOD: '2s',
      ...(line.has('open') ? openSettings(file) : {}),
    };
    const said = line.has('open')
      ? openInstructions(folder, ports.admin, curl)
      : instructions({ folder, ports, curl, orders, origin });
    const started = (): void => void io.stdout.write(`\n${movedPorts(ports)}${said}\n`);
    // Ctrl-C reaches npm and the demo, and npm hands it on: the demo gets it twice.
    return await run({ ...io, env }, { started, endings: (end) => ending.by(end), again: 'joins', hangup: 'ends' });
  } finally {
    app.close();
    app.closeAllConnections();
  }
};

/**
 * Why the demo ends besides what ends any proxy: with its terminal, and with the program that started it, for npm dies of a
 * SIGHUP or a SIGKILL without a word to what it runs. Until the proxy can be drained, all of that ends the process.
 */
class DemoEnd {
  #end: () => void = () => process.exit(0);

  constructor() {
    for (const signal of ['SIGHUP', 'SIGTERM', 'SIGINT'] as const) process.on(signal, () => this.#end());
    const parent = process.ppid;
    const watch = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(watch);
      this.#end();
    }, parentWatchMs);
    watch.unref();
  }

  by(end: () => void): void {
    this.#end = end;
  }
}

/** Starts the app; yields its port and three that are free now, none of them twice. */
async function listenAndChoose(app: http.Server): Promise<Ports> {
  const others = (['proxy', 'admin', 'health'] as const).map((name) => ({ name, server: net.createServer() }));
  const ports = { ...wellKnown, app: await listen(app, wellKnown.app) };
  for (const { name, server } of others) Object.assign(ports, { [name]: await listen(server, wellKnown[name]) });
  await Promise.all(others.map(({ server }) => new Promise((closed) => server.close(closed))));
  return ports;
}

/** The port, or one that the system chooses where that is taken. */
function listen(server: net.Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (port !== 0 && ['EADDRINUSE', 'EACCES'].includes(error.code ?? '')) resolve(listen(server, 0));
      else reject(error);
    });
    server.listen(port, '127.0.0.1', () => resolve((server.address() as net.AddressInfo).port));
  });
}

function writeMaterial(file: (name: string) => string, files: ReadonlyMap<string, string>): void {
  const authority = createAuthority({ commonName: 'Sallyport demo CA', days: 1 });
  const web = issueCertificate(authority, { dnsNames: [webName], days: 1 });
  const orders = issueCertificate(authority, { dnsNames: [ordersName], days: 1 });
  for (const [name, text] of files) writeFileSync(file(name), text);
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

/** Where a proxy for the web is configured, curl would ask that one for what listens here. */
function curlFor(env: Io['env']): string {
  const isProxied = Object.entries(env).some(
    ([name, value]) => /^(https?|all)_proxy$/i.test(name) && (value ?? '') !== '',
  );
  return isProxied ? "curl --noproxy '*'" : 'curl';
}

/** What curl needs to come as the ServiceAccount `orders`. */
function asOrders(file: (name: string) => string, { proxy }: Ports): string {
  const [ca, certificate, key] = ['ca.crt', 'orders.crt', 'orders.key'].map((name) => shellWord(file(name)));
  return `--resolve ${webName}:${proxy}:127.0.0.1 --cacert ${ca} --cert ${certificate} --key ${key}`;
}

function movedPorts(ports: Ports): string {
  const moved = (Object.keys(wellKnown) as (keyof Ports)[]).filter((name) => ports[name] !== wellKnown[name]);
  const lines = moved.map((name) => `Port ${wellKnown[name]} is taken: the ${name} is on ${ports[name]}.\n`).join('');
  return lines === '' ? '' : `${lines}\n`;
}

interface Told {
  readonly folder: string;
  readonly ports: Ports;
  readonly curl: string;
  readonly orders: string;
  readonly origin: string;
}

function instructions({ folder, ports, curl, orders, origin }: Told): string {
  const { app, proxy: proxyPort, admin, health } = ports;
  return `Sallyport stands before the app on 127.0.0.1:${app}. In another terminal:

  # allowed: everybody may read /public
  ${curl} -i http://127.0.0.1:${proxyPort}/public/hello

  # refused, 403: /orders wants an identity
  ${curl} -i http://127.0.0.1:${proxyPort}/orders/1

  # allowed: the same, with the certificate of the ServiceAccount "orders"
  ${curl} -i ${orders} ${origin}/orders/1

  # the metrics, behind the policy of their own port
  ${curl} -s http://127.0.0.1:${admin}/metrics | grep ^inbound_http_authz

  # ready? (on a port that no policy governs)
  ${curl} -i http://127.0.0.1:${health}/ready

The policy is ${folder}/policy.yaml: edit it, save it, ask again. Its test is policy-test.yaml
beside it, for sallyport test. Ctrl-C ends the demo.
`;
}
