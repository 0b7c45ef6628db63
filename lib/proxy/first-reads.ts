import { type Ending, internalFault } from './guard.ts';
import { type MakeHandle, tellReadable } from './node-handles.ts';
import { makeWatcher, readableNow, watchOnce } from './socket-calls.ts';

/*
 * Connections whose first bytes have not come yet. To wait for them with a handle of Node's takes an object, a buffer of
 * 64 KiB, two changes to what epoll watches and a callback for each; all of them can be waited for together.
 */

/** Who waits for the first bytes of a connection. */
export interface Awaiting extends Ending {
  /** Once, unless it is forgotten: something has come, or its end. */
  readable(): void;
}

const waiting = new Map<number, Awaiting>();

/** Null: there is none yet; false: there cannot be one. */
let watcher: number | false | null = null;

/** @param make of a listener. */
export function openFirstReads(make: MakeHandle): void {
  if (watcher !== null) return;
  const made = makeWatcher();
  // Without the calls now, there may be some for the next listener.
  if (made !== null) watcher = tellReadable(made, make, tellAll) ? made : false;
}

function tellAll(): void {
  if (typeof watcher !== 'number') return;
  for (const fd of readableNow(watcher)) {
    const who = waiting.get(fd);
    // It is watched until something has come, also where nobody waits for that any more.
    if (who === undefined) continue;
    waiting.delete(fd);
    try {
      who.readable();
    } catch (error) {
      internalFault('the first bytes of a connection', who, error);
    }
  }
}

/** @returns false where it cannot be waited for so. */
export function awaitReadable(fd: number, who: Awaiting): boolean {
  if (typeof watcher !== 'number' || !watchOnce(watcher, fd)) return false;
  waiting.set(fd, who);
  return true;
}

/** Before it is closed, or somebody else reads it. */
export function forgetReadable(fd: number): void {
  waiting.delete(fd);
}
