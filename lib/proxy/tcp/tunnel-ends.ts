import type { Duplex } from 'node:stream';
import type { Keeper } from '../kept.ts';
import { cutMeansReset, resetOrDestroy } from '../resets.ts';
import { carry } from './lent-reads.ts';

/*
 * How one side of a tunnel ends the other. Nothing in its bytes says that they are whole, so that an end passes on as an end,
 * and whatever else happens to a side as a reset.
 */

/** Passes on what ends either side, but for the client's own end: that goes behind what it has sent. */
export function tieEnds(client: Duplex, app: Duplex): void {
  cutMeansReset(client, app);
  app.on('error', () => resetOrDestroy(client));
  client.on('error', () => resetOrDestroy(app));
  atEnd(app, () => client.end());
  app.once('close', () => (app.readableEnded ? client.end() : resetOrDestroy(client)));
  client.once('close', () => leave(app, client));
}

/**
 * Joins two connected sockets for good. Both must allow half-open.
 *
 * @param keeper who pays for what is kept of either.
 */
export function tie(client: Duplex, app: Duplex, keeper: Keeper): void {
  tieEnds(client, app);
  atEnd(client, () => app.end());
  carry(client, app, keeper);
  carry(app, client, keeper);
}

/** Runs it once all that the stream says has been read; now, if it has. */
export function atEnd(stream: Duplex, run: () => void): void {
  if (stream.readableEnded) run();
  else stream.once('end', run);
}

/** Its peer has said all, and has been given all. */
function hasEndedBothWays(stream: Duplex): boolean {
  return stream.readableEnded && stream.writableFinished;
}

/** Milliseconds in which an app may take the last words of a client that is gone. */
const lastWordsMs = 10_000;

/** Ends an app's side: what is on its way to it may arrive, if the app takes it in time. Nobody hears it any more. */
function letGo(app: Duplex): void {
  if (app.destroyed) return;
  if (app.writableFinished) {
    app.destroy();
    return;
  }
  const timer = setTimeout(() => resetOrDestroy(app), lastWordsMs);
  app.once('close', () => clearTimeout(timer));
  app.once('finish', () => app.destroy());
  app.end();
}

/** Ends an app's side whose client is closed; one that is gone without an end, or before it had all, is told on. */
function leave(app: Duplex, client: Duplex): void {
  if (hasEndedBothWays(client)) letGo(app);
  else resetOrDestroy(app);
}
