/**
 * Where the event loop enters our code: listeners of sockets and streams, timers, callbacks of libraries. An exception
 * there is a fault of ours. It ends the connection that it belongs to, and is reported: nothing swallows it, and it reaches
 * neither the library that called nor the other connections.
 */

import type { InternalFault } from './recorder.ts';

/** What a fault ends: a socket, a stream, a session, a `LiveConnection`. */
export interface Ending {
  destroy(): void;
}

type FaultListener = (fault: InternalFault) => void;

const listeners = new Set<FaultListener>();

/**
 * Hears of every fault of this process. One that nobody hears is thrown, in a turn of its own, so that it ends a test or
 * reaches the process's last resort.
 *
 * @returns ends it.
 */
export function onInternalFault(listener: FaultListener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether there is a listener. */
export function faultsAreHeard(): boolean {
  return listeners.size > 0;
}

/**
 * Ends what the fault belongs to and reports it. For entries that catch by themselves; others use `guarded`.
 *
 * @param ends null where no single connection is at fault.
 */
export function internalFault(where: string, ends: Ending | null, error: unknown): void {
  tell({ where, error, ended: ends === null ? 'nothing' : 'connection' });
  if (ends === null) return;
  try {
    ends.destroy();
  } catch (second) {
    tell({ where: `${where}, ending`, error: second, ended: 'nothing' });
  }
}

/** Reports a fault whose request is answered with an error, on a connection that goes on. */
export function requestFault(where: string, error: unknown): void {
  tell({ where, error, ended: 'request' });
}

function tell(fault: InternalFault): void {
  if (listeners.size === 0) {
    setImmediate(() => {
      throw fault.error;
    });
  }
  for (const listener of listeners) listener(fault);
}

/**
 * A callback for the event loop, made once for each connection and not for each event: a fault in it ends `ends`.
 * Of an `async` function only what it throws before its first `await` is caught here; give those a `catch` of their own.
 */
export function guarded<A extends unknown[]>(
  where: string,
  ends: Ending | null,
  run: (...args: A) => void,
): (...args: A) => void {
  return (...args) => {
    try {
      run(...args);
    } catch (error) {
      internalFault(where, ends, error);
    }
  };
}

/** Does something for each; whose turn throws is ended, and the others have theirs all the same. */
export function eachGuarded<T extends Ending>(where: string, members: Iterable<T>, run: (member: T) => void): void {
  for (const member of members) {
    try {
      run(member);
    } catch (error) {
      internalFault(where, member, error);
    }
  }
}
