import { randomBytes } from 'node:crypto';
import { Agent, type IncomingMessage, request as plainRequest } from 'node:http';
import { type ClientHttp2Session, connect as http2Connect } from 'node:http2';
import { Agent as TlsAgent, type AgentOptions as TlsAgentOptions, request as tlsRequest } from 'node:https';
import { WebSocket } from 'ws';
import { workloadCertificate, workloadName } from '../support/certificates.ts';
import type { Teardown } from '../support/children.ts';
import { type CallResult, GrpcClient } from '../support/grpc-shop.ts';
import { latin1, oddLines, parseResponses, RawClient } from '../support/raw-http.ts';
import type { SeenRequest } from '../support/sniffing-app.ts';
import { within } from '../support/until.ts';
import { isToggleOpen } from './policy.ts';

export interface Ports {
  readonly web: number;
  /** Opaque. */
  readonly tunnel: number;
  /** Any protocol, without routes: TLS of the app's own goes through. */
  readonly secret: number;
  readonly chat: number;
  readonly calls: number;
  /** Before an app that fails. */
  readonly broken: number;
}

/** One that acts, again and again. */
export interface Client {
  readonly name: string;
  /** Throws what was wrong. */
  round(soak: Soak): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

interface Asked {
  readonly path: string;
  readonly token: string;
  readonly bodyBytes: number;
  /** When it was asked. */
  readonly epoch: number;
}

const patienceMs = 20_000;
const kinds = ['open', 'closed', 'toggle', 'mesh', 'nowhere'] as const;
const orders = workloadName('orders', 'shop');

/** What all clients share: what is in force, what they were answered, and what was wrong. */
export class Soak {
  readonly faults: string[] = [];
  readonly counts = new Map<string, number>();
  answered = { permitted: 0, denied: 0, noRoute: 0 };
  readonly ports: Ports;
  readonly agent = new Agent({ keepAlive: true, maxSockets: 2 });
  readonly tls: TlsAgentOptions;
  readonly meshAgent: TlsAgent;
  readonly calls: GrpcClient;
  /** Even while a policy is in force, odd while the next one comes. */
  #epoch = 0;
  #isOpen = false;
  #stopped = false;
  #session: ClientHttp2Session | null = null;
  #socket: WebSocket | null = null;

  constructor(t: Teardown, ports: Ports, ownName: string) {
    this.ports = ports;
    const { trustAnchorsPem: ca, certificatePem: cert, keyPem: key } = workloadCertificate('orders', 'shop');
    this.tls = { servername: ownName, ca, cert, key, checkServerIdentity: () => undefined };
    this.meshAgent = new TlsAgent({ keepAlive: true, maxSockets: 2, ...this.tls });
    this.calls = new GrpcClient(t, 'StreamService', { port: ports.calls });
    t.teardown(() => this.#close());
  }

  changing(): void {
    this.#epoch++;
  }

  changed(swap: number): void {
    this.#isOpen = isToggleOpen(swap);
    this.#epoch++;
  }

  forget(): void {
    this.answered = { permitted: 0, denied: 0, noRoute: 0 };
    this.counts.clear();
  }

  stop(): void {
    this.#stopped = true;
  }

  async once(client: Client): Promise<void> {
    for (let i = 0; i < kinds.length; i++) await client.round(this);
  }

  /** Each client twice at a time. Ends after `stop`, or at the first fault. */
  async run(clients: readonly Client[]): Promise<void> {
    await Promise.all([...clients, ...clients].map((client) => this.#loop(client)));
    this.#close();
  }

  async #loop(client: Client): Promise<void> {
    while (!this.#stopped && this.faults.length === 0) {
      try {
        await within(client.name, patienceMs, client.round(this));
        this.counts.set(client.name, (this.counts.get(client.name) ?? 0) + 1);
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        this.faults.push(`${client.name}: ${code ?? ''} ${message}`);
      }
      await pause(5);
    }
  }

  #close(): void {
    this.#session?.destroy();
    this.#socket?.terminate();
    this.agent.destroy();
    this.meshAgent.destroy();
    this.calls.close();
  }

  /** A request of one of the kinds, with a token that its answer must repeat. */
  ask(bodyBytes = 0): Asked {
    const token = randomBytes(9).toString('base64url');
    const kind = kinds[Math.floor(Math.random() * kinds.length)] as string;
    return { path: `/${kind}/${token}`, token, bodyBytes, epoch: this.#epoch };
  }

  /** Throws unless it is the answer to this request, by the policy in force. */
  expect({ path, token, bodyBytes, epoch }: Asked, { status, body }: Answer, identity: string | null = null): void {
    const wanted = this.#wanted(path.split('/')[1] as string, epoch, identity);
    if (!wanted.includes(status)) throw new Error(`${path} answered ${status}, not ${wanted.join(' or ')}`);
    if (status === 200) this.answered.permitted++;
    else if (status === 403) this.answered.denied++;
    else this.answered.noRoute++;
    if (status !== 200) {
      if (body !== '') throw new Error(`${path} was refused with ${JSON.stringify(body)}`);
      return;
    }
    const seen = JSON.parse(body) as SeenRequest;
    if (seen.url !== path || seen.headers['x-token'] !== token) throw new Error(`${path} got the answer to ${body}`);
    if (seen.bodyBytes !== bodyBytes) throw new Error(`${path} with ${bodyBytes} bytes arrived as ${body}`);
    const told = seen.headers['l5d-client-id'] ?? null;
    if (told !== identity) throw new Error(`${path} of ${identity} was told to be of ${told}`);
  }

  #wanted(kind: string, epoch: number, identity: string | null): readonly number[] {
    if (kind === 'open') return [200];
    if (kind === 'closed') return [403];
    if (kind === 'nowhere') return [404];
    if (kind === 'mesh') return [identity === orders ? 200 : 403];
    if (epoch !== this.#epoch || epoch % 2 === 1) return [200, 403];
    return [this.#isOpen ? 200 : 403];
  }

  /** One for all rounds. */
  get session(): ClientHttp2Session {
    if (this.#session === null || this.#session.closed) {
      this.#session = http2Connect(`http://127.0.0.1:${this.ports.web}`);
      this.#session.on('error', (error) => this.faults.push(`HTTP/2: ${error.message}`));
    }
    return this.#session;
  }

  async webSocket(): Promise<WebSocket> {
    if (this.#socket === null) {
      const socket = new WebSocket(`ws://127.0.0.1:${this.ports.chat}/`);
      this.#socket = socket;
      socket.setMaxListeners(100);
    }
    const socket = this.#socket;
    if (socket.readyState === WebSocket.CONNECTING) {
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    }
    return socket;
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function read(response: IncomingMessage): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let body = '';
    response.setEncoding('latin1');
    response.on('data', (text: string) => {
      body += text;
    });
    response.on('error', reject);
    response.on('aborted', () => reject(new Error('the answer broke off')));
    response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
  });
}

interface Sending {
  readonly port: number;
  readonly path: string;
  readonly agent: Agent | false;
  readonly headers: Readonly<Record<string, string>>;
  readonly chunks?: readonly Buffer[];
}

function send({ chunks = [], ...to }: Sending, tls: TlsAgentOptions | null = null): Promise<Answer> {
  const options = { host: '127.0.0.1', method: chunks.length > 0 ? 'POST' : 'GET', ...to };
  return new Promise((resolve, reject) => {
    const answered = (response: IncomingMessage): void => void read(response).then(resolve, reject);
    const sent = tls === null ? plainRequest(options, answered) : tlsRequest({ ...options, ...tls }, answered);
    sent.on('error', reject);
    for (const chunk of chunks) sent.write(chunk);
    sent.end();
  });
}

/** A lie about who sends it. */
const spoofed = { 'l5d-client-id': 'root' };

async function plain(soak: Soak, agent: Agent | false): Promise<void> {
  const asked = soak.ask();
  const headers = { 'x-token': asked.token, ...spoofed };
  soak.expect(asked, await send({ port: soak.ports.web, path: asked.path, agent, headers }));
}

async function meshed(soak: Soak, agent: TlsAgent | false): Promise<void> {
  const asked = soak.ask();
  const to = { port: soak.ports.web, path: asked.path, agent, headers: { 'x-token': asked.token, ...spoofed } };
  soak.expect(asked, await send(to, soak.tls), orders);
}

async function raw(soak: Soak, version: string, count: number, fields = ''): Promise<void> {
  const asked = Array.from({ length: count }, () => soak.ask());
  const client = await RawClient.open({ port: soak.ports.web });
  try {
    const heads = asked.map(
      ({ path, token }) => `GET ${path} HTTP/${version}\r\nHost: web\r\nX-Token: ${token}\r\n${fields}\r\n`,
    );
    client.send(latin1(heads.join('')));
    const methods = asked.map(() => 'GET');
    const responses = (): readonly { readonly status: number; readonly body: Buffer }[] =>
      parseResponses(client.received, methods, client.ended).responses;
    await client.reaches(() => responses().length >= count, patienceMs);
    const all = responses();
    if (all.length !== count) throw new Error(`${all.length} answers of ${count}`);
    for (const [i, { status, body }] of all.entries()) {
      soak.expect(asked[i] as Asked, { status, body: body.toString('latin1') });
    }
  } finally {
    client.destroy();
  }
}

function http2(soak: Soak, bodyBytes: number): Promise<void> {
  const asked = soak.ask(bodyBytes);
  const method = bodyBytes > 0 ? 'POST' : 'GET';
  const stream = soak.session.request({ ':path': asked.path, ':method': method, 'x-token': asked.token, ...spoofed });
  let status = 0;
  let body = '';
  stream.end(bodyBytes > 0 ? Buffer.alloc(bodyBytes, 'x') : undefined);
  stream.on('response', (headers) => {
    status = Number(headers[':status']);
  });
  stream.setEncoding('latin1').on('data', (text: string) => {
    body += text;
  });
  return new Promise((resolve, reject) => {
    stream.on('error', reject);
    stream.on('close', () => {
      try {
        soak.expect(asked, { status, body });
        resolve();
      } catch (error) {
        reject(error);
      }
    });
  });
}

/** Sends, ends its side, and must get all of it back, then the end. */
async function echoed(client: RawClient, bytes: Buffer, restMs: number): Promise<void> {
  try {
    client.send(bytes);
    if (restMs > 0) {
      client.socket.pause();
      await pause(restMs);
      client.socket.resume();
    }
    await client.reaches(() => client.receivedLength >= bytes.length, patienceMs);
    if (!client.received.equals(bytes)) throw new Error(`${client.receivedLength} bytes back of ${bytes.length}`);
    client.halfClose();
    if (!(await client.ends(patienceMs))) throw new Error('the end did not come back');
  } finally {
    client.destroy();
  }
}

/** Whatever happens to it: if an answer is complete, it is its own. */
async function fragile(soak: Soak, kind: string): Promise<void> {
  const path = `/${kind}/${randomBytes(9).toString('base64url')}`;
  const to = { port: soak.ports.broken, path, agent: false as const, headers: {} };
  const { status, body } = await send(to).catch(() => ({ status: 0, body: '' }));
  const expected = kind === 'fine' ? [200, 502, 504, 0] : [502, 504, 0];
  if (!expected.includes(status)) throw new Error(`${path} answered ${status}`);
  if (status === 200 && body !== path) throw new Error(`${path} got ${body}`);
}

const leave = [
  (client: RawClient): void => client.destroy(),
  (client: RawClient): void => client.reset(),
  (client: RawClient): void => {
    client.halfClose();
    client.destroy();
  },
];

/** Begins something and is gone. */
async function vanish(port: number, bytes: Buffer, how: number): Promise<void> {
  const client = await RawClient.open({ port });
  client.send(bytes);
  await pause(Math.random() * 30);
  leave[how % leave.length]?.(client);
}

/** Nothing that the app takes for TLS or HTTP. */
function noise(length: number): Buffer {
  const bytes = randomBytes(length);
  bytes[0] = 0;
  return bytes;
}

let turn = 0;

export const clients: readonly Client[] = [
  { name: 'HTTP/1.1, kept', round: (soak) => plain(soak, soak.agent) },
  { name: 'HTTP/1.1, closed', round: (soak) => plain(soak, false) },
  { name: 'HTTP/1.0', round: (soak) => raw(soak, '1.0', 1) },
  { name: 'HTTP/1.0, kept', round: (soak) => raw(soak, '1.0', 1, 'Connection: keep-alive\r\n') },
  { name: 'pipelined', round: (soak) => raw(soak, '1.1', 8) },
  { name: 'pipelined, off the fast lane', round: (soak) => raw(soak, '1.1', 8, oddLines) },
  {
    name: 'chunked',
    round: async (soak) => {
      const chunks = Array.from({ length: 3 }, () => Buffer.alloc(1 + Math.floor(Math.random() * 20_000), 'x'));
      const asked = soak.ask(chunks.reduce((sum, { length }) => sum + length, 0));
      const headers = { 'x-token': asked.token, 'transfer-encoding': 'chunked' };
      soak.expect(asked, await send({ port: soak.ports.web, path: asked.path, agent: soak.agent, headers, chunks }));
    },
  },
  {
    name: 'HTTP/2',
    round: async (soak) => {
      await Promise.all([0, 0, 0, 30_000, 100_000].map((bytes) => http2(soak, bytes)));
    },
  },
  {
    name: 'gRPC',
    round: async (soak) => {
      const numbers = Array.from({ length: 4 }, () => Math.floor(Math.random() * 1000));
      const sent = numbers.map((number) => ({ number, data: Buffer.alloc(1000) }));
      const result: CallResult<{ number: number }> = await soak.calls.clientStream('Sum', sent);
      const sum = numbers.reduce((a, b) => a + b, 0);
      if (!result.ok || result.reply.number !== sum) throw new Error(`${JSON.stringify(result)}, not ${sum}`);
    },
  },
  {
    name: 'WebSocket',
    round: async (soak) => {
      const socket = await soak.webSocket();
      const said = randomBytes(12).toString('hex').repeat(50);
      await new Promise<void>((resolve) => {
        const heard = (data: Buffer): void => {
          if (data.toString() !== said) return;
          socket.off('message', heard);
          resolve();
        };
        socket.on('message', heard);
        socket.send(said);
      });
    },
  },
  {
    name: 'TCP',
    round: async ({ ports }) => echoed(await RawClient.open({ port: ports.tunnel }), noise(30_000), 0),
  },
  {
    name: 'TCP, read late',
    round: async ({ ports }) => echoed(await RawClient.open({ port: ports.tunnel }), noise(2_000_000), 100),
  },
  {
    name: 'TLS of the app’s own',
    round: async ({ ports }) => {
      const tls = { servername: 'db.example', rejectUnauthorized: false };
      await echoed(await RawClient.open({ port: ports.secret, tls }), noise(30_000), 0);
    },
  },
  { name: 'mesh, kept', round: (soak) => meshed(soak, soak.meshAgent) },
  { name: 'mesh, closed', round: (soak) => meshed(soak, false) },
  {
    name: 'before an app that fails',
    round: (soak) => fragile(soak, ['fine', 'reset', 'cut', 'fine'][turn++ % 4] as string),
  },
  {
    name: 'gone in a request',
    round: ({ ports }) => vanish(ports.broken, latin1('GET /silent/x HTTP/1.1\r\nHost: web\r\n\r\n'), turn++),
  },
  {
    name: 'gone in an upload',
    round: ({ ports }) =>
      vanish(ports.broken, latin1('POST /silent/x HTTP/1.1\r\nHost: web\r\nContent-Length: 9999\r\n\r\nabc'), turn++),
  },
  { name: 'gone in a tunnel', round: ({ ports }) => vanish(ports.tunnel, noise(300_000), turn++) },
  { name: 'gone at once', round: ({ ports }) => vanish(ports.web, latin1('GE'), turn++) },
  {
    name: 'gone in a handshake',
    round: ({ ports }) => vanish(ports.web, Buffer.from([0x16, 0x03, 0x01, 0x02]), turn++),
  },
];
