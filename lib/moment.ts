/*
 * The clock of `performance.now()`, read once for all that one event of a socket causes. A reading costs about as much as a
 * decision does, and a request asks for the time six times: when it began, when its response ended, for how long its
 * connections have rested.
 */

const unread = -1;
let open = false;
let readAt = unread;

/** An event has come: until `endMoment` the clock stands still at the first reading. */
export function beginMoment(): void {
  open = true;
  readAt = unread;
}

/** Must follow `beginMoment` in any case, also where something was thrown. */
export function endMoment(): void {
  open = false;
}

/** Milliseconds, as `performance.now()`; within a moment behind it by as much as the event has taken. Not for measuring work. */
export function now(): number {
  if (!open) return performance.now();
  if (readAt === unread) readAt = performance.now();
  return readAt;
}
