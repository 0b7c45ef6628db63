import http from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { UpgradeForwarder } from './forward-upgrade.ts';
import { type RequestHead, scanRequestHeaders } from './headers.ts';
import { Http1Exchange, isHost, readTarget } from './http1-exchange.ts';
import type { HttpConnection, RequestPipeline } from './request-pipeline.ts';

export interface Http1ServerOptions {
  readonly pipeline: RequestPipeline;
  readonly upgrades: UpgradeForwarder;
  /** Malformed messages and header timeouts, answered here; for counting. */
  readonly onBadRequest: (connection: HttpConnection, reason: string) => void;
}

/** Milliseconds for a whole request head (slow-header attacks; CVE-2018-12122). */
const headersTimeoutMs = 60_000;

/** Milliseconds that an idle keep-alive connection is kept: long, so that a client's next request does not race the close. */
const keepAliveMs = 600_000;

const maxHeaderBytes = 64 * 1024;
/** Node would silently drop what is beyond its own limit; a policy could then match on less than the app sees. */
const maxHeaderFields = 1000;

/** The library lane for HTTP/1.x: Node's parser in front, policy, then undici or a tunnel towards the app. */
export class Http1Server {
  readonly #server: http.Server;
  readonly #options: Http1ServerOptions;
  readonly #connections = new WeakMap<object, HttpConnection>();
  #draining = false;

  constructor(options: Http1ServerOptions) {
    this.#options = options;
    this.#server = http.createServer({
      keepAliveTimeout: keepAliveMs,
      headersTimeout: headersTimeoutMs,
      // Bodies may take as long as they take.
      requestTimeout: 0,
      connectionsCheckingInterval: 5_000,
      maxHeaderSize: maxHeaderBytes,
      insecureHTTPParser: false,
      requireHostHeader: true,
      noDelay: true,
      // h2c would tunnel past the per-request decision (RFC 9113 3.1), so it is answered as plain HTTP/1.1.
      shouldUpgradeCallback: (request) => isUpgrade(request),
    });
    this.#server.maxHeadersCount = 0;
    this.#server.keepAliveTimeoutBuffer = 0;
    // This server never listens: connections are handed to it after detection. Its timeouts start with this event.
    this.#server.emit('listening');
    this.#server.on('request', (request, response) => this.#request(request, response));
    this.#server.on('checkContinue', (request, response) => this.#request(request, response));
    this.#server.on('checkExpectation', (request, response) => this.#request(request, response));
    this.#server.on('upgrade', (request, socket, head) => this.#tunnel(request, socket, head));
    this.#server.on('connect', (request, socket, head) => this.#tunnel(request, socket, head));
    this.#server.on('clientError', (error, socket) => this.#clientError(error, socket));
  }

  /** Takes over a connection whose first bytes have been put back. */
  serve(connection: HttpConnection, socket: Duplex): void {
    this.#connections.set(socket, connection);
    this.#server.emit('connection', socket as Socket);
  }

  /** Connections between requests close; the others answer `connection: close` and end with their current exchange. */
  drain(): void {
    this.#draining = true;
    this.#server.closeIdleConnections();
  }

  close(): void {
    this.#server.close(() => {});
  }

  #request(request: http.IncomingMessage, response: http.ServerResponse): void {
    const connection = this.#connections.get(request.socket) as HttpConnection;
    if (this.#draining) response.shouldKeepAlive = false;
    const exchange = this.#exchange(connection, request, response);
    if (exchange === null) return;
    // One final answer or 100, never both: the permit comes before the client is asked for its body.
    if (request.headers.expect !== undefined) exchange.onPermitted = () => response.writeContinue();
    this.#options.pipeline.handle(connection, exchange, 'http1');
  }

  #exchange(
    connection: HttpConnection,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): Http1Exchange | null {
    const head = scanRequestHeaders(request.rawHeaders);
    const target = readTarget(request.method as string, request.url as string);
    const fault = faultOf(request, head) ?? (target === null ? 'invalid request target' : null);
    if (fault !== null || target === null) {
      this.#options.onBadRequest(connection, fault as string);
      response.writeHead(400, ['content-length', '0', 'connection', 'close']);
      response.end();
      return null;
    }
    return new Http1Exchange(connection.scope.facts, this.#options.pipeline, request, response, target, head);
  }

  #tunnel(request: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    const connection = this.#connections.get(request.socket) as HttpConnection;
    const scanned = scanRequestHeaders(request.rawHeaders);
    const isConnect = request.method === 'CONNECT';
    const target = isConnect ? readAuthority(request) : readTarget(request.method as string, request.url as string);
    const fault = faultOf(request, scanned) ?? (target === null ? 'invalid request target' : null);
    if (fault !== null || target === null) {
      this.#options.onBadRequest(connection, fault as string);
      socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
      return;
    }
    const response = new http.ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    const exchange = new Http1Exchange(
      connection.scope.facts,
      this.#options.pipeline,
      request,
      response,
      target,
      scanned,
    );
    this.#options.upgrades.forward({ connection, exchange, request, response, socket, head, upgrade: scanned.upgrade });
  }

  #clientError(error: Error & { code?: string }, socket: Duplex): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined) this.#options.onBadRequest(connection, error.code ?? error.message);
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    const status =
      error.code === 'HPE_HEADER_OVERFLOW'
        ? '431 Request Header Fields Too Large'
        : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? '408 Request Timeout'
          : '400 Bad Request';
    // A response that has begun must not get a second head into its middle.
    const current = (socket as { _httpMessage?: http.ServerResponse })._httpMessage;
    if (current?.headersSent === true && !current.writableFinished) socket.destroy();
    else socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  }
}

/** Faults that Node's parser lets pass; null for a sound message. */
function faultOf(request: http.IncomingMessage, head: RequestHead): string | null {
  if (head.fault !== null) return head.fault;
  // The parser accepts any digit here; only these two have this syntax (RFC 9112 2.3).
  if (request.httpVersion !== '1.1' && request.httpVersion !== '1.0') return 'unsupported HTTP version';
  if (request.rawHeaders.length > 2 * maxHeaderFields) return 'too many header fields';
  if (head.host !== null && !isHost(head.host)) return 'invalid Host';
  return null;
}

/** CONNECT needs authority-form and HTTP/1.1 (RFC 9112 3.2.3; Linkerd refuses the rest alike). It has no path. */
function readAuthority(request: http.IncomingMessage): ReturnType<typeof readTarget> {
  const authority = request.url as string;
  if (request.httpVersion !== '1.1' || !/^[^/?#@\s]+:[0-9]+$/.test(authority) || !isHost(authority)) return null;
  return { target: authority, path: '', query: '', authority };
}

function isUpgrade(request: http.IncomingMessage): boolean {
  const tokens = (request.headers.upgrade ?? '').toLowerCase().split(',');
  return request.httpVersion === '1.1' && tokens.every((token) => !token.trim().startsWith('h2c'));
}
