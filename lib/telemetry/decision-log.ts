/**
 * Decisions as log lines. The client gets a status; what it asked for and which clause failed is logged here.
 * Client text is cut to a length first and escaped by the writer (log.ts), so that every line stays one line.
 */
import { type Client, clientId, tlsKind } from '../client.ts';
import type { ConnectionDecision, PortPolicy, RequestDecision, RequestRefusal } from '../policy/decision.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type {
  AppFault,
  ErrorLabel,
  LazyReasons,
  NetworkRefusal,
  RequestFailure,
  RequestLog,
} from '../proxy/recorder.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { CodedLogger } from './log.ts';
import { type LineGate, occasionFields, Repeats } from './repeats.ts';

const maxPath = 2048;
const maxText = 256;
/** A server may have thousands of authorizations; the first ones are enough to see what kind is missing. */
const maxCandidates = 20;
/**
 * And of all lines of one turn of the event loop together. A line with twenty of them is five kilobytes, which takes longer
 * to write than a request takes to refuse: who has a thousand refused at once shall hold up nobody by the log of it.
 */
const maxCandidatesATurn = 200;

export function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

type Fields = Record<string, unknown>;

function refFields(ref: ResourceRef): Fields {
  return { group: ref.group, kind: ref.kind, name: ref.name };
}

/** The same words as the `tls` label of metrics, so that a line leads to its series; and the SNI, which metrics omit. */
function tlsFields(client: Client): Fields {
  switch (client.tls.kind) {
    case 'none':
      return { tls: 'no_identity', no_tls_reason: client.tls.reason };
    case 'mesh':
      return { tls: 'true' };
    case 'passthrough':
      return { tls: 'opaque', sni: clip(client.tls.sni, maxText) };
  }
}

function connectionFields(facts: ConnectionFacts): Fields {
  const { client } = facts;
  const id = clientId(client);
  return {
    client: { ip: client.ip.text, port: facts.clientPort, id: id === null ? null : clip(id, maxPath) },
    ...tlsFields(client),
    target: { ip: facts.targetIp, port: facts.targetPort },
    port: facts.targetPort,
    tls_kind: tlsKind(client),
  };
}

/** In the words of `explain` and of the record of decisions. */
function requestProtocol({ facts, version }: RequestLog): 'http1' | 'http2' | 'grpc' {
  if (facts.grpc) return 'grpc';
  return version.startsWith('HTTP/2') ? 'http2' : 'http1';
}

/** What bytes are decided by. */
function bytesFields({ protocol }: PortPolicy): Fields {
  return { protocol: 'tcp', port_protocol: protocol };
}

function requestFields(request: RequestLog): Fields {
  return {
    protocol: requestProtocol(request),
    method: clip(request.method, maxText),
    path: clip(request.path, maxPath),
    host: clip(request.host, maxText),
    version: clip(request.version, maxText),
  };
}

/** `detail` quotes what the client presented, so it is cut like any other client text. */
function candidate(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const fields: Fields = { ...value };
  if (typeof fields.detail === 'string') fields.detail = clip(fields.detail, maxText * 2);
  return fields;
}

export class DecisionLog {
  readonly #log: CodedLogger;
  readonly #malformed: Repeats;
  #candidatesLeft = maxCandidatesATurn;
  readonly #nextTurn = (): void => {
    this.#candidatesLeft = maxCandidatesATurn;
  };

  constructor(log: CodedLogger, nowMs: () => number, gate: LineGate) {
    this.#log = log;
    this.#malformed = new Repeats('malformed', nowMs, gate);
  }

  #reasonFields(reasons: LazyReasons | undefined): Fields {
    if (reasons === undefined) return {};
    const { reason, candidates } = reasons();
    const most = Math.min(maxCandidates, this.#candidatesLeft, candidates.length);
    const fields: Fields = { reason: clip(reason, maxPath), candidates: candidates.slice(0, most).map(candidate) };
    if (candidates.length > most) fields.candidates_omitted = candidates.length - most;
    if (most > 0) {
      if (this.#candidatesLeft === maxCandidatesATurn) setImmediate(this.#nextTurn);
      this.#candidatesLeft -= most;
    }
    return fields;
  }

  connection(
    facts: ConnectionFacts,
    policy: PortPolicy,
    decision: ConnectionDecision,
    reasons: LazyReasons | undefined,
  ): void {
    if (decision.kind === 'deny') {
      if (!this.#log.isLevelEnabled('info')) return;
      const fields = { server: refFields(decision.server), ...connectionFields(facts), ...bytesFields(policy) };
      this.#log.info({ ...fields, ...this.#reasonFields(reasons) }, 'Connection denied');
      return;
    }
    const level = decision.audit ? 'info' : 'debug';
    if (!this.#log.isLevelEnabled(level)) return;
    const refs = { server: refFields(decision.server), authz: refFields(decision.authz) };
    this.#log[level]({ ...refs, ...connectionFields(facts), ...bytesFields(policy) }, 'Connection allowed');
  }

  probed(facts: ConnectionFacts, policy: PortPolicy): void {
    if (!this.#log.isLevelEnabled('debug')) return;
    this.#log.debug({ server: refFields(policy.server), ...connectionFields(facts) }, 'Connection probed');
  }

  terminated(facts: ConnectionFacts, policy: PortPolicy, reasons: LazyReasons | undefined): void {
    if (!this.#log.isLevelEnabled('info')) return;
    const fields = { server: refFields(policy.server), ...connectionFields(facts), ...bytesFields(policy) };
    this.#log.info({ ...fields, ...this.#reasonFields(reasons) }, 'Connection terminated due to policy change');
  }

  /** Nobody has looked for TLS: of the client only its address is known. */
  networkRefused(refusal: NetworkRefusal, reasons: LazyReasons): void {
    if (!this.#log.isLevelEnabled('info')) return;
    const { clientIp, clientPort, targetIp, targetPort, policies, connection } = refusal;
    const fields = {
      policies: policies.slice(0, maxCandidates).map(refFields),
      client: { ip: clientIp.text, port: clientPort, id: null },
      target: { ip: targetIp, port: targetPort },
      ...this.#reasonFields(reasons),
    };
    this.#log.info(fields, connection === 'new' ? 'Connection refused' : 'Connection terminated due to policy change');
  }

  tcpError(facts: ConnectionFacts, error: ErrorLabel, met: AppFault | null): void {
    if (!this.#log.isLevelEnabled('info')) return;
    this.#log.info({ error, ...appFields(met), ...connectionFields(facts) }, 'Connection failed');
  }

  request(facts: ConnectionFacts, decision: RequestDecision, request: RequestLog): void {
    const level = requestLevel(decision);
    if (!this.#log.isLevelEnabled(level)) return;
    const fields: Fields = { server: refFields(decision.server) };
    if ('route' in decision) fields.route = refFields(decision.route);
    if ('authz' in decision) fields.authz = refFields(decision.authz);
    Object.assign(fields, connectionFields(facts), requestFields(request));
    switch (decision.kind) {
      case 'permit':
        this.#log[level](fields, 'Request allowed');
        return;
      case 'redirect':
        this.#log[level]({ ...fields, status: decision.status }, 'Request redirected');
        return;
      case 'rate-limited':
        this.#log[level](
          { ...fields, limit: refFields(decision.limit), scope: decision.scope },
          'Request rate limited',
        );
        return;
      case 'invalid':
        this.#log[level]({ ...fields, reason: clip(decision.detail, maxPath) }, 'Request invalid');
        return;
      case 'no-route':
        this.#log[level]({ ...fields, ...this.#reasonFields(() => request.reasons()) }, 'Request not routed');
        return;
      case 'deny':
        this.#log[level]({ ...fields, ...this.#reasonFields(() => request.reasons()) }, 'Request denied');
        return;
    }
  }

  /** `verdict`: of the later policy, in the words of `explain`. */
  requestTerminated(facts: ConnectionFacts, decision: RequestRefusal, request: RequestLog): void {
    if (!this.#log.isLevelEnabled('info')) return;
    const fields = {
      server: refFields(decision.server),
      ...('route' in decision ? { route: refFields(decision.route) } : {}),
      ...connectionFields(facts),
      ...requestFields(request),
      verdict: decision.kind,
    };
    const reasons = this.#reasonFields(() => request.reasons());
    this.#log.info({ ...fields, ...reasons }, 'Request terminated due to policy change');
  }

  /** One a minute for each client, the others at debug: a client that speaks another protocol would fill the log. */
  badRequest(facts: ConnectionFacts, policy: PortPolicy, reason: string): void {
    const occasion = this.#log.isLevelEnabled('info') ? this.#malformed.occasion(facts.client.ip.text) : null;
    if (occasion === null && !this.#log.isLevelEnabled('debug')) return;
    const fields = { server: refFields(policy.server), ...connectionFields(facts), reason: clip(reason, maxText) };
    if (occasion === null) this.#log.debug(fields, 'Request malformed');
    else this.#log.info({ ...fields, ...occasionFields(occasion) }, 'Request malformed');
  }

  httpError(facts: ConnectionFacts, policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#failure('Request failed', facts, policy, failure, request);
  }

  responseBroken(facts: ConnectionFacts, policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#failure('Response broken off', facts, policy, failure, request);
  }

  #failure(
    message: string,
    facts: ConnectionFacts,
    policy: PortPolicy,
    failure: RequestFailure,
    request: RequestLog,
  ): void {
    if (!this.#log.isLevelEnabled('info')) return;
    const { code, label, detail, met } = failure;
    const fields = {
      server: refFields(policy.server),
      code,
      error: label,
      detail: clip(detail, maxText * 2),
      ...appFields(met),
    };
    this.#log.info({ ...fields, ...connectionFields(facts), ...requestFields(request) }, message);
  }
}

/** Where the app was looked for, and what the system said. */
function appFields(met: AppFault | null): object {
  return met === null ? {} : { app: met.app, errno: clip(met.errno, maxText) };
}

/** Whatever was refused, or passed only because of audit, is shown by default. */
function requestLevel(decision: RequestDecision): 'info' | 'debug' {
  if (decision.kind === 'permit' || decision.kind === 'redirect') return decision.audit ? 'info' : 'debug';
  return 'info';
}
