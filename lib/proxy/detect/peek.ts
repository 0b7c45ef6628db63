import type { Duplex } from 'node:stream';

/** How looking at the first bytes of a stream ended. `bytes` is all that was read, and has been taken off the stream. */
export type Peek<T> =
  | { readonly kind: 'seen'; readonly value: T; readonly bytes: Buffer }
  /** The other side ended or reset first. */
  | { readonly kind: 'ended'; readonly bytes: Buffer }
  | { readonly kind: 'timeout'; readonly bytes: Buffer };

/**
 * Reads until `look` has an answer (not undefined). What was read goes to `done`, which must hand it on in the same
 * turn: to a reader that takes bytes, or back onto the stream with `putBack`.
 *
 * @param before bytes that were read already; they come first, and may be enough.
 */
export function peek<T>(
  stream: Duplex,
  before: Buffer,
  timeoutMs: number,
  look: (bytes: Buffer) => T | undefined,
  done: (result: Peek<T>) => void,
): void {
  let bytes = before;
  if (bytes.length > 0) {
    const value = look(bytes);
    if (value !== undefined) {
      done({ kind: 'seen', value, bytes });
      return;
    }
  }
  const finish = (result: Peek<T>): void => {
    clearTimeout(timer);
    stream.removeListener('data', onData);
    stream.removeListener('end', onEnd);
    stream.removeListener('close', onEnd);
    done(result);
  };
  const onData = (chunk: Buffer): void => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    const value = look(bytes);
    if (value !== undefined) finish({ kind: 'seen', value, bytes });
  };
  const onEnd = (): void => finish({ kind: 'ended', bytes });
  const timer = setTimeout(() => finish({ kind: 'timeout', bytes }), timeoutMs);
  stream.on('data', onData);
  stream.on('end', onEnd);
  stream.on('close', onEnd);
}

/** Makes a stream as if nothing had been read, and leaves it paused: the next reader resumes it. */
export function putBack(stream: Duplex, bytes: Buffer): void {
  // Paused first: a flowing stream without a reader would lose what is put back at the next tick.
  stream.pause();
  if (bytes.length > 0 && !stream.destroyed) stream.unshift(bytes);
}
