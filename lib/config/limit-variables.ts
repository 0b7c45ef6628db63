import * as read from './values.ts';
import { always, optional, type Variable } from './variable.ts';

/** The default depends on the machine: see limits.ts. */
const derived = optional<number>;

/** Every limit that can be set. The metric that counts when one bites names it likewise, in lower case. */
export const limitVariables = {
  SALLYPORT_MAX_CONNECTIONS: derived(
    'half the file descriptors, and what the memory has room for',
    read.count,
    'of clients, at a time',
  ),
  SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: derived('half of those', read.count, 'from one IPv4 address or IPv6 /64'),
  SALLYPORT_MAX_CONNECTION_BYTES: derived(
    '3/10 of the memory beside the program',
    read.bytes,
    "of clients' connections, each by its kind",
  ),
  SALLYPORT_MAX_DETECTING: derived(
    'by the memory, at most 10000',
    read.count,
    'connections whose first bytes are awaited',
  ),
  SALLYPORT_MAX_HANDSHAKES: derived('by the memory, at most 5000', read.count, 'TLS handshakes under way'),
  SALLYPORT_MAX_PENDING_CONNECTS: derived('by the memory, at most 10000', read.count, 'connects to the app under way'),
  SALLYPORT_MAX_IN_FLIGHT: derived('by the memory, at most 100000', read.count, 'requests in flight'),
  SALLYPORT_MAX_HEADER_BYTES: always('64KiB', read.bytes, 'of a request head'),
  SALLYPORT_MAX_HEADER_FIELDS: always('1000', read.countFrom(100), 'of a request head'),
  SALLYPORT_HEADER_TIMEOUT: always('60s', read.timeout, 'for a whole request head'),
  SALLYPORT_REQUEST_TIMEOUT: always('off', read.timeoutOrOff, 'from a request to the end of its response'),
  SALLYPORT_STALL_TIMEOUT: always('5m', read.timeoutOrOff, 'for a client that neither takes nor sends what is due'),
  SALLYPORT_HTTP1_IDLE_TIMEOUT: always('10m', read.timeoutOrOff, 'for a connection without a request'),
  SALLYPORT_HTTP2_IDLE_TIMEOUT: always('10m', read.timeoutOrOff, 'for a connection without a request'),
  SALLYPORT_TUNNEL_IDLE_TIMEOUT: always('off', read.timeoutOrOff, 'for a tunnel on which nothing moves'),
  SALLYPORT_MAX_CONNECTION_AGE: always('off', read.timeoutOrOff, 'of HTTP connections'),
  SALLYPORT_MAX_STREAMS: always('256', read.count, 'of an HTTP/2 connection, at a time'),
  SALLYPORT_MAX_RESETS: always('1000', read.count, 'of HTTP/2 streams, at once'),
  SALLYPORT_MAX_BUFFERED_BYTES: derived('by the memory, at most 256MiB', read.bytes, 'waiting for slow peers'),
} as const satisfies Record<string, Variable<unknown>>;
