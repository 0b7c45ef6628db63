import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createProxyServer } from 'http-proxy';
import type { Dispatcher } from 'undici';
import type { PortPolicy, RequestPermit } from '../../policy/decision.ts';
import type { Endpoint } from '../endpoint.ts';
import type { HeaderList } from '../headers.ts';
import type { RequestScope } from '../recorder.ts';
import { failures, upstreamFailure } from '../refuse.ts';
import type { HttpConnection, RequestPipeline } from '../request-pipeline.ts';
import { resetOrDestroy, splice } from '../tcp/forward.ts';
import type { Upstreams } from '../upstream.ts';
import type { Http1Exchange } from './exchange.ts';
import { forwardHttp1 } from './forward.ts';
import { endWith } from './last-answer.ts';

export interface UpgradeRequest {
  readonly connection: HttpConnection;
  readonly exchange: Http1Exchange;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Duplex;
  /** Bytes the client sent after the request head; they wait until the app has switched. */
  readonly head: Buffer;
  readonly upgrade: string | null;
}

/**
 * Upgrades and CONNECT: the request is decided like any other, and becomes a tunnel only when the app has agreed
 * (101, or 2xx for CONNECT). Until then the client's early bytes wait; afterwards neither socket is ever pooled.
 * WebSocket goes through http-proxy, other protocols and CONNECT through undici's own upgrade.
 */
export class UpgradeForwarder {
  readonly #pipeline: RequestPipeline;
  readonly #upstreams: Upstreams;
  readonly #proxy = createProxyServer({});
  readonly #webSockets = new WeakMap<IncomingMessage, WebSocketTunnel>();

  constructor(pipeline: RequestPipeline, upstreams: Upstreams) {
    this.#pipeline = pipeline;
    this.#upstreams = upstreams;
    // Emitted synchronously by ws() below, before anything is sent: the outgoing request is made afresh from ours.
    this.#proxy.on('proxyReqWs', (outgoing, request) => this.#webSockets.get(request)?.prepare(outgoing));
    // Errors reach the callback of ws(); without a listener a late one would end the process.
    this.#proxy.on('error', () => {});
  }

  forward(upgrade: UpgradeRequest): void {
    const { connection, exchange, request, response, socket } = upgrade;
    socket.on('error', () => socket.destroy());
    // The parser has let go of this socket, so after any answer but a switch it must end. What the client still sends is
    // read away: a socket that nobody reads would never notice that its client is gone.
    response.once('finish', () => endWith(socket as Socket, null));
    const granted = this.#pipeline.decide(connection, exchange);
    if (granted === null) return;
    const { permit, policy } = granted;
    if (connection.destination.kind !== 'app') {
      this.#pipeline.fail(connection, policy, exchange, failures.badRequest);
      return;
    }
    const { endpoint } = connection.destination;
    this.#pipeline.prepare(connection, permit, exchange);
    const scope = this.#pipeline.begin(connection, policy, permit, exchange.grpc);
    scope.requestFrame(0);
    scope.requestEnded();
    if (exchange.method === 'GET' && upgrade.upgrade?.toLowerCase() === 'websocket') {
      this.#webSocket(permit, policy, upgrade, endpoint, scope, request);
    } else {
      this.#other(permit, policy, upgrade, endpoint, scope);
    }
  }

  #webSocket(
    _permit: RequestPermit,
    policy: PortPolicy,
    upgrade: UpgradeRequest,
    endpoint: Endpoint,
    scope: RequestScope,
    request: IncomingMessage,
  ): void {
    const { connection, exchange, socket, head } = upgrade;
    const tunnel = new WebSocketTunnel(exchange, scope, socket);
    this.#webSockets.set(request, tunnel);
    const target = { protocol: 'http:', host: endpoint.host, port: endpoint.port };
    const agent = this.#upstreams.agent(endpoint);
    this.#proxy.ws(request, socket as Socket, head, { target, agent }, (error) => {
      if (tunnel.answered) {
        resetOrDestroy(socket);
      } else {
        this.#pipeline.fail(connection, policy, exchange, upstreamFailure(error));
      }
      scope.responseEnded(null, 'unclassified');
    });
  }

  #other(
    permit: RequestPermit,
    policy: PortPolicy,
    upgrade: UpgradeRequest,
    endpoint: Endpoint,
    scope: RequestScope,
  ): void {
    const { connection, exchange, socket, head } = upgrade;
    const dispatcher = this.#upstreams.http1(endpoint);
    const failed = (error: unknown): void => this.#pipeline.fail(connection, policy, exchange, upstreamFailure(error));
    const switched = (status: number, headers: HeaderList, app: Duplex): void => {
      scope.responseHead(status);
      scope.responseEnded(null, '');
      exchange.switched(status, upgrade.upgrade, headers);
      if (head.length > 0) socket.unshift(head);
      tie(socket, app);
    };
    forwardHttp1(permit, exchange, scope, asUpgrade(dispatcher, upgrade.upgrade), failed, switched);
  }
}

/** One WebSocket handshake on its way through http-proxy. */
class WebSocketTunnel {
  readonly #exchange: Http1Exchange;
  readonly #scope: RequestScope;
  readonly #socket: Duplex;
  /** The app has answered, so no refusal can be sent any more. */
  answered = false;

  constructor(exchange: Http1Exchange, scope: RequestScope, socket: Duplex) {
    this.#exchange = exchange;
    this.#scope = scope;
    this.#socket = socket;
  }

  prepare(outgoing: ClientRequest): void {
    for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name);
    const { forwardHeaders } = this.#exchange;
    for (let i = 0; i + 1 < forwardHeaders.length; i += 2) {
      outgoing.appendHeader(forwardHeaders[i] as string, forwardHeaders[i + 1] as string);
    }
    outgoing.setHeader('Connection', 'Upgrade');
    outgoing.setHeader('Upgrade', 'websocket');
    // http-proxy joins and normalizes paths; the app must get the one that policy decided on.
    outgoing.path = this.#exchange.target;
    this.#exchange.onAborted = () => {
      outgoing.destroy();
      this.#scope.responseEnded(null, '');
    };
    outgoing.once('upgrade', (answer) => {
      this.answered = true;
      this.#scope.responseHead(101);
      this.#scope.responseEnded(null, '');
      this.#exchange.switchedElsewhere(101, answer.rawHeaders);
    });
    outgoing.once('response', (answer) => {
      this.answered = true;
      const status = answer.statusCode ?? 0;
      this.#scope.responseHead(status);
      this.#exchange.switchedElsewhere(status, answer.rawHeaders);
      answer.on('data', (chunk: Buffer) => {
        this.#scope.responseFrame(chunk.length);
        // http-proxy relays this body without looking at the client's pace.
        if (!this.#socket.writableNeedDrain) return;
        answer.pause();
        this.#socket.once('drain', () => answer.resume());
      });
      answer.once('close', () => this.#scope.responseEnded(null, answer.complete ? '' : 'unclassified'));
    });
  }
}

/** The same dispatcher, asking for `protocol` (nothing to ask for with CONNECT: the method says it). */
function asUpgrade(dispatcher: Dispatcher, protocol: string | null): Pick<Dispatcher, 'dispatch'> {
  if (protocol === null) return dispatcher;
  return { dispatch: (options, handler) => dispatcher.dispatch({ ...options, upgrade: protocol }, handler) };
}

/** Joins two sockets for good: each end and each reset passes on. */
function tie(client: Duplex, app: Duplex): void {
  app.on('error', () => resetOrDestroy(client));
  client.on('error', () => resetOrDestroy(app));
  app.once('close', () => (app.readableEnded ? client.end() : resetOrDestroy(client)));
  client.once('close', () => (client.readableEnded ? app.end() : resetOrDestroy(app)));
  splice(client, app);
}
