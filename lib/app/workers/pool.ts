import { getHeapStatistics } from 'node:v8';
import type { Config } from '../../config/config.ts';
import { type Drained, drainedTogether } from '../../drained.ts';
import type { CodedLog } from '../../errors/complaint.ts';
import type { AdminApp } from '../../ops/admin-app.ts';
import { loadDescriptors } from '../../proxy/accept/descriptors.ts';
import type { OtherWorkers } from '../../proxy/accept/doors.ts';
import { type Listener, longestLastMs } from '../../proxy/accept/listener.ts';
import type { OwnListener } from '../../proxy/accept/own-endpoints.ts';
import type { InternalFault } from '../../proxy/recorder.ts';
import { countsOf } from '../../shared/counts.ts';
import type { DecisionTally } from '../../telemetry/decision-counts.ts';
import { takeLines } from '../../telemetry/line-channel.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Build, Telemetry } from '../../telemetry/metrics.ts';
import type { LineSink } from '../../telemetry/output.ts';
import type { ComparedPolicies } from '../candidate/watch.ts';
import { othersThan } from './balance.ts';
import { Gathering } from './gathering.ts';
import { GivenDescriptors } from './given.ts';
import { Handed } from './handed.ts';
import { type Death, Member, type MemberEvents } from './member.ts';
import {
  type JointChange,
  type PodState,
  plainConfig,
  podStateOf,
  type ThreadStart,
  type WorkerReport,
} from './messages.ts';
import { prepare, promptly, told } from './orders.ts';
import { answerAdmin } from './remote-admin.ts';
import { leaveShared, type SharedMemory } from './shared.ts';
import { beatMs, Vitals } from './vitals.ts';
import type { Workers } from './workers.ts';

export interface PoolOptions {
  readonly config: Config;
  readonly build: Build;
  readonly log: Log;
  readonly accessLines: LineSink;
  readonly decisionLines: LineSink;
  readonly telemetry: Pick<Telemetry, 'absorb' | 'forget'>;
  readonly admin: () => AdminApp;
  /** A warning of a worker's doors. */
  readonly warn: CodedLog['warn'];
  /** Takes a connection that a worker has accepted at one of the doors of all. */
  take(door: number, fd: number): void;
  /** A worker reports a fault of its own, or is one. */
  fault(ended: InternalFault['ended']): void;
}

/** Beats that may fail to come, one after the other; of a worker that is still starting, which loads its modules. */
const mostMissed = { serving: 10, starting: 60 };
/** Looks at the workers from one gathering of their figures to the next, though nobody scrapes. */
const looksToGather = 5;
/** Milliseconds until a worker that has died is replaced: doubled each time, unless it has lived for a while. */
const backoff = { first: 100, most: 30_000, lived: 60_000 };
/** Megabytes below which no worker could live. */
const leastMemory = 64;

/** A further worker by its number, and which thread that is now. */
interface Seat {
  member: Member;
  /** Deaths in a row. */
  deaths: number;
  beats: number;
  missed: number;
  /** What it is told in order: what is in force when it starts, then each change. */
  queue: Promise<void>;
  stage: 'starting' | 'ready' | 'serving';
  /** Characters of log lines on their way from it. */
  readonly linesUnderway: Int32Array;
  readonly handed: Handed;
}

/**
 * Further threads that serve beside the main one. The main thread reads and admits policy, identity and the pod's facts;
 * every thread has its own data plane and accepts for itself, from listening sockets that all share.
 */
export class WorkerPool implements Workers {
  readonly #options: PoolOptions;
  readonly #start: Omit<ThreadStart, 'worker' | 'logLevel' | 'linesUnderway'>;
  readonly #vitals: Vitals;
  readonly #memory: SharedMemory;
  readonly #gathering: Gathering;
  readonly #descriptors = loadDescriptors();
  readonly #given = new GivenDescriptors<Member>(this.#descriptors);
  readonly others: OtherWorkers;
  readonly #seats = new Map<number, Seat>();
  readonly #deaths = new Map<Death, number>();
  readonly #mostMemory: number;
  readonly #watchdog: NodeJS.Timeout;
  /** In force, by kind. */
  readonly #inForce = new Map<JointChange['kind'], JointChange>();
  #lastChange = 0;
  #pod: PodState;
  #doors: { readonly listeners: readonly Listener[]; readonly own: readonly OwnListener[] } | null = null;
  #stage: 'running' | 'stopping' = 'running';
  #looks = 0;

  constructor(options: PoolOptions, memory: SharedMemory) {
    const { config, build } = options;
    this.#options = options;
    this.#vitals = new Vitals(config.workers);
    this.#memory = memory;
    this.others = othersThan({
      self: 0,
      vitals: this.#vitals,
      connections: memory.connections,
      descriptors: this.#descriptors,
      send: (worker, door, fd) => this.#hand(worker, door, fd),
    });
    this.#start = { config: plainConfig(config), build, vitals: this.#vitals.shared, memory };
    this.#gathering = new Gathering(options.telemetry);
    this.#pod = podStateOf(config.workload);
    // All of them together may fill what one would have.
    const all = getHeapStatistics().heap_size_limit / 2 ** 20;
    this.#mostMemory = Math.max(leastMemory, Math.floor(all / config.workers));
    for (let worker = 1; worker < config.workers; worker++) this.#fill(worker, 0);
    this.#watchdog = setInterval(() => this.#watch(), beatMs).unref();
  }

  serving(): number {
    return 1 + this.#all().filter(({ stage }) => stage === 'serving').length;
  }

  deaths(): ReadonlyMap<Death, number> {
    return this.#deaths;
  }

  openConnections(): readonly number[] {
    return countsOf(this.#memory.connections);
  }

  gather(): Promise<void> {
    const started = this.#all().filter(({ stage }) => stage !== 'starting');
    return this.#gathering.gather(started.map(({ member }) => member));
  }

  compared(): Promise<readonly ComparedPolicies[]> {
    return told(this.#all().map(({ member }) => member.call<'compared'>({ kind: 'compared' })));
  }

  decided(): Promise<readonly DecisionTally[]> {
    return told(this.#all().map(({ member }) => member.call<'decided'>({ kind: 'decided' })));
  }

  figuresAges(): ReadonlyMap<number, number> {
    return this.#gathering.ages();
  }

  async change(change: JointChange, commit: () => void): Promise<void> {
    const id = ++this.#lastChange;
    const prepared = new Set<Seat>();
    // Also those that start meanwhile.
    for (let rest = this.#all(); rest.length > 0; rest = this.#all().filter((seat) => !prepared.has(seat))) {
      await Promise.all(
        rest.map(async (seat) => {
          await inTurn(seat, () => prepare(seat.member, id, change));
          prepared.add(seat);
        }),
      );
    }
    commit();
    this.#inForce.set(change.kind, change);
    await Promise.all(this.#all().map(({ member }) => member.call<'commit'>({ kind: 'commit', change: id })));
  }

  pod(pod: PodState): void {
    this.#pod = pod;
    for (const { member } of this.#all()) member.tell({ kind: 'pod', pod });
  }

  logLevel(level: string): void {
    for (const { member } of this.#all()) member.tell({ kind: 'log-level', level });
  }

  async open(listeners: readonly Listener[], own: readonly OwnListener[]): Promise<void> {
    this.#doors = { listeners, own };
    this.#vitals.setOpen(0, true);
    await Promise.all(this.#all().map((seat) => inTurn(seat, () => this.#listen(seat))));
  }

  async connections(): Promise<number> {
    const asked = this.#all().map(({ member }) => promptly(member.call<'connections'>({ kind: 'connections' })));
    const open = await Promise.all(asked);
    return open.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  }

  async closeDoors(): Promise<void> {
    this.#stage = 'stopping';
    this.#vitals.closeAll();
    await Promise.all(
      this.#all().map(({ member }) => promptly(member.call<'close-doors'>({ kind: 'close-doors' }), longestLastMs)),
    );
  }

  announce(): void {
    for (const { member } of this.#all()) member.tell({ kind: 'announce' });
  }

  async empty(timeoutMs: number): Promise<boolean> {
    const empty = await Promise.all(
      this.#all().map(({ member }) => promptly(member.call<'empty'>({ kind: 'empty', timeoutMs }), timeoutMs)),
    );
    return empty.every((each) => each !== false);
  }

  closeIdle(): void {
    for (const { member } of this.#all()) member.tell({ kind: 'close-idle' });
  }

  async drain(timeoutMs: number): Promise<Drained> {
    const drained = await Promise.all(
      this.#all().map(({ member }) => promptly(member.call<'drain'>({ kind: 'drain', timeoutMs }), timeoutMs)),
    );
    return drainedTogether(drained.map((each) => each ?? null));
  }

  async release(): Promise<void> {
    this.#stage = 'stopping';
    clearInterval(this.#watchdog);
    await Promise.all(
      this.#all().map(async ({ member }) => {
        await promptly(member.call<'release'>({ kind: 'release' }));
        await member.end();
      }),
    );
  }

  #all(): Seat[] {
    return [...this.#seats.values()].filter(({ member }) => !member.isGone);
  }

  #fill(worker: number, deaths: number): void {
    const linesUnderway = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    const start = { ...this.#start, worker, logLevel: this.#options.log.level(), linesUnderway };
    this.#vitals.reset(worker);
    const member = this.#member(start, deaths, {
      report: (report) => this.#hear(seat, report),
      died: (death, error) => this.#died(worker, seat, death, error),
    });
    if (member === null) return;
    const seat: Seat = {
      member,
      deaths,
      beats: 0,
      missed: 0,
      queue: Promise.resolve(),
      stage: 'starting',
      linesUnderway: new Int32Array(linesUnderway),
      handed: new Handed(() => this.#vitals.taken(worker)),
    };
    this.#seats.set(worker, seat);
    void inTurn(seat, () => this.#begin(seat));
  }

  /** Null where the system has no room for another thread: then it is tried again. */
  #member(start: ThreadStart, deaths: number, events: MemberEvents): Member | null {
    try {
      return new Member(start, this.#mostMemory, events);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#lost(start.worker, deaths + 1, 'failed', `no thread could be started: ${reason}`);
      return null;
    }
  }

  /** All that is in force, then the doors. */
  async #begin(seat: Seat): Promise<void> {
    const { member } = seat;
    member.tell({ kind: 'pod', pod: this.#pod });
    for (const kind of ['identity', 'policy', 'candidate'] as const) {
      const change = this.#inForce.get(kind);
      if (change === undefined) continue;
      const id = ++this.#lastChange;
      await prepare(member, id, change);
      await member.call<'commit'>({ kind: 'commit', change: id });
    }
    seat.stage = 'ready';
    await this.#listen(seat);
  }

  async #listen(seat: Seat): Promise<void> {
    if (this.#doors === null || this.#stage === 'stopping' || seat.stage !== 'ready') return;
    const { listeners, own } = this.#doors;
    const bound = listeners.flatMap((listener) => listener.descriptor() ?? []);
    const { member } = seat;
    const fds = this.#given.give(member, bound);
    if (fds === null || fds.length < listeners.length) {
      member.kill('failed', 'no file descriptor is left for its listeners');
      return;
    }
    const doors = fds.map((fd, door) => ({ fd, door }));
    const answer = await member.call<'listen'>({ kind: 'listen', doors, own });
    if (answer === undefined) return;
    this.#given.taken(member);
    seat.stage = 'serving';
    // Told by nobody else, so that no connection is on its way to a worker that is not yet seen to serve here.
    if (this.#stage === 'running' && !member.isGone) this.#vitals.setOpen(member.worker, true);
  }

  #hear(seat: Seat, report: Exclude<WorkerReport, { kind: 'answer' | 'failed' }>): void {
    const { log, accessLines, decisionLines, fault } = this.#options;
    switch (report.kind) {
      case 'lines':
        takeLines(report.batch, { log, access: accessLines, decisions: decisionLines }[report.log], seat.linesUnderway);
        return;
      case 'fault':
        fault(report.ended);
        return;
      case 'warning':
        this.#options.warn(report.fields, report.message);
        return;
      case 'connection':
        this.#hand(report.to, report.door, report.fd);
        return;
      case 'admin': {
        const { asked, request } = report;
        const tell = (answer: Awaited<ReturnType<typeof answerAdmin>>): void =>
          seat.member.tell({ kind: 'admin', asked, answer });
        answerAdmin(this.#options.admin(), request).then(tell, () => tell(null));
      }
    }
  }

  /** To a worker that takes none any more: then to this one. */
  #hand(worker: number, door: number, fd: number): void {
    const seat = this.#seats.get(worker);
    if (seat?.stage !== 'serving' || seat.member.isGone) {
      if (worker === 0) this.#vitals.take(0);
      this.#options.take(door, fd);
      return;
    }
    seat.handed.add({ door, fd });
    seat.member.tell({ kind: 'connection', door, fd });
  }

  #died(worker: number, seat: Seat, death: Death, error: string): void {
    this.#given.over(seat.member);
    const untaken = seat.handed.over();
    this.#vitals.reset(worker);
    this.#gathering.over(seat.member);
    leaveShared(this.#memory, worker);
    for (const { door, fd } of untaken) this.#options.take(door, fd);
    const hasLived = performance.now() - seat.member.startedAt >= backoff.lived;
    this.#lost(worker, hasLived ? 1 : seat.deaths + 1, death, error);
  }

  /** @param deaths in a row, this one included. */
  #lost(worker: number, deaths: number, death: Death, error: string): void {
    const { log, fault } = this.#options;
    this.#deaths.set(death, (this.#deaths.get(death) ?? 0) + 1);
    fault('nothing');
    const replacedInMs = Math.min(backoff.most, backoff.first * 2 ** (deaths - 1));
    const isReplaced = this.#stage === 'running';
    const fields = { code: 'worker-died', worker, why: death, error, ...(isReplaced ? { replacedInMs } : {}) } as const;
    log.logger.error(fields, 'A worker has died; its connections are lost');
    if (!isReplaced) return;
    const replace = (): void => {
      if (this.#stage === 'running') this.#fill(worker, deaths);
    };
    setTimeout(replace, replacedInMs).unref();
  }

  #watch(): void {
    if (++this.#looks % looksToGather === 0) void this.gather();
    for (const [worker, seat] of this.#seats) {
      const beats = this.#vitals.beats(worker);
      seat.missed = beats === seat.beats ? seat.missed + 1 : 0;
      seat.beats = beats;
      const most = seat.stage === 'starting' ? mostMissed.starting : mostMissed.serving;
      if (seat.missed < most || seat.member.isGone) continue;
      seat.missed = 0;
      seat.member.kill('hung', `its event loop has not turned for ${(most * beatMs) / 1000} s`);
    }
  }
}

/** What a worker that is gone is told is nothing. */
function inTurn(seat: Seat, work: () => Promise<void>): Promise<void> {
  seat.queue = seat.queue.then(work);
  return seat.queue;
}
