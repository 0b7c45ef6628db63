/** Limits of HTTP/1 connections, the same on both lanes, that nobody needs to set; the others are in ../limits.ts. */

/**
 * Milliseconds without a byte after which a client that has ended its side gets no more of its response. Most such clients
 * are gone, and only writing would tell; a few wait.
 */
export const halfOpenMs = 30_000;

/**
 * Milliseconds for which a connection to the app may be idle (Linkerd's figure): less than the 5 s after which many apps close
 * theirs.
 */
export const maxIdleMs = 3000;

/** An app's response head may have this many bytes. */
export const maxResponseHead = 256 * 1024;

/**
 * Framing of a chunked body (sizes, extensions): this many bytes, and this many times the content. A chunk of one byte has
 * five bytes of framing without any extension, and an honest sender rarely sends extensions at all.
 */
export const maxFramingBytes = 128 * 1024;
export const maxFramingRatio = 16;

/**
 * What it costs to take a byte of framing apart, in bytes of content, which are only passed on: chunks of one byte are a
 * hundred times the work of large ones.
 */
export const framingCost = 64;

/**
 * Pipelined requests of one connection that are dealt with before all others have had their turn, and milliseconds after
 * which no further one is begun.
 */
export const sliceRequests = 16;
export const sliceMs = 0.2;

/** Milliseconds for which a connection without requests remembers the head of its last one. */
export const rememberMs = 1000;
