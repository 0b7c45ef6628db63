/** One connection's view of the metrics: labels are looked up when policy or decision change, not per request. */
import type { ConnectionDecision, PortPolicy, RequestDecision, RequestPermit } from '../policy/decision.ts';
import type {
  ByteCounter,
  ConnectionFacts,
  ConnectionScope,
  ErrorLabel,
  LazyReasons,
  RequestLog,
  RequestScope,
  TransportScope,
} from '../proxy/recorder.ts';
import type { DecisionLog } from './decision-log.ts';
import type { DecisionMetrics } from './decision-metrics.ts';
import type { LabelStore } from './labels.ts';
import { type ClientSeries, Request, type RequestMetrics, type RouteSeries } from './request-metrics.ts';
import type { Cell, LabelGroup } from './series.ts';
import type { DetectResult, TransportMetrics } from './transport-metrics.ts';

/** The families and helpers that every connection of the process shares. */
export interface Shared {
  readonly labels: LabelStore;
  readonly decisions: DecisionMetrics;
  readonly requests: RequestMetrics;
  readonly transport: TransportMetrics;
  readonly log: DecisionLog;
  readonly inbound: LabelGroup;
  readonly source: LabelGroup;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** Decisions of one port are few and stable objects; more than this means that they are not, and then none is kept. */
const maxDecisions = 512;

/** The cells of one decision on one connection. */
class DecisionCells {
  readonly counter: Cell;
  /** Linkerd counts what it answers itself, other than denials and missing routes, as unexpected errors. */
  readonly unexpected: Cell | null;
  client: ClientSeries | null = null;
  http: RouteSeries | null = null;
  grpc: RouteSeries | null = null;

  constructor(counter: Cell, unexpected: Cell | null) {
    this.counter = counter;
    this.unexpected = unexpected;
  }
}

/** The label groups that hold while a connection's policy does. */
class PolicyLabels {
  readonly policy: PortPolicy;
  readonly target: LabelGroup;
  readonly server: LabelGroup;

  constructor(shared: Shared, facts: ConnectionFacts, policy: PortPolicy) {
    this.policy = policy;
    this.target = shared.labels.target(facts, policy);
    this.server = shared.labels.server(policy);
    if (policy.protocol === 'detect') shared.transport.detection(this.server);
  }
}

export class Connection implements ConnectionScope {
  readonly facts: ConnectionFacts;
  readonly #shared: Shared;
  readonly #tls: LabelGroup;
  #labels: PolicyLabels | null = null;
  /** A keep-alive connection mostly repeats itself: one comparison instead of a lookup. */
  #lastDecision: RequestDecision | null = null;
  #lastCells: DecisionCells | null = null;
  #cells: Map<RequestDecision, DecisionCells> | null = null;

  constructor(shared: Shared, facts: ConnectionFacts) {
    this.#shared = shared;
    this.facts = facts;
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
    this.#shared.log.connection(this.facts, decision, reasons);
  }

  connectionTerminated(policy: PortPolicy, reasons?: LazyReasons): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.tcpTerminate.at(target, server, this.#tls).value++;
    this.#shared.log.terminated(this.facts, policy, reasons);
  }

  openSource(policy: PortPolicy, bytes: ByteCounter): TransportScope {
    const { target, server } = this.#at(policy);
    return this.#shared.transport.open(bytes, this.#shared.source, target, this.#tls, server);
  }

  detected(policy: PortPolicy, result: DetectResult, seconds: number): void {
    const series = this.#shared.transport.detection(this.#at(policy).server);
    const cell = series.results.get(result);
    if (cell !== undefined) cell.value++;
    series.seconds.observe(seconds);
  }

  tcpError(error: ErrorLabel): void {
    const target = this.#labels?.target ?? this.#shared.labels.target(this.facts, null);
    this.#shared.decisions.tcpError(error, target).value++;
    this.#shared.log.tcpError(this.facts, error);
  }

  requestDecided(policy: PortPolicy, decision: RequestDecision, request: RequestLog, _grpc: boolean): void {
    const cells = this.#cellsOf(policy, decision);
    cells.counter.value++;
    if (cells.unexpected !== null) cells.unexpected.value++;
    this.#shared.log.request(this.facts, decision, request);
  }

  requestStarted(policy: PortPolicy, permit: RequestPermit, grpc: boolean, ended?: () => void): RequestScope {
    const cells = this.#cellsOf(policy, permit);
    if (cells.client === null || cells.client.retired) cells.client = this.#clientSeries(policy, permit);
    const route = grpc ? cells.grpc : cells.http;
    return new Request(
      cells.client,
      route ?? this.#routeSeries(cells, policy, permit, grpc),
      grpc,
      this.#shared.now,
      ended,
    );
  }

  badRequest(policy: PortPolicy, reason: string): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.httpInvalid.at(target, server, this.#tls).value++;
    this.#shared.log.badRequest(this.facts, policy, reason);
  }

  httpError(policy: PortPolicy, error: ErrorLabel, detail: string, request: RequestLog): void {
    const { target, server } = this.#at(policy);
    this.#shared.decisions.httpError(error, target, server).value++;
    this.#shared.log.httpError(this.facts, policy, error, detail, request);
  }

  #clientSeries(policy: PortPolicy, permit: RequestPermit): ClientSeries {
    const { labels, requests, inbound } = this.#shared;
    const { target, server } = this.#at(policy);
    return requests.client(inbound, target, this.#tls, server, labels.route(permit.route), labels.authz(permit.authz));
  }

  #routeSeries(cells: DecisionCells, policy: PortPolicy, permit: RequestPermit, grpc: boolean): RouteSeries {
    const { labels, requests } = this.#shared;
    const series = requests.route(grpc, labels.parent(policy), labels.route(permit.route));
    if (grpc) cells.grpc = series;
    else cells.http = series;
    return series;
  }

  /** Labels of the policy in force; a swapped policy makes the cells found under the old one void. */
  #at(policy: PortPolicy): PolicyLabels {
    if (this.#labels !== null && this.#labels.policy === policy) return this.#labels;
    this.#labels = new PolicyLabels(this.#shared, this.facts, policy);
    this.#cells = null;
    this.#lastDecision = null;
    this.#lastCells = null;
    return this.#labels;
  }

  #cellsOf(policy: PortPolicy, decision: RequestDecision): DecisionCells {
    const labels = this.#at(policy);
    if (decision === this.#lastDecision && this.#lastCells !== null) return this.#lastCells;
    let cells = this.#cells?.get(decision);
    if (cells === undefined) {
      cells = this.#findCells(labels, decision);
      // The detail of an invalid request makes each one a new object.
      if (decision.kind !== 'invalid') {
        if (this.#cells === null || this.#cells.size >= maxDecisions) this.#cells = new Map();
        this.#cells.set(decision, cells);
      }
    }
    this.#lastDecision = decision;
    this.#lastCells = cells;
    return cells;
  }

  #findCells({ target, server }: PolicyLabels, decision: RequestDecision): DecisionCells {
    const { decisions, labels } = this.#shared;
    const unexpected = () => decisions.httpError('unexpected', target, server);
    switch (decision.kind) {
      case 'permit':
        return new DecisionCells(this.#allow(target, server, decision), null);
      case 'redirect':
        return new DecisionCells(this.#allow(target, server, decision), unexpected());
      case 'deny':
        return new DecisionCells(decisions.httpDeny.at(target, server, labels.route(decision.route), this.#tls), null);
      case 'no-route':
        return new DecisionCells(decisions.routeNotFound.at(target, server, this.#tls), null);
      case 'rate-limited': {
        // Not counted as allowed, unlike in Linkerd: every request has exactly one outcome, and they add up.
        const limit = labels.rateLimit(decision.limit, decision.scope);
        return new DecisionCells(decisions.rateLimited.at(target, server, limit, this.#tls), unexpected());
      }
      case 'invalid':
        return new DecisionCells(decisions.httpInvalid.at(target, server, this.#tls), unexpected());
    }
  }

  #allow(
    target: LabelGroup,
    server: LabelGroup,
    decision: Extract<RequestDecision, { kind: 'permit' | 'redirect' }>,
  ): Cell {
    const { decisions, labels } = this.#shared;
    return decisions.httpAllow.at(
      target,
      server,
      labels.route(decision.route),
      labels.authz(decision.authz),
      this.#tls,
    );
  }
}
