import type { Host } from './host.ts';
import * as read from './values.ts';
import type { Variable, VariableReader } from './variables.ts';

const always = <T>(fallback: string, parse: read.Parser<T>, meaning: string): Variable<T> => ({
  parse,
  fallback,
  shown: fallback,
  meaning,
  emptyIsList: false,
});
/** The default depends on the machine: see `readLimits`. */
const derived = (shown: string, parse: read.Parser<number>, meaning: string): Variable<number | null> => ({
  parse,
  fallback: null,
  shown,
  meaning,
  emptyIsList: false,
});

/** Every limit that can be set. The metric that counts when one bites names it likewise, in lower case. */
export const limitVariables = {
  SALLYPORT_MAX_CONNECTIONS: derived('half the file descriptors', read.count, 'of clients, at a time'),
  SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: derived('half of those', read.count, 'from one IPv4 address or IPv6 /64'),
  SALLYPORT_MAX_DETECTING: always('10000', read.count, 'connections whose first bytes are awaited'),
  SALLYPORT_MAX_HANDSHAKES: always('5000', read.count, 'TLS handshakes under way'),
  SALLYPORT_MAX_PENDING_CONNECTS: always('10000', read.count, 'connects to the app under way'),
  SALLYPORT_MAX_IN_FLIGHT: always('100000', read.count, 'requests in flight'),
  SALLYPORT_MAX_HEADER_BYTES: always('64KiB', read.bytes, 'of a request head'),
  SALLYPORT_MAX_HEADER_FIELDS: always('1000', read.countFrom(100), 'of a request head'),
  SALLYPORT_HEADER_TIMEOUT: always('60s', read.duration, 'for a whole request head'),
  SALLYPORT_REQUEST_TIMEOUT: always('off', read.durationOrOff, 'from a request to the end of its answer'),
  SALLYPORT_STALL_TIMEOUT: always('5m', read.durationOrOff, 'for a client that neither takes nor sends what is due'),
  SALLYPORT_HTTP1_IDLE_TIMEOUT: always('10m', read.durationOrOff, 'for a connection without a request'),
  SALLYPORT_HTTP2_IDLE_TIMEOUT: always('10m', read.durationOrOff, 'for a connection without a request'),
  SALLYPORT_TUNNEL_IDLE_TIMEOUT: always('off', read.durationOrOff, 'for a tunnel on which nothing moves'),
  SALLYPORT_MAX_CONNECTION_AGE: always('off', read.durationOrOff, 'of HTTP connections'),
  SALLYPORT_MAX_STREAMS: always('256', read.count, 'of an HTTP/2 connection, at a time'),
  SALLYPORT_MAX_RESETS: always('1000', read.count, 'of HTTP/2 streams, at once'),
  SALLYPORT_MAX_BUFFERED_BYTES: derived(
    'a quarter of the memory, at most 256MiB',
    read.bytes,
    'waiting for slow peers',
  ),
} as const satisfies Record<string, Variable<unknown>>;

/** Descriptors that the proxy needs for itself: listeners, files, its threads, the admin and health servers. */
const ownDescriptors = 64;

/** Below this nothing could be served at all. */
const leastConnections = 8;

/** Shaped as the data plane wants it (lib/proxy/limits.ts). Times in milliseconds, Infinity where off. */
export function readLimits(reader: VariableReader, host: Pick<Host, 'descriptors' | 'memoryBytes'>) {
  const get = reader.get.bind(reader);
  // Every client may need one more towards the app.
  const half = Math.floor((host.descriptors() - ownDescriptors) / 2);
  const maxConnections = get('SALLYPORT_MAX_CONNECTIONS') ?? Math.max(leastConnections, half);
  const quarterOfMemory = Math.floor(host.memoryBytes() / 4);
  return Object.freeze({
    maxConnections,
    maxConnectionsPerClient:
      get('SALLYPORT_MAX_CONNECTIONS_PER_CLIENT') ?? Math.max(leastConnections, Math.floor(maxConnections / 2)),
    maxDetecting: get('SALLYPORT_MAX_DETECTING'),
    maxHandshakes: get('SALLYPORT_MAX_HANDSHAKES'),
    maxPendingConnects: get('SALLYPORT_MAX_PENDING_CONNECTS'),
    maxInFlight: get('SALLYPORT_MAX_IN_FLIGHT'),
    maxHeaderBytes: get('SALLYPORT_MAX_HEADER_BYTES'),
    maxHeaderFields: get('SALLYPORT_MAX_HEADER_FIELDS'),
    headerTimeoutMs: get('SALLYPORT_HEADER_TIMEOUT'),
    requestTimeoutMs: get('SALLYPORT_REQUEST_TIMEOUT'),
    stallTimeoutMs: get('SALLYPORT_STALL_TIMEOUT'),
    http1IdleTimeoutMs: get('SALLYPORT_HTTP1_IDLE_TIMEOUT'),
    http2IdleTimeoutMs: get('SALLYPORT_HTTP2_IDLE_TIMEOUT'),
    tunnelIdleTimeoutMs: get('SALLYPORT_TUNNEL_IDLE_TIMEOUT'),
    maxConnectionAgeMs: get('SALLYPORT_MAX_CONNECTION_AGE'),
    maxStreams: get('SALLYPORT_MAX_STREAMS'),
    maxResets: get('SALLYPORT_MAX_RESETS'),
    maxBufferedBytes:
      get('SALLYPORT_MAX_BUFFERED_BYTES') ?? Math.min(256 * 1024 * 1024, Math.max(8 * 1024 * 1024, quarterOfMemory)),
  });
}
