import type { Duplex } from 'node:stream';

/** How looking at the first bytes of a stream ended. */
export type Peek<T> =
  | { readonly kind: 'seen'; readonly value: T }
  /** The other side ended or reset first. */
  | { readonly kind: 'ended'; readonly bytes: number }
  | { readonly kind: 'timeout'; readonly bytes: number };

/**
 * Reads until `look` has an answer (not undefined), then puts every byte back, so that whoever takes the stream next
 * sees it from its beginning. `look` gets all bytes so far.
 */
export function peek<T>(
  stream: Duplex,
  timeoutMs: number,
  look: (bytes: Buffer) => T | undefined,
  done: (result: Peek<T>) => void,
): void {
  let seen: Buffer = Buffer.alloc(0);
  let finished = false;

  const finish = (result: Peek<T>): void => {
    if (finished) return;
    finished = true;
    clearTimeout(timer);
    stream.removeListener('readable', onReadable);
    stream.removeListener('end', onEnd);
    stream.removeListener('close', onEnd);
    if (seen.length > 0 && !stream.destroyed) stream.unshift(seen);
    done(result);
  };
  const onReadable = (): void => {
    for (;;) {
      const chunk = stream.read() as Buffer | null;
      if (chunk === null) return;
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const value = look(seen);
      if (value !== undefined) {
        finish({ kind: 'seen', value });
        return;
      }
    }
  };
  const onEnd = (): void => finish({ kind: 'ended', bytes: seen.length });
  const timer = setTimeout(() => finish({ kind: 'timeout', bytes: seen.length }), timeoutMs);

  stream.on('readable', onReadable);
  stream.on('end', onEnd);
  stream.on('close', onEnd);
}
