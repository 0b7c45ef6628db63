import type { StreamState } from './stream-state.ts';

/** Streams that we have reset, and whose frames may still be on their way to us. */
const maxReset = 1000;

/** What is known of a stream by its number. */
interface Numbered {
  readonly id: number;
  readonly state: StreamState;
}

/** Places of a new table, and of one that grows no more: as many as streams are open on most connections, and at most. */
const firstPlaces = 32;
const mostPlaces = 512;

/** Streams by their numbers, which are odd and go up: each has a place, and one whose place is taken is in the map. */
class Places<S extends Numbered> {
  size = 0;
  #places: (S | null)[] = new Array<S | null>(firstPlaces).fill(null);
  #mask = firstPlaces - 1;
  /** Made with the first: a Map makes garbage all the time while members come and go. */
  #others: Map<number, S> | null = null;

  get(id: number): S | undefined {
    const stream = this.#places[(id >>> 1) & this.#mask];
    if (stream !== null && stream?.id === id) return stream;
    return this.#others?.get(id);
  }

  add(stream: S): void {
    this.size++;
    let place = (stream.id >>> 1) & this.#mask;
    if (this.#places[place] !== null && 2 * this.size > this.#mask && this.#mask < mostPlaces - 1) {
      this.#grow();
      place = (stream.id >>> 1) & this.#mask;
    }
    if (this.#places[place] === null) {
      this.#places[place] = stream;
      return;
    }
    this.#others ??= new Map();
    this.#others.set(stream.id, stream);
  }

  #grow(): void {
    const before = this.#places;
    this.#mask = 2 * before.length - 1;
    this.#places = new Array<S | null>(2 * before.length).fill(null);
    // Those that had a place each have one each.
    for (const stream of before) if (stream !== null) this.#places[(stream.id >>> 1) & this.#mask] = stream;
  }

  delete(id: number): boolean {
    const place = (id >>> 1) & this.#mask;
    if (this.#places[place]?.id === id) this.#places[place] = null;
    else if (this.#others?.delete(id) !== true) return false;
    this.size--;
    return true;
  }

  /** In the order of their numbers. */
  all(): S[] {
    const all = this.#places.filter((stream) => stream !== null);
    if (this.#others !== null) all.push(...this.#others.values());
    return all.sort((one, other) => one.id - other.id);
  }
}

/** The streams of one connection. All are the client's: an app opens none, since pushes are not wanted. */
export class StreamTable<S extends Numbered> {
  #open = new Places<S>();
  /** Streams that we have reset, and how many bytes of content their windows still allowed. */
  readonly #reset = new Map<number, number>();
  /** The highest that the client has opened; 0 before the first. */
  last = 0;
  #unusedSince = 0;
  /** The last stream when the table was first seen empty; -1 while it is not. */
  #unusedAfter = -1;

  get size(): number {
    return this.#open.size;
  }

  get(streamId: number): S | undefined {
    return this.#open.get(streamId);
  }

  /** In the order of their numbers; they may come and go meanwhile. */
  values(): readonly S[] {
    return this.#open.all();
  }

  add(stream: S): void {
    this.#open.add(stream);
  }

  /** False where it was gone before: the one that removes a stream deals with its end. */
  remove(streamId: number): boolean {
    return this.#open.delete(streamId);
  }

  isOpen(streamId: number): boolean {
    return this.#open.get(streamId) !== undefined;
  }

  /** Removes all. */
  clear(): readonly S[] {
    const streams = this.#open.all();
    this.#open = new Places();
    return streams;
  }

  /**
   * Looks for how long there have been no streams.
   *
   * @param now on the clock of `performance.now()`.
   * @returns milliseconds since the first of the looks that have found none, without a stream in between; 0 for that.
   */
  unusedMs(now: number): number {
    const isUnused = this.size === 0;
    if (isUnused && this.#unusedAfter === this.last) return now - this.#unusedSince;
    this.#unusedAfter = isUnused ? this.last : -1;
    this.#unusedSince = now;
    return 0;
  }

  /** The state of any stream, one that is no more or has never been among them. */
  stateOf(streamId: number): StreamState {
    const stream = this.#open.get(streamId);
    if (stream !== undefined) return stream.state;
    if (streamId % 2 === 0 || streamId > this.last) return 'idle';
    return this.#reset.has(streamId) ? 'reset' : 'closed';
  }

  /**
   * We have reset the stream before its peer had ended it. The oldest of too many are forgotten.
   *
   * @param room bytes of content that its window allows: they may be on their way.
   */
  rememberReset(streamId: number, room: number): void {
    this.#reset.set(streamId, room);
    if (this.#reset.size <= maxReset) return;
    for (const oldest of this.#reset.keys()) {
      this.#reset.delete(oldest);
      break;
    }
  }

  /** Content has come of a stream that we have reset. Whether it may have been on its way by then. */
  wasOnItsWay(streamId: number, bytes: number): boolean {
    const room = this.#reset.get(streamId);
    if (room === undefined || bytes > room) return false;
    this.#reset.set(streamId, room - bytes);
    return true;
  }

  /** The peer has ended it as well: nothing of it is on its way any more. */
  forgetReset(streamId: number): void {
    this.#reset.delete(streamId);
  }
}
