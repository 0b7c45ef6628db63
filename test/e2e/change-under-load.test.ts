import { Agent, request } from 'node:http';
import { connect as http2Connect } from 'node:http2';
import { Agent as TlsAgent, type AgentOptions as TlsAgentOptions, request as tlsRequest } from 'node:https';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { inspectorEnvironment, probeHeap } from '../support/heap.ts';
import { scrape } from '../support/metrics.ts';
import { openAdmin, openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';

const swaps = 1_000;
const rotations = 50;
const quarter = swaps / 4;
/** After a full collection, three quarters of the run after the first: a leak of one small index per swap is more. */
const allowedHeapGrowthBytes = 4 * 2 ** 20;
/** The resident set keeps what the heap once needed, so it says less: only that the machine is not used up. */
const allowedResidentGrowthBytes = 192 * 2 ** 20;
const ownName = workloadName('web', 'shop');

const route = (name: string, path: string, granted: boolean): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: ${path}}}]}]
${granted ? grant(name, '') : ''}`;

const grant = (name: string, refs: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: ${name}}
  requiredAuthenticationRefs: [${refs}]
`;

/** The documents of one swap. Only /toggle changes: open in odd swaps, closed in even ones. */
function documents(port: number, tcpPort: number, swap: number): string {
  return [
    openServer('tunnel', tcpPort, 'opaque'),
    `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop, annotations: {swap: '${swap}'}}
spec: {podSelector: {}, port: ${port}}
`,
    route('open', '/open', true),
    route('closed', '/closed', false),
    route('toggle', '/toggle', swap % 2 === 1),
    route('mesh', '/mesh', false),
    grant('mesh', '{kind: ServiceAccount, name: orders, namespace: shop}'),
  ].join('');
}

async function changeUnderLoad(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  const app = await startSniffingApp(t);
  const [port = 0, tcpPort = 0] = await freePorts(2);
  const inspector = await inspectorEnvironment();
  const sallyport = await startSallyport(t, {
    env: {
      ...inspector.env,
      ...policyEnvironment(folder, documents(port, tcpPort, 0)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port},${tcpPort}=127.0.0.1:${app.port}`,
      SALLYPORT_LOG: 'warn',
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const load = new Load(port, tcpPort);
  t.teardown(() => load.stop());
  load.start();

  let rotated = 0;
  let residentBytes = 0;
  let generation = (await scrape(sallyport.adminPort)).sum('sallyport_policy_generation');
  const heap = await probeHeap(t, sallyport, inspector.port);
  let heapBytes = 0;
  for (let swap = 1; swap <= swaps && load.faults.length === 0; swap++) {
    replaceFile(join(folder, 'policy', 'policy.yaml'), documents(port, tcpPort, swap) + openAdmin);
    const metrics = await until(
      `swap ${swap}`,
      async () => {
        const now = await scrape(sallyport.adminPort);
        return now.sum('sallyport_policy_generation') > generation && now;
      },
      { everyMs: 5 },
    );
    generation = metrics.sum('sallyport_policy_generation');
    const status = await load.toggle();
    if (status !== (swap % 2 === 1 ? 200 : 403)) load.faults.push(`/toggle answered ${status} after swap ${swap}`);
    if (swap === quarter) {
      heapBytes = await heap.usedAfterCollection();
      residentBytes = sallyport.residentBytes();
    }
    if (swap % (swaps / rotations) === 0) {
      identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] }));
      rotated += 1;
      await until(`rotation ${rotated}`, async () => (await refreshesOf(sallyport)) > rotated);
    }
  }
  await load.stop();

  t.same(load.faults, [], 'every answer was the one that policy wanted');
  for (const [client, count] of Object.entries(load.counts)) t.ok(count > swaps / 10, `${client}: ${count} exchanges`);
  const metrics = await scrape(sallyport.adminPort);
  t.ok(metrics.sum('sallyport_policy_generation') > swaps, `${swaps} policies were in force, one after the other`);
  t.equal(metrics.sum('sallyport_policy_load_errors_total'), 0);
  t.ok(metrics.sum('control_identity_cert_refreshes_total', { result: 'ok' }) > rotations, `${rotations} rotations`);
  t.equal(metrics.sum('inbound_tcp_authz_terminate_total'), 0, 'no tunnel that policy allowed was cut');
  const heapGrowth = (await heap.usedAfterCollection()) - heapBytes;
  const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  t.ok(heapGrowth < allowedHeapGrowthBytes, `what the heap holds grew by ${mebibytes(heapGrowth)}`);
  const residentGrowth = sallyport.residentBytes() - residentBytes;
  t.ok(residentGrowth < allowedResidentGrowthBytes, `the resident set grew by ${mebibytes(residentGrowth)}`);
  heap.detach();
  t.match(await sallyport.stop(), { code: 0 });
}

async function refreshesOf(sallyport: Sallyport): Promise<number> {
  return (await scrape(sallyport.adminPort)).sum('control_identity_cert_refreshes_total', { result: 'ok' });
}

/** Clients of every kind that never pause, each knowing what it must be answered whatever the swap. */
class Load {
  readonly faults: string[] = [];
  readonly counts = { http1: 0, http2: 0, tcp: 0, 'mesh, fresh connections': 0, 'mesh, one connection': 0 };
  readonly #port: number;
  readonly #tcpPort: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #toggleAgent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #tls: TlsAgentOptions;
  #running: Promise<unknown> | null = null;
  #stopped = false;

  constructor(port: number, tcpPort: number) {
    this.#port = port;
    this.#tcpPort = tcpPort;
    const client = workloadCertificate('orders', 'shop');
    const { trustAnchorsPem: ca, certificatePem: cert, keyPem: key } = client;
    this.#tls = { servername: ownName, ca, cert, key, checkServerIdentity: () => undefined };
  }

  start(): void {
    const alternate = (ask: (path: string) => Promise<number>) => async (): Promise<void> => {
      await this.#expect(ask, '/open', 200);
      await this.#expect(ask, '/closed', 403);
    };
    const meshed = (agent: () => TlsAgent) => async (): Promise<void> => {
      await this.#expect((path) => this.#askTls(path, agent()), '/mesh', 200);
      await this.#expect((path) => this.#askTls(path, agent()), '/closed', 403);
    };
    const kept = new TlsAgent({ keepAlive: true, maxSockets: 1, ...this.#tls });
    const session = http2Connect(`http://127.0.0.1:${this.#port}`);
    session.on('error', (error) => this.faults.push(`h2 session: ${error.message}`));
    const loops = [
      this.#loop(
        'http1',
        alternate((path) => this.#ask(path, this.#agent)),
      ),
      this.#loop(
        'http2',
        alternate((path) => askHttp2(session, path)),
      ),
      this.#loop(
        'mesh, fresh connections',
        meshed(() => new TlsAgent({ keepAlive: false, ...this.#tls })),
      ),
      this.#loop(
        'mesh, one connection',
        meshed(() => kept),
      ),
      this.#echo(),
    ];
    this.#running = Promise.all(loops).finally(() => {
      session.destroy();
      kept.destroy();
      this.#agent.destroy();
      this.#toggleAgent.destroy();
    });
  }

  toggle(): Promise<number> {
    return this.#ask('/toggle', this.#toggleAgent);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #loop(name: keyof Load['counts'], round: () => Promise<void>): Promise<void> {
    while (!this.#stopped && this.faults.length === 0) {
      try {
        await round();
        this.counts[name] += 1;
      } catch (error) {
        this.faults.push(`${name}: ${(error as NodeJS.ErrnoException).code ?? ''} ${(error as Error).message}`);
      }
      // A breath, so that five loops do not starve the swaps of the one event loop they share.
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  async #expect(ask: (path: string) => Promise<number>, path: string, wanted: number): Promise<void> {
    const status = await ask(path);
    if (status !== wanted) this.faults.push(`${path} answered ${status}, not ${wanted}`);
  }

  /** One tunnel for the whole time, and beside it a fresh one now and then. */
  async #echo(): Promise<void> {
    const tunnel = await RawClient.open({ port: this.#tcpPort });
    const line = latin1(`${'x'.repeat(63)}\n`);
    let sent = 0;
    await this.#loop('tcp', async () => {
      tunnel.send(line);
      sent += line.length;
      if (!(await tunnel.reaches(() => tunnel.receivedLength >= sent, 5_000)))
        throw new Error('the tunnel fell silent');
      const fresh = await RawClient.open({ port: this.#tcpPort });
      try {
        fresh.send(line);
        if (!(await fresh.reaches(() => fresh.receivedLength >= line.length, 5_000))) throw new Error('no tunnel');
      } finally {
        fresh.destroy();
      }
    });
    tunnel.destroy();
  }

  #ask(path: string, agent: Agent): Promise<number> {
    return new Promise((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port: this.#port, path, agent }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0));
        response.on('error', reject);
      });
      asked.on('error', reject).end();
    });
  }

  #askTls(path: string, agent: TlsAgent): Promise<number> {
    return new Promise((resolve, reject) => {
      const asked = tlsRequest({ host: '127.0.0.1', port: this.#port, path, agent, ...this.#tls }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0));
        response.on('error', reject);
      });
      asked.on('error', reject).end();
    });
  }
}

function askHttp2(session: ReturnType<typeof http2Connect>, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': path });
    let status = 0;
    stream.on('response', (headers) => {
      status = Number(headers[':status']);
    });
    stream.resume().on('end', () => resolve(status));
    stream.on('error', reject);
  });
}

t.setTimeout(900_000);
await t.test('policy and certificates change under load', { timeout: 840_000 }, changeUnderLoad);
