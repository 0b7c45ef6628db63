import type { HandshakeErrorCode, RequestErrorCode } from '../errors/error-codes.ts';
import type { IpAddress } from '../ip.ts';
import type {
  ConnectionDecision,
  PortPolicy,
  RequestDecision,
  RequestFacts,
  RequestPermit,
  RequestRefusal,
} from '../policy/decision.ts';
import type { ResourceRef } from '../resource-ref.ts';
import type { ConnectionFacts } from './connection-facts.ts';
import type { LimitName } from './limits.ts';

/** A connection that NetworkPolicies do not admit: nothing of it has been read, or no more will be. */
export interface NetworkRefusal extends UnknownClient {
  /** Those that isolate the pod; never empty. */
  readonly policies: readonly ResourceRef[];
  /** Refused at accept, or open until a later policy no longer admitted it. */
  readonly connection: 'new' | 'open';
}

/** Why a connection or a reply failed, in Linkerd's words (`inbound_{tcp,http}_errors_total{error}`). */
export type ErrorLabel = 'loadshed' | 'i/o' | 'tls detection timeout' | 'gateway loop' | 'unexpected';

/**
 * Why a connection at the redirect's door leads nowhere, as `sallyport_redirect_closed_total{reason}` has it: the kernel
 * knows no other destination of it, that is not the pod's, or the proxy itself listens there.
 */
export const strayReasons = ['not_redirected', 'foreign_destination', 'own_port'] as const;

export type StrayReason = (typeof strayReasons)[number];

/** What was met on the way to the app. */
export interface AppFault {
  /** Where the app was looked for, host and port. */
  readonly app: string;
  /** Of the system or a library, as `ECONNREFUSED`; empty where neither has said. */
  readonly errno: string;
}

/** Why a permitted request was not served, or not to the end. */
export interface RequestFailure {
  readonly code: RequestErrorCode;
  readonly label: ErrorLabel;
  readonly detail: string;
  /** Null where the app was never asked. */
  readonly met: AppFault | null;
  /** Milliseconds since the request was let in; left out where it was not, or nobody knows. */
  readonly waitedMs?: number;
}

/** Why a TLS handshake failed, as `sallyport_tls_failures_total{reason}` has it, and the code of each. */
export const handshakeCodes = {
  unknown_issuer: 'ERR_SALLYPORT_TLS_UNKNOWN_ISSUER',
  client_expired: 'ERR_SALLYPORT_TLS_CLIENT_EXPIRED',
  client_not_yet_valid: 'ERR_SALLYPORT_TLS_CLIENT_NOT_YET_VALID',
  client_invalid: 'ERR_SALLYPORT_TLS_CLIENT_INVALID',
  client_too_costly: 'ERR_SALLYPORT_TLS_CLIENT_TOO_COSTLY',
  client_distrusts_us: 'ERR_SALLYPORT_TLS_CLIENT_DISTRUSTS_US',
  own_expired: 'ERR_SALLYPORT_TLS_OWN_EXPIRED',
  no_shared_version: 'ERR_SALLYPORT_TLS_NO_SHARED_VERSION',
  no_shared_cipher: 'ERR_SALLYPORT_TLS_NO_SHARED_CIPHER',
  no_shared_group: 'ERR_SALLYPORT_TLS_NO_SHARED_GROUP',
  no_shared_signature: 'ERR_SALLYPORT_TLS_NO_SHARED_SIGNATURE',
  client_alert: 'ERR_SALLYPORT_TLS_CLIENT_ALERT',
  malformed: 'ERR_SALLYPORT_TLS_MALFORMED',
  closed: 'ERR_SALLYPORT_TLS_CLOSED',
  timeout: 'ERR_SALLYPORT_TLS_TIMEOUT',
  other: 'ERR_SALLYPORT_TLS_OTHER',
} as const satisfies Readonly<Record<string, HandshakeErrorCode>>;

export type HandshakeReason = keyof typeof handshakeCodes;

/** A certificate that a client has shown. Nothing of it is verified, and all of it is text of the client's choice. */
export interface ShownCertificate {
  readonly subject: string;
  readonly names: string;
  readonly issuer: string;
  /** Where the certificates that it has shown end: who has signed the last of them, and with which key; empty where that is not said. */
  readonly authority: { readonly name: string; readonly keyId: string };
  readonly notBefore: string;
  readonly notAfter: string;
}

/** In hexadecimal: its key's identifier, empty where it does not say it, and the fingerprint of the certificate. */
export interface TrustedAnchor {
  readonly subject: string;
  readonly keyId: string;
  readonly sha256: string;
}

/** What we show to clients, and whom we ask their certificates to lead to. */
export interface OwnCertificate {
  readonly names: readonly string[];
  readonly issuer: string;
  readonly notAfter: Date;
  /** The subjects of our trust anchors. */
  readonly trusts: readonly string[];
  /** The same, told apart where they have one name. */
  readonly anchors: readonly TrustedAnchor[];
}

/** A TLS handshake that failed. Who the client is, nobody knows. */
export interface HandshakeFailure {
  readonly reason: HandshakeReason;
  /** In words, ours or the library's. */
  readonly detail: string;
  /** Null where the client has shown none. Reading it takes time: only for a line that is written. */
  readonly certificate: (() => ShownCertificate) | null;
  readonly own: OwnCertificate;
  /** By `Date.now()`: what validity was held against. */
  readonly clockMs: number;
}

/** A connection about whose client nothing is known but where it came from. */
export interface UnknownClient {
  readonly clientIp: IpAddress;
  readonly clientPort: number;
  readonly targetIp: string;
  readonly targetPort: number;
}

/** Byte counters of a socket that is still open; read again at each scrape. */
export interface ByteCounter {
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

/** One open transport. `closed` at most once; `errno` is empty or a system code such as ECONNRESET. */
export interface TransportScope {
  closed(errno: string): void;
}

/** One permitted request, from the permit to the end of its response. All sizes in bytes. */
export interface RequestScope {
  requestFrame(bytes: number): void;
  requestEnded(): void;
  responseHead(status: number): void;
  /** Milliseconds since it began. */
  waitedMs(): number;
  /** This was sent in place of the app's response; `responseEnded` follows. Both codes, whatever the request was. */
  refused(status: number, grpcStatus: number): void;
  responseFrame(bytes: number): void;
  /** `grpcStatus` from trailers (or trailers-only headers), null where none; `error` empty, `h2(REASON)` or `unclassified`. */
  responseEnded(grpcStatus: string | null, error: string): void;
}

/**
 * One connection's doors into telemetry: labels are resolved here, once, and not per request.
 * The data plane records through this and knows nothing of metrics or logs.
 */
export interface ConnectionScope {
  /** Counts a TCP decision (authz counters) and logs denials and audits. `terminated`: ended by a later policy. */
  connectionDecided(policy: PortPolicy, decision: ConnectionDecision, reasons?: LazyReasons): void;
  connectionTerminated(policy: PortPolicy, reasons?: LazyReasons): void;
  /** The client side of a connection that was let in; not called for denied TCP. */
  openSource(policy: PortPolicy, bytes: ByteCounter): TransportScope;
  detected(
    policy: PortPolicy,
    result: 'http/1' | 'http/2' | 'not_http' | 'read_timeout' | 'error',
    seconds: number,
  ): void;
  /** The connection was a probe: nothing came on it, and nothing of it was forwarded. */
  probed(policy: PortPolicy): void;
  tcpError(error: ErrorLabel, met: AppFault | null): void;
  /** The bytes ceased to be HTTP where nothing else may come, and the connection ends: counted as `unexpected`, not logged. */
  brokenProtocol(): void;
  /** Counts an HTTP decision, and logs denials and audits (with the failing clause, which `reasons` computes on demand). */
  requestDecided(policy: PortPolicy, decision: RequestDecision, request: RequestLog): void;
  /** Begins `request_total`, `response_*` and `inbound_{http,grpc}_*` for a permitted request. `ended` is called once, when the response has ended. */
  requestStarted(
    policy: PortPolicy,
    permit: RequestPermit,
    grpc: boolean,
    ended?: () => void,
    request?: PendingRequest,
  ): RequestScope;
  /** A permitted request, or the tunnel that it has become, is ended by a later policy: counted, and logged with what fails now. */
  requestTerminated(policy: PortPolicy, decision: RequestRefusal, request: RequestLog): void;
  /** A message that was refused as malformed before any decision (400, 408, 431): counted, and logged at debug. */
  badRequest(policy: PortPolicy, reason: string): void;
  httpError(policy: PortPolicy, failure: RequestFailure, request: RequestLog): void;
  /** The response to a permitted request ended within it, by no doing of its client: logged, and counted by `responseEnded` alone. */
  responseBroken(policy: PortPolicy, failure: RequestFailure, request: RequestLog): void;
}

/** What a line says of a request that is under way. Strings are raw from the client. */
export type PendingRequest = Pick<RequestLog, 'method' | 'path' | 'host' | 'version'> & { readonly grpc: boolean };

/** Why, for logs; called only when a line is written. */
export type LazyReasons = () => {
  readonly reason: string;
  readonly candidates: readonly unknown[];
  readonly hint?: string;
};

/** What logs may say of a request. Strings are raw from the client; the logger keeps them inside one line. */
export interface RequestLog {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  /** `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`. */
  readonly version: string;
  /** What was decided on; after the call it may stand for another request. */
  readonly facts: RecordedFacts;
  /** Lazily: only denials pay for it. */
  reasons(): ReturnType<LazyReasons>;
}

export interface RecordedFacts extends RequestFacts {
  /**
   * A place for what a recorder has made of the request, where the same one may come again as the same object on one
   * connection; nobody else reads it. Null at first, and left out where nothing comes again.
   */
  noted?: object | null;
}

/** One line of the access log, written when response headers are ready. */
export interface AccessRecord {
  readonly host: string;
  readonly method: string;
  readonly uri: string;
  readonly version: string;
  readonly status: number;
  readonly userAgent: string;
  readonly traceId: string;
  readonly requestBytes: string;
  readonly responseBytes: string;
  /** Milliseconds, fractional. */
  readonly totalMs: number;
  readonly processingMs: number;
}

/** An exception in our own code (see guard.ts). */
export interface InternalFault {
  /** Where the event loop had entered, a constant of the program. */
  readonly where: string;
  readonly error: unknown;
  /** What it took with it; `nothing`: it belongs to no connection, and nobody knows what it left undone. */
  readonly ended: 'connection' | 'request' | 'nothing';
}

export interface Recorder {
  connection(facts: ConnectionFacts): ConnectionScope;
  networkRefused(policy: PortPolicy, refusal: NetworkRefusal, reasons: LazyReasons): void;
  /** Counted as an `i/o` error too, and logged a bounded number of times. `serverName`: by which the client called us. */
  handshakeFailed(client: UnknownClient, serverName: string, failure: HandshakeFailure): void;
  /**
   * A ClientHello for a name that is not ours, or for none (null), while we have names: logged a bounded number of times.
   * `outcome`: what becomes of it, in words of ours.
   */
  helloNotForUs(client: UnknownClient, serverName: string | null, ours: readonly string[], outcome: string): void;
  /** A client speaks the other HTTP than the Server declares, and will not be understood: logged a bounded number of times. */
  otherHttp(client: UnknownClient, policy: PortPolicy, spoken: 'http/1' | 'http/2'): void;
  /**
   * On a port that nobody has declared, a client has said in all the time for detection neither a request nor anything that
   * can be none: logged once an hour for each port. `seconds`: how long it has been waited for.
   */
  notRecognized(client: UnknownClient, policy: PortPolicy, seconds: number): void;
  /**
   * A limit was reached, and somebody refused or cut off because of it: counted, and logged in one line every ten seconds.
   * `client`: whose connection it was; null where it was nobody's in particular.
   */
  limitReached(limit: LimitName, client: IpAddress | null): void;
  /** A connection was closed unread, since it leads nowhere: counted. */
  strayed(reason: StrayReason): void;
  /** Counted, and logged with its stack. */
  internalFault(fault: InternalFault): void;
  /** Towards the app (`peer="dst"`). */
  openDestination(bytes: ByteCounter): TransportScope;
  /** Null when the access log is off, so that nobody builds records for nothing. */
  readonly access: ((facts: ConnectionFacts, record: AccessRecord) => void) | null;
}
