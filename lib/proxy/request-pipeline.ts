import { clientId } from '../client.ts';
import type { Authorizer, PortPolicy, RequestPermit } from '../policy/decision.ts';
import { type Application, serveApplication } from './application.ts';
import type { Exchange } from './exchange.ts';
import { applyHeaderChanges, headerValue, identityHeader } from './headers.ts';
import { forwardHttp1 } from './http1/forward.ts';
import { forwardHttp2 } from './http2/forward.ts';
import type { ConnectionScope, Recorder, RequestLog, RequestScope } from './recorder.ts';
import { type Failure, failures, refusalFor, upstreamFailure } from './refuse.ts';
import type { Endpoint, Upstreams } from './upstream.ts';

/** What stands behind a port. */
export type Destination =
  | { readonly kind: 'app'; readonly endpoint: Endpoint }
  /** An application inside this process: the admin server, which obeys policy like any other. */
  | { readonly kind: 'in-process'; readonly application: Application };

/** The HTTP half of an accepted connection. */
export interface HttpConnection {
  readonly scope: ConnectionScope;
  readonly policyPort: number;
  readonly destination: Destination;
}

export interface RequestPipelineOptions {
  readonly authorizer: Authorizer;
  readonly upstreams: Upstreams;
  readonly recorder: Recorder;
  /** Requests in flight in the whole process; one more is answered 503. */
  readonly maxInFlight: number;
}

/** How a permitted request leaves for the app. */
export type Carrier = 'http1' | 'http2';

/**
 * One request: decided against the policy of this very moment, then forwarded or refused. Both HTTP versions come
 * through here, so there is one order of events and one place that counts.
 */
export class RequestPipeline {
  readonly #authorizer: Authorizer;
  readonly #upstreams: Upstreams;
  readonly #access: Recorder['access'];
  readonly #maxInFlight: number;
  #inFlight = 0;

  constructor(options: RequestPipelineOptions) {
    this.#authorizer = options.authorizer;
    this.#upstreams = options.upstreams;
    this.#access = options.recorder.access;
    this.#maxInFlight = options.maxInFlight;
  }

  /** Null when the exchange was refused; the refusal has been sent and recorded. */
  decide(connection: HttpConnection, exchange: Exchange): { permit: RequestPermit; policy: PortPolicy } | null {
    const { scope } = connection;
    const policy = this.#authorizer.port(connection.policyPort);
    const decision = this.#authorizer.request(policy, scope.facts.client, exchange);
    scope.requestDecided(policy, decision, this.#logOf(policy, connection, exchange, decision), exchange.grpc);
    if (decision.kind === 'permit') return { permit: decision, policy };
    exchange.refuse(refusalFor(decision, scope.facts));
    return null;
  }

  /** Decides, then forwards by `carrier`, or to the application inside this process. */
  handle(connection: HttpConnection, exchange: Exchange, carrier: Carrier): void {
    const granted = this.decide(connection, exchange);
    if (granted === null) return;
    const { permit, policy } = granted;
    if (this.#inFlight >= this.#maxInFlight) {
      this.fail(connection, policy, exchange, failures.overload);
      return;
    }
    this.prepare(connection, permit, exchange);
    exchange.onPermitted?.();
    const scope = this.begin(connection, policy, permit, exchange);
    const failed = (error: unknown): void => this.fail(connection, policy, exchange, upstreamFailure(error));
    const { destination } = connection;
    if (destination.kind === 'in-process') {
      serveApplication(permit, exchange, scope, destination.application, failed);
    } else if (carrier === 'http2') {
      forwardHttp2(permit, exchange, scope, this.#upstreams.http2(destination.endpoint), failed);
    } else {
      forwardHttp1(permit, exchange, scope, this.#upstreams.http1(destination.endpoint), failed);
    }
  }

  /** Puts the trusted identity on, and the route's header changes. Nothing a client sent under that name is left. */
  prepare(connection: HttpConnection, permit: RequestPermit, exchange: Exchange): void {
    const id = clientId(connection.scope.facts.client);
    if (id !== null) exchange.forwardHeaders.push(identityHeader, id);
    if (permit.headerChanges !== null) {
      const changed = applyHeaderChanges(exchange.forwardHeaders, permit.headerChanges);
      exchange.forwardHeaders.splice(0, exchange.forwardHeaders.length, ...changed);
    }
  }

  /** Counts the request in, and out again when its response has ended. */
  begin(connection: HttpConnection, policy: PortPolicy, permit: RequestPermit, exchange: Exchange): RequestScope {
    this.#inFlight++;
    const scope = connection.scope.requestStarted(policy, permit, exchange.grpc);
    return new CountedScope(scope, () => {
      this.#inFlight--;
    });
  }

  fail(connection: HttpConnection, policy: PortPolicy, exchange: Exchange, failure: Failure): void {
    connection.scope.httpError(
      policy,
      failure.label,
      failure.refusal.message,
      this.#logOf(policy, connection, exchange, null),
    );
    exchange.refuse(failure.refusal);
  }

  /** Writes the access log line; exchanges call this when their response headers are ready. */
  accessed(
    exchange: Exchange,
    status: number,
    responseHeaders: readonly string[],
    startedAt: number,
    headAt: number,
  ): void {
    if (this.#access === null) return;
    const request = exchange.forwardHeaders;
    const traceId =
      headerValue(request, 'x-b3-traceid') ??
      headerValue(request, 'x-request-id') ??
      headerValue(request, 'x-amzn-trace-id') ??
      '';
    this.#access(exchange.connection, {
      host: exchange.host,
      method: exchange.method,
      uri: exchange.target,
      version: exchange.version,
      status,
      userAgent: headerValue(request, 'user-agent') ?? '',
      traceId,
      requestBytes: headerValue(request, 'content-length') ?? '',
      responseBytes: headerValue(responseHeaders, 'content-length') ?? '',
      totalMs: performance.now() - startedAt,
      processingMs: headAt - startedAt,
    });
  }

  #logOf(
    policy: PortPolicy,
    connection: HttpConnection,
    exchange: Exchange,
    decision: Parameters<Authorizer['requestReasons']>[3] | null,
  ): RequestLog {
    return new LazyLog(this.#authorizer, policy, connection, exchange, decision);
  }
}

/** Reasons cost a second walk through the policy, so they are computed only when a line is written. */
class LazyLog implements RequestLog {
  readonly #authorizer: Authorizer;
  readonly #policy: PortPolicy;
  readonly #connection: HttpConnection;
  readonly #exchange: Exchange;
  readonly #decision: Parameters<Authorizer['requestReasons']>[3] | null;

  constructor(
    authorizer: Authorizer,
    policy: PortPolicy,
    connection: HttpConnection,
    exchange: Exchange,
    decision: Parameters<Authorizer['requestReasons']>[3] | null,
  ) {
    this.#authorizer = authorizer;
    this.#policy = policy;
    this.#connection = connection;
    this.#exchange = exchange;
    this.#decision = decision;
  }

  get method(): string {
    return this.#exchange.method;
  }
  get path(): string {
    return this.#exchange.path;
  }
  get host(): string {
    return this.#exchange.host;
  }
  get version(): string {
    return this.#exchange.version;
  }
  reasons(): ReturnType<RequestLog['reasons']> {
    if (this.#decision === null) return { reason: '', candidates: [] };
    const { client } = this.#connection.scope.facts;
    return this.#authorizer.requestReasons(this.#policy, client, this.#exchange, this.#decision);
  }
}

/** Lets the pipeline know of the end of a request, once. */
class CountedScope implements RequestScope {
  readonly #inner: RequestScope;
  #ended: (() => void) | null;

  constructor(inner: RequestScope, ended: () => void) {
    this.#inner = inner;
    this.#ended = ended;
  }
  requestFrame(bytes: number): void {
    this.#inner.requestFrame(bytes);
  }
  requestEnded(): void {
    this.#inner.requestEnded();
  }
  responseHead(status: number): void {
    this.#inner.responseHead(status);
  }
  responseFrame(bytes: number): void {
    this.#inner.responseFrame(bytes);
  }
  responseEnded(grpcStatus: string | null, error: string): void {
    if (this.#ended === null) return;
    this.#ended();
    this.#ended = null;
    this.#inner.responseEnded(grpcStatus, error);
  }
}
