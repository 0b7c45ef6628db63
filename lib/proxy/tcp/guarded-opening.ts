import type { Duplex } from 'node:stream';
import { Opening } from '../detect/opening.ts';
import { TunnelGuard } from '../detect/tunnel-guard.ts';
import { guarded } from '../guard.ts';
import { DataReader } from './lent-reads.ts';

/** Where a fault of ours was met. */
const entry = 'a tunnel of CONNECT';

/**
 * Carries bytes from the client to the app, whose agreement to a tunnel is only a status: a server that treats CONNECT as
 * any method has said 200 and goes on reading requests. What such a one would take for a request, undecided and with an
 * identity of the client's own making, goes no further. Whatever the app says meanwhile proves nothing: it may be the
 * content of its answer.
 *
 * @param early what the client has sent already; it may have ended since, and then nothing can be put back on its stream.
 * @param refused it was about to become a request; nothing more is carried.
 */
export function pipeGuarded(client: Duplex, app: Duplex, early: Buffer, refused: () => void): void {
  const guard = new TunnelGuard(new Opening());
  let isOver = false;
  const stop = (): void => {
    isOver = true;
    client.off('data', onData).off('end', onEnd);
    app.off('drain', resume);
  };
  const refuse = (): void => {
    stop();
    refused();
  };
  const reader = new DataReader(client, app);
  const receive = (chunk: Buffer): void => {
    const mayGoOn = reader.mayGoOn(chunk.length);
    const passage = guard.pass(chunk);
    if (passage.kind === 'refuse') {
      refuse();
      return;
    }
    const isTaken = passage.kind === 'hold' || app.write(passage.bytes);
    if (!isTaken || !mayGoOn) client.pause();
    if (!guard.isDone) return;
    stop();
    client.pipe(app);
  };
  const end = (): void => {
    if (guard.isHolding) refuse();
    else app.end();
  };
  const resume = (): void => void client.resume();
  const onData = guarded(entry, client, receive);
  const onEnd = guarded(entry, client, end);
  client.on('data', onData).on('end', onEnd);
  app.on('drain', resume);
  if (early.length > 0) onData(early);
  if (client.readableEnded && !isOver) onEnd();
}
