import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ConnectionPermit } from '../../policy/decision.ts';
import type { Endpoint } from '../endpoint.ts';
import { errorCode } from '../refuse.ts';
import type { Upstreams } from '../upstream.ts';
import { LentReads } from './lent-reads.ts';

export interface TcpForwarding {
  /** Ends both sides at once. */
  destroy(): void;
}

/**
 * Carries bytes both ways. Each direction ends by itself (half-close), a reset on one side resets the other, and a slow
 * reader holds back the writer.
 *
 * @param closed called once, when both sides are gone; `errno` is empty after an orderly end.
 */
export function forwardTcp(
  _permit: ConnectionPermit,
  client: Duplex,
  endpoint: Endpoint,
  upstreams: Upstreams,
  onError: (error: unknown) => void,
  closed: (errno: string) => void,
): TcpForwarding {
  let errno = '';
  let open = 1;
  const sideClosed = (): void => {
    if (--open === 0) closed(errno);
  };
  let app: Socket | null = null;

  client.once('close', () => {
    // A client that is gone without an end would leave the app waiting for ever.
    if (app !== null && !app.destroyed && !client.readableEnded) resetOrDestroy(app);
    pending.cancel();
    sideClosed();
  });
  client.on('error', (error) => {
    errno = errorCode(error);
    if (app !== null) resetOrDestroy(app);
  });

  const reads = new LentReads(client);
  const connected = (error: Error | null, socket: Socket): void => {
    if (error !== null) {
      onError(error);
      errno = errorCode(error);
      client.destroy();
      return;
    }
    app = socket;
    if (client.destroyed) {
      socket.destroy();
      return;
    }
    open++;
    socket.on('error', (fault) => {
      onError(fault);
      resetOrDestroy(client);
    });
    socket.once('close', () => {
      if (!client.destroyed && !socket.readableEnded) resetOrDestroy(client);
      sideClosed();
    });
    reads.from(socket);
    socket.once('end', () => client.end());
    client.on('data', (chunk) => {
      if (!socket.write(chunk)) client.pause();
    });
    socket.on('drain', () => client.resume());
    if (client.readableEnded) socket.end();
    else client.once('end', () => socket.end());
    client.resume();
  };
  const pending = upstreams.connect(endpoint, connected, reads);

  return {
    destroy: () => {
      client.destroy();
      app?.destroy();
    },
  };
}

/** For sockets that are connected already: two pipes; each passes its own end on. Both streams must allow half-open. */
export function splice(a: Duplex, b: Duplex): void {
  a.pipe(b);
  b.pipe(a);
}

/** RST where the transport can, so that the other side never takes a broken stream for a finished one. */
export function resetOrDestroy(stream: Duplex): void {
  if (stream.destroyed) return;
  const reset = (stream as Partial<Socket>).resetAndDestroy;
  // A TLS socket has no reset of its own; without close_notify its peer sees a truncation all the same.
  if (reset === undefined || 'encrypted' in stream) stream.destroy();
  else reset.call(stream);
}
