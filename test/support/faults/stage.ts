import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { workloadCertificate, workloadName } from '../certificates.ts';
import { type Finished, runToEnd, type Teardown } from '../children.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../files.ts';
import { scrape } from '../metrics.ts';
import { freePorts } from '../ports.ts';
import { bareEnvironment, type Environment, type Sallyport, sallyportCommand, startSallyport } from '../sallyport.ts';
import { until } from '../until.ts';

/** Where a fault can be found: one line of it. */
export interface Finding {
  readonly where: 'log' | 'stderr' | 'metric' | 'start' | 'check' | 'explain' | 'command';
  readonly line: string;
}

export interface Fault {
  /** As an operator would call it. */
  readonly title: string;
  /** Brings it about on a real proxy, and says what was printed. Throws where something stays silent. */
  provoke(t: Teardown): Promise<readonly Finding[]>;
}

/** Where clients call from: nobody is let in for calling from 127.0.0.2, and this is a pod in another place. */
export const outside = '127.0.0.2';
/** And this is the node of the pod. */
export const node = '127.0.0.3';

/** README's first policy, mended. */
export const firstPolicy = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec:
  podSelector: { matchLabels: { app: web } }
  port: PORT
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches: [{ path: { value: /orders } }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: checkout-only, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: orders }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: checkout }]
`;

export interface Staging {
  /** Documents; `PORT` in them is the port of the app. Absent: the first policy. */
  readonly policy?: string;
  /** Variables besides those of an ordinary pod; an empty one takes away. */
  readonly env?: Environment;
  readonly within?: readonly string[];
  /** False: the proxy is not expected to become ready. */
  readonly awaitReady?: boolean;
  /** Nothing listens where the app should. */
  readonly downApp?: boolean;
  /** The app takes a request and says nothing for so many milliseconds; then it answers, or ends the connection. */
  readonly hanging?: { readonly ms: number; readonly by: 'an answer' | 'an end' };
}

/** The line without its time, and with nothing in it that another run would print otherwise. */
export type Normalise = (text: string) => string;

/** A folder, ports and an app, as an ordinary pod has them; and a proxy in front once it is started. */
export class Stage {
  readonly folder: string;
  readonly port: number;
  readonly appPort: number;
  /** Nothing listens on it. */
  readonly otherPort: number;
  readonly env: Environment;
  readonly #t: Teardown;
  #proxy: Sallyport | null = null;

  private constructor(t: Teardown, folder: string, ports: readonly number[], env: Environment) {
    this.#t = t;
    this.folder = folder;
    [this.port = 0, this.appPort = 0, this.otherPort = 0] = ports;
    this.env = env;
  }

  /** Our name in certificates. */
  readonly ownName = workloadName('web', 'shop');

  /** All but the proxy. */
  static async set(t: Teardown, staging: Staging = {}): Promise<Stage> {
    const folder = temporaryFolder(t);
    const { ms = 0, by = 'an answer' } = staging.hanging ?? {};
    const app = createServer((request, response) => {
      setTimeout(() => (by === 'an answer' ? response.end('hello') : request.socket.end()), ms);
    });
    await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      app.closeAllConnections();
      return new Promise((resolve) => app.close(resolve));
    });
    const appPort = (app.address() as AddressInfo).port;
    const [port = 0, otherPort = 0, admin = 0, health = 0] = await freePorts(4);
    const env: Record<string, string> = {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_POD_NAME: 'web-0',
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_POD_LABELS: 'app=web',
      SALLYPORT_POD_PORTS: `http=${port}`,
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${staging.downApp === true ? otherPort : appPort}`,
      SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${admin}`,
      SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${health}`,
      SALLYPORT_LOG_FORMAT: 'plain',
      ...identityEnvironment(join(folder, 'identity'), workloadCertificate('web', 'shop')),
      ...staging.env,
    };
    for (const name of Object.keys(staging.env ?? {})) env[name] = env[name]?.replaceAll('PORT', String(port)) ?? '';
    const stage = new Stage(t, folder, [port, appPort, otherPort], without(env, ''));
    stage.write('policy/web.yaml', staging.policy ?? firstPolicy);
    return stage;
  }

  /** With the proxy. */
  static async start(t: Teardown, staging: Staging = {}): Promise<Stage> {
    const stage = await Stage.set(t, staging);
    await stage.run(staging);
    return stage;
  }

  async run({ within, awaitReady }: Pick<Staging, 'within' | 'awaitReady'> = {}): Promise<void> {
    this.#proxy = await startSallyport(this.#t, {
      env: this.env,
      ...(within === undefined ? {} : { within }),
      ...(awaitReady === undefined ? {} : { awaitReady }),
    });
  }

  write(file: string, text: string): void {
    replaceFile(join(this.folder, file), text.replaceAll('PORT', String(this.port)));
  }

  /** A command that ends by itself; the first line of what it prints on stderr that matches. */
  async printed(args: readonly string[], wanted: RegExp, within: readonly string[] = []): Promise<Finding> {
    const { stdout, stderr } = await this.command(args, within);
    const line = stderr.split('\n').find((text) => wanted.test(text));
    if (line === undefined) throw new Error(`${args.join(' ')} prints nothing like ${wanted}:\n${stdout}${stderr}`);
    return { where: args[0] === 'run' ? 'start' : 'command', line: this.normalise(line) };
  }

  get proxy(): Sallyport {
    if (this.#proxy === null) throw new Error('no proxy has been started');
    return this.#proxy;
  }

  /** The first line of the log that matches, with the fields that tell the fault; the others are left out. */
  async log(wanted: RegExp, ...fields: string[]): Promise<Finding> {
    const lines = (): string[] => this.proxy.child.stdout().split('\n').slice(0, -1);
    const line = await until(`a line of the log: ${wanted}`, () => lines().find((text) => wanted.test(text)), {
      timeoutMs: 20_000,
      lastSeen: () => this.proxy.child.stdout().slice(-3_000),
    });
    return { where: 'log', line: this.normalise(shortened(line, fields)) };
  }

  /** The first line on standard error that matches. */
  async error(wanted: RegExp): Promise<Finding> {
    const lines = (): string[] => this.proxy.child.stderr().split('\n').slice(0, -1);
    const line = await until(`a line on stderr: ${wanted}`, () => lines().find((text) => wanted.test(text)));
    return { where: 'stderr', line: this.normalise(line) };
  }

  /** The series, once it has the value. */
  async metric(name: string, labels: Readonly<Record<string, string>>, value: number): Promise<Finding> {
    const seen = await until(
      `${name}`,
      async () => {
        const { samples } = await scrape(this.proxy.adminPort);
        const matches = (has: ReadonlyMap<string, string>): boolean =>
          Object.entries(labels).every(([key, wanted]) => has.get(key) === wanted);
        return samples.find((one) => one.name === name && one.value >= value && matches(one.labels));
      },
      { timeoutMs: 20_000 },
    );
    const shown = Object.entries(labels).map(([key, text]) => `${key}="${text}"`);
    return {
      where: 'metric',
      line: this.normalise(`${seen.name}${shown.length === 0 ? '' : `{${shown.join()}}`} ${value}`),
    };
  }

  /** What a command prints, in the environment of the proxy. */
  command(args: readonly string[], within: readonly string[] = []): Promise<Finished> {
    const [command = sallyportCommand, ...rest] = [...within, sallyportCommand, ...args];
    return runToEnd(this.#t, command, rest, { env: bareEnvironment(this.env), cwd: this.folder });
  }

  /** The first line of `check` that matches, and the hint below it. */
  async check(wanted: RegExp): Promise<Finding> {
    const { stdout, stderr } = await this.command(['check', 'policy']);
    const lines = `${stdout}${stderr}`.split('\n');
    const at = lines.findIndex((line) => wanted.test(line));
    if (at === -1) throw new Error(`check prints nothing like ${wanted}:\n${stdout}${stderr}`);
    const hint = lines[at + 1]?.startsWith('    ') === true ? ` ${lines[at + 1]?.trim()}` : '';
    return { where: 'check', line: this.normalise(`${lines[at]}${hint}`) };
  }

  /** The first line of `explain` that matches. */
  async explain(wanted: RegExp, ...args: string[]): Promise<Finding> {
    const { stdout, stderr } = await this.command(['explain', '--policy', 'policy', '--port', `${this.port}`, ...args]);
    const line = `${stdout}${stderr}`.split('\n').find((text) => wanted.test(text));
    if (line === undefined) throw new Error(`explain prints nothing like ${wanted}:\n${stdout}${stderr}`);
    return { where: 'explain', line: this.normalise(line.trim()) };
  }

  readonly normalise: Normalise = (text) => {
    const { SALLYPORT_ADMIN_LISTEN: admin = '', SALLYPORT_HEALTH_LISTEN: health = '' } = this.env;
    return text
      .replaceAll(`${this.folder}/`, '')
      .replaceAll(String(this.port), '8080')
      .replaceAll(String(this.appPort), '3000')
      .replaceAll(String(this.otherPort), '3000')
      .replaceAll(admin.split(':')[1] || 'none', '4191')
      .replaceAll(health.split(':')[1] || 'none', '4192')
      .replace(/^\d{4}-\d\d-\d\dT[\d:.]+Z /, '')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '…')
      .replace(/(?<=client\.port=)\d+/g, '…')
      .replaceAll(outside, '10.1.2.3')
      .replaceAll(node, '10.1.0.1');
  };
}

function without(env: Readonly<Record<string, string>>, value: string): Environment {
  return Object.fromEntries(Object.entries(env).filter(([, text]) => text !== value));
}

/** A plain line with its level, its message and, of its fields, those named; all of them where none is. */
function shortened(line: string, fields: readonly string[]): string {
  if (fields.length === 0) return line;
  const field = / ([\w.]+)=("(?:[^"\\]|\\.)*"|[[{].*?[\]}](?= |$)|\S*)/g;
  const named = line.replace(field, (all, name) => (fields.includes(name) ? all : ''));
  // Of the candidates the first, and of that what it wanted.
  return named.replace(/ candidates=\[\{.*?("detail":"[^"]*").*\]/, ' candidates=[{…$1}…]');
}
