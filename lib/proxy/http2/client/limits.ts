import type { Limits } from '../../limits.ts';
import { setting } from '../session/protocol.ts';
import type { SessionLimits } from '../session/session-role.ts';

/** What a client may do, besides what is configured. */
export const clientLimits = {
  /**
   * Bytes of a request that may wait for the app, per stream: of a new one, and of one that the app reads. What is on its
   * way on a whole connection is bounded besides (Linkerd: 1 MiB), but not what waits: a client opens hundreds of streams
   * that an app need not read, and none of them may hold what the others need (RFC 9113 5.2.2).
   */
  streamWindow: 65_535,
  grownStreamWindow: 256 * 1024,
  connectionWindow: 1 << 20,
} as const;

/** Milliseconds in which the rest of a request body is read away after an early response (see `maxDrainBytes`). */
export const drainMs = 1000;

/** Bytes of content of a gRPC probe: a health check's message is the name of a service. */
export const maxProbeContent = 4096;

/** Its value has 32 bits (RFC 9113 section 6.5.1). */
const mostOfSetting = 2 ** 32 - 1;

/** What clients may do, of what is configured. */
export function clientSessionLimits({ maxStreams, maxHeaderBytes, maxHeaderFields, maxResets }: Limits): SessionLimits {
  return {
    settings: [
      [setting.maxConcurrentStreams, maxStreams],
      [setting.initialWindowSize, clientLimits.streamWindow],
      [setting.maxHeaderListSize, Math.min(maxHeaderBytes, mostOfSetting)],
    ],
    maxEnablePush: 1,
    grownStreamWindow: clientLimits.grownStreamWindow,
    connectionWindow: clientLimits.connectionWindow,
    maxListBytes: maxHeaderBytes,
    maxFields: maxHeaderFields,
    maxResets,
    awaitsPreface: true,
    takesTurns: true,
    maxPendingBytes: 256 * 1024,
    // Of one that reads nothing no more is read.
    maxBacklog: Number.POSITIVE_INFINITY,
  };
}
