import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { spiffeCertificate, type TestCertificate, testCertificate } from './certificates.ts';
import type { Teardown } from './children.ts';
import { identityEnvironment, replaceFile } from './files.ts';
import { grown, growth, type Labels, type Scrape } from './metrics.ts';
import type { Namespace } from './namespace.ts';
import {
  afterStep,
  allChecks,
  type BurstCheck,
  type CaseClient,
  type PolicyCase,
  type PolicyCases,
  type PolicyCheck,
  type PolicyDocument,
  podOf,
  type SingleCheck,
} from './policy-cases.ts';
import { decisionCounters, tlsLabels, wireFaults } from './policy-wire-faults.ts';
import { type Sallyport, startSallyport } from './sallyport.ts';
import { until } from './until.ts';
import type { WireDriver } from './wire-driver.ts';
import type { Exchange } from './wire-exchange.ts';

export const adminPort = 4191;
const healthPort = 4192;
const ownName = 'web.shop.serviceaccount.identity.linkerd.cluster.local';

/** Where one case at a time runs: a namespace with every address, its agent, and the app behind each policy port. */
export interface CaseLane {
  readonly namespace: Namespace;
  readonly driver: WireDriver;
  readonly apps: ReadonlyMap<number, number>;
}

/** The address that the client's socket is bound to. A mapped address is what a dual-stack listener makes of plain IPv4. */
export function sourceOf({ ip }: CaseClient): string {
  const mapped = /^::ffff:(.*)$/i.exec(ip)?.[1];
  if (mapped === undefined) return ip;
  if (mapped.includes('.')) return mapped;
  const words = mapped.split(':').map((word) => Number.parseInt(word, 16));
  return words.flatMap((word) => [word >> 8, word & 255]).join('.');
}

/** Client certificates by identity, issued once for all cases. */
export class Certificates {
  readonly own = testCertificate({ dnsNames: [ownName] });
  readonly #issued = new Map<string, TestCertificate>();

  of(identity: string): TestCertificate {
    const found = this.#issued.get(identity);
    if (found !== undefined) return found;
    const spiffe = identity.startsWith('spiffe://');
    const certificate = spiffe ? spiffeCertificate(identity) : testCertificate({ dnsNames: [identity] });
    this.#issued.set(identity, certificate);
    return certificate;
  }
}

export interface CaseRunOptions {
  readonly cases: PolicyCases;
  readonly policyCase: PolicyCase;
  readonly lane: CaseLane;
  /** For what the proxy reads; made if it is not there. */
  readonly folder: string;
  readonly certificates: Certificates;
}

/** One case, with a proxy of its own. */
export class CaseRun {
  readonly #faults: string[] = [];
  readonly #t: Teardown;
  readonly #cases: PolicyCases;
  readonly #case: PolicyCase;
  readonly #lane: CaseLane;
  readonly #folder: string;
  readonly #certificates: Certificates;
  /** Tunnels of earlier steps by connection name, with the check that opened each. */
  readonly #tunnels = new Map<string, PolicyCheck>();
  #before: Scrape | null = null;
  #firstBurstAtMs: number | null = null;

  constructor(t: Teardown, options: CaseRunOptions) {
    this.#t = t;
    this.#cases = options.cases;
    this.#case = options.policyCase;
    this.#lane = options.lane;
    this.#folder = options.folder;
    this.#certificates = options.certificates;
    mkdirSync(join(this.#folder, 'policy'), { recursive: true });
  }

  /** Runs the case with a proxy of its own; what did not go as expected. */
  async faults(): Promise<string[]> {
    const { resources, rejected = [], checks, steps = [] } = this.#case;
    let documents = resources.filter(({ kind, metadata }) => !rejected.includes(`${kind}/${metadata.name}`));
    this.#writePolicy(documents);
    let sallyport: Sallyport | null = null;
    try {
      sallyport = await startSallyport(this.#t, {
        env: this.#environment(),
        within: this.#lane.namespace.within,
        health: async (path, port) => (await this.#lane.driver.get(port, path)).status ?? undefined,
      });
      // A cluster's API server refuses these; here they arrive as a change, which must change nothing.
      if (rejected.length > 0) await this.#apply(resources);
      for (const check of checks) await this.#check(check);
      for (const step of steps) {
        documents = afterStep(documents, step);
        await this.#apply(documents);
        const tunnels = [...this.#tunnels];
        for (const check of step.checks) await this.#check(check);
        await this.#checkTunnels(tunnels, step.checks);
      }
      await this.#lane.driver.close(this.#case.id);
      for (const tunnel of this.#tunnels.keys()) await this.#lane.driver.close(tunnel);
    } catch (error) {
      this.#fault(this.#case.id, error instanceof Error ? error.message : String(error));
    } finally {
      const exit = await sallyport?.stop(5_000);
      if (exit !== undefined && exit.code !== 0) this.#fault(this.#case.id, `the proxy ended with ${exit.code}`);
    }
    return this.#faults;
  }

  #fault(id: string, text: string): void {
    this.#faults.push(`${id}: ${text}`);
  }

  #environment(): Record<string, string> {
    const settings = { ...this.#cases.defaults.settings, ...this.#case.settings };
    const manifest = join(this.#folder, 'pod.yaml');
    writeFileSync(manifest, stringify({ kind: 'Pod', ...podOf(this.#cases, this.#case) }));
    const ports = new Set(allChecks(this.#case).map(({ request }) => request.port));
    const listeners = [...ports].filter((port) => port !== adminPort);
    return {
      SALLYPORT_POLICY: join(this.#folder, 'policy'),
      SALLYPORT_POD_MANIFEST: manifest,
      SALLYPORT_DEFAULT_INBOUND_POLICY: settings.defaultInboundPolicy,
      SALLYPORT_CLUSTER_NETWORKS: settings.clusterNetworks.join(),
      SALLYPORT_PROBE_NETWORKS: settings.probeNetworks.join(),
      SALLYPORT_TRUST_DOMAIN: settings.identityDomain,
      SALLYPORT_CONTROL_PLANE_NAMESPACE: settings.controlPlaneNamespace,
      SALLYPORT_DETECT_TIMEOUT: settings.detectTimeout,
      // Linkerd's injector writes its default list into the annotation; the cases' pods carry only their own.
      SALLYPORT_OPAQUE_PORTS: '',
      SALLYPORT_INBOUND_PORTS: (listeners.length > 0 ? listeners : [8080])
        .map((port) => `[::]:${port}=127.0.0.1:${this.#lane.apps.get(port)}`)
        .join(),
      SALLYPORT_ADMIN_LISTEN: `[::]:${adminPort}`,
      SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
      ...identityEnvironment(join(this.#folder, 'identity'), this.#certificates.own),
    };
  }

  #writePolicy(documents: readonly PolicyDocument[]): void {
    const text = documents.map((document) => `---\n${stringify(document)}`).join('');
    replaceFile(join(this.#folder, 'policy', 'policy.yaml'), text);
  }

  /** Replaces the documents and waits until the proxy has taken or refused them. */
  async #apply(documents: readonly PolicyDocument[]): Promise<void> {
    const before = await this.#lane.driver.scrape(adminPort);
    this.#writePolicy(documents);
    await until('the proxy to take or refuse the new documents', async () => {
      const after = await this.#lane.driver.scrape(adminPort);
      return (
        growth(before, after, 'sallyport_policy_generation') > 0 ||
        growth(before, after, 'sallyport_policy_load_errors_total') > 0
      );
    });
  }

  #exchange({ client, request }: PolicyCheck): Exchange {
    const source = sourceOf(client);
    const ip = source.startsWith('127.') || source === '::1' ? source : this.#podAddress(source);
    const { proto, port, method, path, host, headers, payload } = request;
    const ca = this.#certificates.own.trustAnchorsPem;
    const mesh = client.identity === undefined ? undefined : this.#certificates.of(client.identity);
    const tls: Exchange['tls'] =
      client.tls === 'none'
        ? undefined
        : client.tls === 'passthrough'
          ? { servername: client.sni ?? '', ca }
          : client.tls === 'mesh' && mesh !== undefined
            ? { servername: ownName, ca, cert: mesh.certificatePem, key: mesh.keyPem }
            : { servername: ownName, ca };
    return {
      host: ip,
      port,
      localAddress: source,
      proto,
      ...(tls === undefined ? {} : { tls }),
      ...(method === undefined ? {} : { method }),
      ...(path === undefined ? {} : { path }),
      ...(host === undefined ? {} : { authority: host }),
      ...(headers === undefined ? {} : { headers }),
      ...(payload === undefined ? {} : { payload }),
    };
  }

  /** The pod's address of the client's family. */
  #podAddress(source: string): string {
    const ips = podOf(this.#cases, this.#case).status.podIPs.map(({ ip }) => ip);
    return ips.find((ip) => ip.includes(':') === source.includes(':')) ?? '';
  }

  async #check(check: PolicyCheck): Promise<void> {
    try {
      this.#before ??= await this.#lane.driver.scrape(adminPort);
      if (check.burst === undefined) await this.#checkSingle(check, this.#before);
      else await this.#checkBurst(check, this.#before);
    } catch (error) {
      this.#fault(check.id, error instanceof Error ? error.message : String(error));
      this.#before = null;
    }
  }

  async #checkSingle(check: SingleCheck, before: Scrape): Promise<void> {
    const { expect, request } = check;
    const { driver, apps } = this.#lane;
    const app = String(apps.get(request.port));
    const exchange = this.#exchange(check);
    const tunnel = this.#case.steps !== undefined && expect.wire === 'tcp' ? check.id : undefined;
    const connection = this.#case.same_connection === true ? this.#case.id : tunnel;
    const countsBefore = (await driver.counts())[app];
    const result = await driver.exchange(exchange, connection);
    if (tunnel !== undefined) this.#tunnels.set(tunnel, check);
    for (const fault of wireFaults(check, result, adminPort)) this.#fault(check.id, fault);

    const countsAfter = (await driver.counts())[app];
    // Port 4191 is the proxy's own admin application: there is no app to count at.
    if (countsBefore !== undefined && countsAfter !== undefined) {
      const connections = countsAfter.connections - countsBefore.connections;
      const requests = countsAfter.requests - countsBefore.requests;
      if (expect.decision !== 'allow' && connections + requests > 0) {
        this.#fault(check.id, `refused, yet the app saw ${connections} connections and ${requests} requests`);
      }
      if (expect.decision === 'allow' && expect.wire !== 'tcp' && requests !== 1) {
        this.#fault(check.id, `allowed, yet the app saw ${requests} requests`);
      }
    }
    this.#before = await this.#checkMetrics(check, before);
  }

  /** Exactly one decision on this port, on the series with the named labels. Returns the scrape for the next check. */
  async #checkMetrics({ id, expect, client, request }: SingleCheck, before: Scrape): Promise<Scrape> {
    const { driver } = this.#lane;
    const tls = expect.tls ?? tlsLabels(client, this.#case.tags.includes('opaque'));
    const rows: Labels[] = (expect.authz_any_of ?? [expect.labels.authz_name]).map((name) => ({
      ...expect.labels,
      ...(name === undefined ? {} : { authz_name: name }),
      ...tls,
    }));
    const onSeries = (after: Scrape): number =>
      rows.reduce((total, labels) => total + growth(before, after, expect.metric, labels), 0);
    // On the admin port every scrape is a request, too.
    const onPort = (after: Scrape): number =>
      request.port === adminPort
        ? onSeries(after)
        : decisionCounters.reduce(
            (total, name) => total + growth(before, after, name, { srv_port: String(request.port) }),
            0,
          );
    let after = await driver.scrape(adminPort);
    try {
      await until(
        'the decision to be counted',
        async () => {
          if (onPort(after) >= 1) return true;
          after = await driver.scrape(adminPort);
          return false;
        },
        { timeoutMs: 2_000 },
      );
    } catch {
      // Said below, with what was counted instead.
    }
    if (onSeries(after) !== 1 || onPort(after) !== 1) {
      const counted = grown(before, after, /^inbound_(http|tcp)_(authz|route|local)/);
      this.#fault(id, `wanted ${expect.metric}${JSON.stringify(rows)} +1, was ${JSON.stringify(counted)}`);
    }
    return after;
  }

  async #checkBurst(check: BurstCheck, before: Scrape): Promise<void> {
    const { driver } = this.#lane;
    const { expect, burst } = check;
    const result = await driver.burst(this.#exchange(check), burst);
    this.#firstBurstAtMs ??= result.beganAtMs;
    const count = (wanted: (status: number) => boolean): number => result.statuses.filter(wanted).length;
    const allowed = count((status) => status === 200);
    const limited = count((status) => status === 429);
    const other = burst - allowed - limited;
    const seconds = (result.endedAtMs - this.#firstBurstAtMs) / 1_000;
    const refilled = Math.ceil(seconds * this.#ratePerSecond(expect.scopes ?? []));
    if (allowed < expect.allow || allowed > Math.min(burst, expect.allow + refilled) || other !== expect.other) {
      this.#fault(check.id, `${allowed} allowed, ${limited} limited, ${other} other, after ${seconds} s`);
    }
    const after = await driver.scrape(adminPort);
    const scopes = expect.scopes ?? [];
    const onScopes = scopes.reduce(
      (total, scope) => total + growth(before, after, 'inbound_http_local_ratelimit_total', { ratelimit_scope: scope }),
      0,
    );
    const onAll = growth(before, after, 'inbound_http_local_ratelimit_total');
    if (onAll !== limited || (scopes.length > 0 && onScopes !== limited)) {
      this.#fault(check.id, `${limited} limited, counted ${grown(before, after, /ratelimit/).join(' ')}`);
    }
    this.#before = after;
  }

  /** The fastest refill that could have let more through. */
  #ratePerSecond(scopes: readonly string[]): number {
    interface Rate {
      readonly requestsPerSecond: number;
    }
    const specs = this.#case.resources
      .filter(({ kind }) => kind === 'HTTPLocalRateLimitPolicy')
      .map(({ spec }) => spec);
    const rates = specs.flatMap((spec) => {
      const { total, identity, overrides = [] } = spec as { total?: Rate; identity?: Rate; overrides?: Rate[] };
      return (scopes.includes('total') ? [total] : [identity, ...overrides]).map(
        (rate) => rate?.requestsPerSecond ?? 0,
      );
    });
    return Math.max(0, ...rates);
  }

  /** A tunnel whose client is now refused is cut, and counted; any other stays. */
  async #checkTunnels(
    tunnels: readonly (readonly [string, PolicyCheck])[],
    checks: readonly PolicyCheck[],
  ): Promise<void> {
    const { driver } = this.#lane;
    for (const [name, opened] of tunnels) {
      const refused = checks.some(
        ({ expect, client, request }) =>
          'wire' in expect &&
          expect.wire === 'closed' &&
          client.ip === opened.client.ip &&
          request.port === opened.request.port,
      );
      // One second is the bound that the proxy must keep; what is more is for the machine.
      const ended = await driver.ends(name, refused ? 1_500 : 0);
      if (ended !== refused) this.#fault(opened.id, `the open tunnel was ${ended ? 'cut' : 'left open'}`);
      const terminated = (await driver.scrape(adminPort)).sum('inbound_tcp_authz_terminate_total', {
        srv_port: String(opened.request.port),
      });
      if (refused && terminated !== 1) this.#fault(opened.id, `inbound_tcp_authz_terminate_total is ${terminated}`);
    }
  }
}
