import { clientId } from '../client.ts';
import { hostPort } from '../ip.ts';
import type { RequestDecision } from '../policy/decision.ts';
import { refusalOf, refusals } from '../policy/refusals.ts';
import type { ConnectionFacts } from './connection-facts.ts';
import type { HeaderList } from './headers.ts';
import type { ErrorLabel } from './recorder.ts';

/** What the client is told, on HTTP and on gRPC. The one place that maps denials and failures to the wire. */
export interface Refusal {
  readonly status: number;
  /** gRPC status code; the HTTP status is then 200 (trailers-only response). */
  readonly grpc: number;
  /** End the connection after the answer: the message or the app cannot be trusted to be in step. */
  readonly close: boolean;
  /** For redirects. */
  readonly location: string | null;
  /** Told in `l5d-proxy-error` and `grpc-message`, to clients with an identity only. */
  readonly message: string;
}

/** A decision that is no permit, as an answer. */
export function refusalFor(
  decision: Exclude<RequestDecision, { kind: 'permit' }>,
  connection: ConnectionFacts,
): Refusal {
  const { http, grpc, close } = refusalOf(decision) ?? refusals.deny;
  const location = decision.kind === 'redirect' ? decision.location : null;
  return { status: http, grpc, close, location, message: messageFor(decision, connection) };
}

function messageFor(decision: Exclude<RequestDecision, { kind: 'permit' }>, connection: ConnectionFacts): string {
  const { client, clientPort, targetIp, targetPort } = connection;
  const where = `client ${hostPort(client.ip.text, clientPort)}: server: ${hostPort(targetIp, targetPort)}: `;
  switch (decision.kind) {
    case 'deny':
      return `${where}unauthorized request on route`;
    case 'no-route':
      return `${where}no route found for request`;
    case 'rate-limited':
      return `${where}rate limit exceeded`;
    case 'redirect':
      return decision.location === null ? 'redirect cannot replace a prefix' : 'redirected';
    case 'invalid':
      return 'ambiguous or invalid request path';
  }
}

/** Something went wrong between us and the app, or in us. */
export interface Failure {
  readonly refusal: Refusal;
  readonly label: ErrorLabel;
}

function failure(status: number, grpc: number, label: ErrorLabel, message: string): Failure {
  return { refusal: { status, grpc, close: true, location: null, message }, label };
}

/** Refusals of our own making; the app was never asked. */
export const failures = {
  overload: failure(503, 14, 'loadshed', 'service unavailable'),
  loop: failure(508, 10, 'gateway loop', 'inbound connection must not target the proxy itself'),
  tooManyConnects: failure(503, 14, 'loadshed', 'service unavailable'),
  requestTimeout: failure(504, 4, 'i/o', 'request timed out'),
  badResponse: failure(502, 14, 'i/o', 'the application sent an invalid response'),
  headTooLarge: {
    refusal: { status: 431, grpc: 8, close: false, location: null, message: 'request head too large' },
    label: 'unexpected',
  },
  badRequest: failure(400, 3, 'unexpected', 'bad request'),
} as const;

/** An error on the way to the app: a timeout is 504 / DEADLINE_EXCEEDED, any other I/O fault 502 / UNAVAILABLE. */
export function upstreamFailure(error: unknown): Failure {
  const code = errorCode(error);
  if (code === 'ERR_SALLYPORT_CONNECT_TIMEOUT') return failure(504, 4, 'i/o', 'connect timed out');
  if (code === 'ERR_SALLYPORT_LOOP') return failures.loop;
  // No descriptor, or no place in the line of connects: nothing is wrong with the app.
  if (code === 'EMFILE' || code === 'ENFILE' || code === 'ERR_SALLYPORT_CONNECTS') return failures.tooManyConnects;
  if (code === 'ERR_SALLYPORT_HEAD_TOO_LARGE') return failures.headTooLarge;
  if (code === 'ERR_SALLYPORT_UNEXPECTED') return failure(500, 13, 'unexpected', 'unexpected error');
  return failure(502, 14, 'i/o', 'client error (Connect)');
}

/** The system or library code of an error, through one level of `cause`; empty where there is none. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (typeof code === 'string' && code !== 'UND_ERR_SOCKET') return code;
  if (cause !== undefined && cause !== error) {
    const inner = errorCode(cause);
    if (inner !== '') return inner;
  }
  return typeof code === 'string' ? code : '';
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
