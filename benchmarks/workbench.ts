import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, issueCertificate } from '../certs/authority.ts';
import { type Child, type Finished, runToEnd, startChild, type Teardown } from '../test/support/children.ts';
import { freePort } from '../test/support/ports.ts';
import { until } from '../test/support/until.ts';
import type { Cores } from './machine.ts';

/** PEM, as texts for our own clients and as files for everybody else's. */
export interface Credentials {
  readonly serverName: string;
  readonly clientName: string;
  readonly trustAnchors: string;
  readonly clientCertificate: string;
  readonly clientKey: string;
  readonly files: {
    readonly trustAnchors: string;
    readonly serverCertificate: string;
    readonly serverKey: string;
    /** Certificate and key in one file, as HAProxy reads them. */
    readonly serverBoth: string;
    readonly clientCertificate: string;
    readonly clientKey: string;
  };
}

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export class ProgramFailed extends Error {
  /** Null when a signal ended it. */
  readonly exitCode: number | null;

  constructor(command: string, { code, signal, stderr }: Finished) {
    super(`${command} failed (${code ?? signal}): ${stderr.trim()}`);
    this.name = 'ProgramFailed';
    this.exitCode = code;
  }
}

export type Side = keyof Cores;

/**
 * Everything one run leaves on the machine: a folder and processes. `end` removes both, and so does the end of this
 * process, however it comes.
 */
export class Workbench {
  readonly folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  readonly credentials: Credentials;
  readonly cores: Cores;
  readonly #stack = new AsyncDisposableStack();
  readonly #removeFolder = (): void => rmSync(this.folder, { recursive: true, force: true });
  readonly #teardown: Teardown = { teardown: (clean) => this.#stack.defer(async () => void (await clean())) };

  constructor(cores: Cores) {
    this.cores = cores;
    process.once('exit', this.#removeFolder);
    this.credentials = issueCredentials(this.folder);
  }

  /** A file in the folder; yields its path. */
  write(name: string, text: string | Buffer): string {
    const path = join(this.folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  subfolder(name: string): string {
    const path = join(this.folder, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  freePort(): Promise<number> {
    return freePort();
  }

  /** Starts a server and waits until it accepts on each port. @throws with what it printed when it ends instead. */
  async start(side: Side, what: Command, ports: readonly number[]): Promise<Child> {
    const child = await startChild(this.#teardown, 'setpriv', this.#pinned(side, what), { env: environment(what.env) });
    let ended = false;
    void child.exited.then(() => {
      ended = true;
    });
    for (const port of ports) {
      await until(`${what.command} to listen on port ${port}`, async () => {
        if (ended) throw new Error(`${what.command} ended at once:\n${child.stderr()}${child.stdout()}`);
        return canConnect(port);
      });
    }
    return child;
  }

  /** Runs a load to its end. @throws ProgramFailed */
  async run(side: Side, what: Command, timeoutMs: number): Promise<Finished> {
    const finished = await runToEnd(this.#teardown, 'setpriv', this.#pinned(side, what), {
      env: environment(what.env),
      timeoutMs,
    });
    if (finished.code !== 0) throw new ProgramFailed(what.command, finished);
    return finished;
  }

  async end(): Promise<void> {
    await this.#stack.disposeAsync();
    this.#removeFolder();
    process.off('exit', this.#removeFolder);
  }

  /** On its cores, and killed by the kernel should this process vanish without a chance to clean up. */
  #pinned(side: Side, { command, args }: Command): string[] {
    return ['--pdeathsig', 'KILL', 'taskset', '--cpu-list', this.cores[side], command, ...args];
  }
}

function environment(env: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const { PATH = '', HOME = '', TMPDIR = '' } = process.env;
  return { PATH, HOME, ...(TMPDIR === '' ? {} : { TMPDIR }), ...env };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** ECDSA P-256 throughout, as Linkerd issues. */
function issueCredentials(folder: string): Credentials {
  const serverName = 'web.bench.serviceaccount.identity.linkerd.cluster.local';
  const clientName = 'client.bench.serviceaccount.identity.linkerd.cluster.local';
  const authority = createAuthority({ commonName: 'Sallyport benchmark', days: 2 });
  const server = issueCertificate(authority, { dnsNames: [serverName], days: 1 });
  const client = issueCertificate(authority, { dnsNames: [clientName], days: 1 });
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  return {
    serverName,
    clientName,
    trustAnchors: authority.certificatePem,
    clientCertificate: client.certificatePem,
    clientKey: client.keyPem,
    files: {
      trustAnchors: file('ca.pem', authority.certificatePem),
      serverCertificate: file('server.pem', server.certificatePem),
      serverKey: file('server.key', server.keyPem),
      serverBoth: file('server-both.pem', `${server.certificatePem}${server.keyPem}`),
      clientCertificate: file('client.pem', client.certificatePem),
      clientKey: file('client.key', client.keyPem),
    },
  };
}
