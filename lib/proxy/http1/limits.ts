/** Limits of HTTP/1 connections, the same on both lanes. */

/** Milliseconds for a whole request head (slow-header attacks; CVE-2018-12122). */
export const headersTimeoutMs = 60_000;

/** Milliseconds that an idle keep-alive connection is kept: long, so that a client's next request does not race the close. */
export const keepAliveMs = 600_000;

/**
 * Milliseconds without a byte after which a client that has ended its side gets no more of its answer. Most such clients
 * are gone, and only writing would tell; a few wait.
 */
export const halfOpenMs = 30_000;

export const maxHeaderBytes = 64 * 1024;

/** Node would silently drop what is beyond its own limit; a policy could then match on less than the app sees. */
export const maxHeaderFields = 1000;

/** After an early answer, this much of a request body is read away to keep the connection; more closes it. */
export const maxDrainBytes = 256 * 1024;
