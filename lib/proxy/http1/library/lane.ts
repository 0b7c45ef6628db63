import http from 'node:http';
import type { Duplex } from 'node:stream';
import { type ScannedHead, scanRequestHeaders } from '../../../request-fields.ts';
import { readTarget, type Target } from '../../../request-target.ts';
import { putBack } from '../../detect/peek.ts';
import { behindReads } from '../../fairness/behind-reads.ts';
import { Deadlines, type Expirable } from '../../fairness/deadlines.ts';
import type { Line } from '../../fairness/line.ts';
import { sourceOf } from '../../fairness/sources.ts';
import { starts } from '../../fairness/starts.ts';
import { internalFault } from '../../guard.ts';
import { endAfterLastBytes, endWithStatus } from '../../http/last-bytes.ts';
import { messageRefusals } from '../../http/refuse.ts';
import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import type { Incoming } from '../../incoming.ts';
import { endAfter, endBy, responseOn } from '../../node-internals.ts';
import type { Upstreams } from '../../upstream/upstreams.ts';
import type { Http1Engine } from '../engine.ts';
import { halfOpenMs } from '../limits.ts';
import { LibraryConnection, noneOverdue } from './client-connection.ts';
import { Http1Exchange } from './exchange.ts';
import { LibraryUpstreams } from './library-upstreams.ts';
import { connectTarget, faultOf, faultStatus, isUpgrade, isVersionless, messageFaultOf } from './message-faults.ts';
import { serveExchange } from './serve.ts';
import { SlicedFeed } from './sliced-feed.ts';
import { UpgradeForwarder } from './upgrade.ts';

const nothing = Buffer.alloc(0);

export interface LibraryLaneOptions {
  readonly pipeline: RequestPipeline;
  readonly upstreams: Upstreams;
}

/** The library lane for HTTP/1.x: Node's parser in front, policy, then undici or a tunnel towards the app. */
export class LibraryLane implements Http1Engine {
  readonly #server: http.Server;
  readonly #options: LibraryLaneOptions;
  readonly #connections = new Map<object, LibraryConnection>();
  readonly #upstreams: LibraryUpstreams;
  readonly #upgrades: UpgradeForwarder;
  readonly #lateHeads: Deadlines;
  #draining = false;

  constructor(options: LibraryLaneOptions) {
    this.#options = options;
    this.#upstreams = new LibraryUpstreams(options.upstreams);
    this.#upgrades = new UpgradeForwarder(options.pipeline, this.#upstreams);
    const { limits } = options.pipeline;
    this.#lateHeads = new Deadlines(limits.headerTimeoutMs);
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
    // A client may end its side when it has sent its requests; it gets its responses (RFC 9112 9.6).
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
      const served = this.#connections.get(socket);
      const { bytesRead } = socket;
      const late = (): void => {
        if (socket.bytesRead > bytesRead) return;
        if (served?.state === 'between') options.pipeline.limitReached('http1_idle_timeout', served.connection);
        socket.destroySoon();
      };
      behindReads(() => this.#entry(socket, late))();
    });
    this.#server.on('clientError', (error, socket) => this.#entry(socket, () => this.#clientError(error, socket)));
  }

  serve(connection: HttpConnection, { socket }: Incoming, bytes: Buffer): void {
    if (isVersionless(bytes)) {
      this.#options.pipeline.brokenHttp1(connection, 'no HTTP version');
      endWithStatus(socket, '400 Bad Request');
      return;
    }
    const overflow = (served: LibraryConnection): void =>
      this.#clientError(
        Object.assign(new Error('chunk extensions'), { code: 'HPE_CHUNK_EXTENSIONS_OVERFLOW' }),
        served.socket,
      );
    const served = new LibraryConnection(connection, socket, this.#options.pipeline, overflow);
    endBy(socket, () => {
      served.feed?.stop();
      endAfterLastBytes(socket, 'patient');
    });
    connection.occupant = served;
    this.#connections.set(socket, served);
    socket.once('close', () => {
      this.#connections.delete(socket);
      this.#forgetOverdue(served);
    });
    // Node names no encoding for a head with `Expect`, which one of a response may have: its other bytes would become UTF-8.
    socket.setDefaultEncoding('latin1');
    socket.once('end', () => socket.setTimeout(halfOpenMs, () => socket.destroy()));
    // Paused until then. Node's server makes a parser for each: those that come at once begin in turns.
    // Nothing can be put back on a stream that is over.
    const apart = socket.readableEnded ? bytes : nothing;
    served.bytesToCome = bytes.length;
    served.settle();
    if (!socket.readableEnded) putBack(socket, bytes);
    const begin = (): void => {
      if (socket.destroyed) return;
      this.#server.emit('connection', socket);
      served.feed = new SlicedFeed(socket, served, connection.keeper);
      served.bytesToCome = 0;
      served.settle();
      if (socket.readableEnded) served.feed.takeLast(apart);
      else socket.resume();
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

  /** From now on every response is the last of its connection. */
  drain(): void {
    this.#draining = true;
    for (const served of this.#connections.values()) served.announceEnd();
  }

  /** Ends connections that are between requests. */
  closeIdle(): void {
    for (const served of this.#connections.values()) served.retire();
  }

  close(): Promise<void> {
    this.#server.close(() => {});
    return this.#upstreams.close();
  }

  /**
   * Node hands over pipelined requests as fast as it parses them. Taken all at once, one client's burst would become as
   * many connections to the app, and its second request would be decided before the first was answered.
   */
  #request(request: http.IncomingMessage, response: http.ServerResponse): void {
    const served = this.#connections.get(request.socket);
    // Closed while it waited.
    if (served === undefined) return;
    served.handedOver++;
    if (served.state !== 'between') {
      served.waiting.push(() => this.#take(served, request, response));
      served.socket.pause();
    } else {
      this.#take(served, request, response);
    }
  }

  #take(served: LibraryConnection, request: http.IncomingMessage, response: http.ServerResponse): void {
    served.state = 'responding';
    // The fault is in the body of this very request, which will never be complete.
    if (served.refuse !== null && !request.complete) {
      served.waiting.length = 0;
      served.refuse();
      return;
    }
    const exchange = this.#exchange(served.connection, request, response);
    served.exchange = exchange;
    if (exchange === null) return;
    const over = (): void => this.#over(served);
    exchange.onOver = over;
    exchange.onSlow = served.lookAgain;
    // One final response or 100, never both: the permit comes before the client is asked for its body.
    const permitted = (): void => response.writeContinue();
    // HTTP/1.0 knows no 1xx, and would take it for the response (RFC 9110 10.1.1, 15.2).
    if (request.headers.expect !== undefined && request.httpVersion === '1.1') exchange.onPermitted = permitted;
    if (this.#draining || served.isRetiring) exchange.endConnection();
    serveExchange(this.#options.pipeline, this.#upstreams, served.connection, exchange);
  }

  #over(served: LibraryConnection): void {
    served.answered = served.exchange?.incomplete === true ? served.exchange : null;
    served.exchange = null;
    const { socket } = served;
    // Nothing is served behind a response that has ended the connection (RFC 9112 9.6).
    if (socket.writableEnded) served.waiting.length = 0;
    if (served.isWaiting) {
      // The others have their turn first: responses that need no app would follow each other without end.
      const begin = (): void => {
        const next = served.waiting.shift();
        served.settle();
        if (socket.destroyed || next === undefined) return;
        next();
        // Reading had stopped for what waited, and the rest of its content may not have come.
        if (served.state === 'responding') this.#readOn(served);
      };
      setImmediate(() => this.#entry(socket, begin));
      return;
    }
    served.state = 'between';
    this.#readOn(served);
    // A response that had begun before the drain did not say `connection: close`.
    if (this.#draining) served.retire();
    else served.fedAll();
  }

  #exchange(
    connection: HttpConnection,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): Http1Exchange | null {
    const head = scanRequestHeaders(request.rawHeaders);
    const target = readTarget(request.method as string, request.url as string);
    const fault = this.#faultOf(connection, request, head, target);
    if (fault !== null || target === null) {
      response.writeHead(Number.parseInt(faultStatus(fault ?? ''), 10), ['content-length', '0', 'connection', 'close']);
      response.end();
      return null;
    }
    return new Http1Exchange(connection.facts, this.#options.pipeline, request, response, target, head, 'message');
  }

  /** Why a request may not be decided, be it a message or a switch; one that may not is counted. */
  #faultOf(
    connection: HttpConnection,
    request: http.IncomingMessage,
    head: ScannedHead,
    target: Target | null,
  ): string | null {
    const fault = faultOf(request, head, target, this.#options.pipeline.limits.maxHeaderFields);
    if (fault !== null) this.#options.pipeline.brokenHttp1(connection, fault);
    return fault;
  }

  #tunnel(request: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    const served = this.#connections.get(request.socket);
    if (served === undefined) return;
    served.handedOver++;
    // Node has taken its own listener off, not ours; what it has not seen belongs to what it hands over.
    const rest = served.feed?.stop() ?? nothing;
    // Whoever reads on would lose what the client sends before the app has agreed.
    served.feed = null;
    const early = rest.length === 0 ? head : Buffer.concat([head, rest]);
    served.keepEarly(early.length);
    // Node no longer tells a response when there is room for more of it, be it one before this request or its own.
    socket.on('drain', () => served.exchange?.drained());
    if (served.state === 'between') this.#tunnelNow(served, request, socket, early);
    else served.waiting.push(() => this.#tunnelNow(served, request, socket, early));
  }

  #tunnelNow(served: LibraryConnection, request: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    const { connection } = served;
    served.state = 'responding';
    const scanned = scanRequestHeaders(request.rawHeaders);
    const isConnect = request.method === 'CONNECT';
    const target = isConnect ? connectTarget(request) : readTarget(request.method as string, request.url as string);
    const fault = this.#faultOf(connection, request, scanned, target);
    if (fault !== null || target === null) {
      endWithStatus(served.socket, faultStatus(fault ?? ''));
      return;
    }
    const response = responseOn(request, socket);
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
    served.exchange = exchange;
    const switched = (app: Duplex): void => served.leaveHttp(app);
    exchange.onSwitched = switched;
    // The connection ends behind any other response, and may take longer than the request.
    response.once('finish', () => {
      served.exchange = null;
    });
    // CONNECT says by its method what it wants (RFC 9110 7.8 is about requests that could go on without).
    const upgrade = isConnect ? null : scanned.upgrade;
    this.#upgrades.forward({ connection, exchange, response, socket, head, upgrade });
  }

  #clientError(error: Error & { code?: string }, socket: Duplex): void {
    const served = this.#connections.get(socket);
    const code = error.code ?? '';
    // A socket that failed says nothing about a message.
    if (served === undefined || !socket.writable || !/^(HPE|ERR_HTTP)_/.test(code)) {
      socket.destroy();
      return;
    }
    if (code === 'ERR_HTTP_REQUEST_TIMEOUT') this.#headLate(served, code);
    else this.#fault(served, code);
  }

  /** Node looks for late heads before it reads, and does not know what we have left unread. It does not look at one twice. */
  #headLate(served: LibraryConnection, code: string): void {
    const { handedOver } = served;
    const look = behindReads(() =>
      this.#entry(served.socket, () => {
        if (served.handedOver !== handedOver || served.refuse !== null || !served.socket.writable) return;
        // No more is read before the requests that wait have been answered: it has its time again from then on.
        if (served.isWaiting) this.#excuse(served, handedOver);
        else if (served.feed?.isResting === true) look();
        else this.#fault(served, code);
      }),
    );
    look();
  }

  #readOn(served: LibraryConnection): void {
    served.feed?.resume();
    const { overdueHead, handedOver } = served;
    if (overdueHead.kind !== 'excused') return;
    served.overdueHead = noneOverdue;
    if (overdueHead.handedOver !== handedOver) return;
    const deadline = new LateHead(served, () => {
      if (served.handedOver === handedOver) this.#headLate(served, 'ERR_HTTP_REQUEST_TIMEOUT');
    });
    served.overdueHead = { kind: 'read again', deadline };
    this.#lateHeads.add(deadline);
  }

  #excuse(served: LibraryConnection, handedOver: number): void {
    this.#forgetOverdue(served);
    served.overdueHead = { kind: 'excused', handedOver };
  }

  #forgetOverdue(served: LibraryConnection): void {
    if (served.overdueHead.kind === 'read again') this.#lateHeads.delete(served.overdueHead.deadline);
    served.overdueHead = noneOverdue;
  }

  /** Nothing of the connection can be read any further. */
  #fault(served: LibraryConnection, code: string): void {
    served.feed?.stop();
    if (served.exchange?.incomplete === true) {
      // The fault is in the body of the request that is being served: it has been decided, and counts as that.
      served.endWith(messageFaultOf(code), '');
      return;
    }
    if (served.answered?.incomplete === true) {
      // The same of one that has been answered: the client would take a second response for that to its next request.
      endAfterLastBytes(served.socket, 'impatient');
      return;
    }
    const refuse = (): void => endWithStatus(served.socket, messageRefusals[messageFaultOf(code)].line);
    this.#options.pipeline.brokenHttp1(served.connection, code);
    if (served.state !== 'between') {
      // It follows a sound request, which gets its response first (RFC 9112 9.3.2).
      served.refuse = refuse;
      served.waiting.push(refuse);
    } else {
      refuse();
    }
  }
}

/** The deadline of a head that is read again; see `OverdueHead`. */
class LateHead implements Expirable {
  line: Line<Expirable> | null = null;
  earlier: Expirable | null = null;
  later: Expirable | null = null;
  readonly since = performance.now();
  readonly expire: () => void;
  readonly #served: LibraryConnection;

  constructor(served: LibraryConnection, expire: () => void) {
    this.#served = served;
    this.expire = expire;
  }

  destroy(): void {
    this.#served.socket.destroy();
  }
}
