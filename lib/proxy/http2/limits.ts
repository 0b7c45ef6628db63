/** Limits of HTTP/2 connections. */

/** What a client may do. */
export const clientLimits = {
  /** Streams at a time. */
  streams: 256,
  /** Bytes on one stream, and on all of a connection, before we have read them (Linkerd: 1 MiB). */
  streamWindow: 256 * 1024,
  connectionWindow: 1 << 20,
  /** Bytes of a header list as RFC 9113 6.5.2 counts them, and its fields: more is an attack (CVE-2024-27983 and its kin). */
  headerListBytes: 64 * 1024,
  headerFields: 1000,
} as const;

/** Rapid reset (CVE-2023-44487), and resets that the peer makes us send (CVE-2025-8671): at once, and a second. */
export const resetBurst = 1000;
export const resetsPerSecond = 100;

/** After an early answer, this much of a request body, for this many milliseconds, is still read away. */
export const maxDrainBytes = 256 * 1024;
export const drainMs = 1000;

/** What the app may do, which is ours. */
export const appLimits = {
  /** Streams per session at most, and when the app names no limit: what happens to a session happens to all of them. */
  streams: 256,
  defaultStreams: 100,
  /**
   * After this many resets a session takes no more streams. Apps end sessions on which too many are reset
   * (CVE-2023-44487; Node's own server at 1,000), and clients that reset theirs share it with clients that do not.
   */
  resets: 500,
  /**
   * Bytes of an answer that may wait for its client, per stream: a client opens hundreds and need not read any of them
   * (CVE-2019-9517). Linkerd's figure, which is HTTP/2's own default.
   */
  streamWindow: 65_535,
  connectionWindow: 16 << 20,
  headerFields: 2000,
} as const;
