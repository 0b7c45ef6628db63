import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { systemErrorCode } from '../../errors/coded-error.ts';
import type { ConnectionPermit } from '../../policy/decision.ts';
import type { Passage, TunnelGuard } from '../detect/tunnel-guard.ts';
import type { Asker } from '../fairness/fair-queue.ts';
import { guarded } from '../guard.ts';
import { type Keeper, Kept } from '../kept.ts';
import { resetOrDestroy } from '../resets.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { DataReader, LentReads } from './lent-reads.ts';
import { atEnd, tieEnds } from './tunnel-ends.ts';

const nothing = Buffer.alloc(0);

export interface TcpForwarding {
  /** Bytes that the app has not taken. */
  readonly heldBytes: number;
  /** Ends both sides at once. */
  destroy(): void;
}

class Forwarding implements TcpForwarding {
  readonly #client: Duplex;
  /** Once it is connected. */
  app: Socket | null = null;

  constructor(client: Duplex) {
    this.#client = client;
  }

  get heldBytes(): number {
    return this.app?.writableLength ?? 0;
  }

  destroy(): void {
    this.#client.destroy();
    this.app?.destroy();
  }
}

/** What was read of the client before it was clear that its bytes go on as they are. */
export interface Beginning {
  /** For whom the app is dialled. */
  readonly asker: Asker;
  readonly bytes: Buffer;
  /** Who pays for what is kept of either side. */
  readonly keeper: Keeper;
  /** Null where the port's protocol is declared, and the app's side of it nobody's but the app's. */
  readonly guard: TunnelGuard | null;
  /** The bytes were about to become a request: both sides are gone. */
  refused(): void;
}

/**
 * Carries bytes both ways. Each direction ends by itself (half-close), a reset on one side resets the other, and a slow
 * reader holds back the writer.
 *
 * @param closed called once, when both sides are gone; `errno` is empty after an orderly end.
 */
export function forwardTcp(
  permit: ConnectionPermit,
  client: Duplex,
  endpoint: Endpoint,
  upstreams: Upstreams,
  beginning: Beginning,
  onError: (error: unknown) => void,
  closed: (errno: string) => void,
): TcpForwarding {
  const { keeper } = beginning;
  /** Bytes that wait for the app's connection, or for the guard. */
  const waiting = new Kept(keeper);
  waiting.set(beginning.bytes.length);
  let { guard } = beginning;
  let errno = '';
  let open = 1;
  const sideClosed = (): void => {
    if (--open === 0) closed(errno);
  };
  const forwarding = new Forwarding(client);

  client.once('close', () => {
    pending.cancel();
    sideClosed();
  });
  client.on('error', (error) => {
    errno = systemErrorCode(error);
  });

  const reads = new LentReads(client, keeper);
  const connected = (error: Error | null, socket: Socket): void => {
    if (error !== null) {
      onError(error);
      errno = systemErrorCode(error);
      client.destroy();
      return;
    }
    forwarding.app = socket;
    if (client.destroyed) return void resetOrDestroy(socket);
    open++;
    socket.on('error', onError);
    tieEnds(client, socket);
    socket.once('close', sideClosed);
    reads.from(socket);
    const reader = new DataReader(client, socket, keeper);
    const refuse = (): void => {
      beginning.refused();
      resetOrDestroy(socket);
      resetOrDestroy(client);
    };
    const examine = (watch: TunnelGuard, passage: Passage): void => {
      if (passage.kind === 'refuse') refuse();
      else if (passage.kind === 'forward') reader.pass(passage.bytes);
      if (watch.isDone) guard = null;
      waiting.set(guard?.heldBytes ?? 0);
    };
    const receive = (chunk: Buffer): void => {
      if (guard === null) {
        reader.pass(chunk);
        // Nothing is examined any more.
        reader.lend();
      } else if (socket.bytesRead > 0) {
        reader.pass(guard.release(chunk));
        guard = null;
        waiting.set(0);
      } else {
        examine(guard, guard.pass(chunk));
      }
    };
    const end = (): void => {
      if (guard?.isHolding === true && socket.bytesRead === 0) {
        refuse();
        return;
      }
      if (guard?.isHolding === true) reader.pass(guard.release(nothing));
      socket.end();
    };
    if (beginning.bytes.length > 0) {
      if (guard === null) reader.pass(beginning.bytes);
      else examine(guard, guard.judge(beginning.bytes));
      if (client.destroyed) return;
    }
    waiting.set(guard?.heldBytes ?? 0);
    client.on('data', guarded('a tunnel', forwarding, receive));
    atEnd(client, guarded('a tunnel', forwarding, end));
    client.resume();
  };
  const pending = upstreams.connect(permit, endpoint, beginning.asker, connected, reads);

  return forwarding;
}
