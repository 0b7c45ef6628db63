/*
 * Whether a request may be sent to the app once more, for every way there. At most once, and only where nothing can happen
 * twice that the client did not ask for.
 */

/** What a request may be lost to and still be sent again; see `repeatable`. */
export type Repeatable =
  /** Nothing: its content is gone, some of a response has come, or it has been sent twice. */
  | 'never'
  /** A connection or stream of which the app has said that it did nothing with it (RFC 9113 8.7). */
  | 'unprocessed'
  /** And the end of an idle connection, of which nobody knows whether the app had read it (RFC 9110 9.2.2). */
  | 'unprocessed or idle';

/** How an attempt has ended before any response. */
export type LostBy =
  /** REFUSED_STREAM, or a GOAWAY below the stream (RFC 9113 6.8, 8.7). */
  | 'unprocessed'
  /** The app closed a connection that had carried others before, most likely just as it was taken (RFC 9112 9.3.1). */
  | 'idle'
  /** The app closed a new connection, or broke HTTP, or could not be reached: its failure, and the client hears of it. */
  | 'other';

/** RFC 9110 9.2.2, of the methods that it knows; any other might do something twice. */
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);

/**
 * Of a request that has not been sent yet.
 *
 * @param hasContent content has come, or is to come: nobody keeps it.
 */
export function repeatable(method: string, hasContent: boolean): Repeatable {
  if (hasContent) return 'never';
  return idempotent.has(method) ? 'unprocessed or idle' : 'unprocessed';
}

/** The whole decision. What acts on it has a request that is `never` to be sent again. */
export function maySendAgain(request: Repeatable, loss: LostBy): boolean {
  switch (loss) {
    case 'unprocessed':
      return request !== 'never';
    case 'idle':
      return request === 'unprocessed or idle';
    case 'other':
      return false;
  }
}

/** What an HTTP/1 connection to the app knows of its loss. */
interface LostConnection {
  readonly uses: number;
  readonly responding: boolean;
  /** Nothing of the request has left. */
  readonly unsent: boolean;
}

export function sendingLost(connection: LostConnection | null): LostBy {
  if (connection === null || connection.responding) return 'other';
  if (connection.unsent) return 'unprocessed';
  return connection.uses > 1 ? 'idle' : 'other';
}
