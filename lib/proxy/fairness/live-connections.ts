import { byThemselves, type Drained } from '../../drained.ts';
import type { IpAddress } from '../../ip.ts';
import { connectionCosts, type MemoryState } from '../../memory-plan.ts';
import { Roster, type Rostered } from '../../roster.ts';
import { eachGuarded, guarded, internalFault } from '../guard.ts';
import type { LimitName, Limits } from '../limits.ts';
import type { Recorder } from '../recorder.ts';
import { behindReads } from './behind-reads.ts';
import { type Count, OwnCount } from './count.ts';
import { type InLine, Line } from './line.ts';
import { type Rechecked, Rechecks, type Slice } from './rechecks.ts';
import { type Source, Sources } from './sources.ts';

/** One open connection, whatever it carries. */
export interface LiveConnection extends Rostered, InLine<LiveConnection> {
  readonly ip: IpAddress;
  /** For the admin server, which must be reached above all when there is no room. */
  readonly isInternal: boolean;
  /** Nobody has verified who its client is. */
  readonly isStranger: boolean;
  /** Where it counts; null until it is let in. Set by `admit`. */
  source: Source | null;
  /** What it is counted as taking, in bytes; 0 where it is not counted. The live connections' own. */
  weight: number;
  /**
   * How well it could be done without: `busy` not at all; idle and stalled ones by the time since when nothing has moved, on
   * the clock of `performance.now()`.
   */
  spareable(): Spareable;
  /** A look now and then at what is held for it, and at its deadlines. */
  sweep(nowMs: number): void;
  /**
   * Called after a policy change: decide again, and end the connection where it is now forbidden; of HTTP, the requests that are
   * under way.
   */
  recheck(slice: Slice): Rechecked;
  /** The stop has begun: tell the client, where the protocol can, to take new work elsewhere. Refuse nothing yet. */
  announceDrain(): void;
  /** Finish what is in flight, take nothing new, then close. Idle connections close at once. */
  drain(): void;
  /** Ends the connection now. */
  destroy(): void;
}

export type Spareable =
  | { readonly kind: 'busy' }
  | { readonly kind: 'idle' | 'idle, of an identity' | 'stalled'; readonly sinceMs: number };

/** In the order in which they have to go. */
const ranks: Readonly<Record<Spareable['kind'], number>> = { idle: 3, 'idle, of an identity': 2, stalled: 1, busy: 0 };

/** How many connections are looked at to find one that can go. A client that fills the table is easily met with. */
const sampleSize = 32;

/** Milliseconds between looks at a part of the connections, and in how many parts each is looked at once. */
const sweepMs = 100;
const sweepParts = 5;

/** Connections to the admin server for which there is room beyond the limits. */
const internalReserve = 16;

/** How many make room for one that takes more than each of them, or are ended in one look where memory runs out. */
const maxVictims = 256;

type ConnectionLimits = Pick<
  Limits,
  'maxConnections' | 'maxConnectionsPerClient' | 'maxConnectionBytes' | 'maxDetecting' | 'maxHandshakes'
>;

/** What is counted of connections, together with other threads where there are some. */
export interface ConnectionCounts {
  readonly connections: Count;
  readonly sources: Sources;
  readonly wanted: Wanted;
}

/** Room that one thread wants, since it has no connection that could be done without, and another may make. */
export interface Wanted {
  ask(): void;
  /** True when another thread has asked: it is for the caller to make room for one connection, if it can. */
  take(): boolean;
}

/** A handshake that is younger than this is under way rather than stuck: then the newest is refused, not the oldest. */
const stuckMs = 1000;

/**
 * Every open connection: let in and made room for within the limits, looked at now and then, rechecked when policy
 * changes, drained at stop.
 *
 * At the limit a new connection is not refused as long as an old one can be done without: first one that has not even said
 * what it is, then one without a request, then one whose client stands still. So nobody shuts others out by filling the
 * table; only connections on which something happens can.
 */
export class LiveConnections {
  readonly #limits: ConnectionLimits;
  readonly #recorder: Pick<Recorder, 'limitReached'>;
  readonly #open = new Roster<LiveConnection>();
  readonly #rechecks = new Rechecks(this.#open);
  readonly #counts: ConnectionCounts;
  /** Those that have not said yet what they are, and those whose handshake is under way. Oldest first. */
  readonly #detecting = new Line<LiveConnection>();
  readonly #handshaking = new Line<LiveConnection>();
  readonly #sweeper: NodeJS.Timeout;
  #sweptTo = 0;
  /** What all of them are counted as taking. */
  #bytes = 0;
  #memory: MemoryState = 'ample';
  #stage: 'serving' | 'announced' | 'draining' = 'serving';
  #idle: (() => void)[] = [];

  constructor(limits: ConnectionLimits, recorder: Pick<Recorder, 'limitReached'>, counts: ConnectionCounts = alone()) {
    this.#limits = limits;
    this.#recorder = recorder;
    this.#counts = counts;
    const sweep = guarded('looking at the connections', null, () => this.#sweepSome());
    this.#sweeper = setInterval(behindReads(sweep), sweepMs).unref();
  }

  get size(): number {
    return this.#open.size;
  }

  /** What all are counted as taking. */
  get bytes(): number {
    return this.#bytes;
  }

  get draining(): boolean {
    return this.#stage === 'draining';
  }

  /** Lets a connection in, and counts it; false when it must be closed, since no other can be done without. */
  admit(connection: LiveConnection): boolean {
    const reserve = connection.isInternal ? internalReserve : 0;
    const maxConnections = this.#limits.maxConnections + reserve;
    const maxConnectionsPerClient = this.#limits.maxConnectionsPerClient + reserve;
    const { connections, sources, wanted } = this.#counts;
    const source = sources.of(connection.ip);
    source.add();
    if (source.open > maxConnectionsPerClient && !this.#makeRoom('max_connections_per_client', connection.ip, source)) {
      source.remove();
      return false;
    }
    connections.add();
    if (connections.total > maxConnections && !this.#makeRoom('max_connections', connection.ip, null)) {
      connections.remove();
      source.remove();
      wanted.ask();
      return false;
    }
    if (!this.#weigh(connection, connectionCosts.plain) || !this.#mayEnter(connection)) {
      this.#bytes -= connection.weight;
      connection.weight = 0;
      connections.remove();
      source.remove();
      return false;
    }
    connection.source = source;
    this.#open.add(connection);
    this.#detect(connection);
    if (this.#stage === 'serving') return true;
    connection.announceDrain();
    if (this.#stage === 'draining') connection.drain();
    return true;
  }

  /** Its TLS handshake begins; false when it must be closed, since too many are under way. */
  handshake(connection: LiveConnection): boolean {
    this.#detecting.remove(connection);
    const oldest = this.#handshaking.first;
    if (this.#handshaking.size >= this.#limits.maxHandshakes && oldest !== null) {
      const spareable = oldest.spareable();
      if (spareable.kind === 'busy' || performance.now() - spareable.sinceMs < stuckMs) {
        this.#recorder.limitReached('max_handshakes', connection.ip);
        return false;
      }
      this.#evict('max_handshakes', oldest);
    }
    if (!this.#weigh(connection, connectionCosts.handshake)) return false;
    this.#handshaking.append(connection);
    return true;
  }

  /** Its TLS handshake has succeeded, and what it speaks within is still to come. */
  secured(connection: LiveConnection, client: 'known' | 'stranger'): void {
    if (connection.rosterPlace === -1) return;
    connection.line?.remove(connection);
    this.#weigh(connection, connectionCosts.tls);
    if (client === 'stranger') this.#detect(connection);
  }

  #detect(connection: LiveConnection): void {
    this.#detecting.append(connection);
    const { first } = this.#detecting;
    if (this.#detecting.size > this.#limits.maxDetecting && first !== null) this.#evict('max_detecting', first);
  }

  /**
   * It has said what it is, as far as this layer wants to know.
   *
   * @param bytes that such a connection takes. It is counted, and others make room for it.
   */
  settled(connection: LiveConnection, bytes: number = connectionCosts.plain): void {
    connection.line?.remove(connection);
    // It has left the proxy already.
    if (connection.rosterPlace !== -1) this.#weigh(connection, bytes);
  }

  /** It takes so much from now on. False where there is no room, nor anybody who could make some. */
  #weigh(connection: LiveConnection, bytes: number): boolean {
    const more = bytes - connection.weight;
    this.#bytes += more;
    connection.weight = bytes;
    if (more <= 0 || this.#bytes <= this.#limits.maxConnectionBytes || connection.isInternal) return true;
    this.#recorder.limitReached('max_connection_bytes', connection.ip);
    for (let left = maxVictims; left > 0 && this.#bytes > this.#limits.maxConnectionBytes; left--) {
      const victim = this.#spare(null);
      if (victim === null || victim === connection) break;
      this.#end(victim);
    }
    return this.#bytes <= this.#limits.maxConnectionBytes;
  }

  /** Where memory runs out, as many go as come, and in the end nobody comes. */
  #mayEnter(connection: LiveConnection): boolean {
    if (this.#memory === 'ample' || connection.isInternal) return true;
    this.#recorder.limitReached('memory', connection.ip);
    const victim = this.#memory === 'tight' ? this.#spare(null) : null;
    if (victim === null) return false;
    this.#end(victim);
    return true;
  }

  /** Memory is as that says from now on; ends whoever can be done without, until `bytes` less are counted. */
  memory(state: MemoryState, bytes: number): void {
    this.#memory = state;
    const wanted = this.#bytes - bytes;
    for (let left = maxVictims; left > 0 && state !== 'ample' && this.#bytes > wanted; left--) {
      const victim = this.#spare(null) ?? (state === 'newest go' ? this.#newestStranger() : null);
      if (victim === null) return;
      this.#evict('memory', victim);
    }
  }

  /** Of the last that came, or as good as that: whoever leaves the roster gives its place to the last. */
  #newestStranger(): LiveConnection | null {
    for (let place = this.#open.size - 1; place >= Math.max(0, this.#open.size - sampleSize); place--) {
      const each = this.#open.at(place);
      if (each?.isStranger === true && !each.isInternal) return each;
    }
    return null;
  }

  remove(connection: LiveConnection): void {
    connection.line?.remove(connection);
    if (!this.#open.delete(connection)) return;
    this.#bytes -= connection.weight;
    connection.weight = 0;
    this.#counts.connections.remove();
    connection.source?.remove();
    if (this.#open.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** There are no descriptors left for a new connection: one goes, if one can. */
  outOfDescriptors(): void {
    const victim = this.#spare(null);
    this.#recorder.limitReached('descriptors', victim?.ip ?? null);
    if (victim !== null) this.#end(victim);
  }

  /** `source`: whose connections alone may go; null: anybody's. */
  #makeRoom(limit: LimitName, ip: IpAddress, source: Source | null): boolean {
    const victim = this.#spare(source);
    this.#recorder.limitReached(limit, ip);
    if (victim === null) return false;
    this.#end(victim);
    return true;
  }

  /** Another thread had to refuse connections, and knows of none that it could do without. */
  #makeRoomElsewhere(): void {
    for (let left = sampleSize; left > 0 && this.#counts.wanted.take(); left--) {
      const victim = this.#spare(null);
      if (victim !== null) this.#evict('max_connections', victim);
    }
  }

  #evict(limit: LimitName, victim: LiveConnection): void {
    this.#recorder.limitReached(limit, victim.ip);
    this.#end(victim);
  }

  /** It counts no longer from now on, whenever its socket says that it is closed. */
  #end(victim: LiveConnection): void {
    this.remove(victim);
    victim.destroy();
  }

  #spare(source: Source | null): LiveConnection | null {
    // The new one alone is counted: all others are in other threads.
    if (source !== null && source.own <= 1) return null;
    let oldest = this.#detecting.first;
    for (let i = 0; oldest !== null && source !== null && oldest.source !== source; i++) {
      oldest = i < sampleSize ? oldest.later : null;
    }
    if (oldest !== null) return oldest;
    let found: LiveConnection | null = null;
    let best: Spareable = { kind: 'busy' };
    const { size } = this.#open;
    // Enough to meet with a few of the source's own.
    const looks =
      source === null ? sampleSize : Math.min(1024, Math.ceil((sampleSize * size) / Math.max(1, source.own)));
    const from = Math.floor(Math.random() * size);
    for (let i = 0; i < Math.min(looks, size); i++) {
      const each = this.#open.at((from + i) % size);
      if (each === undefined || (source !== null && each.source !== source)) continue;
      const spareable = each.spareable();
      if (!goesBefore(spareable, best)) continue;
      best = spareable;
      found = each;
    }
    return found;
  }

  #sweepSome(): void {
    this.#counts.sources.tidy(this.#open.size);
    this.#makeRoomElsewhere();
    const now = performance.now();
    for (let left = Math.ceil(this.#open.size / sweepParts); left > 0; left--) {
      // From the end: a connection that leaves meanwhile gives its place to one that has had its turn.
      this.#sweptTo = this.#sweptTo <= 0 || this.#sweptTo > this.#open.size ? this.#open.size - 1 : this.#sweptTo - 1;
      const each = this.#open.at(this.#sweptTo);
      try {
        each?.sweep(now);
      } catch (error) {
        internalFault('looking at a connection', each ?? null, error);
      }
    }
  }

  announceDrain(): void {
    this.#stage = 'announced';
    eachGuarded('announcing the drain', [...this.#open], (connection) => connection.announceDrain());
  }

  /** Resolves when nothing is open, or after `timeoutMs`. */
  async empty(timeoutMs: number): Promise<boolean> {
    if (this.#open.size === 0) return true;
    let timer: NodeJS.Timeout | undefined;
    const empty = await Promise.race([
      new Promise<boolean>((resolve) => this.#idle.push(() => resolve(true))),
      new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), timeoutMs);
      }),
    ]);
    clearTimeout(timer);
    return empty;
  }

  /** Policy has changed. */
  recheckAll(): void {
    this.#rechecks.begin();
  }

  /** Resolves when all have ended by themselves, or after `graceMs`, when the rest is cut. */
  async drain(graceMs: number): Promise<Drained> {
    this.#stage = 'draining';
    eachGuarded('draining', [...this.#open], (connection) => connection.drain());
    if (await this.empty(graceMs)) return byThemselves;
    const rest = [...this.#open];
    eachGuarded('ending the rest', rest, (connection) => connection.destroy());
    return { kind: 'cut', connections: rest.length };
  }

  close(): void {
    clearInterval(this.#sweeper);
    this.#rechecks.close();
  }
}

function alone(): ConnectionCounts {
  return { connections: new OwnCount(), sources: new Sources(), wanted: { ask() {}, take: () => false } };
}

function goesBefore(one: Spareable, other: Spareable): boolean {
  if (one.kind === 'busy') return false;
  if (other.kind === 'busy') return true;
  return one.kind === other.kind ? one.sinceMs < other.sinceMs : ranks[one.kind] > ranks[other.kind];
}
