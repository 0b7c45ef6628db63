import type { ConnectionDecision, PortPolicy, RequestDecision, RequestRefusal } from '../policy/decision.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type { LazyReasons, RequestLog } from '../proxy/recorder.ts';
import { Connection, type Shared } from './connection-scope.ts';
import type { DecisionRecords, RecordedConnection } from './decision-records.ts';

const probe = { group: '', kind: 'default', name: 'probe' } as const;

/** A connection whose decisions are recorded: only where they are is it of this class, so that others pay nothing. */
export class RecordedScope extends Connection {
  readonly #records: DecisionRecords;
  readonly #recorded: RecordedConnection;

  constructor(shared: Shared, facts: ConnectionFacts, records: DecisionRecords) {
    super(shared, facts);
    this.#records = records;
    this.#recorded = records.of(facts);
  }

  override requestDecided(policy: PortPolicy, decision: RequestDecision, request: RequestLog): void {
    super.requestDecided(policy, decision, request);
    this.#records.request(this.#recorded, policy, decision, request);
  }

  override requestTerminated(policy: PortPolicy, decision: RequestRefusal, request: RequestLog): void {
    super.requestTerminated(policy, decision, request);
    this.#records.request(this.#recorded, policy, decision, request);
  }

  override connectionDecided(policy: PortPolicy, decision: ConnectionDecision, reasons?: LazyReasons): void {
    super.connectionDecided(policy, decision, reasons);
    this.#records.connection(this.#recorded, 'tcp', policy, decision.kind === 'permit' ? decision : null, reasons);
  }

  override connectionTerminated(policy: PortPolicy, reasons?: LazyReasons): void {
    super.connectionTerminated(policy, reasons);
    this.#records.connection(this.#recorded, 'tcp', policy, null, reasons);
  }

  override probed(policy: PortPolicy): void {
    super.probed(policy);
    this.#records.connection(this.#recorded, 'connect', policy, { authz: probe, audit: false });
  }
}
