import { hostPort } from '../../ip.ts';
import type { Authorizer, PortPolicy, RequestDecision, RequestPermit } from '../../policy/decision.ts';
import type { ConnectionFacts } from '../connection-facts.ts';
import type { BufferBudget } from '../fairness/buffer-budget.ts';
import { type Count, OwnCount } from '../fairness/count.ts';
import type { Rechecked, Slice } from '../fairness/rechecks.ts';
import type { Keeper } from '../kept.ts';
import { type LimitName, type Limits, limitsOfFaults } from '../limits.ts';
import type { ConnectionScope, Recorder, RequestFailure, RequestScope } from '../recorder.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { Admitted, AdmittedNow, Refused } from './admitted.ts';
import type { Application } from './application.ts';
import type { Exchange, Request } from './exchange.ts';
import { fieldValues } from './field-lines.ts';
import { headerValue } from './headers.ts';
import { HeldHeads, smallHead } from './held-heads.ts';
import { LazyLog } from './lazy-log.ts';
import {
  brokenDetail,
  type Failure,
  failureDetail,
  failures,
  type MessageFault,
  messageRefusals,
  refusalFor,
} from './refuse.ts';

/** What stands behind a port. */
export type Destination =
  | { readonly kind: 'app'; readonly endpoint: Endpoint }
  /** The app as it speaks TLS, asked by an application of ours: a load on both like any other. */
  | { readonly kind: 'app-in-tls'; readonly endpoint: Endpoint; readonly application: Application }
  /** An application inside this process: the admin server, which obeys policy like any other. */
  | { readonly kind: 'in-process'; readonly application: Application };

/** What serves a connection's requests, as the code that watches all connections sees it. */
export interface Occupant {
  /** No request is under way. */
  readonly betweenRequests: boolean;
  /** Content that the client has announced has not come yet: because of the client, or of an app that does not read it. */
  readonly awaitsContent: boolean;
  /** Bytes that wait for the app in sockets; everything else is charged to the connection's `keeper` when it is kept. */
  readonly heldForApp: number;
  /** It has left HTTP. */
  readonly isTunnel: boolean;
  /** Finish what is in flight, then close; if there is nothing, close at once. */
  retire(): void;
  /** No more of the awaited content has come for too long: 408, or 504 where it is the app that does not read it. */
  giveUp(): void;
  /** Ends requests that began before `since`, on the clock of `performance.now()`. Only asked where requests have a deadline. */
  endOverdue(since: number): void;
  /** Decides again on what is under way, since policy has changed, and ends what it refuses now. */
  recheck(slice: Slice): Rechecked;
}

/** The HTTP half of an accepted connection. */
export interface HttpConnection {
  /** What every request of the connection is decided on. */
  readonly facts: ConnectionFacts;
  /** Where the connection is recorded; nothing is read from it. */
  readonly scope: ConnectionScope;
  readonly policyPort: number;
  readonly destination: Destination;
  /** Who pays for what is kept of it. */
  readonly keeper: Keeper;
  /** Set by the lane that takes the connection over. */
  occupant: Occupant | null;
  /** What is watched closely until the first request is permitted; null from then on, and where nothing is. */
  untilPermit: { release(): void } | null;
  /**
   * Whether what its client's identity rests on is as sound as at its handshake: no anchor that it needs has gone, and nothing has
   * expired. Null where it has none. Costs more than a comparison only where that may have changed.
   */
  readonly isVouchedFor: (() => boolean) | null;
}

/** `tunnels`: what leaves HTTP, or is about to, and might last for ever; other requests are served to their end. */
export type PolicyChangeEnds = 'all' | 'tunnels';

export interface RequestPipelineOptions {
  readonly authorizer: Authorizer;
  readonly recorder: Recorder;
  readonly limits: Limits;
  readonly budget: BufferBudget;
  /** Requests, of this thread alone where it is left out. */
  readonly inFlight?: Count | undefined;
  /** What a policy that refuses it by now ends of what is under way; all where it is left out. */
  readonly policyChangeEnds?: PolicyChangeEnds | undefined;
}

/**
 * One request: decided against the policy of this very moment, then forwarded or refused. Both HTTP versions come
 * through here, so there is one order of events and one place that counts.
 */
export class RequestPipeline {
  readonly #authorizer: Authorizer;
  /** For whatever serves requests: the lanes, their connections and streams. */
  readonly limits: Limits;
  readonly budget: BufferBudget;
  /** Of every HTTP version. */
  readonly heads: HeldHeads;
  readonly #recorder: Pick<Recorder, 'access' | 'limitReached'>;
  readonly #access: Recorder['access'];
  readonly #inFlight: Count;
  readonly #policyChangeEnds: PolicyChangeEnds;
  readonly #ended = (): void => this.#inFlight.remove();

  constructor(options: RequestPipelineOptions) {
    this.#authorizer = options.authorizer;
    this.#access = options.recorder.access;
    this.limits = options.limits;
    this.budget = options.budget;
    this.#recorder = options.recorder;
    this.#inFlight = options.inFlight ?? new OwnCount();
    this.#policyChangeEnds = options.policyChangeEnds ?? 'all';
    const { maxBufferedBytes, maxHeaderBytes } = options.limits;
    // The other half is for what waits, which no request that the app has gives way to; and one of the largest has room, as it is received and as it is sent.
    this.heads = new HeldHeads(Math.max(2 * maxHeaderBytes, maxBufferedBytes / 2));
  }

  /** Whether `accessed` writes anything. */
  get logsAccess(): boolean {
    return this.#access !== null;
  }

  /** Whether the time at which a request began is needed. */
  get needsStart(): boolean {
    return this.#access !== null || this.limits.requestTimeoutMs !== Number.POSITIVE_INFINITY;
  }

  /**
   * The one way in, for requests, upgrades and CONNECT of every HTTP version: decides by the policy in force now, holds to
   * the bounds on requests in flight and on their heads, records all that, and counts in what it lets through.
   */
  admit(connection: HttpConnection, request: Request): AdmittedNow | Refused {
    const { scope } = connection;
    const policy = this.#authorizer.port(connection.policyPort);
    const decision = this.#decide(policy, connection, request);
    const log = new LazyLog(this.#authorizer, policy, connection, request, decision);
    scope.requestDecided(policy, decision, log);
    if (decision.kind !== 'permit') {
      return { kind: 'refused', policy, refusal: refusalFor(decision, connection.facts) };
    }
    if (connection.untilPermit !== null) {
      connection.untilPermit.release();
      connection.untilPermit = null;
    }
    const ended = this.#take(connection, request);
    if (typeof ended === 'string') {
      this.limitReached(ended, connection);
      this.failed(connection, { policy, scope: null }, request, failures.overload);
      return { kind: 'refused', policy, refusal: failures.overload.refusal };
    }
    const started = scope.requestStarted(policy, decision, request.grpc, ended, request);
    return admittedNow(this.#authorizer, policy, decision, started);
  }

  /**
   * The one way on for a request that was admitted and has waited, whatever for: for content, a connect, a place in a pool, room on
   * a session, or for being sent again. Who waits may choose how long, and the policy may be another by then. A refusal is
   * recorded like any; the response is left to do.
   *
   * @returns evidence that it may be sent in this turn: `admitted` itself where nothing has changed. By another policy it may be
   * another permit, of which the head for the app is made anew.
   */
  admitLate(connection: HttpConnection, request: Request, admitted: Admitted): AdmittedNow | Refused {
    const isVouchedFor = connection.isVouchedFor?.() ?? true;
    if (admitted.isCurrent && isVouchedFor) return admitted as AdmittedNow;
    const policy = this.#authorizer.port(connection.policyPort);
    const lapse = isVouchedFor ? this.#networkRefusal(connection) : 'nobody vouches for the client any more';
    const decision: RequestDecision =
      lapse === null
        ? this.#decide(policy, connection, request, admitted.policy)
        : { kind: 'deny', server: policy.server, route: admitted.permit.route };
    if (decision.kind === 'permit') return admittedNow(this.#authorizer, policy, decision, admitted.scope);
    const log = new LazyLog(this.#authorizer, policy, connection, request, decision, lapse);
    connection.scope.requestDecided(policy, decision, log);
    const refusal = refusalFor(decision, connection.facts);
    admitted.scope.refused(refusal.status, refusal.grpc);
    return { kind: 'refused', policy, refusal };
  }

  /** Why NetworkPolicies would not let the connection in any more; null where they would. It is about to end. */
  #networkRefusal({ policyPort, facts }: HttpConnection): string | null {
    const { ip } = facts.client;
    if (this.#authorizer.admits(policyPort, ip).kind === 'admitted') return null;
    return this.#authorizer.admissionReasons(policyPort, ip).reason;
  }

  /**
   * Decides again on what was admitted and is under way, be it a tunnel by now, when the policy may be another: by the facts by
   * which it was admitted, but for the rate limit, which is for what begins. A refusal is recorded as an end; the response, or to
   * break it off, is left to do.
   */
  recheck(connection: HttpConnection, request: Request, admitted: Admitted): Admitted | Refused {
    const policy = this.#authorizer.port(connection.policyPort);
    if (policy === admitted.policy) return admitted;
    if (this.#policyChangeEnds === 'tunnels' && request.carries !== 'upgrade') return admitted;
    const { client } = connection.facts;
    const decision = policy.decisionsLast
      ? this.#decide(policy, connection, request)
      : this.#authorizer.requestAgain(policy, client, request);
    if (decision.kind === 'permit') return admittedNow(this.#authorizer, policy, decision, admitted.scope);
    const log = new LazyLog(this.#authorizer, policy, connection, request, decision);
    connection.scope.requestTerminated(policy, decision, log);
    return { kind: 'refused', policy, refusal: refusalFor(decision, connection.facts) };
  }

  /** Counts a request in: how it is counted out, or the limit that it is beyond. */
  #take({ destination }: HttpConnection, { headBytes }: Request): (() => void) | LimitName {
    this.#inFlight.add();
    // The admin server's responses are at hand, and wanted above all when there are too many.
    if (destination.kind === 'in-process') return this.#ended;
    if (this.#inFlight.total > this.limits.maxInFlight) {
      this.#inFlight.remove();
      return 'max_in_flight';
    }
    if (headBytes > smallHead && !this.heads.take(headBytes)) {
      this.#inFlight.remove();
      return 'max_buffered_bytes';
    }
    if (headBytes <= smallHead) return this.#ended;
    this.budget.reserve(headBytes);
    return () => {
      this.#ended();
      this.heads.release(headBytes);
      this.budget.reserve(-headBytes);
    };
  }

  #decide(policy: PortPolicy, { facts }: HttpConnection, request: Request, letInBy?: PortPolicy): RequestDecision {
    const { decided } = request;
    if (decided?.policy === policy) return decided.decision;
    const decision = this.#authorizer.request(policy, facts.client, request, letInBy);
    if (decided !== undefined && policy.decisionsLast) request.decided = { policy, decision };
    return decision;
  }

  /** Records a message on which nothing is decided, since it is malformed, too large or late, and the limit behind that. */
  badRequest(connection: HttpConnection, reason: string): void {
    const limit = limitsOfFaults.get(reason);
    if (limit !== undefined) this.limitReached(limit, connection);
    connection.scope.badRequest(this.#authorizer.port(connection.policyPort), reason);
  }

  /** The same over HTTP/1, where nothing follows such a message: the connection ends. */
  brokenHttp1(connection: HttpConnection, reason: string): void {
    this.badRequest(connection, reason);
    connection.scope.brokenProtocol();
  }

  /** A limit was reached on this connection. */
  limitReached(limit: LimitName, connection: HttpConnection): void {
    this.#recorder.limitReached(limit, connection.facts.client.ip);
  }

  /** Refuses a permitted request that could not be served, or ends its response where that has begun. */
  fail(connection: HttpConnection, admitted: Admitted, exchange: Exchange, failure: Failure): void {
    const { scope } = admitted;
    if (exchange.responded) {
      this.brokeOff(connection, admitted, exchange, failure);
      exchange.abort();
      return;
    }
    this.failed(connection, admitted, exchange, failure);
    scope.refused(failure.refusal.status, failure.refusal.grpc);
    exchange.refuse(failure.refusal);
  }

  /** Records that a permitted request could not be served. */
  failed(connection: HttpConnection, { policy, scope }: LetIn, request: Request, failure: Failure): void {
    const log = new LazyLog(this.#authorizer, policy, connection, request, null);
    connection.scope.httpError(policy, told(connection, failure, failureDetail(failure), scope), log);
  }

  /** Records that the response to a permitted request cannot be completed. Not called where it is the client who has gone. */
  brokeOff(connection: HttpConnection, { policy, scope }: LetIn, request: Request, failure: Failure): void {
    const log = new LazyLog(this.#authorizer, policy, connection, request, null);
    connection.scope.responseBroken(policy, told(connection, failure, brokenDetail(failure), scope), log);
  }

  /**
   * Records what is answered to a permitted request whose content will never be whole.
   *
   * @returns the status line of that, from the code on.
   */
  cutShort(
    { facts }: HttpConnection,
    admitted: Admitted | null,
    request: Request,
    fault: MessageFault,
    startedAt: number,
  ): string {
    const { status, grpc, line } = messageRefusals[fault];
    admitted?.scope.refused(status, grpc);
    this.accessed(facts, request, status, '0', startedAt);
    return line;
  }

  /** `accessed` for an exchange whose response headers are a list. */
  responded(exchange: Exchange, status: number, headers: readonly string[], startedAt: number): void {
    if (!this.logsAccess) return;
    this.accessed(exchange.connection, exchange, status, headerValue(headers, 'content-length') ?? '', startedAt);
  }

  /** The same for an answer whose head is text. */
  answered(connection: ConnectionFacts, request: Request, status: number, lines: string, startedAt: number): void {
    if (!this.logsAccess) return;
    this.accessed(connection, request, status, fieldValues(lines, 'content-length')[0] ?? '', startedAt);
  }

  /**
   * Writes the access log line, when response headers are ready.
   *
   * @param responseBytes the response's Content-Length; empty where it has none.
   * @param startedAt when the request was read, on the clock of `performance.now()`.
   */
  accessed(
    connection: ConnectionFacts,
    request: Request,
    status: number,
    responseBytes: string,
    startedAt: number,
  ): void {
    if (this.#access === null) return;
    const first = (name: string): string => request.header(name)[0] ?? '';
    const elapsedMs = performance.now() - startedAt;
    this.#access(connection, {
      host: request.host,
      method: request.method,
      uri: request.target,
      version: request.version,
      status,
      userAgent: first('user-agent'),
      traceId: first('x-b3-traceid') || first('x-request-id') || first('x-amzn-trace-id'),
      requestBytes: first('content-length'),
      responseBytes,
      totalMs: elapsedMs,
      processingMs: elapsedMs,
    });
  }
}

function admittedNow(
  authorizer: Authorizer,
  policy: PortPolicy,
  permit: RequestPermit,
  scope: RequestScope,
): AdmittedNow {
  return new AdmittedByPolicy(authorizer, policy, permit, scope) as unknown as AdmittedNow;
}

class AdmittedByPolicy {
  readonly kind = 'admitted';
  readonly policy: PortPolicy;
  readonly permit: RequestPermit;
  readonly scope: RequestScope;
  readonly #authorizer: Pick<Authorizer, 'generation'>;
  readonly #generation: number;

  constructor(authorizer: Authorizer, policy: PortPolicy, permit: RequestPermit, scope: RequestScope) {
    this.policy = policy;
    this.permit = permit;
    this.scope = scope;
    this.#authorizer = authorizer;
    this.#generation = authorizer.generation;
  }

  get isCurrent(): boolean {
    return this.#generation === this.#authorizer.generation;
  }
}

/** A request that policy has let in; without a scope where we have turned it away. */
type LetIn = Pick<Admitted, 'policy'> & { readonly scope: RequestScope | null };

function told(
  { destination }: HttpConnection,
  { code, label, errno }: Failure,
  detail: string,
  scope: RequestScope | null,
): RequestFailure {
  const met =
    errno === null || destination.kind === 'in-process'
      ? null
      : { app: hostPort(destination.endpoint.host, destination.endpoint.port), errno };
  return { code, label, detail, met, ...(scope === null ? {} : { waitedMs: scope.waitedMs() }) };
}
