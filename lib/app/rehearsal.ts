import { randomBytes } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Config } from '../config/config.ts';
import { createAuthorizer } from '../policy/authorizer.ts';
import { compileNow } from '../policy/compile/compile.ts';
import type { PolicyDocument } from '../policy/documents/types.ts';
import type { Arrive } from '../proxy/accept/arrivals.ts';
import { Doors } from '../proxy/accept/doors.ts';
import { OwnEndpoints } from '../proxy/accept/own-endpoints.ts';
import { Incoming } from '../proxy/incoming.ts';
import { arrivedAt, tryLoadSocketCalls } from '../proxy/socket-calls.ts';
import type { TlsTermination } from '../proxy/tls/termination.ts';
import { createLog } from '../telemetry/log.ts';
import { createWorkerTelemetry } from '../telemetry/worker-telemetry.ts';
import { createDataPlane } from './data-plane.ts';

export interface Rehearsed {
  readonly when: keyof typeof plays;
  readonly config: Config;
  /** Null where this proxy has no identity. */
  readonly termination: TlsTermination | null;
}

/**
 * So often, one time after the other: connections that open at once, as clients' do that have waited for the start, and
 * requests on each, one after the other. Short ones, since it is their beginnings that take longest before V8 has optimized
 * them: 32 at once then hold all others up for ten milliseconds.
 */
interface Part {
  readonly times: number;
  readonly connections: number;
  readonly requests: number;
}
/** Each further request makes the first ones of clients faster, by less and less (benchmarks/README.md, "Cold"). */
interface Play {
  readonly plain: Part;
  /** A handshake takes as long as a dozen requests. */
  readonly secured: Part;
  /** Milliseconds for all of it, whether it is over or not. */
  readonly longest: number;
}
/**
 * The start waits for its end; when the process is quiet nobody does. Three times as many connections then would leave eight
 * megabytes more in V8's heap.
 */
const plays = {
  start: {
    plain: { times: 4, connections: 8, requests: 5 },
    secured: { times: 1, connections: 2, requests: 6 },
    longest: 200,
  },
  quiet: {
    plain: { times: 8, connections: 16, requests: 4 },
    secured: { times: 4, connections: 4, requests: 6 },
    longest: 1000,
  },
} as const satisfies Record<string, Play>;
/** Then the app has a connection closed, so that some of these begin as well. */
const answersOfAConnection = 10;
/** Of the rehearsal's own policy; nobody connects there. */
const policyPort = 80;

/**
 * Sends a few requests through a data plane like the real one: the code that they run is read and compiled then, and not
 * while the first clients wait. Nothing of it stays: it has a policy, an app, metrics and a log of its own. It listens on
 * loopback for its own connections alone; any other is closed before a byte is read. What goes wrong changes nothing but
 * that first requests take longer.
 *
 * @returns how many requests were answered.
 */
export async function rehearse({ when, config, termination }: Rehearsed): Promise<number> {
  tryLoadSocketCalls();
  const stage = new Stage(config, termination);
  const late = setTimeout(() => stage.close(), plays[when].longest);
  try {
    return await stage.play(plays[when]);
  } catch {
    // No loopback, no descriptor, no port: clients will tell, or never notice.
    return 0;
  } finally {
    clearTimeout(late);
    await stage.close();
  }
}

class Stage {
  readonly #termination: TlsTermination | null;
  /** Whatever asks the app without it is none of ours. */
  readonly #path = `/${randomBytes(16).toString('hex')}`;
  readonly #sockets = new Set<Socket>();
  readonly #app: Server;
  readonly #plane: ReturnType<typeof createDataPlane>;
  readonly #doors: Doors;
  #closed: Promise<unknown> | null = null;

  constructor(config: Config, termination: TlsTermination | null) {
    this.#termination = termination;
    this.#app = createServer((socket) => this.#serve(socket));
    const log = createLog({ level: 'info', format: config.logFormat, destination: { write: () => {} } });
    const { recorder } = createWorkerTelemetry({ log: log.logger, accessLog: null, droppedLogLines: () => 0 });
    const authorizer = createAuthorizer({ nowMs: () => performance.now() });
    authorizer.swap(compileNow(policy(this.#path), { ...config.workload, namespace: 'rehearsal' }).index);
    const own = new OwnEndpoints(() => [], false);
    const identity = { termination: () => termination };
    this.#plane = createDataPlane({
      config: { ...config, workers: 1 },
      recorder,
      authorizer,
      identity,
      own,
      shared: null,
    });
    this.#doors = new Doors(this.#plane.services, own, () => {});
  }

  /** Resolves to the number of responses. */
  async play({ plain, secured }: Play): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#app.once('error', reject).listen({ host: '127.0.0.1', port: 0 }, resolve);
    });
    const app = this.#app.address() as AddressInfo;
    const endpoint = { host: '127.0.0.1', port: app.port };
    const arrive: Arrive = (_socket, client) =>
      [...this.#sockets].some((socket) => arrivedAt(Incoming.stream(socket))?.port === client.port)
        ? { targetIp: '127.0.0.1', policyPort, destination: { kind: 'app', endpoint } }
        : null;
    const { address } = await this.#doors.open('a rehearsal', { host: '127.0.0.1', port: 0 }, arrive);
    const dial = (): Socket => this.#dial(address.port);
    const parts = [this.#perform(plain, dial)];
    if (this.#termination !== null) parts.push(this.#perform(secured, this.#secure(dial, this.#termination)));
    const answered = await Promise.all(parts);
    return answered.reduce((sum, each) => sum + each, 0);
  }

  /** Ends all that there is of it. Later calls join the first. */
  close(): Promise<unknown> {
    if (this.#closed === null) {
      for (const socket of this.#sockets) socket.destroy();
      const app = new Promise((resolve) => this.#app.close(resolve));
      this.#closed = Promise.allSettled([this.#doors.close(), this.#plane.close(), app]);
    }
    return this.#closed;
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    const head = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n';
    let answers = 0;
    socket.on('data', (bytes) => {
      answers += 1;
      if (!bytes.includes(this.#path)) socket.destroy();
      else socket.write(`${head}${answers < answersOfAConnection ? '' : 'connection: close\r\n'}\r\nok`);
    });
    socket.on('close', () => this.#sockets.delete(socket));
  }

  #dial(port: number): Socket {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
    return socket;
  }

  /** Our own certificate is the client's as well. */
  #secure(dial: () => Socket, { names, secureContext }: TlsTermination): () => Socket {
    const [servername = ''] = names;
    return () => {
      const socket = connectTls({ socket: dial(), servername, secureContext, rejectUnauthorized: false });
      socket.on('error', () => socket.destroy());
      return socket;
    };
  }

  async #perform({ times, connections, requests }: Part, dial: () => Socket): Promise<number> {
    let all = 0;
    for (let i = 0; i < times && this.#closed === null; i++) {
      const answered = await Promise.all(Array.from({ length: connections }, () => this.#ask(dial(), requests)));
      all += answered.reduce((sum, each) => sum + each, 0);
    }
    return all;
  }

  /** Resolves, when the connection is closed, to the number of responses. */
  #ask(socket: Socket, requests: number): Promise<number> {
    return new Promise((resolve) => {
      let answered = 0;
      const ask = (): boolean => socket.write(`GET ${this.#path} HTTP/1.1\r\nhost: rehearsal\r\naccept: */*\r\n\r\n`);
      socket.on('data', () => {
        answered += 1;
        if (answered < requests) ask();
        else socket.destroy();
      });
      socket.on('close', () => resolve(answered));
      ask();
    });
  }
}

/** A Server with one route, for everybody: as much as most have. */
function policy(path: string): PolicyDocument[] {
  const meta = { namespace: 'rehearsal', labels: [], createdMs: null, file: '', marks: [] };
  const everyPod = { matchLabels: [], matchExpressions: [] };
  const match = { path: { type: 'prefix', value: path }, headers: [], query: [], method: null } as const;
  const rule = { matches: [match], headerChanges: null, redirect: null, sealed: false };
  return [
    {
      ...{ ...meta, kind: 'Server', name: 'all' },
      spec: {
        podSelector: everyPod,
        externalWorkloadSelector: everyPod,
        ...{ port: policyPort, protocol: 'detect', accessPolicy: 'deny', sealed: false },
      },
    },
    {
      ...{ ...meta, kind: 'HTTPRoute', group: 'policy.linkerd.io', name: 'all' },
      spec: { parents: [{ name: 'all', index: 0 }], hostnames: [], rules: [rule] },
    },
    {
      ...{ ...meta, kind: 'AuthorizationPolicy', name: 'all' },
      spec: { target: { kind: 'route', group: 'policy.linkerd.io', route: 'HTTPRoute', name: 'all' }, required: [] },
    },
  ];
}
