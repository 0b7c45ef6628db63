import { createRequire } from 'node:module';
import type { Dispatcher, Pool } from 'undici';
import { CodedError } from '../../../errors/coded-error.ts';
import { turn } from '../../fairness/turn.ts';
import { type Admitted, type AdmittedNow, mustBeCurrent } from '../../http/admitted.ts';
import type { LostBy } from '../../http/retry.ts';

const require = createRequire(import.meta.url);

type PoolClass = typeof Pool;

/**
 * What undici's pool is made of, in the order in which it can be loaded. One after the other in turns of their own they
 * take at most a few milliseconds each; all at once take forty, or ninety with everything else that undici has.
 */
const pieces = [
  'node:http2',
  ...['core/symbols', 'core/errors', 'core/constants', 'util/timers', 'core/tree', 'core/util', 'core/diagnostics'],
  ...['core/request', 'core/connect', 'llhttp/constants', 'llhttp/utils', 'dispatcher/dispatcher-base'],
  ...['dispatcher/parser-h1', 'dispatcher/client-h1', 'dispatcher/client-h2', 'dispatcher/client', 'dispatcher/pool'],
].map((name) => (name.startsWith('node:') ? name : `undici/lib/${name}.js`));

/** Gets the error where undici cannot be loaded. */
type Use = (error: unknown, pool: PoolClass | null) => void;

type Loading =
  | { readonly kind: 'not begun' }
  | { readonly kind: 'under way'; readonly waiting: Use[] }
  | { readonly kind: 'done'; readonly pool: PoolClass };

let loading: Loading = { kind: 'not begun' };

/** Calls back with undici's pool once it is loaded. That takes 16 MB of memory: most sidecars never do it. */
function whenLoaded(use: Use): void {
  if (loading.kind === 'done') {
    use(null, loading.pool);
  } else if (loading.kind === 'under way') {
    loading.waiting.push(use);
  } else {
    loading = { kind: 'under way', waiting: [use] };
    loadFrom(0);
  }
}

function loadFrom(at: number): void {
  const load = (): void => {
    const piece = pieces[at];
    try {
      if (piece === undefined) {
        settle(null, poolClass());
        return;
      }
      if (isThere(piece)) require(piece);
    } catch (error) {
      settle(error, null);
      return;
    }
    loadFrom(at + 1);
  };
  turn.later(load);
}

function settle(error: unknown, pool: PoolClass | null): void {
  const waiting = loading.kind === 'under way' ? loading.waiting : [];
  loading = pool === null ? { kind: 'not begun' } : { kind: 'done', pool };
  for (const use of waiting) turn.later(() => use(error, pool));
}

/** Another release may have it elsewhere. */
function isThere(name: string): boolean {
  try {
    require.resolve(name);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return false;
    throw error;
  }
}

function poolClass(): PoolClass {
  const [last = ''] = pieces.slice(-1);
  return isThere(last) ? require(last) : (require('undici') as typeof import('undici')).Pool;
}

/** undici has one code for every fault of a socket, and names an orderly close by this message alone. */
export const otherSideClosed = 'other side closed';

/** Whether it is a request's head that undici writes: it writes content as bytes, and before each chunk's size a line end. */
export function isRequestHead(data: string | Uint8Array): data is string {
  return typeof data === 'string' && !data.startsWith('\r\n');
}

/** Of a request that has not begun. */
const none = null as unknown as Dispatcher.DispatchController;

/**
 * Asked as the head of a request is about to be written, in the same turn, whatever has been waited for. Null: it is not to
 * be sent, or not so, and the handler gets no other error than `notSent`.
 */
export type MayLeave = () => AdmittedNow | null;

/** What sends a request. */
export interface Sender {
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, mayLeave: MayLeave): boolean;
  /** The number of its idle connections, where it does not know which of them a request has taken. */
  readonly idle?: () => number;
  /** What the last attempt was lost to, where it knows. */
  readonly lostBy?: () => LostBy;
  /** The head leaves at once, and not with the first of the content. */
  readonly headLeavesFirst?: boolean;
}

/** What a handler is told of a request that `MayLeave` has kept back. */
export const notSent = new Error('not to be sent');

/** Its head was made before, and its content has begun to come: it can be made neither anew nor otherwise. */
export function otherFields(): Error {
  return new CodedError('ERR_SALLYPORT_OTHER_FILTERS', 'the route has other header filters by now');
}

/**
 * The handler of a request that leaves when `mayLeave` lets it. Whoever writes heads calls `onRequestStart` immediately before;
 * undici then takes what this throws for the request's own failure, and keeps the connection.
 */
function leaving(handler: Dispatcher.DispatchHandler, mayLeave: MayLeave): Dispatcher.DispatchHandler {
  return {
    ...handler,
    onRequestStart(controller, context) {
      handler.onRequestStart?.(controller, context);
      if (controller.aborted) return;
      const admitted = mayLeave();
      if (admitted === null) throw notSent;
      mustBeCurrent(admitted);
    },
  };
}

/** The request that a pool was given last. */
interface Asking {
  admitted: Admitted;
}

/**
 * A pool of connections that undici keeps; what is sent before undici is loaded waits for that.
 *
 * undici dials when it likes, and does not say for which request: at once for one that finds no connection free, later
 * where one that was dispatched before has to begin anew. The request that the pool was given last stands for all of
 * these. So there is no pool, and no connection of one, before a request for the pool's app has been admitted.
 */
export class LibraryPool {
  readonly #make: (pool: PoolClass, asking: Readonly<Asking>) => Pool;
  #made: { readonly pool: Pool; readonly asking: Asking } | null = null;

  constructor(make: (pool: PoolClass, asking: Readonly<Asking>) => Pool) {
    this.#make = make;
  }

  /** For one request. */
  sender(admitted: Admitted): Sender {
    return {
      dispatch: (options, handler, mayLeave) => this.#dispatch(admitted, options, leaving(handler, mayLeave)),
      idle: () => this.#made?.pool.stats.free ?? 0,
    };
  }

  #dispatch(admitted: Admitted, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.#made !== null) {
      this.#made.asking.admitted = admitted;
      return this.#made.pool.dispatch(options, handler);
    }
    const failed = (error: unknown): void => handler.onResponseError?.(none, error as Error);
    whenLoaded((error, pool) => {
      if (pool === null) {
        failed(error);
        return;
      }
      try {
        if (this.#made === null) {
          const asking = { admitted };
          this.#made = { pool: this.#make(pool, asking), asking };
        }
        this.#dispatch(admitted, options, handler);
      } catch (thrown) {
        failed(thrown);
      }
    });
    return true;
  }

  /** Ends it where no connection of it is open, and nothing waits for one. One of undici's takes 18 KB. */
  letGo(): boolean {
    if (this.#made === null) return false;
    const { connected, pending, queued, running } = this.#made.pool.stats;
    if (connected + pending + queued + running > 0) return false;
    void this.destroy();
    this.#made = null;
    return true;
  }

  async destroy(): Promise<void> {
    await this.#made?.pool.destroy();
  }
}
