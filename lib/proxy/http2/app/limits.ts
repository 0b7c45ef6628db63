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
   * Bytes of a response that may wait for its client, per stream: a client opens hundreds and need not read any of them
   * (CVE-2019-9517). Linkerd's figure, which is HTTP/2's own default.
   */
  streamWindow: 65_535,
  connectionWindow: 16 << 20,
  /**
   * Frames that may wait for an app that does not read: several times what its streams are worth, which end and begin until
   * there are too many `resets`. It may ask for acknowledgements without end (CVE-2019-9512, CVE-2019-9515).
   */
  backlog: 8192,
  /**
   * Content that the app leaves unread takes the window of its session from all others (RFC 9113 5.2.2): a request with
   * content wants to find this much of it, and otherwise, as far as its own client is not the one who holds it, a session
   * for its client alone.
   */
  uploadRoom: 16 * 1024,
  /** Milliseconds after which a session without streams is ended, as long as there is another one. */
  spareMs: 30_000,
  headerFields: 2000,
} as const;
