import { type Client, type ClientTls, tlsOfKind } from '../client.ts';
import { identityOfName } from '../identity-name.ts';
import { type IpAddress, parseIp } from '../ip.ts';
import { textOfBytes, wireText } from '../policy/bytes.ts';
import { type Carried, decideSilence, isBytes, looksFurther, probeAuthz, seenBy, takesTls } from '../policy/carried.ts';
import type {
  Authorizer,
  Candidate,
  ConnectionDecision,
  PortPolicy,
  Reasons,
  RequestFacts,
} from '../policy/decision.ts';
import { type AskedRequest, requestFacts } from '../policy/explain.ts';
import { refusalOf } from '../policy/refusals.ts';
import type { DecisionRecord, RecordedDecision, RecordedQuestion } from '../records/record.ts';
import { noValues, type WantedValues } from './hashed.ts';

/** What a policy would have decided of what a line says; or what the line lacks for that. */
export type Answer = Decision | Unknown;

export interface Decision extends Omit<RecordedDecision, 'reason'> {
  readonly kind: 'decided';
  /** NetworkPolicies closed the connection before anything of it was read. */
  readonly isolated: boolean;
  /** Why, and why not by others; computed when it is asked for. */
  reasons(): Reasons;
}

export interface Unknown {
  readonly kind: 'unknown';
  /** As in "the line does not hold …". */
  readonly lacks: string;
}

/** The port of a line, which a question may have by name; null where it is none of the pod's. */
export type PortOf = (given: RecordedQuestion['port']) => number | null;

const unknown = (lacks: string): Unknown => ({ kind: 'unknown', lacks });

/**
 * Decides what a line says by the policy in force at `authorizer`, as the data plane would, and nothing on a guess: where the
 * decision asks for what the line does not hold, it is unknown.
 *
 * @param wanted by which hashed values are told; left out, they tell nothing.
 */
export function answerTo(
  authorizer: Authorizer,
  record: DecisionRecord,
  portOf: PortOf,
  wanted: WantedValues = noValues,
): Answer {
  const { question, omits } = record;
  const port = portOf(question.port);
  const ip = parseIp(question.client);
  if (port === null) return unknown('a port of the pod');
  if (ip === undefined) return unknown('the address of the client');
  const policy = authorizer.port(port);
  if (authorizer.admits(port, ip).kind === 'refused') {
    return { ...closed(policy, () => authorizer.admissionReasons(port, ip)), isolated: true };
  }
  if (question.protocol === 'accept')
    return unknown('what would have come on the connection, which was refused at once');
  const asked = (client: Client): Answer => ofClient(authorizer, policy, client, record, wanted);
  const client = clientOf(question, ip);
  if (client === null) return unknown('an identity that a certificate could give');
  if (!omits.includes('tls') || client.tls.kind !== 'none') return asked(client);
  const [plain, inTls] = [asked(client), asked({ ip, tls: { kind: 'mesh', identity: null } })];
  if (plain.kind === 'unknown') return plain;
  const alike = inTls.kind === 'decided' && inTls.verdict === plain.verdict && inTls.authz?.name === plain.authz?.name;
  return alike ? plain : unknown('whether the client used TLS');
}

/** Of a log's lines: policies remember what they have found out about one object. */
const recentClients = new Map<string, Client>();
const mostClients = 4096;

function clientOf(question: RecordedQuestion, ip: IpAddress): Client | null {
  const { identity, tls } = question;
  const key = identity === undefined ? `${ip.text} ${tls}` : `${ip.text}=${identity}`;
  const known = recentClients.get(key);
  if (known !== undefined) return known;
  const found = tlsOf(question);
  if (found === null) return null;
  if (recentClients.size >= mostClients) recentClients.clear();
  const client: Client = { ip, tls: found };
  recentClients.set(key, client);
  return client;
}

function tlsOf({ identity, tls = 'none' }: RecordedQuestion): ClientTls | null {
  if (identity !== undefined) {
    const found = identityOfName(identity);
    return found === null ? null : { kind: 'mesh', identity: found };
  }
  return tlsOfKind(tls);
}

function ofClient(
  authorizer: Authorizer,
  policy: PortPolicy,
  given: Client,
  record: DecisionRecord,
  wanted: WantedValues,
): Answer {
  const { question } = record;
  const { protocol } = question;
  const inTls = given.tls.kind === 'passthrough' && takesTls(authorizer, policy, given);
  const client = inTls ? given : seenBy(policy, given);
  if (protocol === 'connect') return ofSilence(authorizer, policy, client);
  if (protocol === 'tcp') {
    if (inTls) return unknown('what was in the TLS, which would end here');
    // A question says what came; a line of a log says what was seen of it.
    return record.form !== 'question' && looksFurther(policy, client, question.declared)
      ? unknown(`what it begins with, which a port of protocol ${policy.protocol} looks for`)
      : ofConnection(policy, authorizer.connection(policy, client), () => authorizer.connectionReasons(policy, client));
  }
  if (!inTls && isBytes(policy, client, protocol as Carried)) {
    return ofConnection(policy, authorizer.connection(policy, client), () =>
      authorizer.connectionReasons(policy, client),
    );
  }
  return ofRequest(authorizer, policy, client, record, protocol as Exclude<Carried, 'tcp'>, wanted);
}

function ofSilence(authorizer: Authorizer, policy: PortPolicy, client: Client): Answer {
  const decision = decideSilence(authorizer, policy, client);
  if (decision.kind !== 'probed') {
    return ofConnection(policy, decision, () => authorizer.connectionReasons(policy, client));
  }
  const { server } = policy;
  return { kind: 'decided', verdict: 'permit', ...plain, server, authz: probeAuthz, reasons: noReasons };
}

const plain = { isolated: false, status: null, audit: false, route: null, authz: null } as const;
const noReasons = (): Reasons => ({ reason: '', candidates: [] });

function closed({ server }: PortPolicy, reasons: () => Reasons): Decision {
  return { kind: 'decided', verdict: 'deny', ...plain, server, reasons };
}

function ofConnection(policy: PortPolicy, decision: ConnectionDecision, reasons: () => Reasons): Answer {
  if (decision.kind === 'deny') return closed(policy, reasons);
  const { server, authz, audit } = decision;
  return { kind: 'decided', verdict: 'permit', ...plain, server, authz, audit, reasons };
}

function ofRequest(
  authorizer: Authorizer,
  policy: PortPolicy,
  client: Client,
  record: DecisionRecord,
  protocol: Exclude<Carried, 'tcp'>,
  wanted: WantedValues,
): Answer {
  const { omits } = record;
  for (const part of ['path', 'method'] as const) if (omits.includes(part)) return unknown(`the ${part}`);
  const parameter = omits.includes('query') ? unknownParameter(policy, record) : null;
  if (parameter !== null) return unknown(`${parameter}, which routes of the port look at`);
  const facts = requestFacts(askedOf(record), protocol);
  if ('reason' in facts) {
    const { status, reason } = facts;
    const reasons = (): Reasons => ({ reason, candidates: [] });
    return { kind: 'decided', verdict: 'invalid', ...plain, status, server: policy.server, reasons };
  }
  const told = new ToldFacts(facts, record, wanted);
  const decision = authorizer.request(policy, client, told);
  if (told.missing !== null) return unknown(told.missing);
  return {
    kind: 'decided',
    isolated: false,
    verdict: decision.kind,
    status: refusalOf(decision)?.http ?? null,
    audit: 'audit' in decision && decision.audit,
    server: decision.server,
    route: 'route' in decision ? decision.route : null,
    authz: 'authz' in decision ? decision.authz : null,
    reasons: () => authorizer.requestReasons(policy, client, told, decision),
  };
}

/** What of the query that a line leaves out the policy looks at. */
function unknownParameter(
  { asks }: PortPolicy,
  { question: { path = '' }, parameters }: DecisionRecord,
): string | null {
  const name = asks.query.beyond(parameters.map(wireText));
  const mark = path.indexOf('?');
  // A query with a fragment is refused for that alone.
  if (name === null || (mark !== -1 && path.includes('#', mark))) return null;
  return parameters.length === 0 ? 'the query' : `the query parameter ${JSON.stringify(textOfBytes(name))}`;
}

function askedOf({ form, question }: DecisionRecord): AskedRequest {
  const { method, path, host, headers, names, carries } = question;
  // Of millions of lines: nothing made on the way.
  const asked: { -readonly [Field in keyof AskedRequest]: AskedRequest[Field] } = {};
  if (method !== undefined) asked.method = method;
  if (path !== undefined) asked.path = path;
  if (host !== undefined) asked.host = host;
  if (carries !== undefined) asked.carries = carries;
  // Most records hold none: their routes look at none.
  if (form === 'question') {
    if (headers !== undefined) asked.headers = fieldsOf(headers, []);
  } else if (headers !== undefined || names !== undefined) {
    asked.headers = fieldsOf(headers ?? {}, names ?? []);
    asked.areSorted = true;
  }
  return asked;
}

function fieldsOf(
  headers: Readonly<Record<string, readonly string[]>>,
  names: readonly string[],
): (readonly [string, string])[] {
  const withheld = names.filter((name) => !Object.hasOwn(headers, name)).map((name) => [name, ''] as const);
  return [...Object.entries(headers).flatMap(([name, values]) => values.map((v) => [name, v] as const)), ...withheld];
}

/** A request as a line tells it, that knows when it is asked for what the line does not hold. */
class ToldFacts implements RequestFacts {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly grpc: boolean;
  readonly oddNames: readonly string[];
  readonly #facts: RequestFacts;
  readonly #record: DecisionRecord;
  readonly #wanted: WantedValues;
  /** The first of what was asked for in vain. */
  missing: string | null = null;

  constructor(facts: RequestFacts, record: DecisionRecord, wanted: WantedValues) {
    this.#facts = facts;
    this.#record = record;
    this.#wanted = wanted;
    this.method = facts.method;
    this.path = facts.path;
    this.query = facts.query;
    this.grpc = facts.grpc;
    this.oddNames = facts.oddNames;
  }

  get host(): string {
    if (this.#record.omits.includes('host')) this.missing ??= 'the host';
    return this.#facts.host;
  }

  get carries(): RequestFacts['carries'] {
    if (this.#record.omits.includes('carries')) this.missing ??= 'whether content came with the request';
    return this.#facts.carries;
  }

  header(name: string): readonly string[] {
    const { question, omits, salt } = this.#record;
    // Over HTTP/2 it is a field for rules only where the app gets HTTP/1, which the record does not say.
    const isHost = name === 'host' && question.protocol === 'http1';
    const isTold = isHost || Object.hasOwn(question.headers ?? {}, name) || !omits.includes('headers');
    if (!isTold) this.missing ??= `the header ${name}`;
    const values = this.#facts.header(name);
    return salt === null ? values : values.map((hash) => this.#unhashed(name, salt, hash));
  }

  #unhashed(name: string, salt: string, hash: string): string {
    const value = this.#wanted.valueOf(name, salt, hash);
    if (value === null) this.missing ??= `the header ${name} but as a hash`;
    return value ?? '';
  }
}

/** In a few words: which clause of which authorization failed; empty where none was asked. */
export function failedClauses(candidates: readonly Candidate[]): string {
  const failed = candidates.filter(({ granted }) => !granted);
  const shown = failed.slice(0, mostClauses).map(({ authz, failed: clause }) => `${authz.name} ${clause}`);
  return [...shown, ...(failed.length > mostClauses ? ['…'] : [])].join(', ');
}

const mostClauses = 4;
