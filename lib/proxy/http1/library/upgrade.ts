import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { createProxyServer } from 'http-proxy';
import { CodedError } from '../../../errors/coded-error.ts';
import { agreesTo } from '../../../http-message.ts';
import type { HeaderList } from '../../../request-fields.ts';
import { guarded } from '../../guard.ts';
import type { Admitted, AdmittedNow, Refused } from '../../http/admitted.ts';
import { scanResponseHeaders, without } from '../../http/headers.ts';
import { endAfterLastBytes } from '../../http/last-bytes.ts';
import { outgoingFields } from '../../http/outgoing-fields.ts';
import { failures, upstreamFailure } from '../../http/refuse.ts';
import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import type { RequestScope } from '../../recorder.ts';
import { resetOrDestroy } from '../../resets.ts';
import { carryGuarded } from '../../tcp/guarded-opening.ts';
import { carry } from '../../tcp/lent-reads.ts';
import { tie, tieEnds } from '../../tcp/tunnel-ends.ts';
import type { Endpoint } from '../../upstream/endpoint.ts';
import type { Http1Exchange } from './exchange.ts';
import { forwardHttp1 } from './forward.ts';
import type { LibraryUpstreams } from './library-upstreams.ts';
import { otherSideClosed, type Sender } from './undici-pool.ts';

export interface UpgradeRequest {
  readonly connection: HttpConnection;
  readonly exchange: Http1Exchange;
  readonly response: ServerResponse;
  readonly socket: Duplex;
  /** Bytes the client sent after the request head; they wait until the app has switched. */
  readonly head: Buffer;
  readonly upgrade: string | null;
}

const nothing = Buffer.alloc(0);

type Proxy = ReturnType<typeof createProxyServer<typeof IncomingMessage, typeof ServerResponse, Error>>;

/**
 * Upgrades and CONNECT: the request is decided like any other, and becomes a tunnel only when the app has agreed
 * (101, or 2xx for CONNECT). Until then the client's early bytes wait; afterwards neither socket is ever pooled.
 * WebSocket is asked for by http-proxy, other protocols and CONNECT by undici; the tunnel is the same for all.
 */
export class UpgradeForwarder {
  readonly #pipeline: RequestPipeline;
  readonly #upstreams: LibraryUpstreams;
  #proxy: Proxy | null = null;
  readonly #webSockets = new WeakMap<IncomingMessage, WebSocketTunnel>();

  constructor(pipeline: RequestPipeline, upstreams: LibraryUpstreams) {
    this.#pipeline = pipeline;
    this.#upstreams = upstreams;
  }

  forward(upgrade: UpgradeRequest): void {
    const { connection, exchange, response, socket } = upgrade;
    socket.on('error', () => socket.destroy());
    // The parser has let go of this socket, so after any response but a switch it must end. What the client still sends is
    // read away: a socket that nobody reads would never notice that its client is gone.
    response.once('finish', () => endAfterLastBytes(socket as Socket, 'patient'));
    const admitted = this.#pipeline.admit(connection, exchange);
    if (admitted.kind === 'refused') {
      exchange.refuse(admitted.refusal);
      return;
    }
    exchange.admitted = admitted;
    const { scope } = admitted;
    scope.requestFrame(0);
    scope.requestEnded();
    if (connection.destination.kind !== 'app') {
      this.#pipeline.fail(connection, admitted, exchange, failures.noUpgrade);
      scope.responseEnded(null, 'unclassified');
      return;
    }
    const { endpoint } = connection.destination;
    if (exchange.method === 'GET' && upgrade.upgrade?.toLowerCase() === 'websocket') {
      this.#connectForWebSocket(admitted, upgrade, endpoint);
    } else {
      this.#other(admitted, upgrade, endpoint);
    }
  }

  /** See `RequestPipeline`. */
  #admitLate({ connection, exchange }: UpgradeRequest, before: Admitted): AdmittedNow | Refused {
    const late = this.#pipeline.admitLate(connection, exchange, before);
    if (late.kind === 'admitted') exchange.admitted = late;
    return late;
  }

  /** First the connection: http-proxy writes a head before it has one, and what waits could not be asked about again. */
  #connectForWebSocket(before: Admitted, upgrade: UpgradeRequest, endpoint: Endpoint): void {
    const { connection, exchange, socket } = upgrade;
    const connected = (error: Error | null, app: Socket): void => {
      exchange.onAborted = null;
      if (error !== null) {
        this.#pipeline.fail(connection, before, exchange, upstreamFailure(error));
        before.scope.responseEnded(null, 'unclassified');
        return;
      }
      const admitted = this.#admitLate(upgrade, before);
      if (admitted.kind === 'admitted') {
        this.#webSocket(admitted, upgrade, endpoint, app);
        return;
      }
      app.destroy();
      exchange.refuse(admitted.refusal);
      before.scope.responseEnded(null, '');
    };
    const pending = this.#upstreams.connect(before, endpoint, guarded(entry, socket, connected));
    const aborted = (): void => {
      pending.cancel();
      before.scope.responseEnded(null, '');
    };
    exchange.onAborted = aborted;
  }

  /** @param app connected, and nobody else's. */
  #webSocket(admitted: AdmittedNow, upgrade: UpgradeRequest, endpoint: Endpoint, app: Socket): void {
    const { connection, exchange, socket } = upgrade;
    const tunnel = new WebSocketTunnel(admitted, upgrade, this.#fields(upgrade, admitted));
    const request = handshake();
    this.#webSockets.set(request, tunnel);
    const target = { protocol: 'http:', host: endpoint.host, port: endpoint.port };
    const agent = this.#upstreams.agent(admitted, app);
    const failed = (error: unknown): void => {
      // Its own error, for having been given up.
      if (tunnel.state === 'given up') return;
      if (tunnel.state === 'answered') resetOrDestroy(socket);
      else this.#pipeline.fail(connection, admitted, exchange, upstreamFailure(error));
      admitted.scope.responseEnded(null, 'unclassified');
    };
    this.#proxy ??= this.#loadProxy();
    this.#proxy.ws(request, socket as Socket, nothing, { target, agent }, guarded(entry, socket, failed));
    const broke = (): void =>
      this.#pipeline.fail(connection, admitted, exchange, upstreamFailure(new Error(otherSideClosed)));
    tunnel.begun(broke);
  }

  /** Fifteen files that most sidecars never need: a start is not to wait for them. */
  #loadProxy(): Proxy {
    const library = createRequire(import.meta.url)('http-proxy') as {
      readonly createProxyServer: typeof createProxyServer;
    };
    const proxy = library.createProxyServer({});
    // Emitted synchronously by ws(), before anything is sent.
    proxy.on('proxyReqWs', (outgoing, request) => this.#webSockets.get(request)?.prepare(outgoing));
    // Errors reach the callback of ws(); without a listener a late one would end the process.
    proxy.on('error', () => {});
    return proxy;
  }

  /** There is no body that trailers could follow, and Node refuses to write what announces some. */
  #fields({ connection, exchange }: UpgradeRequest, admitted: Admitted): HeaderList {
    return without(outgoingFields(connection.facts.client, admitted, exchange.forwardHeaders), 'trailer');
  }

  #other(admitted: Admitted, upgrade: UpgradeRequest, endpoint: Endpoint): void {
    const { connection, exchange, socket, head } = upgrade;
    const { scope } = admitted;
    const sender = this.#upstreams.pool(admitted, endpoint);
    const failed = (error: unknown): void =>
      this.#pipeline.fail(connection, exchange.admitted ?? admitted, exchange, upstreamFailure(error));
    const switched = (status: number, headers: HeaderList, app: Duplex, protocol: string): void => {
      // undici takes any response to CONNECT for a tunnel; what is not 2xx is none (RFC 9110 9.3.6), and HTTP goes on.
      if (upgrade.upgrade === null && (status < 200 || status > 299)) {
        app.destroy();
        if (status >= 200) {
          refused(exchange, scope, status, headers);
        } else {
          failed(new Error('an interim response to CONNECT'));
          scope.responseEnded(null, 'unclassified');
        }
        return;
      }
      if (upgrade.upgrade !== null) {
        if (agreesTo(upgrade.upgrade, protocol)) {
          leaveHttp(upgrade, scope, protocol, headers, app);
          return;
        }
        // To h2c, say, which nobody may ask for: what the client would send then is decided by nobody.
        app.destroy();
        failed(agreedToElse());
        scope.responseEnded(null, 'unclassified');
        return;
      }
      scope.responseHead(status);
      scope.responseEnded(null, '');
      exchange.switched(status, null, headers, app);
      tieEnds(socket, app);
      carry(app, socket, connection.keeper);
      carryGuarded(socket, app, head, connection.keeper, () => {
        this.#pipeline.brokenHttp1(connection, 'a request in a tunnel of CONNECT');
        resetOrDestroy(app);
        resetOrDestroy(socket);
      });
    };
    forwardHttp1(admitted, exchange, asUpgrade(sender, upgrade.upgrade), {
      fields: (by) => this.#fields(upgrade, by),
      admitLate: (before) => this.#admitLate(upgrade, before),
      failed,
      switched,
    });
  }
}

/** The app has agreed to an upgrade: from here on both connections carry `protocol`. */
function leaveHttp(
  upgrade: UpgradeRequest,
  scope: RequestScope,
  protocol: string,
  headers: HeaderList,
  app: Duplex,
): void {
  const { exchange, socket, head } = upgrade;
  scope.responseHead(101);
  scope.responseEnded(null, '');
  exchange.switched(101, protocol, headers, app);
  if (head.length > 0) app.write(head);
  tie(socket, app, upgrade.connection.keeper);
}

/** The app's response to CONNECT is no tunnel: it goes on without its content, which undici has not read as such. */
function refused(exchange: Http1Exchange, scope: RequestScope, status: number, headers: HeaderList): void {
  scope.responseHead(status);
  exchange.respond(status, '', [...without(headers, 'content-length'), 'content-length', '0'], false);
  exchange.end([]);
  scope.responseEnded(null, '');
}

function agreedToElse(): CodedError {
  return new CodedError('ERR_SALLYPORT_BAD_RESPONSE', 'an agreement to something else');
}

/** Where a fault of ours was met. */
const entry = 'HTTP/1, an upgrade';

/**
 * All that http-proxy gets to see of a WebSocket handshake. It would copy whatever it is given into its own request, and
 * Node stores some heads (`Expect`) the moment they are copied: the client's own must not be there to be copied.
 */
function handshake(): IncomingMessage {
  const headers = { connection: 'Upgrade', upgrade: 'websocket' };
  const seen = { method: 'GET', url: '/', httpVersion: '1.1', httpVersionMajor: 1, httpVersionMinor: 1, headers };
  return seen as unknown as IncomingMessage;
}

/** One WebSocket handshake on its way through http-proxy. */
class WebSocketTunnel {
  readonly #scope: RequestScope;
  readonly #upgrade: UpgradeRequest;
  readonly #exchange: Http1Exchange;
  readonly #socket: Duplex;
  readonly #fields: HeaderList;
  #outgoing: ClientRequest | null = null;
  /**
   * `answered`: the app has responded, so that no refusal can be sent any more. `given up`, for good: the client is gone, or has
   * its answer already.
   */
  state: 'asked' | 'answered' | 'given up' = 'asked';

  constructor({ scope }: Admitted, upgrade: UpgradeRequest, fields: HeaderList) {
    this.#scope = scope;
    this.#upgrade = upgrade;
    this.#exchange = upgrade.exchange;
    this.#socket = upgrade.socket;
    this.#fields = fields;
  }

  /** Writes the whole head of the request to the app. */
  prepare(outgoing: ClientRequest): void {
    this.#outgoing = outgoing;
    // First of all: whatever goes wrong below, the request to the app ends with the client's connection.
    const aborted = (): void => {
      this.state = 'given up';
      outgoing.destroy();
      this.#scope.responseEnded(null, '');
    };
    this.#exchange.onAborted = aborted;
    for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name);
    for (let i = 0; i + 1 < this.#fields.length; i += 2) {
      outgoing.appendHeader(this.#fields[i] as string, this.#fields[i + 1] as string);
    }
    outgoing.setHeader('Connection', 'Upgrade');
    outgoing.setHeader('Upgrade', 'websocket');
    // http-proxy joins and normalizes paths; the app must get the one that policy decided on.
    outgoing.path = this.#exchange.target;
  }

  /**
   * Once http-proxy has begun. It would end the app's side in order, however the client's has ended; and a response that is no
   * switch goes out like any other, not in its own framing.
   *
   * @param broke the app has ended it within.
   */
  begun(broke: () => void): void {
    const agreed = (response: IncomingMessage, app: Socket, first: Buffer): void => {
      if (response.headers.upgrade?.toLowerCase() !== 'websocket') {
        app.destroy();
        this.#outgoing?.emit('error', agreedToElse());
        return;
      }
      this.#answered();
      if (first.length > 0) app.unshift(first);
      leaveHttp(this.#upgrade, this.#scope, 'websocket', scanResponseHeaders(response.rawHeaders), app);
    };
    const declined = (response: IncomingMessage): void => this.#declined(response, broke);
    this.#outgoing?.removeAllListeners('upgrade').once('upgrade', guarded(entry, this.#socket, agreed));
    this.#outgoing?.removeAllListeners('response').once('response', guarded(entry, this.#socket, declined));
  }

  #answered(): void {
    if (this.state === 'asked') this.state = 'answered';
  }

  #declined(response: IncomingMessage, broke: () => void): void {
    this.#answered();
    const { statusCode: status = 0, statusMessage = '' } = response;
    this.#scope.responseHead(status);
    const hasBody = status !== 204 && status !== 304;
    this.#exchange.respond(status, statusMessage, scanResponseHeaders(response.rawHeaders), hasBody);
    const content = (chunk: Buffer): void => {
      this.#scope.responseFrame(chunk.length);
      if (this.#exchange.write(chunk)) return;
      response.pause();
      this.#exchange.onDrain(() => response.resume());
    };
    const closed = (): void => {
      if (response.complete) this.#exchange.end(scanResponseHeaders(response.rawTrailers));
      else if (this.state === 'given up') this.#exchange.abort();
      else broke();
      this.#scope.responseEnded(null, response.complete ? '' : 'unclassified');
    };
    response.on('data', guarded(entry, this.#socket, content));
    response.once('close', guarded(entry, this.#socket, closed));
  }
}

/** The same sender, asking for `protocol` (nothing to ask for with CONNECT: the method says it). */
function asUpgrade(sender: Sender, protocol: string | null): Sender {
  if (protocol === null) return sender;
  return {
    dispatch: (options, handler, mayLeave) => sender.dispatch({ ...options, upgrade: protocol }, handler, mayLeave),
  };
}
