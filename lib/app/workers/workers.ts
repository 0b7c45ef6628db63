import type { Drained } from '../../drained.ts';
import type { OtherWorkers } from '../../proxy/accept/doors.ts';
import type { Listener } from '../../proxy/accept/listener.ts';
import type { OwnListener } from '../../proxy/accept/own-endpoints.ts';
import type { DecisionTally } from '../../telemetry/decision-counts.ts';
import type { ComparedPolicies } from '../candidate/watch.ts';
import type { Death } from './member.ts';
import type { JointChange, PodState } from './messages.ts';

/** The further workers, as the rest of the composition root sees them. */
export interface Workers {
  /** For the doors of all; null where there are no others. */
  readonly others: OtherWorkers | null;
  /** How many serve now, the main thread included. */
  serving(): number;
  /** How many have died so far, by why. */
  deaths(): ReadonlyMap<Death, number>;
  /** Client connections of each worker; empty where there is one. */
  openConnections(): readonly number[];
  /** Takes in what they have counted. Resolves when all have answered, or after a second. */
  gather(): Promise<void>;
  /** What each has compared with the candidate policy; those that do not answer within a second are left out. */
  compared(): Promise<readonly ComparedPolicies[]>;
  /** The decisions that each has counted, where they are recorded; without those that do not answer within a second. */
  decided(): Promise<readonly DecisionTally[]>;
  /** Seconds since that of each was taken. */
  figuresAges(): ReadonlyMap<number, number>;
  /** Has every worker prepare it; then calls `commit`, for the main thread, while all others do the same. Resolves when all have. */
  change(change: JointChange, commit: () => void): Promise<void>;
  pod(state: PodState): void;
  logLevel(level: string): void;
  /** Lets all of them accept at the main thread's listeners. Resolves when they do. */
  open(doors: readonly Listener[], own: readonly OwnListener[]): Promise<void>;
  connections(): Promise<number>;
  /** No worker is replaced from now on. */
  closeDoors(): Promise<void>;
  announce(): void;
  empty(timeoutMs: number): Promise<boolean>;
  closeIdle(): void;
  drain(timeoutMs: number): Promise<Drained>;
  release(): Promise<void>;
}
