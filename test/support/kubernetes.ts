import { createHash, generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';
import { missing, startChild, type Teardown } from './children.ts';
import { temporaryFolder } from './files.ts';
import { freePorts } from './ports.ts';
import { until } from './until.ts';

/*
 * Kubernetes' own API server with etcd, and nothing else of Kubernetes: it says what it accepts and what it stores, and no
 * pod ever runs. test/support/kube-apiserver/build.sh builds it.
 */

const sources = new URL('./kube-apiserver/', import.meta.url).pathname;
const token = 'for-this-test-alone';

/** What the API server made of a request. */
export interface Answer {
  readonly status: number;
  /** The object as it would be stored, or a Status. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The `Warning` fields of the response: what it takes but thinks unwise. */
  readonly warnings: readonly string[];
}

/** Where build.sh puts it: the name is of the same bytes. */
function program(): string {
  const hash = createHash('sha256');
  for (const file of ['main.go', 'go.mod', 'go.sum']) hash.update(readFileSync(join(sources, file)));
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  return join(cache, 'sallyport-tests', `kube-apiserver-${hash.digest('hex').slice(0, 16)}`, 'kube-apiserver');
}

/** For tap's `skip`: why it cannot run here; false where it can. Nothing is built meanwhile: that takes minutes. */
export async function kubernetesUnavailable(t: Teardown): Promise<string | false> {
  const absent = await missing(t, 'etcd');
  if (absent !== false || existsSync(program())) return absent;
  const go = (await missing(t, 'go')) === false || existsSync('/usr/local/go/bin/go');
  return go ? 'not built: npm run kube-apiserver, which takes minutes' : 'not installed: go, to build the API server';
}

export class Kubernetes {
  readonly #port: number;
  readonly #agent: Agent;
  readonly #resources = new Map<
    string,
    readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[]
  >();

  constructor(port: number, agent: Agent) {
    this.#port = port;
    this.#agent = agent;
  }

  /** @param body YAML or JSON, as `type` says. */
  async ask(method: string, path: string, body = '', type = 'application/yaml'): Promise<Answer> {
    const options = { method, path, port: this.#port, host: '127.0.0.1', agent: this.#agent };
    const headers = { authorization: `Bearer ${token}`, 'content-type': type, accept: 'application/json' };
    const asked = request({ ...options, headers });
    const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      asked.once('response', resolve).once('error', reject).end(body);
    });
    const said = await text(response);
    const warnings = [response.headers.warning ?? []].flat().map(String);
    const json = (response.headers['content-type'] ?? '').startsWith('application/json');
    return { status: response.statusCode ?? 0, body: json ? JSON.parse(said) : { message: said }, warnings };
  }

  /** As `ask`, of what must succeed. */
  async expect(method: string, path: string, body?: string, type?: string): Promise<Answer['body']> {
    const answer = await this.ask(method, path, body, type);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${String(answer.body.message)}`);
    return answer.body;
  }

  /** With the ServiceAccount that a controller would make; no pod is admitted before. */
  async namespace(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const made = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
    await this.expect('POST', '/api/v1/namespaces', JSON.stringify(made));
    await this.serviceAccount(name, 'default');
  }

  async serviceAccount(namespace: string, name: string): Promise<void> {
    const made = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } };
    await this.expect('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, JSON.stringify(made));
  }

  /**
   * Creates the object of one YAML document, as it is written, unknown and repeated fields refused.
   * @param namespace where it names none. @param dry goes through everything but the storing.
   */
  async create(document: string, namespace: string, dry: boolean): Promise<Answer> {
    const value = parse(document) as { apiVersion: string; kind: string; metadata?: { namespace?: string } };
    const path = await this.#collection(value.apiVersion, value.kind, value.metadata?.namespace ?? namespace);
    return this.ask('POST', `${path}?fieldValidation=Strict${dry ? '&dryRun=All' : ''}`, document);
  }

  async #collection(apiVersion: string, kind: string, namespace: string): Promise<string> {
    const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    let known = this.#resources.get(root);
    if (known === undefined) {
      known = (await this.expect('GET', root)).resources as NonNullable<typeof known>;
      this.#resources.set(root, known);
    }
    const found = known.find((each) => each.kind === kind && !each.name.includes('/'));
    if (found === undefined) throw new Error(`the API server has no ${apiVersion} ${kind}`);
    return found.namespaced ? `${root}/namespaces/${namespace}/${found.name}` : `${root}/${found.name}`;
  }
}

/** Started, ready, and ended with the test. */
export async function startKubernetes(t: Teardown): Promise<Kubernetes> {
  const folder = temporaryFolder(t);
  const [client = 0, peer = 0, port = 0] = await freePorts(3);
  const [clientUrl, peerUrl] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  const etcd = await startChild(t, 'etcd', [
    `--data-dir=${join(folder, 'etcd')}`,
    `--listen-client-urls=${clientUrl}`,
    `--advertise-client-urls=${clientUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
  ]);
  const key = join(folder, 'service-accounts.key');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(key, privateKey.export({ type: 'pkcs1', format: 'pem' }));
  writeFileSync(join(folder, 'tokens.csv'), `${token},admin,admin,"system:masters"\n`);
  const server = await startChild(
    t,
    program(),
    [
      `--etcd-servers=${clientUrl}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      // It makes a certificate of its own there.
      `--cert-dir=${folder}`,
      `--token-auth-file=${join(folder, 'tokens.csv')}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${key}`,
      `--service-account-signing-key-file=${key}`,
      '--service-cluster-ip-range=10.96.0.0/16',
      '--authorization-mode=AlwaysAllow',
      '--allow-privileged=true',
    ],
    { graceMs: 20_000 },
  );
  const lastSeen = (): string => `${etcd.stderr().slice(-1000)}${server.stderr().slice(-3000)}`;
  const certificate = join(folder, 'apiserver.crt');
  const kubernetes = await until(
    'the API server to be ready',
    async () => {
      for (const [name, child] of [['etcd', etcd] as const, ['kube-apiserver', server] as const]) {
        if (child.process.exitCode !== null) throw new Error(`${name} ended: ${child.stderr().slice(-3000)}`);
      }
      if (!existsSync(certificate)) return undefined;
      const agent = new Agent({ keepAlive: true, maxSockets: 4, ca: readFileSync(certificate) });
      const found = new Kubernetes(port, agent);
      const ready = await found.ask('GET', '/readyz').catch(() => null);
      if (ready?.status === 200) {
        t.teardown(() => agent.destroy());
        return found;
      }
      agent.destroy();
      return undefined;
    },
    { timeoutMs: 60_000, everyMs: 100, lastSeen },
  );
  return kubernetes;
}
