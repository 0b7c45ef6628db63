import http from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { asksToSwitch } from '../../http-message.ts';
import { isHost, readAuthority, readTarget, type Target } from '../../request-target.ts';
import { putBack } from '../detect/peek.ts';
import { internalFault } from '../guard.ts';
import { type RequestHead, scanRequestHeaders } from '../headers.ts';
import { answerOn, endAfter } from '../node-internals.ts';
import { failures } from '../refuse.ts';
import type { HttpConnection, Occupant, RequestPipeline } from '../request-pipeline.ts';
import { sourceOf } from '../sources.ts';
import { starts } from '../starts.ts';
import type { Http1Engine } from './engine.ts';
import { Http1Exchange } from './exchange.ts';
import { endWith } from './last-answer.ts';
import { halfOpenMs } from './limits.ts';
import { type FedConnection, SlicedFeed } from './sliced-feed.ts';
import type { UpgradeForwarder } from './upgrade.ts';

const nothing = Buffer.alloc(0);

export interface LibraryLaneOptions {
  readonly pipeline: RequestPipeline;
  readonly upgrades: UpgradeForwarder;
  /** Malformed messages and header timeouts, answered here; for counting. */
  readonly onBadRequest: (connection: HttpConnection, reason: string) => void;
}

/** One connection on this lane. Requests are taken one after the other, however fast they are pipelined. */
class Lane implements FedConnection {
  readonly connection: HttpConnection;
  readonly socket: Socket;
  /** A request is being answered, or is about to be. */
  busy = false;
  exchange: Http1Exchange | null = null;
  readonly waiting: (() => void)[] = [];
  /** It has left HTTP. */
  isTunnel = false;
  /** It ends as soon as nothing is in flight. */
  retiring = false;
  /** Refuses what cannot be read any further, when what came before it has been answered. */
  refuse: (() => void) | null = null;
  handedOver = 0;
  feed: SlicedFeed | null = null;
  readonly #overflow: (lane: Lane) => void;

  constructor(connection: HttpConnection, socket: Socket, overflow: (lane: Lane) => void) {
    this.connection = connection;
    this.socket = socket;
    this.#overflow = overflow;
  }

  get isWaiting(): boolean {
    return this.waiting.length > 0;
  }

  get isBlocked(): boolean {
    return this.exchange?.incomplete === true && this.exchange.isBehind;
  }

  fed(bytes: number): boolean {
    if (this.exchange?.incomplete !== true || this.exchange.fed(bytes)) return true;
    this.#overflow(this);
    return false;
  }
}

/** The library lane for HTTP/1.x: Node's parser in front, policy, then undici or a tunnel towards the app. */
export class LibraryLane implements Http1Engine {
  readonly #server: http.Server;
  readonly #options: LibraryLaneOptions;
  readonly #lanes = new Map<object, Lane>();
  #draining = false;

  constructor(options: LibraryLaneOptions) {
    this.#options = options;
    const { limits } = options.pipeline;
    this.#server = http.createServer({
      // Node takes 0 for never.
      keepAliveTimeout: Number.isFinite(limits.http1IdleTimeoutMs) ? limits.http1IdleTimeoutMs : 0,
      headersTimeout: limits.headerTimeoutMs,
      // Bodies may take as long as they take.
      requestTimeout: 0,
      connectionsCheckingInterval: 5_000,
      maxHeaderSize: limits.maxHeaderBytes,
      insecureHTTPParser: false,
      // Checked here: Node answers 400, too, but then still hands over what was pipelined behind.
      requireHostHeader: false,
      noDelay: true,
      shouldUpgradeCallback: (request) => isUpgrade(request),
    });
    this.#server.maxHeadersCount = 0;
    // A client may end its side when it has sent its requests; it gets its answers (RFC 9112 9.6).
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    // This server never listens: connections are handed to it after detection. Its timeouts start with this event.
    this.#server.emit('listening');
    const request = (message: http.IncomingMessage, response: http.ServerResponse): void =>
      this.#entry(message.socket, () => this.#request(message, response));
    const tunnel = (message: http.IncomingMessage, socket: Duplex, head: Buffer): void =>
      this.#entry(socket, () => this.#tunnel(message, socket, head));
    this.#server.on('request', request);
    this.#server.on('checkContinue', request);
    this.#server.on('checkExpectation', request);
    this.#server.on('upgrade', tunnel);
    this.#server.on('connect', tunnel);
    // Nobody has used the connection for too long. Node closes it only where nobody listens.
    this.#server.on('timeout', (socket) => {
      const lane = this.#lanes.get(socket);
      if (lane?.busy === false) options.pipeline.limitReached('http1_idle_timeout', lane.connection);
      socket.destroySoon();
    });
    this.#server.on('clientError', (error, socket) => this.#entry(socket, () => this.#clientError(error, socket)));
  }

  serve(connection: HttpConnection, socket: Socket, bytes: Buffer): void {
    if (isVersionless(bytes)) {
      this.#options.onBadRequest(connection, 'no HTTP version');
      endWith(socket, '400 Bad Request');
      return;
    }
    const overflow = (lane: Lane): void =>
      this.#clientError(
        Object.assign(new Error('chunk extensions'), { code: 'HPE_CHUNK_EXTENSIONS_OVERFLOW' }),
        lane.socket,
      );
    const lane = new Lane(connection, socket, overflow);
    connection.occupant = new LaneOccupant(lane, this.#options.pipeline);
    this.#lanes.set(socket, lane);
    socket.once('close', () => this.#lanes.delete(socket));
    socket.once('end', () => socket.setTimeout(halfOpenMs, () => socket.destroy()));
    // Paused until then. Node's server makes a parser for each: those that come at once begin in turns.
    putBack(socket, bytes);
    const begin = (): void => {
      if (socket.destroyed) return;
      this.#server.emit('connection', socket);
      lane.feed = new SlicedFeed(socket, lane);
      socket.resume();
    };
    const asker = sourceOf(connection.facts.client.ip);
    starts.begin(asker, () => this.#entry(socket, begin));
  }

  /** A fault of ours ends the connection that it belongs to. */
  #entry(socket: Duplex, run: () => void): void {
    try {
      run();
    } catch (error) {
      internalFault('HTTP/1, the library lane', socket, error);
    }
  }

  /** From now on every answer is the last of its connection. */
  drain(): void {
    this.#draining = true;
  }

  /** Ends connections that are between requests. */
  closeIdle(): void {
    for (const { busy, socket } of this.#lanes.values()) if (!busy) socket.destroySoon();
  }

  close(): void {
    this.#server.close(() => {});
  }

  /**
   * Node hands over pipelined requests as fast as it parses them. Taken all at once, one client's burst would become as
   * many connections to the app, and its second request would be decided before the first was answered.
   */
  #request(request: http.IncomingMessage, response: http.ServerResponse): void {
    const lane = this.#lanes.get(request.socket);
    // Closed while it waited.
    if (lane === undefined) return;
    lane.handedOver++;
    if (lane.busy) {
      lane.waiting.push(() => this.#take(lane, request, response));
      lane.socket.pause();
    } else {
      this.#take(lane, request, response);
    }
  }

  #take(lane: Lane, request: http.IncomingMessage, response: http.ServerResponse): void {
    lane.busy = true;
    // The fault is in the body of this very request, which will never be complete.
    if (lane.refuse !== null && !request.complete) {
      lane.waiting.length = 0;
      lane.refuse();
      return;
    }
    const exchange = this.#exchange(lane.connection, request, response);
    lane.exchange = exchange;
    if (exchange === null) return;
    exchange.onOver = () => this.#over(lane);
    // One final answer or 100, never both: the permit comes before the client is asked for its body.
    if (request.headers.expect !== undefined) exchange.onPermitted = () => response.writeContinue();
    if (this.#draining || lane.retiring) endAfter(response);
    this.#options.pipeline.handle(lane.connection, exchange);
  }

  #over(lane: Lane): void {
    lane.exchange = null;
    const { socket } = lane;
    const next = lane.waiting.shift();
    if (next !== undefined) {
      // The others have their turn first: answers that need no app would follow each other without end.
      setImmediate(() => this.#entry(socket, () => socket.destroyed || next()));
      return;
    }
    lane.busy = false;
    lane.feed?.resume();
    // An answer that was under way when the drain began did not say `connection: close`.
    if (this.#draining || lane.retiring) socket.destroySoon();
  }

  #exchange(
    connection: HttpConnection,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): Http1Exchange | null {
    const head = scanRequestHeaders(request.rawHeaders);
    const target = readTarget(request.method as string, request.url as string);
    const fault =
      faultOf(request, head, this.#options.pipeline.limits.maxHeaderFields) ??
      (target === null ? 'invalid request target' : null);
    if (fault !== null || target === null) {
      this.#options.onBadRequest(connection, fault as string);
      response.writeHead(400, ['content-length', '0', 'connection', 'close']);
      response.end();
      return null;
    }
    return new Http1Exchange(connection.facts, this.#options.pipeline, request, response, target, head, 'message');
  }

  #tunnel(request: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    const lane = this.#lanes.get(request.socket);
    if (lane === undefined) return;
    // Node has taken its own listener off, not ours; what it has not seen belongs to what it hands over.
    const rest = lane.feed?.stop() ?? nothing;
    const early = rest.length === 0 ? head : Buffer.concat([head, rest]);
    if (!lane.busy) {
      this.#tunnelNow(lane, request, socket, early);
      return;
    }
    // Node no longer tells the answers before it when there is room for more of them.
    const drained = (): void => lane.exchange?.drained();
    socket.on('drain', drained);
    lane.waiting.push(() => {
      socket.removeListener('drain', drained);
      this.#tunnelNow(lane, request, socket, early);
    });
  }

  #tunnelNow(lane: Lane, request: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    const { connection } = lane;
    lane.busy = true;
    const scanned = scanRequestHeaders(request.rawHeaders);
    const isConnect = request.method === 'CONNECT';
    const target = isConnect ? connectTarget(request) : readTarget(request.method as string, request.url as string);
    const fault =
      faultOf(request, scanned, this.#options.pipeline.limits.maxHeaderFields) ??
      (target === null ? 'invalid request target' : null);
    if (fault !== null || target === null) {
      this.#options.onBadRequest(connection, fault as string);
      endWith(lane.socket, '400 Bad Request');
      return;
    }
    const response = answerOn(request, socket);
    endAfter(response);
    const exchange = new Http1Exchange(
      connection.facts,
      this.#options.pipeline,
      request,
      response,
      target,
      scanned,
      'upgrade',
    );
    lane.isTunnel = true;
    // CONNECT says by its method what it wants (RFC 9110 7.8 is about requests that could go on without).
    const upgrade = isConnect ? null : scanned.upgrade;
    this.#options.upgrades.forward({ connection, exchange, response, socket, head, upgrade });
  }

  #clientError(error: Error & { code?: string }, socket: Duplex): void {
    const lane = this.#lanes.get(socket);
    const code = error.code ?? '';
    // A socket that failed says nothing about a message.
    if (lane === undefined || !socket.writable || !/^(HPE|ERR_HTTP)_/.test(code)) {
      socket.destroy();
      return;
    }
    lane.feed?.stop();
    const refuse = (): void => endWith(lane.socket, refusalOfFault(code));
    const { exchange } = lane;
    if (exchange?.incomplete === true) {
      // The fault is in the body of the request that is being served: it has been decided, and counts as that.
      exchange.breakOff();
      if (exchange.responded) socket.destroy();
      else refuse();
      return;
    }
    this.#options.onBadRequest(lane.connection, code);
    if (lane.busy) {
      // It follows a sound request, which gets its answer first (RFC 9112 9.3.2).
      lane.refuse = refuse;
      lane.waiting.push(refuse);
    } else {
      refuse();
    }
  }
}

/** A connection of this lane, as those see it who look after all connections. */
class LaneOccupant implements Occupant {
  readonly #lane: Lane;
  readonly #pipeline: RequestPipeline;

  constructor(lane: Lane, pipeline: RequestPipeline) {
    this.#lane = lane;
    this.#pipeline = pipeline;
  }

  get betweenRequests(): boolean {
    return !this.#lane.busy;
  }

  get awaitsContent(): boolean {
    const { exchange, isTunnel } = this.#lane;
    return !isTunnel && exchange?.incomplete === true;
  }

  /** What Node's parser has taken besides is not to be seen; it is no more than a head. */
  get heldBytes(): number {
    return this.#lane.feed?.heldBytes ?? 0;
  }

  get isTunnel(): boolean {
    return this.#lane.isTunnel;
  }

  retire(): void {
    const lane = this.#lane;
    lane.retiring = true;
    if (!lane.busy) lane.socket.destroySoon();
  }

  giveUp(): void {
    const { exchange, socket } = this.#lane;
    exchange?.breakOff();
    if (exchange?.responded === false)
      endWith(socket, socket.isPaused() ? '504 Gateway Timeout' : '408 Request Timeout');
    else socket.destroy();
  }

  endOverdue(since: number): void {
    const { connection, exchange, isTunnel } = this.#lane;
    if (exchange === null || isTunnel || exchange.startedAt > since) return;
    this.#pipeline.limitReached('request_timeout', connection);
    const { responded, admitted } = exchange;
    if (!responded && admitted !== null) this.#pipeline.fail(connection, admitted, exchange, failures.requestTimeout);
    // What the app would still say is not wanted.
    exchange.cancel();
    if (responded) exchange.abort();
  }
}

function refusalOfFault(code: string): string {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return '431 Request Header Fields Too Large';
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return '408 Request Timeout';
    default:
      return '400 Bad Request';
  }
}

/** A first line that has ended without a version (HTTP/0.9). Node would wait for fields that never come. */
function isVersionless(bytes: Buffer): boolean {
  return /^[\r\n]*[!-~]+ +[^\s]+ *\r?\n/.test(bytes.toString('latin1', 0, 1024));
}

/** Faults that Node's parser lets pass; null for a sound message. */
function faultOf(request: http.IncomingMessage, head: RequestHead, maxFields: number): string | null {
  if (head.fault !== null) return head.fault;
  // The parser accepts any digit here; only these two have this syntax (RFC 9112 2.3).
  if (request.httpVersion !== '1.1' && request.httpVersion !== '1.0') return 'unsupported HTTP version';
  if (request.rawHeaders.length > 2 * maxFields) return 'too many header fields';
  // RFC 9112 3.2: required since HTTP/1.1.
  if (head.host === null && request.httpVersion === '1.1') return 'no Host';
  if (head.host !== null && !isHost(head.host)) return 'invalid Host';
  return null;
}

/** CONNECT needs authority-form and HTTP/1.1 (Linkerd refuses the rest alike). */
function connectTarget(request: http.IncomingMessage): Target | null {
  return request.httpVersion === '1.1' ? readAuthority(request.url as string) : null;
}

/**
 * A request with a body is served as if it had not asked (RFC 9110 7.8 leaves that to us): nobody could tell where its
 * body ends and the new protocol begins. So is one for `*`, which is about the server as a whole.
 */
function isUpgrade(request: http.IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': coding, upgrade = '' } = request.headers;
  if (length !== '0' || coding !== undefined || request.url === '*') return false;
  return request.httpVersion === '1.1' && asksToSwitch(upgrade);
}
