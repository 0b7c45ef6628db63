import type { Duplex } from 'node:stream';
import { Opening } from '../detect/opening.ts';
import { TunnelGuard } from '../detect/tunnel-guard.ts';
import { guarded } from '../guard.ts';
import { type Keeper, Kept } from '../kept.ts';
import { DataReader } from './lent-reads.ts';
import { atEnd } from './tunnel-ends.ts';

/** Where a fault of ours was met. */
const entry = 'a tunnel of CONNECT';

/**
 * Carries bytes from the client to the app, whose agreement to a tunnel is only a status: a server that treats CONNECT as
 * any method has said 200 and goes on reading requests. What such a one would take for a request, undecided and with an
 * identity of the client's own making, goes no further. Whatever the app says meanwhile proves nothing: it may be the
 * content of its answer.
 *
 * @param early what the client has sent already; it may have ended since, and then nothing can be put back on its stream.
 * @param keeper who pays for what is held.
 * @param refused it was about to become a request; nothing more is carried.
 */
export function carryGuarded(client: Duplex, app: Duplex, early: Buffer, keeper: Keeper, refused: () => void): void {
  const guard = new TunnelGuard(new Opening());
  const reader = new DataReader(client, app, keeper);
  const held = new Kept(keeper);
  let isRefused = false;
  const refuse = (): void => {
    isRefused = true;
    client.off('data', onData).off('end', onEnd);
    refused();
  };
  const receive = (chunk: Buffer): void => {
    const passage = guard.pass(chunk);
    if (passage.kind === 'refuse') {
      refuse();
      return;
    }
    if (passage.kind === 'forward') reader.pass(passage.bytes);
    held.set(guard.heldBytes);
    if (!guard.isDone) return;
    client.off('data', onData);
    reader.passAll();
  };
  const end = (): void => {
    if (guard.isHolding) refuse();
    else app.end();
  };
  const onData = guarded(entry, client, receive);
  const onEnd = guarded(entry, client, end);
  client.on('data', onData);
  if (early.length > 0) onData(early);
  if (!isRefused) atEnd(client, onEnd);
}
