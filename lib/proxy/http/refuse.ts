import { clientId } from '../../client.ts';
import { isWantOfDescriptors, systemErrorCode } from '../../errors/coded-error.ts';
import type { RequestErrorCode } from '../../errors/error-codes.ts';
import { hostPort } from '../../ip.ts';
import type { RequestRefusal } from '../../policy/decision.ts';
import { refusalOf, refusals } from '../../policy/refusals.ts';
import { oneLine } from '../../printable.ts';
import type { HeaderList } from '../../request-fields.ts';
import type { ConnectionFacts } from '../connection-facts.ts';
import type { ErrorLabel } from '../recorder.ts';

/** What a refused client gets, on HTTP and on gRPC. The one place that maps denials and failures to the wire. */
export interface Refusal {
  readonly status: number;
  /** gRPC status code; the HTTP status is then 200 (trailers-only response). */
  readonly grpc: number;
  /** End the connection after the response: the message or the app cannot be trusted to be in step. */
  readonly close: boolean;
  /** For redirects. */
  readonly location: string | null;
  /** Sent in `l5d-proxy-error` and `grpc-message`, to clients with an identity only. */
  readonly message: string;
}

/** A decision that is no permit, as a response. */
export function refusalFor(decision: RequestRefusal, connection: ConnectionFacts): Refusal {
  const { http, grpc, close } = refusalOf(decision) ?? refusals.deny;
  const location = decision.kind === 'redirect' ? decision.location : null;
  return { status: http, grpc, close, location, message: messageFor(decision, connection) };
}

function messageFor(decision: RequestRefusal, connection: ConnectionFacts): string {
  const { client, clientPort, targetIp, targetPort } = connection;
  const where = `client ${hostPort(client.ip.text, clientPort)}: server: ${hostPort(targetIp, targetPort)}: `;
  switch (decision.kind) {
    case 'deny':
      return `${where}unauthorized request on route`;
    case 'no-route':
      return `${where}no route found for request`;
    case 'rate-limited':
      return `${where}${decision.detail}`;
    case 'redirect':
      return decision.location === null ? 'redirect cannot replace a prefix' : 'redirected';
    case 'invalid':
      return 'ambiguous or invalid request path';
  }
}

/** Something went wrong between us and the app, or in us. */
export interface Failure {
  readonly code: RequestErrorCode;
  readonly refusal: Refusal;
  readonly label: ErrorLabel;
  /** What the system or a library called it; null where the app was never asked. */
  readonly errno: string | null;
  /** What was wrong with an app's response, for the log: the rule, and the field. Null where that is not known. */
  readonly rule: string | null;
}

type FailureResponse = readonly [status: number, grpc: number, label: ErrorLabel, message: string, kept?: 'kept'];

const unreachable = 'client error (Connect)';
const noPlace = 'service unavailable';
/** Characters of what a library says. */
const mostOfRule = 200;

/** The response to each code. The connection ends with it, unless it is `kept`. */
const failureResponses: Readonly<Record<RequestErrorCode, FailureResponse>> = {
  ERR_SALLYPORT_UNREACHABLE: [502, 14, 'i/o', unreachable],
  ERR_SALLYPORT_APP_CLOSED: [502, 14, 'i/o', 'client error (SendRequest)'],
  ERR_SALLYPORT_NOT_PROCESSED: [502, 14, 'i/o', unreachable],
  ERR_SALLYPORT_CANCELLED: [502, 14, 'i/o', unreachable],
  ERR_SALLYPORT_BAD_RESPONSE: [502, 14, 'i/o', 'the application sent an invalid response'],
  ERR_SALLYPORT_CONNECT_TIMEOUT: [504, 4, 'i/o', 'connect timed out'],
  ERR_SALLYPORT_REQUEST_TIMEOUT: [504, 4, 'i/o', 'request timed out'],
  ERR_SALLYPORT_OVERLOAD: [503, 14, 'loadshed', noPlace],
  ERR_SALLYPORT_OTHER_FILTERS: [503, 14, 'unexpected', 'the policy has changed'],
  ERR_SALLYPORT_CONNECTS: [503, 14, 'loadshed', noPlace],
  ERR_SALLYPORT_DESCRIPTORS: [503, 14, 'loadshed', noPlace],
  ERR_SALLYPORT_LOOP: [508, 10, 'gateway loop', 'inbound connection must not target the proxy itself'],
  ERR_SALLYPORT_LOOPBACK: [502, 14, 'i/o', unreachable],
  ERR_SALLYPORT_HEAD_TOO_LARGE: [431, 8, 'unexpected', 'request head too large', 'kept'],
  ERR_SALLYPORT_NO_UPGRADE: [400, 3, 'unexpected', 'bad request'],
  ERR_SALLYPORT_UNEXPECTED: [500, 13, 'unexpected', 'unexpected error'],
};

const byCode: ReadonlyMap<string, Failure> = new Map(
  (Object.entries(failureResponses) as [RequestErrorCode, FailureResponse][]).map(
    ([code, [status, grpc, label, message, kept]]) => [
      code,
      {
        code,
        label,
        errno: null,
        rule: null,
        refusal: { status, grpc, close: kept === undefined, location: null, message },
      },
    ],
  ),
);

export function failureOf(code: RequestErrorCode): Failure {
  return byCode.get(code) as Failure;
}

/** Of a response that has begun: nothing is wrong with the way to the app any more, of which a refusal would speak. */
export function brokenDetail(failure: Failure): string {
  const byApp = failure.code === 'ERR_SALLYPORT_UNREACHABLE' || failure.code === 'ERR_SALLYPORT_APP_CLOSED';
  return byApp ? 'the application ended it' : failureDetail(failure);
}

/** What the log says of a request that was not served. The client is told in the words of Linkerd, which say less. */
export function failureDetail({ code, refusal, rule }: Failure): string {
  if (code === 'ERR_SALLYPORT_UNREACHABLE') return 'the application cannot be connected to';
  if (code === 'ERR_SALLYPORT_APP_CLOSED') return 'the application ended the connection before it had answered';
  return rule === null ? refusal.message : `${refusal.message}: ${rule}`;
}

/** Printable, and bounded: see `ResponseFault`; a library names rules of its own. */
function ruleOf(code: string, error: unknown): string | null {
  if (code !== ('ERR_SALLYPORT_BAD_RESPONSE' satisfies RequestErrorCode) || !(error instanceof Error)) return null;
  return error.message === '' ? null : oneLine(error.message.slice(0, mostOfRule));
}

/** Refusals of our own making; the app was never asked. */
export const failures = {
  overload: failureOf('ERR_SALLYPORT_OVERLOAD'),
  requestTimeout: failureOf('ERR_SALLYPORT_REQUEST_TIMEOUT'),
  noUpgrade: failureOf('ERR_SALLYPORT_NO_UPGRADE'),
} as const;

/** What is answered to a message that cannot be read any further; the connection ends with it. */
export const messageRefusals = {
  malformed: { status: 400, grpc: 3, line: '400 Bad Request' },
  late: { status: 408, grpc: 4, line: '408 Request Timeout' },
  'too-long': { status: 431, grpc: 8, line: '431 Request Header Fields Too Large' },
} as const;

export type MessageFault = keyof typeof messageRefusals;

/** Our code for what the system and the libraries say in words of their own; any other code is returned as it is. */
function ours(code: string, error: unknown): string {
  if (isWantOfDescriptors(error)) return 'ERR_SALLYPORT_DESCRIPTORS' satisfies RequestErrorCode;
  // Of the parsers of Node's client and of undici, whose errors may have no code.
  const isUnread = code.startsWith('HPE_') || (error instanceof Error && error.name === 'HTTPParserError');
  if (isUnread || code === 'UND_ERR_HEADERS_OVERFLOW') {
    return 'ERR_SALLYPORT_BAD_RESPONSE' satisfies RequestErrorCode;
  }
  return code;
}

/** What the system says of an address that cannot be connected to, whichever call it says so of. */
const connectErrors: ReadonlySet<string> = new Set([
  ...['ECONNREFUSED', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'EADDRNOTAVAIL', 'EACCES', 'EPERM'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENOENT', 'UND_ERR_CONNECT_TIMEOUT'],
]);

function isOfConnect(error: unknown, errno: string): boolean {
  if (connectErrors.has(errno) || errno.startsWith('EAI_')) return true;
  if (typeof error !== 'object' || error === null) return false;
  const { syscall, cause } = error as { syscall?: unknown; cause?: unknown };
  return syscall === 'connect' || (cause !== error && isOfConnect(cause, ''));
}

/** An error on the way to the app. One that has none of our codes is an I/O fault, 502 / UNAVAILABLE: of the connect, or behind it. */
export function upstreamFailure(error: unknown): Failure {
  const errno = systemErrorCode(error);
  const code = ours(errno, error);
  const known = byCode.get(code);
  if (known !== undefined) return { ...known, errno, rule: ruleOf(code, error) };
  if (isOfConnect(error, errno)) return { ...failureOf('ERR_SALLYPORT_UNREACHABLE'), errno };
  // An orderly end is no error to the system: libuv's word for it.
  const isEnd = errno === '' || errno === 'UND_ERR_SOCKET';
  return { ...failureOf('ERR_SALLYPORT_APP_CLOSED'), errno: isEnd ? 'EOF' : errno };
}

/** The headers of a refusal. Only a client with an identity learns anything beyond the status (Linkerd does the same). */
export function refusalHeaders(refusal: Refusal, connection: ConnectionFacts, grpc: boolean): HeaderList {
  const headers: HeaderList = grpc
    ? ['content-type', 'application/grpc', 'grpc-status', String(refusal.grpc)]
    : ['content-length', '0'];
  if (!grpc && refusal.location !== null) headers.push('location', refusal.location);
  if (refusal.message !== '' && clientId(connection.client) !== null) {
    headers.push('l5d-proxy-error', refusal.message);
    if (grpc) headers.push('grpc-message', encodeURI(refusal.message));
    if (refusal.close && refusal.status >= 500) headers.push('l5d-proxy-connection', 'close');
  }
  return headers;
}
