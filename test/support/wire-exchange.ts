import {
  type ClientHttp2Session,
  connect as http2Connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { headerValues, latin1, RawClient } from './raw-http.ts';
import { ConditionTimeout, within } from './until.ts';

/** One request or payload from one client to one port; plain data, so that it can travel to an agent as JSON. */
export interface Exchange {
  readonly host: string;
  readonly port: number;
  readonly localAddress?: string;
  readonly tls?: { readonly servername: string; readonly ca: string; readonly cert?: string; readonly key?: string } & {
    /** Whoever answers will do. */
    readonly anybody?: boolean;
    readonly alpn?: readonly string[];
  };
  readonly proto: 'http/1.1' | 'http/2' | 'grpc' | 'tcp';
  readonly method?: string;
  readonly path?: string;
  readonly authority?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly payload?: string;
}

/** What came of it, as the client saw it. */
export type ExchangeResult =
  | {
      readonly kind: 'http';
      readonly status: number;
      /** From the trailers or, of a trailers-only answer, the headers. */
      readonly grpcStatus: string | null;
      /** The response had no body and no trailers: for gRPC, trailers-only. */
      readonly bodiless: boolean;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    }
  /** The payload came back. */
  | { readonly kind: 'echo'; readonly text: string }
  /** The connection ended; `text` is what came before. */
  | { readonly kind: 'closed'; readonly text: string };

const patienceMs = 8_000;

/** A connection on which exchanges follow each other; HTTP/1 keep-alive, HTTP/2 streams, or one tunnel. */
export class WireConnection {
  readonly #exchange: Exchange;
  #raw: RawClient | null = null;
  #session: ClientHttp2Session | null = null;
  /** HTTP/1 methods sent so far: the parser needs them to find where answers end. */
  #methods: string[] = [];

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  get ended(): boolean {
    return this.#raw?.ended ?? false;
  }

  /** Connects (TLS included) without sending anything. False when the other side ended it instead. */
  async open(): Promise<boolean> {
    const { host, port, localAddress, tls } = this.#exchange;
    const secure: ConnectionOptions | undefined = tls && { ...tls, minVersion: 'TLSv1.3', ...verification(tls) };
    try {
      this.#raw = await within(
        `a connection to ${host}:${port}`,
        patienceMs,
        RawClient.open({
          host,
          port,
          ...(localAddress === undefined ? {} : { localAddress }),
          ...(secure === undefined ? {} : { tls: secure }),
        }),
      );
      if (this.#exchange.proto === 'http/2' || this.#exchange.proto === 'grpc') this.#beginHttp2(this.#raw.socket);
      return true;
    } catch (error) {
      if (error instanceof ConditionTimeout) throw error;
      const { code } = error as NodeJS.ErrnoException;
      // Node reports an end inside the handshake as ECONNRESET too; anything else is a fault of the test's own set-up.
      if (tls !== undefined && code === 'ECONNRESET') return false;
      throw error;
    }
  }

  /**
   * Prior knowledge, inside TLS as well: on redirected ports Linkerd negotiates no ALPN. Begun with the connection,
   * because the server's SETTINGS may arrive before the first request is sent.
   */
  #beginHttp2(socket: Socket): void {
    this.#session = http2Connect('http://sallyport.test', { createConnection: () => socket });
    // What failed shows in the streams.
    this.#session.on('error', () => {});
  }

  async run(exchange: Exchange): Promise<ExchangeResult> {
    if (this.#raw === null && !(await this.open())) return { kind: 'closed', text: '' };
    switch (exchange.proto) {
      case 'http/1.1':
        return this.#http1(exchange);
      case 'http/2':
      case 'grpc':
        return this.#http2(exchange);
      case 'tcp':
        return this.#tcp(exchange);
    }
  }

  /** Waits until the peer has ended the connection. */
  ends(timeoutMs: number): Promise<boolean> {
    return this.#raw?.ends(timeoutMs) ?? Promise.resolve(true);
  }

  close(): void {
    this.#session?.destroy();
    this.#raw?.destroy();
  }

  get #client(): RawClient {
    if (this.#raw === null) throw new Error('not connected');
    return this.#raw;
  }

  async #http1(exchange: Exchange): Promise<ExchangeResult> {
    const { method = 'GET', path = '/', authority = 'localhost', headers = [] } = exchange;
    const lines = [
      `${method} ${path} HTTP/1.1`,
      `Host: ${authority}`,
      ...headers.map(([name, value]) => `${name}: ${value}`),
    ];
    if (method === 'POST' || method === 'PUT' || method === 'PATCH') lines.push('Content-Length: 0');
    this.#methods.push(method);
    const client = this.#client;
    client.send(latin1(`${lines.join('\r\n')}\r\n\r\n`));
    try {
      const last = (await client.responses(this.#methods, patienceMs)).at(-1);
      if (last === undefined) throw new Error('no response');
      return {
        kind: 'http',
        status: last.status,
        grpcStatus: headerValues(last, 'grpc-status')[0] ?? null,
        bodiless: last.body.length === 0,
        headers: Object.fromEntries(last.headers.map(([name, value]) => [name.toLowerCase(), value])),
        body: last.body.toString('utf8'),
      };
    } catch (error) {
      if (client.ended) return { kind: 'closed', text: client.received.toString('latin1') };
      throw error;
    }
  }

  async #http2(exchange: Exchange): Promise<ExchangeResult> {
    const session = this.#session;
    if (session === null) throw new Error('the connection was not opened for HTTP/2');
    const grpc = exchange.proto === 'grpc';
    const headers: OutgoingHttpHeaders = {
      ':method': exchange.method ?? (grpc ? 'POST' : 'GET'),
      ':path': exchange.path ?? '/',
      ':authority': exchange.authority ?? 'localhost',
      ...(grpc ? { 'content-type': 'application/grpc', te: 'trailers' } : {}),
      ...Object.fromEntries(exchange.headers ?? []),
    };
    const stream = session.request(headers, { endStream: !grpc });
    // An empty gRPC message: no compression, length 0.
    if (grpc) stream.end(Buffer.alloc(5));
    return within(
      'an HTTP/2 answer',
      patienceMs,
      new Promise<ExchangeResult>((resolve) => {
        let answer: IncomingHttpHeaders | null = null;
        let trailers: IncomingHttpHeaders | null = null;
        let body = '';
        stream.setEncoding('utf8');
        stream.on('response', (received) => {
          answer = received;
        });
        stream.on('trailers', (received) => {
          trailers = received;
        });
        stream.on('data', (text: string) => {
          body += text;
        });
        // What failed shows in the response, or in there being none.
        stream.on('error', () => {});
        stream.on('close', () => {
          if (answer === null) resolve({ kind: 'closed', text: '' });
          else {
            const status = trailers?.['grpc-status'] ?? answer['grpc-status'];
            resolve({
              kind: 'http',
              status: Number(answer[':status']),
              grpcStatus: status === undefined ? null : String(status),
              bodiless: body === '' && trailers === null,
              headers: Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, String(value)])),
              body,
            });
          }
        });
      }),
    );
  }

  async #tcp(exchange: Exchange): Promise<ExchangeResult> {
    const payload = latin1(exchange.payload ?? '');
    const client = this.#client;
    const before = client.receivedLength;
    client.send(payload);
    await client.reaches(() => client.receivedLength >= before + payload.length, patienceMs);
    const text = client.received.toString('latin1', before);
    if (text === exchange.payload) return { kind: 'echo', text };
    if (client.ended) return { kind: 'closed', text };
    throw new ConditionTimeout('an echo or the end', patienceMs, JSON.stringify(text));
  }
}

/** One exchange on a connection of its own. */
export async function runExchange(exchange: Exchange): Promise<ExchangeResult> {
  const connection = new WireConnection(exchange);
  try {
    return await connection.run(exchange);
  } finally {
    connection.close();
  }
}

/** The test CA signs both the proxy's certificate and the app's own; their names are checked by SNI alone. */
function verification({ ca, anybody = false, alpn }: NonNullable<Exchange['tls']>): ConnectionOptions {
  const offered = alpn === undefined ? {} : { ALPNProtocols: [...alpn] };
  return { ca, checkServerIdentity: () => undefined, rejectUnauthorized: !anybody, ...offered };
}

export interface BurstResult {
  readonly statuses: readonly number[];
  /** When the first byte was sent and the last answer read, by the agent's clock. */
  readonly beganAtMs: number;
  readonly endedAtMs: number;
}

/** `count` HTTP/1 requests at one instant, each on a connection that is already open. */
export async function runBurst(exchange: Exchange, count: number): Promise<BurstResult> {
  const connections = Array.from({ length: count }, () => new WireConnection(exchange));
  try {
    await Promise.all(connections.map((connection) => connection.open()));
    const beganAtMs = Date.now();
    const results = await Promise.all(connections.map((connection) => connection.run(exchange)));
    return {
      statuses: results.map((result) => (result.kind === 'http' ? result.status : 0)),
      beganAtMs,
      endedAtMs: Date.now(),
    };
  } finally {
    for (const connection of connections) connection.close();
  }
}
