import { turn } from '../../fairness/turn.ts';
import { guarded, internalFault } from '../../guard.ts';
import type { Admitted, AdmittedNow } from '../../http/admitted.ts';
import type { RequestBlock } from '../message/request-head.ts';
import type { AppExchange, Http2ResponseSink } from './app-exchange.ts';

/** Each writes a line of the log. */
const failuresPerTurn = 64;

/** A request that wants a session, and waits for one where there is none. */
export interface Waiting extends Http2ResponseSink {
  /** What it may dial by. */
  readonly admitted: Admitted;
  /** After a wait: what it may be sent by now. Null: policy refuses it by now, and its client is told so. */
  admitLate(): AdmittedNow | null;
  /** Its header block for the app. */
  readonly requestHead: RequestBlock;
  readonly method: string;
  /** There is no more of it than its head. */
  readonly isComplete: boolean;
  /** The client's connection: what one client leaves unread must not be another's wait. */
  readonly owner: object;
  /** Of that connection's requests, the only one in flight. */
  readonly isAlone: boolean;
  /** Bytes of content that want room on the session at once; 0 for a request that has none. */
  readonly room: number;
  /** When it began to wait, on the clock of `performance.now()`. Set by `add`. */
  waitsSince: number;
  /** After a wait: it has left. */
  begun(stream: AppExchange): void;
}

/** Those who wait for a session: for any stream, or for one with room for content. */
export class WaitingRequests {
  readonly #streams = new Set<Waiting>();
  /**
   * Those that want room, each client's in their order: what holds up the first of them holds up all, however many a
   * client has waiting. None is empty.
   */
  readonly #uploads = new Map<object, Set<Waiting>>();
  /** Waited in vain, and are told so a few at a time. */
  readonly #failing = new Map<Waiting, Error>();
  readonly #failSome = guarded('requests without a session', null, () => this.#fail());

  /** False for one behind others of its client, for whom all has been done. */
  add(waiting: Waiting): boolean {
    waiting.waitsSince = performance.now();
    if (waiting.room === 0) {
      this.#streams.add(waiting);
      return true;
    }
    const others = this.#uploads.get(waiting.owner);
    if (others === undefined) this.#uploads.set(waiting.owner, new Set([waiting]));
    else others.add(waiting);
    return others === undefined;
  }

  /** It waits no more, and is not told of anything either. */
  remove(waiting: Waiting): void {
    this.#failing.delete(waiting);
    if (waiting.room === 0) {
      this.#streams.delete(waiting);
      return;
    }
    const others = this.#uploads.get(waiting.owner);
    others?.delete(waiting);
    if (others?.size === 0) this.#uploads.delete(waiting.owner);
  }

  /** Nobody waits, nor is still to be told that it was in vain. */
  get isEmpty(): boolean {
    return this.#streams.size === 0 && this.#uploads.size === 0 && this.#failing.size === 0;
  }

  /** In their order, those whom any stream will do. */
  get forStreams(): ReadonlySet<Waiting> {
    return this.#streams;
  }

  /** Whether this client, or any, has some that want room for content. */
  wantRoom(owner?: object): boolean {
    return owner === undefined ? this.#uploads.size > 0 : this.#uploads.has(owner);
  }

  /** The clients of those. */
  get uploaders(): Iterable<object> {
    return this.#uploads.keys();
  }

  firstUpload(owner: object): Waiting | null {
    const [first] = this.#uploads.get(owner) ?? [];
    return first ?? null;
  }

  /** Whether any is the only one of its client's in flight. */
  get isAnyAlone(): boolean {
    return this.#queues.some((queue) => [...queue].some(({ isAlone }) => isAlone));
  }

  /** Everyone, those for a stream first. */
  get #queues(): readonly ReadonlySet<Waiting>[] {
    return [this.#streams, ...this.#uploads.values()];
  }

  /** Those who are meant have waited in vain. */
  giveUp(isMeant: (waiting: Waiting) => boolean, error: Error): void {
    const isFailing = this.#failing.size > 0;
    for (const waiting of this.#queues.flatMap((queue) => [...queue]).filter(isMeant)) {
      this.remove(waiting);
      this.#failing.set(waiting, error);
    }
    if (!isFailing) this.#fail();
  }

  /** As many as one turn of the event loop can bear. */
  #fail(): void {
    let left = failuresPerTurn;
    for (const [waiting, error] of this.#failing) {
      if (left-- === 0) {
        turn.later(this.#failSome);
        return;
      }
      this.#failing.delete(waiting);
      try {
        waiting.lost({ kind: 'connection', by: 'other', error });
      } catch (thrown) {
        internalFault('a request without a session', waiting, thrown);
      }
    }
  }
}
