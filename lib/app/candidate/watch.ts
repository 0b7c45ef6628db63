import type { Client } from '../../client.ts';
import type { IpAddress } from '../../ip.ts';
import { createAuthorizer, type PolicyAuthorizer } from '../../policy/authorizer.ts';
import {
  type BesideDecision,
  besideConnection,
  besideReasons,
  besideRefusal,
  besideRequest,
  besideSilence,
  namedRef,
  verdictOf,
} from '../../policy/beside.ts';
import type { Carried } from '../../policy/carried.ts';
import type { PolicyIndex } from '../../policy/compile/compile.ts';
import type { BucketStore } from '../../policy/decide/buckets.ts';
import type { Authorizer, PortPolicy, PortProtocol, RequestDecision, RequestFacts } from '../../policy/decision.ts';
import type { ConnectionFacts } from '../../proxy/connection-facts.ts';
import type { RequestLog, TransportScope } from '../../proxy/recorder.ts';
import { Slices } from '../../reload/slices.ts';
import { type ResourceRef, refText } from '../../resource-ref.ts';
import type { CandidateCounts } from '../../telemetry/candidate-counts.ts';
import { clip } from '../../telemetry/decision-log.ts';
import type { CodedLogger } from '../../telemetry/log.ts';
import { type LineGate, occasionFields, Repeats } from '../../telemetry/repeats.ts';
import { type Disagreement, type DisagreementRow, Disagreements, type JudgedSide } from './disagreements.ts';
import { type AskedQuestion, questionOf } from './question.ts';
import { DecisionPair, type Meeting, Round, type Subject } from './round.ts';

export interface CandidateWatchOptions {
  /** The policy in force. */
  readonly enforced: Authorizer;
  readonly counts: CandidateCounts;
  readonly log: CodedLogger;
  /** Monotonic milliseconds; where several threads watch, the same clock in all of them. */
  readonly nowMs: () => number;
  readonly gate: LineGate;
  /** Of the candidate's rate limits alone. */
  readonly buckets?: BucketStore | undefined;
  /** When the policies last disagreed, by `nowMs`; 0: never. Shared by all threads. */
  readonly lastMs: Float64Array;
}

/** What one thread has compared. Plain, so that it can be sent to another. */
export interface ComparedPolicies {
  readonly meetings: readonly Meeting[];
  readonly disagreements: readonly Disagreement[];
}

/** A connection that carries bytes, by the policy in force. */
export interface OpenConnection {
  readonly facts: ConnectionFacts;
  /** What has been looked for on it. */
  readonly protocol: PortProtocol;
}

interface AskedThing {
  readonly client: Client;
  readonly port: number;
  readonly protocol: AskedQuestion['protocol'];
  readonly request: RequestFacts | null;
}

/**
 * Decides by the candidate policy what the policy in force has decided, and compares. Nothing is changed by it: it is told of
 * decisions when they are made, its rate limits have buckets of their own, and no exception leaves it.
 */
export class CandidateWatch {
  readonly #options: CandidateWatchOptions;
  readonly #candidate: PolicyAuthorizer;
  readonly #disagreements: Disagreements;
  readonly #failures: Repeats;
  readonly #open = new Set<OpenConnection>();
  /** Null while no candidate is loaded. */
  #round: Round | null = null;

  constructor(options: CandidateWatchOptions) {
    this.#options = options;
    const { log, nowMs, gate, buckets } = options;
    this.#candidate = createAuthorizer({ nowMs, buckets });
    this.#disagreements = new Disagreements(log, nowMs, gate);
    this.#failures = new Repeats('candidate failed', nowMs, gate);
  }

  /** How often a candidate was put in place. */
  get generation(): number {
    return this.#candidate.generation;
  }

  /** Another candidate, whole. */
  swap(index: PolicyIndex): void {
    this.#candidate.swap(index);
    this.#begin();
  }

  /** Another policy is in force. */
  enforcedChanged(): void {
    if (this.#round !== null) this.#begin();
  }

  compared(): ComparedPolicies {
    return { meetings: this.#round?.meetings() ?? [], disagreements: this.#disagreements.all() };
  }

  request({ client }: ConnectionFacts, policy: PortPolicy, decision: RequestDecision, log: RequestLog): void {
    const round = this.#round;
    if (round === null) return;
    try {
      const request = log.facts;
      const { noted } = request;
      if (noted instanceof DecisionPair && noted.round === round && noted.enforced === decision) {
        this.#add(noted);
        return;
      }
      const protocol = protocolOf(log, request);
      const { port } = policy;
      const candidate = besideRequest(this.#candidate, port, client, request, protocol);
      const tally = this.#compare(round, 'request', policy, decision, candidate, { client, port, protocol, request });
      // Undefined: none of its kind comes again.
      if (noted === undefined) return;
      request.noted = tally.isKnown && this.#candidate.port(port).decisionsLast ? tally : null;
    } catch (error) {
      this.#failed(round, 'request', policy, decision, error);
    }
  }

  /** @param protocol of the port when it was looked at. */
  connection(
    subject: 'connection' | 'open',
    { client }: ConnectionFacts,
    policy: PortPolicy,
    decision: BesideDecision,
    protocol: PortProtocol,
  ): void {
    const { port } = policy;
    this.#connection(subject, policy, decision, { client, port, protocol: 'tcp', request: null }, () =>
      besideConnection(this.#candidate, port, client, protocol),
    );
  }

  /** A TCP probe. */
  silence({ client }: ConnectionFacts, policy: PortPolicy): void {
    const { port, server } = policy;
    const decision: BesideDecision = { kind: 'probed', server };
    this.#connection('connection', policy, decision, { client, port, protocol: 'connect', request: null }, () =>
      besideSilence(this.#candidate, port, client),
    );
  }

  /** NetworkPolicies in force have refused a connection. */
  refusal(subject: 'connection' | 'open', policy: PortPolicy, ip: IpAddress): void {
    const { port, server } = policy;
    const client: Client = { ip, tls: { kind: 'none', reason: 'no_tls_from_remote' } };
    const decision: BesideDecision = { kind: 'network-refused', server };
    this.#connection(subject, policy, decision, { client, port, protocol: 'connect', request: null }, () =>
      besideRefusal(this.#candidate, port, client),
    );
  }

  /** ComparedPolicies again whenever either policy changes, until `transport` is closed. */
  follow(connection: OpenConnection, transport: TransportScope): TransportScope {
    this.#open.add(connection);
    return {
      closed: (errno) => {
        this.#open.delete(connection);
        transport.closed(errno);
      },
    };
  }

  unfollow(connection: OpenConnection): void {
    this.#open.delete(connection);
  }

  #begin(): void {
    const round = new Round(this.#options.counts);
    this.#round = round;
    this.#disagreements.clear();
    // At last, so that nothing waits for it: first the policy in force ends what it no longer permits.
    this.#recheck(round).catch((error: unknown) => this.#tellFailure(error));
  }

  async #recheck(round: Round): Promise<void> {
    const { enforced } = this.#options;
    const slices = new Slices();
    for (const connection of [...this.#open]) {
      await slices.rest();
      if (this.#round !== round) return;
      if (!this.#open.has(connection)) continue;
      const { facts, protocol } = connection;
      const policy = enforced.port(facts.targetPort);
      this.connection('open', facts, policy, enforced.connection(policy, facts.client), protocol);
    }
  }

  #connection(
    subject: Subject,
    policy: PortPolicy,
    decision: BesideDecision,
    asked: AskedThing,
    decide: () => BesideDecision,
  ): void {
    const round = this.#round;
    if (round === null) return;
    try {
      this.#compare(round, subject, policy, decision, decide(), asked);
    } catch (error) {
      this.#failed(round, subject, policy, decision, error);
    }
  }

  #compare(
    round: Round,
    subject: Subject,
    policy: PortPolicy,
    decision: BesideDecision,
    candidate: BesideDecision,
    asked: AskedThing,
  ): DecisionPair {
    const tally = round.tally(subject, policy, decision, candidate);
    if (tally.agreement === 'differs') {
      tally.row ??= this.#row(subject, decision, candidate, asked);
      tally.row?.saw(asked.client);
    }
    this.#add(tally);
    return tally;
  }

  #add(tally: DecisionPair): void {
    tally.add();
    if (tally.agreement !== 'differs') return;
    this.#options.lastMs[0] = this.#options.nowMs();
    tally.row?.add();
  }

  #row(
    subject: Subject,
    decision: BesideDecision,
    candidate: BesideDecision,
    asked: AskedThing,
  ): DisagreementRow | null {
    const { client, port, protocol, request } = asked;
    const met = { subject, port, enforced: sideOf(decision), candidate: sideOf(candidate) };
    return this.#disagreements.row(met, () => ({
      enforced: besideReasons(this.#options.enforced, port, client, request, decision),
      candidate: besideReasons(this.#candidate, port, client, request, candidate),
      example: questionOf(port, client, protocol, request),
    }));
  }

  /** The exception is the candidate's alone: what was decided stands, and nobody else hears of it. */
  #failed(round: Round, subject: Subject, policy: PortPolicy, decision: BesideDecision, error: unknown): void {
    try {
      const count = round.count(subject, policy, verdictOf(decision), 'error', 'differs');
      count.cell.value++;
      count.times++;
      this.#options.lastMs[0] = this.#options.nowMs();
      this.#tellFailure(error);
    } catch {
      // There is nothing left that could be said of it.
    }
  }

  #tellFailure(error: unknown): void {
    const occasion = this.#failures.occasion('');
    if (occasion === null) return;
    const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#options.log.error(
      { code: 'candidate-failed', error: clip(told, 4096), ...occasionFields(occasion) },
      'Deciding by the candidate policy failed; the policy in force is not concerned',
    );
  }
}

function protocolOf({ version }: RequestLog, { grpc }: RequestFacts): Exclude<Carried, 'tcp'> {
  if (version !== 'HTTP/2.0') return 'http1';
  return grpc ? 'grpc' : 'http2';
}

function sideOf(decision: BesideDecision): JudgedSide {
  const text = (ref: ResourceRef | null): string | null => (ref === null ? null : refText(ref));
  return {
    verdict: verdictOf(decision),
    server: refText(decision.server),
    route: text(namedRef(decision, 'route')),
    authz: text(namedRef(decision, 'authz')),
    limit: text(namedRef(decision, 'limit')),
    status: decision.kind === 'redirect' ? decision.status : null,
  };
}
