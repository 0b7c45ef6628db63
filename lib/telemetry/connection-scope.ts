/** One connection's door to the metrics: labels are looked up once for all connections that share them, not per request. */
import type {
  ConnectionDecision,
  PortPolicy,
  ProbeKind,
  RequestDecision,
  RequestPermit,
  RequestRefusal,
} from '../policy/decision.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type {
  AppFault,
  ByteCounter,
  ConnectionScope,
  ErrorLabel,
  LazyReasons,
  PendingRequest,
  RequestFailure,
  RequestLog,
  RequestScope,
  TransportScope,
} from '../proxy/recorder.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { DecisionLog } from './decision-log.ts';
import type { DecisionMetrics } from './decision-metrics.ts';
import type { LabelStore } from './labels.ts';
import type { ClientSeries, RequestMetrics, RouteSeries } from './request-metrics.ts';
import { RequestRecord, type SlowWatch } from './request-record.ts';
import type { Cell, LabelGroup } from './series.ts';
import type { DetectResult, DetectSeries, TransportMetrics, TransportSeries } from './transport-metrics.ts';

/** The families and helpers that every connection of the process shares. */
export interface Shared {
  readonly labels: LabelStore;
  readonly decisions: DecisionMetrics;
  readonly requests: RequestMetrics;
  readonly transport: TransportMetrics;
  readonly log: DecisionLog;
  readonly views: Views;
  readonly inbound: LabelGroup;
  readonly source: LabelGroup;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Milliseconds from which a request is slow. */
  readonly slowMs: number;
}

/** Decisions of one port are few and stable objects; more than this means that they are not, and then none is kept. */
const maxDecisions = 512;

/** Targets and clients have limits of their own; their product does not, so this many are remembered and then none. */
const maxViews = 4096;

/** The cells of one decision in one view. */
class DecisionCells {
  readonly counter: Cell;
  /** Beside the counter: probes, and what Linkerd answers itself, other than denials and missing routes (unexpected errors). */
  readonly also: Cell | null;
  client: ClientSeries | null = null;
  route: RouteSeries | null = null;
  /** Whose `route` it is: ports that share a view may differ in their `parent_port`. */
  routeOf: PortPolicy | null = null;

  constructor(counter: Cell, also: Cell | null) {
    this.counter = counter;
    this.also = also;
  }
}

/** The series of all connections that have policy, target and client in common; of ports without a label, one for them all. */
class View {
  readonly target: LabelGroup;
  readonly server: LabelGroup;
  readonly tls: LabelGroup;
  readonly #shared: Shared;
  #source: TransportSeries | null = null;
  #detection: DetectSeries | null = null;
  /** A keep-alive connection mostly repeats itself: one comparison instead of a lookup. */
  #lastDecision: RequestDecision | null = null;
  #lastCells: DecisionCells | null = null;
  #cells = new Map<RequestDecision, DecisionCells>();

  constructor(shared: Shared, policy: PortPolicy, target: LabelGroup, tls: LabelGroup) {
    this.#shared = shared;
    this.target = target;
    this.server = shared.labels.server(policy);
    this.tls = tls;
    if (policy.protocol === 'detect') this.#detection = shared.transport.detection(this.server);
  }

  source(): TransportSeries {
    if (this.#source === null || this.#source.retired) {
      this.#source = this.#shared.transport.series(this.#shared.source, this.target, this.tls, this.server);
    }
    return this.#source;
  }

  detection(): DetectSeries {
    this.#detection ??= this.#shared.transport.detection(this.server);
    return this.#detection;
  }

  cellsOf(decision: RequestDecision): DecisionCells {
    if (decision === this.#lastDecision && this.#lastCells !== null) return this.#lastCells;
    let cells = this.#cells.get(decision);
    if (cells === undefined) {
      cells = this.#findCells(decision);
      if (this.#cells.size >= maxDecisions) this.#cells = new Map();
      // The others are made anew for each request.
      const lasting = decision.kind === 'permit' || decision.kind === 'deny' || decision.kind === 'no-route';
      if (!lasting) return cells;
      this.#cells.set(decision, cells);
    }
    this.#lastDecision = decision;
    this.#lastCells = cells;
    return cells;
  }

  clientSeries(cells: DecisionCells, permit: RequestPermit): ClientSeries {
    if (cells.client !== null && !cells.client.retired) return cells.client;
    const { labels, requests, inbound } = this.#shared;
    const [route, authz] = [labels.route(permit.route), labels.authz(permit.authz)];
    cells.client = requests.client(inbound, this.target, this.tls, this.server, route, authz);
    return cells.client;
  }

  /** The route tells which family it is, not the request: gRPC over an HTTP route is HTTP (Linkerd). */
  routeSeries(cells: DecisionCells, policy: PortPolicy, permit: RequestPermit): RouteSeries {
    if (cells.route !== null && cells.routeOf === policy) return cells.route;
    const { labels, requests } = this.#shared;
    const series = requests.route(policy.protocol === 'grpc', labels.parent(policy), labels.route(permit.route));
    cells.route = series;
    cells.routeOf = policy;
    return series;
  }

  #findCells(decision: RequestDecision): DecisionCells {
    const { target, server, tls } = this;
    const { decisions, labels } = this.#shared;
    const unexpected = () => decisions.httpError('unexpected', target, server);
    switch (decision.kind) {
      case 'permit':
        return new DecisionCells(this.#allow(decision), decision.probe === null ? null : this.probes(decision.probe));
      case 'redirect':
        return new DecisionCells(this.#allow(decision), unexpected());
      case 'deny':
        return new DecisionCells(decisions.httpDeny.at(target, server, labels.route(decision.route), tls), null);
      case 'no-route':
        return new DecisionCells(decisions.routeNotFound.at(target, server, tls), null);
      case 'rate-limited': {
        // Not counted as allowed, unlike in Linkerd: every request has exactly one outcome, and they add up.
        const limit = labels.rateLimit(decision.limit, decision.scope);
        return new DecisionCells(decisions.rateLimited.at(target, server, limit, tls), unexpected());
      }
      case 'invalid':
        return new DecisionCells(decisions.httpInvalid.at(target, server, tls), unexpected());
    }
  }

  probes(kind: ProbeKind): Cell {
    const { decisions, labels } = this.#shared;
    return decisions.probes.at(this.target, this.server, labels.probe(kind));
  }

  #allow(decision: Extract<RequestDecision, { kind: 'permit' | 'redirect' }>): Cell {
    const { decisions, labels } = this.#shared;
    const [route, authz] = [labels.route(decision.route), labels.authz(decision.authz)];
    return decisions.httpAllow.at(this.target, this.server, route, authz, this.tls);
  }
}

/** Views by what makes them. */
export class Views {
  /**
   * Weakly, so that a replaced policy can go: by the policy, or by the server of the ports that have no label of their own, which
   * a port scan makes many. The rest by the ids of target and client, and by what a view makes of the protocol.
   */
  readonly #byOwner = new WeakMap<PortPolicy | ResourceRef, Map<number, View>>();

  at(shared: Shared, policy: PortPolicy, target: LabelGroup, tls: LabelGroup): View {
    const owner = shared.labels.hasPort(policy) ? policy : policy.server;
    let views = this.#byOwner.get(owner);
    if (views === undefined || views.size >= maxViews) {
      views = new Map();
      this.#byOwner.set(owner, views);
    }
    const key = (target.id * 2 ** 26 + tls.id) * 2 + (policy.protocol === 'detect' ? 1 : 0);
    let view = views.get(key);
    if (view === undefined) {
      view = new View(shared, policy, target, tls);
      views.set(key, view);
    }
    return view;
  }
}

export class Connection implements ConnectionScope, SlowWatch {
  readonly #facts: ConnectionFacts;
  readonly #shared: Shared;
  readonly #tls: LabelGroup;
  #view: View | null = null;
  /** Under which `#view` is. */
  #policy: PortPolicy | null = null;

  constructor(shared: Shared, facts: ConnectionFacts) {
    this.#shared = shared;
    this.#facts = facts;
    this.#tls = shared.labels.tls(facts.client);
  }

  connectionDecided(policy: PortPolicy, decision: ConnectionDecision, reasons?: LazyReasons): void {
    const { decisions, labels } = this.#shared;
    const { target, server } = this.#at(policy);
    if (decision.kind === 'permit') {
      decisions.tcpAllow.at(target, server, labels.authz(decision.authz), this.#tls).value++;
    } else {
      decisions.tcpDeny.at(target, server, this.#tls).value++;
    }
    this.#shared.log.connection(this.#facts, policy, decision, reasons);
  }

  connectionTerminated(policy: PortPolicy, reasons?: LazyReasons): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.tcpTerminate.at(target, server, this.#tls).value++;
    this.#shared.log.terminated(this.#facts, policy, reasons);
  }

  openSource(policy: PortPolicy, bytes: ByteCounter): TransportScope {
    return this.#at(policy).source().add(bytes);
  }

  detected(policy: PortPolicy, result: DetectResult, seconds: number): void {
    const series = this.#at(policy).detection();
    const cell = series.results.get(result);
    if (cell !== undefined) cell.value++;
    series.seconds.observe(seconds);
  }

  probed(policy: PortPolicy): void {
    this.#at(policy).probes('tcp').value++;
    this.#shared.log.probed(this.#facts, policy);
  }

  tcpError(error: ErrorLabel, met: AppFault | null): void {
    const target = this.#view?.target ?? this.#shared.labels.target(this.#facts, null);
    this.#shared.decisions.tcpError(error, target).value++;
    this.#shared.log.tcpError(this.#facts, error, met);
  }

  brokenProtocol(): void {
    const target = this.#view?.target ?? this.#shared.labels.target(this.#facts, null);
    this.#shared.decisions.tcpError('unexpected', target).value++;
  }

  requestDecided(policy: PortPolicy, decision: RequestDecision, request: RequestLog): void {
    const cells = this.#at(policy).cellsOf(decision);
    cells.counter.value++;
    if (cells.also !== null) cells.also.value++;
    this.#shared.log.request(this.#facts, decision, request);
  }

  requestStarted(
    policy: PortPolicy,
    permit: RequestPermit,
    grpc: boolean,
    ended?: () => void,
    request?: PendingRequest,
  ): RequestScope {
    const view = this.#at(policy);
    const cells = view.cellsOf(permit);
    const client = view.clientSeries(cells, permit);
    const route = view.routeSeries(cells, policy, permit);
    return new RequestRecord(client, route, grpc, policy.protocol === 'grpc', this.#shared.now, ended, this, request);
  }

  get slowMs(): number {
    return this.#shared.slowMs;
  }

  slow(request: PendingRequest, status: number | null, waitedMs: number): void {
    this.#shared.log.slow(this.#facts, this.#policy?.server ?? null, request, status, waitedMs);
  }

  requestTerminated(policy: PortPolicy, decision: RequestRefusal, request: RequestLog): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.httpTerminate.at(target, server, this.#tls).value++;
    this.#shared.log.requestTerminated(this.#facts, decision, request);
  }

  badRequest(policy: PortPolicy, reason: string): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.httpInvalid.at(target, server, this.#tls).value++;
    this.#shared.log.badRequest(this.#facts, policy, reason);
  }

  httpError(policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.httpError(failure.label, target, server).value++;
    this.#shared.log.httpError(this.#facts, policy, failure, request);
  }

  responseBroken(policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#shared.log.responseBroken(this.#facts, policy, failure, request);
  }

  /** The view under the policy in force. */
  #at(policy: PortPolicy): View {
    if (this.#view !== null && this.#policy === policy) return this.#view;
    const target = this.#shared.labels.target(this.#facts, policy);
    this.#view = this.#shared.views.at(this.#shared, policy, target, this.#tls);
    this.#policy = policy;
    return this.#view;
  }
}
