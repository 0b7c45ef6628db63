import { isLatin1, textOfBytes } from '../policy/bytes.ts';
import type { RequestDecision } from '../policy/decision.ts';
import { valueText } from '../printable.ts';
import type { ResourceRef } from '../resource-ref.ts';
import {
  BadLine,
  type DecisionRecord,
  isPort,
  jsonValue,
  type Omission,
  portProtocols,
  type RecordedDecision,
  type RecordedQuestion,
} from './record.ts';

/*
 * Lines of our own logs as they stand: the decision log in JSON or plain, the access log in JSON or as Apache has it. Fields
 * that older lines lack are left out or told from others, as far as that is certain.
 */

export type JsonFields = Readonly<Record<string, unknown>>;

/** Of a log about something else: `other`. `logged`: the message, or the status, that the line has. */
export type LogLine = { readonly kind: 'other' } | { readonly kind: 'lost'; readonly count: number } | LoggedDecision;

export interface LoggedDecision {
  readonly kind: 'logged';
  readonly logged: string;
  readonly record: DecisionRecord;
  readonly time: string | null;
  /** So many others of its kind have no line. */
  readonly leftOut: number;
}

const other: LogLine = { kind: 'other' };

/** As the plain format begins. */
const plainStart = /^(\d{4}-\d\d-\d\dT[\d:.]+Z) (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) /;
const apacheLine = /^(\S+:\d+) (\S+) - \[([^\]]+)\] "(.*)" (\d{3})$/;

const whole = 'Take the line from the log again: this one is not whole.';

/** Null: it is no such line. @throws BadLine */
export function textLogLine(line: string): LogLine | null {
  const plain = plainStart.exec(line);
  if (plain !== null) {
    const [start, time = null, level = ''] = plain;
    return decisionLine({ ...plainFields(line.slice(start.length)), level: level.toLowerCase() }, time);
  }
  const apache = apacheLine.exec(line);
  return apache === null ? null : ofApache(apache);
}

/** Null: it is no such line. @throws BadLine */
export function jsonLogLine(value: JsonFields): LogLine | null {
  if (typeof value.msg === 'string' && typeof value.level === 'string') {
    return decisionLine(flat(value), typeof value.time === 'string' ? value.time : null);
  }
  return typeof value['client.addr'] === 'string' ? accessLine(value) : null;
}

/** `client.ip` for `{ client: { ip } }`, as plain lines have it. */
function flat(value: JsonFields): JsonFields {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) =>
      typeof inner === 'object' && inner !== null && !Array.isArray(inner)
        ? Object.entries(inner).map(([field, leaf]) => [`${name}.${field}`, leaf])
        : [[name, inner]],
    ),
  );
}

/** What each message about a decision says. Null: what became of a decision that has a line of its own. */
const verdicts: ReadonlyMap<string, RequestDecision['kind'] | null> = new Map([
  ['Request denied', 'deny'],
  ['Request allowed', 'permit'],
  ['Request not routed', 'no-route'],
  ['Request rate limited', 'rate-limited'],
  ['Request invalid', 'invalid'],
  ['Request redirected', 'redirect'],
  ['Request failed', null],
  ['Connection denied', 'deny'],
  ['Connection allowed', 'permit'],
  ['Connection refused', 'deny'],
  ['Connection terminated due to policy change', 'deny'],
  ['Connection failed', null],
]);

/** Its line says itself what the later policy makes of it. */
const terminated = 'Request terminated due to policy change';

function verdictOf(given: unknown): RequestDecision['kind'] | null {
  return [...verdicts.values()].find((each) => each === given) ?? null;
}

function decisionLine(fields: JsonFields, time: string | null): LogLine {
  const message = String(fields.msg);
  if (message === 'Log lines left out') return leftOutLine(fields);
  const verdict = message === terminated ? verdictOf(fields.verdict) : verdicts.get(message);
  const [client, port] = [fields['client.ip'], Number(fields['target.port'])];
  if (verdict === undefined || typeof client !== 'string' || fields['target.port'] === undefined) return other;
  if (!isPort(port)) throw new BadLine('target.port', `${valueText(fields['target.port'])} is not a port`, whole);
  const isRequest = message.startsWith('Request ');
  // NetworkPolicies come before anything is known of the client.
  const isUnseen = fields.policies !== undefined;
  const question: RecordedQuestion = isUnseen
    ? { port, client, protocol: 'accept' }
    : isRequest
      ? { port, client, ...tlsOf(fields), ...requestOf(fields) }
      : { port, client, ...tlsOf(fields), protocol: 'tcp', ...declaredOf(fields) };
  const decided = verdict === null ? null : decidedOf(verdict, fields);
  const omits = isRequest ? logged : none;
  return {
    kind: 'logged',
    logged: message,
    time,
    leftOut: verdict === null ? 0 : numberOf(fields.times, 1) - 1 + numberOf(fields.omitted, 0),
    record: { form: 'log', question, omits, parameters: none, salt: null, decided },
  };
}

/** Says how many decisions have no line of their own; where it says nothing about which, they may have been any. */
function leftOutLine({ about, lines }: JsonFields): LogLine {
  const isOther = about !== undefined && (verdicts.get(String(about)) ?? null) === null;
  return isOther ? other : { kind: 'lost', count: numberOf(lines, 1) };
}

function numberOf(given: unknown, least: number): number {
  const number = Number(given ?? least);
  return Number.isSafeInteger(number) && number >= least && number <= mostLeftOut ? number : least;
}

/** More than any proxy leaves out, and thousands of such can be summed up exactly. */
const mostLeftOut = 1e12;

const logged: readonly Omission[] = ['query', 'headers', 'carries'];
const accessed: readonly Omission[] = ['headers', 'carries'];
const apache: readonly Omission[] = ['host', 'headers', 'carries'];
const withoutTls = (omits: readonly Omission[]): readonly Omission[] => ['tls', ...omits];
const none: readonly never[] = [];

function decidedOf(verdict: RequestDecision['kind'], fields: JsonFields): RecordedDecision {
  const authz = refOf(fields, 'authz');
  return {
    verdict,
    status: null,
    // Allowed at the level info, which is for audit alone.
    audit: verdict === 'permit' && fields.level === 'info',
    server: refOf(fields, 'server'),
    route: refOf(fields, 'route'),
    authz,
    reason: typeof fields.reason === 'string' ? fields.reason : '',
  };
}

function refOf(fields: JsonFields, field: string): ResourceRef | null {
  const text = fields[field];
  if (typeof text === 'string') {
    const [, group = '', kind = '', name = ''] = /^([^/]*)\/([^/]*)\/(.*)$/.exec(text) ?? [];
    return kind === '' ? null : { group, kind, name };
  }
  const [group, kind, name] = [fields[`${field}.group`], fields[`${field}.kind`], fields[`${field}.name`]];
  if (typeof group !== 'string' || typeof kind !== 'string' || typeof name !== 'string') return null;
  return { group, kind, name };
}

function tlsOf({ 'client.id': id, tls, tls_kind: kind }: JsonFields): Pick<RecordedQuestion, 'identity' | 'tls'> {
  if (typeof id === 'string' && id !== '') return { identity: uncut('identity', id) };
  if (kind === 'none' || kind === 'anonymous' || kind === 'passthrough') return { tls: kind };
  return { tls: tls === 'true' ? 'anonymous' : tls === 'opaque' ? 'passthrough' : 'none' };
}

type RequestPart = Pick<RecordedQuestion, 'protocol' | 'method' | 'path' | 'host'>;

function requestOf(fields: JsonFields): RequestPart {
  const { method, path, host } = fields;
  return {
    protocol: protocolOf(fields),
    method: uncut('method', method),
    path: uncut('path', path),
    // A request of HTTP/1.0 has none.
    ...(host === '' || host === undefined ? {} : { host: uncut('host', host) }),
  };
}

/** Of lines that do not name it: known where nobody has looked for TLS. */
function declaredOf({ port_protocol: named, no_tls_reason: reason }: JsonFields): Pick<RecordedQuestion, 'declared'> {
  const declared = portProtocols.find((each) => each === named);
  if (declared !== undefined) return { declared };
  return reason === 'port_skipped' ? { declared: 'opaque' } : {};
}

/** Of lines that do not name it, by the version; gRPC only where its route says so. */
function protocolOf(fields: JsonFields): RecordedQuestion['protocol'] {
  const { version, protocol } = fields;
  if (protocol === 'http1' || protocol === 'http2' || protocol === 'grpc') return protocol;
  const isGrpc = fields['route.kind'] === 'GRPCRoute' || /\/GRPCRoute\//.test(String(fields.route ?? ''));
  if (!/^HTTP\/2/.test(String(version))) return 'http1';
  return isGrpc ? 'grpc' : 'http2';
}

/** A log cuts what is long, and half a path is another path. A log has text as it came, one character for a byte. */
function uncut(field: string, value: unknown): string {
  if (typeof value !== 'string') throw new BadLine(field, 'is missing', whole);
  if (isCut(value)) throw new BadLine(field, 'was cut by the log', 'Record decisions: SALLYPORT_DECISIONS=all.');
  return isLatin1(value) ? textOfBytes(value) : value;
}

/** As `clip` of lib/telemetry/line-bounds.ts writes it, and as versions before it did. No byte of a client's is this character. */
function isCut(text: string): boolean {
  return /…(?:\(\+\d+ bytes\))?$/.test(text);
}

function accessLine(fields: JsonFields): LogLine {
  const { host, method, uri, version, status, port, protocol, tls, timestamp } = fields;
  const request = requestOf({ host, method, path: uri, version, protocol });
  const client = addressOf(fields['client.addr']);
  const { seen, omits } = accessTls(fields['client.id'], tls, accessed);
  if (port !== undefined && !isPort(port)) throw new BadLine('port', `${valueText(port)} is not a port`, whole);
  const at = port === undefined ? {} : { port };
  return {
    kind: 'logged',
    logged: String(status),
    time: typeof timestamp === 'string' ? timestamp : null,
    leftOut: 0,
    record: {
      form: 'access',
      question: { ...at, client, ...seen, ...request },
      omits,
      parameters: none,
      salt: null,
      decided: null,
    },
  };
}

/** Lines without `tls` do not say of a client without an identity whether there was TLS. */
function accessTls(
  id: unknown,
  tls: unknown,
  omits: readonly Omission[],
): { readonly seen: Pick<RecordedQuestion, 'identity' | 'tls'>; readonly omits: readonly Omission[] } {
  if (typeof id === 'string' && id !== '') return { seen: { identity: uncut('identity', id) }, omits };
  if (tls === 'none' || tls === 'anonymous' || tls === 'passthrough') return { seen: { tls }, omits };
  return { seen: { tls: 'none' }, omits: withoutTls(omits) };
}

function ofApache([, address, id, time = '', quoted = '', status = '']: RegExpExecArray): LogLine {
  const request = String(parsed(`"${quoted}"`));
  const [, method, path, version] = /^(\S+) (.*) (\S+)$/s.exec(request) ?? [];
  if (method === undefined) throw new BadLine(null, 'is a line of the access log without a request', whole);
  const { seen, omits } = accessTls(id === '-' ? '' : id, undefined, apache);
  const question: RecordedQuestion = { client: addressOf(address), ...seen, ...requestOf({ method, path, version }) };
  const record: DecisionRecord = { form: 'access', question, omits, parameters: none, salt: null, decided: null };
  return { kind: 'logged', logged: status, time, record, leftOut: 0 };
}

/** `10.1.2.3:4567` and `[::1]:4567`, without the port. */
function addressOf(given: unknown): string {
  return String(given)
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
}

/** The fields of a plain line, with its message as `msg`. */
function plainFields(text: string): JsonFields {
  const first = /(?: |^)([\w.:/@*+-]+)=/.exec(text);
  const fields: Record<string, unknown> = { msg: first === null ? text : text.slice(0, first.index) };
  let at = first?.index ?? text.length;
  while (at < text.length) {
    const [matched, name = ''] = /^ *([\w.:/@*+-]+|"(?:[^"\\]|\\.)*")=/.exec(text.slice(at)) ?? [];
    if (matched === undefined) break;
    const from = at + matched.length;
    const to = endOfValue(text, from);
    const value = text.slice(from, to);
    fields[name] = /^["[{]/.test(value) ? parsed(value) : value;
    at = to;
  }
  return fields;
}

function parsed(text: string): unknown {
  try {
    return jsonValue(text);
  } catch (error) {
    if (error instanceof BadLine) throw error;
    throw new BadLine(null, 'is a line of the log that is not whole', whole);
  }
}

/** Where a value ends: a quoted one at its quote, a list at its bracket, any other before a blank. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  let quoted = false;
  for (let i = from; i < text.length; i++) {
    const character = text[i];
    if (quoted) {
      if (character === '\\') i++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth--;
    else if (character === ' ' && depth === 0) return i;
  }
  return text.length;
}
