/**
 * Decisions as log lines. The client gets a status; what it asked for and which clause failed is logged here.
 * Client text is cut to a length on its way (client-lines.ts) and escaped by the writer (log.ts), so that every line stays one.
 */
import { type Client, clientId, tlsKind } from '../client.ts';
import type { ConnectionDecision, PortPolicy, RequestDecision, RequestRefusal } from '../policy/decision.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type {
  AppFault,
  ErrorLabel,
  LazyReasons,
  NetworkRefusal,
  PendingRequest,
  RequestFailure,
  RequestLog,
} from '../proxy/recorder.ts';
import { type ResourceRef, refText } from '../resource-ref.ts';
import { type ClientLines, clientKey } from './client-lines.ts';
import type { LineFields } from './line-bounds.ts';
import type { LineCause } from './line-gate.ts';

/** A server may have thousands of authorizations; the first ones are enough to see what kind is missing. */
const maxCandidates = 20;
/**
 * And of all lines of one turn of the event loop together. A line with twenty of them is five kilobytes, which takes longer
 * to write than a request takes to refuse: who has a thousand refused at once shall hold up nobody by the log of it.
 */
const maxCandidatesATurn = 200;

function refFields(ref: ResourceRef): LineFields {
  return { group: ref.group, kind: ref.kind, name: ref.name };
}

/** The same words as the `tls` label of metrics, so that a line leads to its series; and the SNI, which metrics omit. */
function tlsFields(client: Client): LineFields {
  switch (client.tls.kind) {
    case 'none':
      return { tls: 'no_identity', no_tls_reason: client.tls.reason };
    case 'mesh':
      return { tls: 'true' };
    case 'passthrough':
      return { tls: 'opaque', sni: client.tls.sni };
  }
}

function connectionFields(facts: ConnectionFacts): LineFields {
  const { client } = facts;
  return {
    client: { ip: client.ip.text, port: facts.clientPort, id: clientId(client) },
    ...tlsFields(client),
    target: { ip: facts.targetIp, port: facts.targetPort },
    port: facts.targetPort,
    tls_kind: tlsKind(client),
  };
}

/** In the words of `explain` and of the record of decisions. */
function requestProtocol({ grpc, version }: PendingRequest): 'http1' | 'http2' | 'grpc' {
  if (grpc) return 'grpc';
  return version.startsWith('HTTP/2') ? 'http2' : 'http1';
}

/** What bytes are decided by. */
function bytesFields({ protocol }: PortPolicy): LineFields {
  return { protocol: 'tcp', port_protocol: protocol };
}

function requestFields({ method, path, host, version, facts }: RequestLog): LineFields {
  return askedFields({ method, path, host, version, grpc: facts.grpc });
}

function askedFields(request: PendingRequest): LineFields {
  const { method, path, host, version } = request;
  return { protocol: requestProtocol(request), method, path, host, version };
}

/** Why there is a line: of documents and ports of ours alone. */
function causeOf(refs: readonly ResourceRef[]): string {
  return refs.map(refText).join(' ');
}

function about(facts: ConnectionFacts, ...refs: readonly ResourceRef[]): LineCause {
  const { client, targetPort } = facts;
  return { cause: causeOf(refs), client: clientKey(client.ip, targetPort, clientId(client)) };
}

export class DecisionLog {
  readonly #lines: ClientLines;
  readonly #adminPort: number | undefined;
  #candidatesLeft = maxCandidatesATurn;
  readonly #nextTurn = (): void => {
    this.#candidatesLeft = maxCandidatesATurn;
  };

  /** @param adminPort of our own pages, behind policy like any other port; undefined where there is none. */
  constructor(lines: ClientLines, adminPort: number | undefined) {
    this.#lines = lines;
    this.#adminPort = adminPort;
  }

  #reasonFields(reasons: LazyReasons | undefined): LineFields {
    if (reasons === undefined) return {};
    const { reason, candidates, hint } = reasons();
    const most = Math.min(maxCandidates, this.#candidatesLeft, candidates.length);
    const fields: LineFields = { reason, candidates: candidates.slice(0, most) };
    if (hint !== undefined) fields.hint = hint;
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
      this.#lines.tell('Connection denied', about(facts, decision.server), () => ({
        server: refFields(decision.server),
        ...connectionFields(facts),
        ...bytesFields(policy),
        ...this.#reasonFields(reasons),
      }));
      return;
    }
    const fields = (): LineFields => {
      const refs = { server: refFields(decision.server), authz: refFields(decision.authz) };
      return { ...refs, ...connectionFields(facts), ...bytesFields(policy) };
    };
    if (decision.audit) {
      this.#lines.tell('Connection allowed', about(facts, decision.server, decision.authz), fields);
    } else this.#lines.debug('Connection allowed', fields);
  }

  probed(facts: ConnectionFacts, policy: PortPolicy): void {
    this.#lines.debug('Connection probed', () => ({ server: refFields(policy.server), ...connectionFields(facts) }));
  }

  terminated(facts: ConnectionFacts, policy: PortPolicy, reasons: LazyReasons | undefined): void {
    this.#lines.tell('Connection terminated due to policy change', about(facts, policy.server), () => ({
      server: refFields(policy.server),
      ...connectionFields(facts),
      ...bytesFields(policy),
      ...this.#reasonFields(reasons),
    }));
  }

  /** Nobody has looked for TLS: of the client only its address is known. */
  networkRefused(refusal: NetworkRefusal, reasons: LazyReasons): void {
    const { clientIp, clientPort, targetIp, targetPort, policies, connection } = refusal;
    const shown = policies.slice(0, maxCandidates);
    const message = connection === 'new' ? 'Connection refused' : 'Connection terminated due to policy change';
    this.#lines.tell(message, { cause: causeOf(shown), client: clientKey(clientIp, targetPort) }, () => ({
      policies: shown.map(refFields),
      client: { ip: clientIp.text, port: clientPort, id: null },
      target: { ip: targetIp, port: targetPort },
      ...this.#reasonFields(reasons),
    }));
  }

  tcpError(facts: ConnectionFacts, error: ErrorLabel, met: AppFault | null): void {
    const { cause, client } = about(facts);
    const fields = (): LineFields => ({ error, ...appFields(met), ...connectionFields(facts) });
    const why = { cause: `${cause} ${error} ${met?.app ?? ''}`, client };
    if (met === null) this.#lines.tell('Connection failed', why, fields);
    else {
      const code = 'ERR_SALLYPORT_UNREACHABLE';
      this.#lines.tell('Connection failed', why, () => ({ code, ...fields() }), 'warn');
    }
  }

  request(facts: ConnectionFacts, decision: RequestDecision, request: RequestLog): void {
    // Of most requests there is no line, and nothing is made for one.
    if ((decision.kind === 'permit' || decision.kind === 'redirect') && !decision.audit) {
      if (!this.#lines.isEnabled('debug')) return;
      this.#lines.debug(requestMessages[decision.kind], () => this.#requestFields(facts, decision, request));
      return;
    }
    if (!this.#lines.isEnabled('info')) return;
    const refs = [decision.server];
    if ('route' in decision) refs.push(decision.route);
    if ('authz' in decision) refs.push(decision.authz);
    if ('limit' in decision) refs.push(decision.limit);
    const fields = () => this.#requestFields(facts, decision, request);
    this.#lines.tell(requestMessages[decision.kind], about(facts, ...refs), fields);
  }

  #requestFields(facts: ConnectionFacts, decision: RequestDecision, request: RequestLog): LineFields {
    const fields: LineFields = { server: refFields(decision.server) };
    if ('route' in decision) fields.route = refFields(decision.route);
    if ('authz' in decision) fields.authz = refFields(decision.authz);
    Object.assign(fields, connectionFields(facts), requestFields(request));
    switch (decision.kind) {
      case 'permit':
        return fields;
      case 'redirect':
        return { ...fields, status: decision.status };
      case 'rate-limited':
        return { ...fields, limit: refFields(decision.limit), scope: decision.scope };
      case 'invalid':
        return { ...fields, reason: decision.detail };
      case 'no-route':
      case 'deny':
        return { ...fields, ...this.#reasonFields(() => request.reasons()), ...this.#adminHint(facts) };
    }
  }

  /** `verdict`: of the later policy, in the words of `explain`. */
  requestTerminated(facts: ConnectionFacts, decision: RequestRefusal, request: RequestLog): void {
    const refs = [decision.server];
    if ('route' in decision) refs.push(decision.route);
    this.#lines.tell('Request terminated due to policy change', about(facts, ...refs), () => ({
      server: refFields(decision.server),
      ...('route' in decision ? { route: refFields(decision.route) } : {}),
      ...connectionFields(facts),
      ...requestFields(request),
      verdict: decision.kind,
      ...this.#reasonFields(() => request.reasons()),
    }));
  }

  /** The client gets a status and nothing else, and policy is not what an operator looks for here. */
  #adminHint({ targetPort }: ConnectionFacts): LineFields {
    return targetPort === this.#adminPort ? { hint: adminHint } : {};
  }

  /** A client that speaks another protocol would fill the log. */
  badRequest(facts: ConnectionFacts, policy: PortPolicy, reason: string): void {
    const fields = () => ({ server: refFields(policy.server), ...connectionFields(facts), reason });
    this.#lines.tell('Request malformed', about(facts, policy.server), fields);
  }

  httpError(facts: ConnectionFacts, policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#failure('Request failed', facts, policy, failure, request);
  }

  responseBroken(facts: ConnectionFacts, policy: PortPolicy, failure: RequestFailure, request: RequestLog): void {
    this.#failure('Response broken off', facts, policy, failure, request);
  }

  /** Null: a policy is in force no more under which it was let in. */
  slow(
    facts: ConnectionFacts,
    server: ResourceRef | null,
    request: PendingRequest,
    status: number | null,
    waitedMs: number,
  ): void {
    this.#lines.tell('Slow request', server === null ? about(facts) : about(facts, server), () => ({
      code: 'slow-request',
      ...(server === null ? {} : { server: refFields(server) }),
      status,
      waitedMs: Math.round(waitedMs),
      ...connectionFields(facts),
      ...askedFields(request),
    }));
  }

  #failure(
    message: 'Request failed' | 'Response broken off',
    facts: ConnectionFacts,
    policy: PortPolicy,
    failure: RequestFailure,
    request: RequestLog,
  ): void {
    const { code, label, detail, met, waitedMs } = failure;
    const { cause, client } = about(facts, policy.server);
    const fields = (): LineFields => ({
      server: refFields(policy.server),
      code,
      error: label,
      detail,
      ...appFields(met),
      ...(waitedMs === undefined ? {} : { waitedMs: Math.round(waitedMs) }),
      ...connectionFields(facts),
      ...requestFields(request),
    });
    // What the app did, or did not do, is for its operator to mend.
    this.#lines.tell(message, { cause: `${cause} ${code}`, client }, fields, met === null ? 'info' : 'warn');
  }
}

const adminHint =
  "This is Sallyport's own admin port, behind policy like any other: authorize who asks on a Server for its port (linkerd-admin), from this machine 127.0.0.1 and ::1, or leave SALLYPORT_AUTHORIZE_LOCALHOST true; /live and /ready are on the health port without any policy.";

/** What a line says of each decision about a request. */
const requestMessages = {
  permit: 'Request allowed',
  redirect: 'Request redirected',
  'rate-limited': 'Request rate limited',
  invalid: 'Request invalid',
  'no-route': 'Request not routed',
  deny: 'Request denied',
} as const;

/** Where the app was looked for, and what the system said. */
function appFields(met: AppFault | null): LineFields {
  return met === null ? {} : { app: met.app, errno: met.errno };
}
