import type {
  ConnectionDecision,
  PortPolicy,
  PortProtocol,
  RequestDecision,
  RequestRefusal,
} from '../../policy/decision.ts';
import type { ConnectionFacts } from '../../proxy/connection-facts.ts';
import type {
  AppFault,
  ByteCounter,
  ConnectionScope,
  ErrorLabel,
  LazyReasons,
  Recorder,
  RequestFailure,
  RequestLog,
  RequestScope,
  TransportScope,
} from '../../proxy/recorder.ts';
import type { CandidateWatch, OpenConnection } from './watch.ts';

/**
 * A recorder that hands on all that it is told, and then has the candidate decide what was decided. The data plane records
 * each decision once, when it has been made: so this is the one place where the candidate comes in.
 */
export function besideRecorder(recorder: Recorder, watch: CandidateWatch): Recorder {
  return {
    ...recorder,
    connection: (facts) => new BesideConnection(recorder.connection(facts), facts, watch),
    networkRefused(policy, refusal, reasons) {
      recorder.networkRefused(policy, refusal, reasons);
      watch.refusal(refusal.connection === 'new' ? 'connection' : 'open', policy, refusal.clientIp);
    },
  };
}

class BesideConnection implements ConnectionScope, OpenConnection {
  readonly facts: ConnectionFacts;
  readonly #scope: ConnectionScope;
  readonly #watch: CandidateWatch;
  #carries: PortProtocol | null = null;

  constructor(scope: ConnectionScope, facts: ConnectionFacts, watch: CandidateWatch) {
    this.#scope = scope;
    this.facts = facts;
    this.#watch = watch;
  }

  get protocol(): PortProtocol {
    return this.#carries ?? 'detect';
  }

  requestDecided(policy: PortPolicy, decision: RequestDecision, request: RequestLog): void {
    this.#scope.requestDecided(policy, decision, request);
    this.#watch.request(this.facts, policy, decision, request);
  }

  requestTerminated(policy: PortPolicy, decision: RequestRefusal, request: RequestLog): void {
    this.#scope.requestTerminated(policy, decision, request);
    this.#watch.request(this.facts, policy, decision, request);
  }

  connectionDecided(policy: PortPolicy, decision: ConnectionDecision, reasons?: LazyReasons): void {
    this.#scope.connectionDecided(policy, decision, reasons);
    if (decision.kind === 'permit') this.#carries = policy.protocol;
    this.#watch.connection('connection', this.facts, policy, decision, policy.protocol);
  }

  connectionTerminated(policy: PortPolicy, reasons?: LazyReasons): void {
    this.#scope.connectionTerminated(policy, reasons);
    this.#watch.unfollow(this);
    this.#watch.connection('open', this.facts, policy, { kind: 'deny', server: policy.server }, this.protocol);
  }

  openSource(policy: PortPolicy, bytes: ByteCounter): TransportScope {
    const transport = this.#scope.openSource(policy, bytes);
    return this.#carries === null ? transport : this.#watch.follow(this, transport);
  }

  probed(policy: PortPolicy): void {
    this.#scope.probed(policy);
    this.#watch.silence(this.facts, policy);
  }

  requestStarted(...started: Parameters<ConnectionScope['requestStarted']>): RequestScope {
    return this.#scope.requestStarted(...started);
  }
  detected(...detected: Parameters<ConnectionScope['detected']>): void {
    this.#scope.detected(...detected);
  }
  tcpError(error: ErrorLabel, met: AppFault | null): void {
    this.#scope.tcpError(error, met);
  }
  brokenProtocol(): void {
    this.#scope.brokenProtocol();
  }
  badRequest(policy: PortPolicy, reason: string): void {
    this.#scope.badRequest(policy, reason);
  }
  httpError(policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#scope.httpError(policy, failure, request);
  }
  responseBroken(policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#scope.responseBroken(policy, failure, request);
  }
}
