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
import type { RecordedFacts, RequestLog, TransportScope } from '../../proxy/recorder.ts';
import { Slices } from '../../reload/slices.ts';
import { type ResourceRef, refText } from '../../resource-ref.ts';
import type { CandidateCounts } from '../../telemetry/candidate-counts.ts';
import type { ClientLines } from '../../telemetry/client-lines.ts';
import { Containment, type EnforcedDecision } from './containment.ts';
import { type Disagreement, type DisagreementRow, Disagreements, type JudgedSide } from './disagreements.ts';
import { type AskedQuestion, questionOf } from './question.ts';
import { DecisionPair, type Meeting, Round, type Subject } from './round.ts';

export interface CandidateWatchOptions {
  /** The policy in force. */
  readonly enforced: Authorizer;
  readonly counts: CandidateCounts;
  readonly lines: ClientLines;
  /** Monotonic milliseconds; where several threads watch, the same clock in all of them. */
  readonly nowMs: () => number;
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

interface AskedThing extends EnforcedDecision {
  readonly client: Client;
  readonly protocol: AskedQuestion['protocol'];
  readonly request: RequestFacts | null;
}

interface RequestBeside extends AskedThing {
  readonly protocol: Exclude<Carried, 'tcp'>;
  readonly request: RecordedFacts;
}

/**
 * Decides by the candidate policy what the policy in force has decided, and compares. Nothing is changed by it: it is told of
 * decisions when they are made, its rate limits have buckets of their own, and no exception leaves it.
 */
export class CandidateWatch {
  readonly #options: CandidateWatchOptions;
  readonly #candidate: PolicyAuthorizer;
  readonly #disagreements: Disagreements;
  readonly #containment: Containment;
  readonly #open = new Set<OpenConnection>();
  /** Null while no candidate is loaded. */
  #round: Round | null = null;

  constructor(options: CandidateWatchOptions) {
    this.#options = options;
    const { lines, nowMs, buckets } = options;
    this.#candidate = createAuthorizer({ nowMs, buckets });
    this.#disagreements = new Disagreements(lines, nowMs);
    this.#containment = new Containment({ lines, onUnknown: () => this.#disagreed() });
  }

  /** How often a candidate was put in place, or taken away. */
  get generation(): number {
    return this.#candidate.generation;
  }

  get isLoaded(): boolean {
    return this.#round !== null;
  }

  /** Another candidate, whole; one without documents is none, and then nothing is compared. */
  swap(index: PolicyIndex, documents: number): void {
    this.#candidate.swap(index);
    if (documents > 0) {
      this.#begin();
      return;
    }
    this.#round = null;
    this.#disagreements.clear();
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
    const request = log.facts;
    const { noted } = request;
    if (noted instanceof DecisionPair && noted.round === round && noted.enforced === decision) {
      this.#again(noted, policy);
      return;
    }
    const protocol = protocolOf(log, request);
    this.#containment.ask({ round, subject: 'request', policy, decision, client, protocol, request }, this.#ofRequest);
  }

  readonly #ofRequest = (asked: RequestBeside): void => {
    const { client, protocol, request, policy } = asked;
    const { port } = policy;
    const pair = this.#compare(asked, besideRequest(this.#candidate, port, client, request, protocol));
    // Undefined: none of its kind comes again.
    if (request.noted === undefined) return;
    request.noted = pair.isKnown && this.#candidate.port(port).decisionsLast ? pair : null;
  };

  /** @param protocol of the port when it was looked at. */
  connection(
    subject: 'connection' | 'open',
    { client }: ConnectionFacts,
    policy: PortPolicy,
    decision: BesideDecision,
    protocol: PortProtocol,
  ): void {
    this.#connection(subject, policy, decision, client, 'tcp', (port) =>
      besideConnection(this.#candidate, port, client, protocol),
    );
  }

  /** A TCP probe. */
  silence({ client }: ConnectionFacts, policy: PortPolicy): void {
    const decision: BesideDecision = { kind: 'probed', server: policy.server };
    this.#connection('connection', policy, decision, client, 'connect', (port) =>
      besideSilence(this.#candidate, port, client),
    );
  }

  /** NetworkPolicies in force have refused a connection. */
  refusal(subject: 'connection' | 'open', policy: PortPolicy, ip: IpAddress): void {
    const client: Client = { ip, tls: { kind: 'none', reason: 'no_tls_from_remote' } };
    const decision: BesideDecision = { kind: 'network-refused', server: policy.server };
    this.#connection(subject, policy, decision, client, 'connect', (port) =>
      besideRefusal(this.#candidate, port, client),
    );
  }

  /** Compared again whenever either policy changes, until `transport` is closed. */
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
    this.#recheck(round).catch((error: unknown) => this.#containment.tell(error));
  }

  /** In slices: nobody waits for it. */
  async #recheck(round: Round): Promise<void> {
    const { enforced } = this.#options;
    const slices = new Slices();
    for (const connection of [...this.#open]) {
      await slices.rest();
      if (this.#round !== round) return;
      const { facts, protocol } = connection;
      const { client, targetPort } = facts;
      // What the policy in force has ended was told when it did.
      if (!this.#open.has(connection) || enforced.admits(targetPort, client.ip).kind === 'refused') continue;
      const policy = enforced.port(targetPort);
      this.connection('open', facts, policy, enforced.connection(policy, client), protocol);
    }
  }

  #connection(
    subject: Subject,
    policy: PortPolicy,
    decision: BesideDecision,
    client: Client,
    protocol: 'tcp' | 'connect',
    decide: (port: number) => BesideDecision,
  ): void {
    const round = this.#round;
    if (round === null) return;
    const asked: AskedThing = { round, subject, policy, decision, client, protocol, request: null };
    this.#containment.ask(asked, () => void this.#compare(asked, decide(policy.port)));
  }

  #compare(asked: AskedThing, candidate: BesideDecision): DecisionPair {
    const { round, subject, policy, decision } = asked;
    const pair = round.pair(subject, policy, decision, candidate);
    if (pair.agreement === 'differs') {
      pair.row ??= this.#row(asked, candidate);
      pair.row?.saw(asked.client);
    }
    this.#add(pair);
    return pair;
  }

  /** The same request, decided by the same policies. */
  #again(pair: DecisionPair, policy: PortPolicy): void {
    try {
      this.#add(pair);
    } catch (error) {
      this.#containment.failed({ ...pair, policy, subject: 'request', decision: pair.enforced }, error);
    }
  }

  #add(pair: DecisionPair): void {
    pair.count.add();
    if (pair.agreement === 'differs') pair.row?.add(this.#disagreed());
  }

  /** @returns when. */
  #disagreed(): number {
    const nowMs = this.#options.nowMs();
    this.#options.lastMs[0] = nowMs;
    return nowMs;
  }

  #row(
    { subject, policy, decision, client, protocol, request }: AskedThing,
    candidate: BesideDecision,
  ): DisagreementRow | null {
    const { port } = policy;
    const met = { subject, port, enforced: sideOf(decision), candidate: sideOf(candidate) };
    const asks = [this.#options.enforced, this.#candidate].map((policy) => policy.port(port).asks);
    return this.#disagreements.row(met, () => ({
      enforced: besideReasons(this.#options.enforced, port, client, request, decision),
      candidate: besideReasons(this.#candidate, port, client, request, candidate),
      example: questionOf(port, client, protocol, request, asks),
    }));
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
