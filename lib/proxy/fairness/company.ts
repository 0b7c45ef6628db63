/*
 * Whether somebody is served beside large transfers who moves little: a request, a message. Such a one waits for a whole turn
 * of the event loop two or three times on its way, so the turns of large transfers are kept shorter for it.
 */

let served = 0;

/** Somebody who moves little has been served: once for each turn of the event loop, or for each message. */
export function smallServed(): void {
  served++;
}

/** A number that differs from the one before where somebody has been since. */
export function smallServings(): number {
  return served;
}
