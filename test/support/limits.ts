import type { LateHeads } from '../../lib/proxy/http1/partial-head.ts';
import type { Limits } from '../../lib/proxy/limits.ts';

/** The defaults of lib/config/limits.ts, and large figures where those are derived from the machine. */
export const defaultLimits: Limits = Object.freeze({
  maxConnections: 100_000,
  maxConnectionsPerClient: 100_000,
  maxConnectionBytes: 2 ** 40,
  maxDetecting: 10_000,
  maxHandshakes: 5_000,
  maxPendingConnects: 10_000,
  maxInFlight: 100_000,
  maxHeaderBytes: 64 * 1024,
  maxHeaderFields: 1000,
  headerTimeoutMs: 60_000,
  requestTimeoutMs: Number.POSITIVE_INFINITY,
  stallTimeoutMs: 300_000,
  http1IdleTimeoutMs: 600_000,
  http2IdleTimeoutMs: 600_000,
  tunnelIdleTimeoutMs: Number.POSITIVE_INFINITY,
  maxConnectionAgeMs: Number.POSITIVE_INFINITY,
  maxStreams: 256,
  maxResets: 1000,
  maxBufferedBytes: 256 * 1024 * 1024,
});

/** For connections to the app of which nobody waits for a head. */
export const noLateHeads: LateHeads = { seconds: 0, deadlines: { add: () => {}, delete: () => {} } };
