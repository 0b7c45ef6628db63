/**
 * What the proxy puts up with from clients and from the app, as figures that the environment sets (lib/config/limits.ts)
 * and as names that telemetry counts. Figures that nobody needs to set stand beside what they bound.
 */

/**
 * Bytes of a request body that are still read away after an early response. More of it closes an HTTP/1 connection and
 * resets an HTTP/2 stream.
 */
export const maxDrainBytes = 256 * 1024;

/** Times are in milliseconds; `Infinity` where a deadline is off. */
export interface Limits {
  /** Client connections at a time, in all and from one source (one IPv4 address, one IPv6 /64). */
  readonly maxConnections: number;
  readonly maxConnectionsPerClient: number;
  /** What connections of clients take at most, each by its kind (lib/memory-plan.ts). */
  readonly maxConnectionBytes: number;
  /** Connections whose first bytes are awaited, and TLS handshakes under way. */
  readonly maxDetecting: number;
  readonly maxHandshakes: number;
  /** Connects to the app under way. */
  readonly maxPendingConnects: number;
  /** Requests in flight in the whole process. */
  readonly maxInFlight: number;
  /** Bytes and fields of a request head, and the time from its first byte to its last. */
  readonly maxHeaderBytes: number;
  /** Node would silently drop what is beyond its own limit; a policy could then match on less than the app sees. */
  readonly maxHeaderFields: number;
  readonly headerTimeoutMs: number;
  /** From the head of a request to the end of its response. */
  readonly requestTimeoutMs: number;
  /** A client that takes nothing of a response for this long is cut off; and a request of whose content nothing moves. */
  readonly stallTimeoutMs: number;
  /** A connection without a request. Short ones race the client's next request; that is why both are long. */
  readonly http1IdleTimeoutMs: number;
  readonly http2IdleTimeoutMs: number;
  /** A tunnel (TCP, WebSocket, CONNECT) on which nothing moves. */
  readonly tunnelIdleTimeoutMs: number;
  /** Life of an HTTP connection; each ends up to a tenth earlier, so that they do not all end at once. */
  readonly maxConnectionAgeMs: number;
  /** HTTP/2 streams of a connection at a time, and streams that end in a reset: at once, and ten times that in 100 s. */
  readonly maxStreams: number;
  readonly maxResets: number;
  /** Bytes that wait in memory for somebody slow, over all connections. */
  readonly maxBufferedBytes: number;
}

/**
 * One worker's part of the limits that workers do not count together: where the oldest, or the slowest, has to go, each finds it
 * among its own. The others are as they were.
 */
export function shareOf(limits: Limits, workers: number): Limits {
  const share = (all: number): number => Math.max(1, Math.floor(all / workers));
  return {
    ...limits,
    maxConnectionBytes: share(limits.maxConnectionBytes),
    maxDetecting: share(limits.maxDetecting),
    maxHandshakes: share(limits.maxHandshakes),
    maxPendingConnects: share(limits.maxPendingConnects),
    // A head of the largest size always has room, if it had in all of it.
    maxBufferedBytes: Math.min(
      limits.maxBufferedBytes,
      Math.max(limits.maxHeaderBytes, share(limits.maxBufferedBytes)),
    ),
  };
}

/**
 * The values of `sallyport_limit_reached_total{limit}`: the variable's name in lower case without its prefix, where there
 * is one.
 */
export const limitNames = [
  'max_connections',
  'max_connections_per_client',
  'max_connection_bytes',
  'max_detecting',
  'max_handshakes',
  'max_pending_connects',
  'max_in_flight',
  'max_header_bytes',
  'max_header_fields',
  'header_timeout',
  'request_timeout',
  'stall_timeout',
  'http1_idle_timeout',
  'http2_idle_timeout',
  'tunnel_idle_timeout',
  'max_connection_age',
  'max_streams',
  'max_resets',
  'max_buffered_bytes',
  /** The client's certificate has expired, or its trust anchor has been removed, while its connection was open. */
  'client_certificate',
  /** HTTP/2 frames that do no work. */
  'http2_overhead',
  /** Messages of a TLS client that make new keys. */
  'tls_key_updates',
  /** Accepting or connecting failed for want of file descriptors. */
  'descriptors',
  /** Nearly all of the memory was used, whatever for. */
  'memory',
] as const;

export type LimitName = (typeof limitNames)[number];

/** The limits behind refusals of messages that could not be read, by the reason that is recorded. */
export const limitsOfFaults: ReadonlyMap<string, LimitName> = new Map([
  ['HPE_HEADER_OVERFLOW', 'max_header_bytes'],
  ['too many header fields', 'max_header_fields'],
  ['ERR_HTTP_REQUEST_TIMEOUT', 'header_timeout'],
  ['header list too large', 'max_header_bytes'],
  ['header block not complete in time', 'header_timeout'],
]);
