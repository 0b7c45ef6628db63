/** What the main thread and the further workers say to each other. All of it crosses by structured clone. */
import type { Config } from '../../config/config.ts';
import type { Drained } from '../../drained.ts';
import type { CodedLog } from '../../errors/complaint.ts';
import type { PolicyDocument } from '../../policy/documents/types.ts';
import type { PortSet, Workload } from '../../policy/workload.ts';
import type { OwnListener } from '../../proxy/accept/own-endpoints.ts';
import type { CredentialBytes, CredentialFiles, LoadContext } from '../../reload/credentials.ts';
import type { DecisionTally } from '../../telemetry/decision-counts.ts';
import type { Figures } from '../../telemetry/figures.ts';
import type { LineBatch } from '../../telemetry/line-channel.ts';
import type { Build } from '../../telemetry/metrics.ts';
import type { ComparedPolicies } from '../candidate/watch.ts';
import type { SharedMemory } from './shared.ts';

/** With what a thread starts (`workerData`). */
export interface ThreadStart {
  /** 1 for the first further worker: the main thread is worker 0. */
  readonly worker: number;
  readonly config: PlainConfig;
  /** As it is now. */
  readonly logLevel: Config['logLevel'];
  readonly build: Build;
  /** Shared by all threads; each slot belongs to one worker. See `vitals.ts`. */
  readonly vitals: SharedArrayBuffer;
  /** Shared by all threads, too. */
  readonly memory: SharedMemory;
  /** Characters of log lines on their way from this thread: one word. */
  readonly linesUnderway: SharedArrayBuffer;
}

/** What may change of the workload while the proxy runs. */
export type PodState = Pick<
  Workload,
  'labels' | 'ips' | 'ipsStated' | 'nodeIps' | 'namedPorts' | 'containerPorts' | 'probes' | 'defaultPolicy'
> &
  Readonly<Record<PortSets, Uint8Array>>;

/** What comes into force in all threads or in none: each prepares it, and when all have, each puts it in force. */
export type JointChange =
  /** The policy in force, or the candidate beside it. */
  | {
      readonly kind: 'policy' | 'candidate';
      readonly documents: readonly PolicyDocument[];
      readonly pod: PodState;
    }
  | { readonly kind: 'identity'; readonly identity: IdentityChange };

export interface IdentityChange {
  readonly files: CredentialFiles;
  readonly bytes: CredentialBytes;
  /** As it was verified: the same bytes at the same time have the same outcome. */
  readonly context: LoadContext;
  /** How often an anchor has gone. */
  readonly anchorsRemoved: number;
}

/** As a message: documents come before it, in pieces. */
export type PlainChange =
  | Extract<JointChange, { kind: 'identity' }>
  | { readonly kind: 'policy' | 'candidate'; readonly pod: PodState };

/** What the main thread tells a worker; taken in the order in which it is sent. With `call`: it is answered. */
export type Order =
  /** Some of the documents of a change of policy that follows. */
  | { readonly kind: 'documents'; readonly change: number; readonly documents: readonly PolicyDocument[] }
  | { readonly kind: 'prepare'; readonly call: number; readonly change: number; readonly what: PlainChange }
  | { readonly kind: 'commit'; readonly call: number; readonly change: number }
  /** The pod as it is from now on; a change of policy that is compiled for it comes by itself. */
  | { readonly kind: 'pod'; readonly pod: PodState }
  | { readonly kind: 'log-level'; readonly level: string }
  | {
      readonly kind: 'listen';
      readonly call: number;
      /** Descriptors of listening sockets, which are the worker's from then on. */
      readonly doors: readonly { readonly door: number; readonly fd: number }[];
      /** Everywhere this process listens. */
      readonly own: readonly OwnListener[];
    }
  /** A connection that another worker has accepted; the descriptor is the worker's from then on. */
  | { readonly kind: 'connection'; readonly door: number; readonly fd: number }
  /** The answer to a `WorkerReport` of the kind `admin`; null: it failed. */
  | { readonly kind: 'admin'; readonly asked: number; readonly answer: PlainAdminResponse | null }
  | { readonly kind: 'connections'; readonly call: number }
  /** For what it has counted since the last time. */
  | { readonly kind: 'figures'; readonly call: number }
  /** For what the candidate policy has been found to decide otherwise. */
  | { readonly kind: 'compared'; readonly call: number }
  /** For the decisions that it has counted. */
  | { readonly kind: 'decided'; readonly call: number }
  /** The steps of a stop, as `StopSteps` has them. */
  | { readonly kind: 'close-doors'; readonly call: number }
  | { readonly kind: 'announce' }
  | { readonly kind: 'empty'; readonly call: number; readonly timeoutMs: number }
  | { readonly kind: 'close-idle' }
  | { readonly kind: 'drain'; readonly call: number; readonly timeoutMs: number }
  | { readonly kind: 'release'; readonly call: number };

/** What a worker answers, by the kind of the order. */
export interface Answers {
  readonly prepare: null;
  readonly commit: null;
  readonly listen: null;
  readonly connections: number;
  readonly figures: Figures;
  /** Null where there is no candidate policy. */
  readonly compared: ComparedPolicies | null;
  /** Null where none are recorded. */
  readonly decided: DecisionTally | null;
  readonly 'close-doors': null;
  readonly empty: boolean;
  readonly drain: Drained;
  readonly release: null;
}

export type Calling = keyof Answers;
export type CallOrder<K extends Calling> = Extract<Order, { readonly kind: K }>;

/** What a worker tells the main thread. */
export type WorkerReport =
  | { readonly kind: 'answer'; readonly call: number; readonly value: Answers[Calling] }
  /** What was asked for has thrown: this worker's state is unknown. */
  | { readonly kind: 'failed'; readonly call: number; readonly error: string }
  /** An internal fault, which the worker has logged and counted. */
  | { readonly kind: 'fault'; readonly ended: 'connection' | 'request' | 'nothing' }
  /** Whole lines of a log. */
  | { readonly kind: 'lines'; readonly log: 'log' | 'access' | 'decisions'; readonly batch: LineBatch }
  /** A warning of its doors, which another worker may have said already. */
  | { readonly kind: 'warning'; readonly fields: Parameters<CodedLog['warn']>[0]; readonly message: string }
  /** A connection for a worker that has fewer. */
  | { readonly kind: 'connection'; readonly to: number; readonly door: number; readonly fd: number }
  /** A request to the admin server, which is in the main thread. */
  | { readonly kind: 'admin'; readonly asked: number; readonly request: PlainAdminRequest };

export interface PlainAdminRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly clientIp: string;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  /** Null: longer than the admin server takes, or broken off. */
  readonly body: Uint8Array | null;
}

export interface PlainAdminResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | Uint8Array;
}

/** The configuration without functions. */
export interface PlainConfig extends Omit<Config, 'loopbackPorts' | 'workload'> {
  readonly loopbackPorts: Uint8Array;
  readonly workload: Omit<Workload, PortSets> & Readonly<Record<PortSets, Uint8Array>>;
}

type PortSets = 'opaquePorts' | 'requireIdentityPorts';

export function plainConfig(config: Config): PlainConfig {
  const { workload, loopbackPorts } = config;
  const opaquePorts = bitsOf(workload.opaquePorts);
  const requireIdentityPorts = bitsOf(workload.requireIdentityPorts);
  return {
    ...config,
    loopbackPorts: bitsOf(loopbackPorts),
    workload: { ...workload, opaquePorts, requireIdentityPorts },
  };
}

export function configOf(plain: PlainConfig): Config {
  const { workload, loopbackPorts } = plain;
  const opaquePorts = portsOf(workload.opaquePorts);
  const requireIdentityPorts = portsOf(workload.requireIdentityPorts);
  return {
    ...plain,
    loopbackPorts: portsOf(loopbackPorts),
    workload: { ...workload, opaquePorts, requireIdentityPorts },
  };
}

/** A bit a port. */
function bitsOf(ports: PortSet): Uint8Array {
  const bits = new Uint8Array(65_536 / 8);
  for (let port = 1; port <= 65_535; port++) {
    if (ports.has(port)) bits[port >> 3] = (bits[port >> 3] ?? 0) | (1 << (port & 7));
  }
  return bits;
}

function portsOf(bits: Uint8Array): PortSet {
  return { has: (port) => ((bits[port >> 3] ?? 0) & (1 << (port & 7))) !== 0 };
}

export function podStateOf(workload: Workload): PodState {
  const { labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes, defaultPolicy } = workload;
  const opaquePorts = bitsOf(workload.opaquePorts);
  const requireIdentityPorts = bitsOf(workload.requireIdentityPorts);
  const sets = { opaquePorts, requireIdentityPorts };
  return { labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes, defaultPolicy, ...sets };
}

/** The workload as it is with this state of the pod. */
export function workloadWith(workload: Workload, state: PodState): Workload {
  const opaquePorts = portsOf(state.opaquePorts);
  return Object.freeze({
    ...workload,
    ...state,
    opaquePorts,
    requireIdentityPorts: portsOf(state.requireIdentityPorts),
  });
}
