import { hostPort } from '../ip.ts';
import { nearestName } from '../policy/nearest.ts';
import { noPorts, type PortSet, type Workload } from '../policy/workload.ts';
import { type Host, thisHost } from './host.ts';
import { readLimits } from './limits.ts';
import { clashesOf, type Listeners, listenerOfOurs, listenersOf } from './listeners.ts';
import { isReadAsPolicy } from './policy-paths.ts';
import type { ListenAddress } from './values.ts';
import {
  type ConfigFault,
  type Environment,
  type Flags,
  type VariableName,
  VariableReader,
  type VariableValue,
  variables,
} from './variables.ts';
import { withoutEffect } from './without-effect.ts';
import { readWorkers } from './workers.ts';
import { assembleWorkload } from './workload.ts';

export interface Config extends Listeners {
  readonly policyPath: string | null;
  /** Of a policy that is decided beside it, and changes nothing. */
  readonly candidatePath: string | null;
  /** Where a redirected connection is forwarded to, on the port it was meant for; `original`: to where it was meant. */
  readonly appHost: string;
  /** Ports that nothing declares, and whose app may be dialled on loopback all the same. */
  readonly loopbackPorts: PortSet;
  readonly healthListen: ListenAddress | null;
  /** Null: no TLS is terminated. `names` null: the certificate's own DNS SANs. */
  readonly identity: {
    readonly certFile: string;
    readonly keyFile: string;
    readonly trustAnchorsFile: string;
    readonly names: readonly string[] | null;
  } | null;
  /** What is ended of what is under way when a later policy refuses it; TCP always is. */
  readonly policyChangeEnds: VariableValue<'SALLYPORT_POLICY_CHANGE_ENDS'>;
  readonly detectTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly limits: ReturnType<typeof readLimits>['limits'];
  /** Threads that serve, the main one included; at least 1. */
  readonly workers: number;
  /** False: every HTTP/1 request goes through Node's own parser and client. */
  readonly fastLane: boolean;
  readonly shutdownGracePeriodMs: number;
  readonly logLevel: VariableValue<'SALLYPORT_LOG'>;
  readonly logFormat: VariableValue<'SALLYPORT_LOG_FORMAT'>;
  /** Infinite: none is. */
  readonly slowRequestMs: number;
  /** A minute, of what clients and the app cause. */
  readonly logLines: number;
  readonly accessLog: VariableValue<'SALLYPORT_ACCESS_LOG'>;
  /** Null: none are recorded. */
  readonly decisions: {
    readonly which: 'refused' | 'all';
    /** Null: standard output. */
    readonly file: string | null;
    /** Milliseconds; infinite where each is recorded by itself. */
    readonly intervalMs: number;
    readonly hash: boolean;
    readonly maxBytes: number;
    /** Files beside the one that is written. */
    readonly keep: number;
  } | null;
  readonly workload: Workload;
  /** Variables of the sidecar in the manifest that hold here, too; see `Host.answersForSidecar`. */
  readonly ofSidecar: ReadonlyMap<string, string>;
  /** Doubts worth a line in the log at start; none of them stops anything. */
  readonly warnings: readonly ConfigFault[];
}

export type Outcome<T> = ({ readonly ok: true } & T) | { readonly ok: false; readonly faults: readonly ConfigFault[] };

/** The environment as one frozen value, or every fault in it. Nothing is opened, bound or started. */
export function readConfig(env: Environment, host: Partial<Host> = {}): Outcome<{ readonly config: Config }> {
  const reader = new VariableReader(env);
  const get = reader.get.bind(reader);
  const machine = { ...thisHost, ...host };
  const { workload, warnings } = assembleWorkload(reader, machine);
  const { workers, warnings: ofWorkers } = readWorkers(reader, machine);
  const { limits, warnings: ofLimits } = readLimits(reader, machine, workers);
  const config: Config = {
    policyPath: get('SALLYPORT_POLICY'),
    candidatePath: get('SALLYPORT_CANDIDATE_POLICY'),
    ...listenersOf(reader),
    appHost: get('SALLYPORT_APP_HOST'),
    loopbackPorts: get('SALLYPORT_LOOPBACK_PORTS') ?? noPorts,
    healthListen: get('SALLYPORT_HEALTH_LISTEN'),
    identity: readIdentity(reader),
    policyChangeEnds: get('SALLYPORT_POLICY_CHANGE_ENDS'),
    detectTimeoutMs: get('SALLYPORT_DETECT_TIMEOUT'),
    connectTimeoutMs: get('SALLYPORT_CONNECT_TIMEOUT'),
    limits,
    workers,
    fastLane: get('SALLYPORT_HTTP1_FAST_LANE'),
    shutdownGracePeriodMs: get('SALLYPORT_SHUTDOWN_GRACE_PERIOD'),
    logLevel: get('SALLYPORT_LOG'),
    logFormat: get('SALLYPORT_LOG_FORMAT'),
    slowRequestMs: get('SALLYPORT_SLOW_REQUEST'),
    logLines: get('SALLYPORT_LOG_LINES'),
    accessLog: get('SALLYPORT_ACCESS_LOG'),
    decisions: readDecisions(reader),
    workload,
    ofSidecar: reader.beneath,
    warnings: [],
  };
  refuseSharedPorts(reader, config);
  refuseReadAsPolicy(reader, config);
  // A variable that several values need is read more than once; it is one fault.
  const faults = [...new Map(reader.faults.map((fault) => [JSON.stringify(fault), fault])).values()];
  // What is missing may stand there under another name.
  if (faults.length > 0) return { ok: false, faults: [...faults, ...unknownVariables(env)] };
  const doubts = [...unknownVariables(env), ...warnings, ...ofWorkers, ...ofLimits, ...withoutEffect(reader, config)];
  return { ok: true, config: Object.freeze({ ...config, warnings: doubts }) };
}

/** The workload alone: for `check` and `explain`, and for the running proxy when a fact of the pod has changed. */
export function readWorkload(
  env: Environment,
  host: Partial<Host> = {},
  flags: Flags = new Map(),
): Outcome<{ readonly workload: Workload; readonly warnings: readonly ConfigFault[] }> {
  const reader = new VariableReader(env, flags);
  const { workload, warnings } = assembleWorkload(reader, { ...thisHost, ...host });
  const unknown = unknownVariables(env);
  if (reader.faults.length > 0) return { ok: false, faults: [...reader.faults, ...unknown] };
  return { ok: true, workload, warnings: [...unknown, ...warnings] };
}

function readDecisions(reader: VariableReader): Config['decisions'] {
  const which = reader.get('SALLYPORT_DECISIONS');
  const values = {
    file: reader.get('SALLYPORT_DECISIONS_FILE'),
    intervalMs: reader.get('SALLYPORT_DECISIONS_INTERVAL'),
    hash: reader.get('SALLYPORT_DECISIONS_HASH'),
    maxBytes: reader.get('SALLYPORT_DECISIONS_MAX_BYTES'),
    keep: reader.get('SALLYPORT_DECISIONS_KEEP'),
  };
  return which === 'off' ? null : Object.freeze({ which, ...values });
}

function readIdentity(reader: VariableReader): Config['identity'] {
  const names = ['SALLYPORT_IDENTITY_CERT', 'SALLYPORT_IDENTITY_KEY', 'SALLYPORT_IDENTITY_TRUST_ANCHORS'] as const;
  const [certFile, keyFile, trustAnchorsFile] = names.map((name) => reader.get(name)) as [string, string, string];
  const missing = names.filter((name) => !reader.isSet(name));
  const sniNames = reader.get('SALLYPORT_IDENTITY_NAME');
  if (missing.length === 0) return Object.freeze({ certFile, keyFile, trustAnchorsFile, names: sniNames });
  // Terminating TLS with only part of it would either trust nobody or, worse, everybody.
  if (missing.length < names.length) {
    for (const name of missing) {
      reader.fault(
        name,
        'identity-incomplete',
        'is not set, but others of the identity are',
        `set all of ${names.join(', ')}, or none`,
      );
    }
  }
  return null;
}

/** Two listeners that could not both be bound, and an app that would be this proxy, found before any port opens. */
function refuseSharedPorts(reader: VariableReader, config: Config): void {
  const of = (name: VariableName, listen: ListenAddress | null) =>
    listen === null ? [] : [{ name, listen, isExplicit: name === 'SALLYPORT_INBOUND_PORTS' }];
  const listeners = [
    ...of('SALLYPORT_INBOUND_LISTEN', config.inboundListen),
    ...config.inboundPorts.flatMap(({ listen }) => of('SALLYPORT_INBOUND_PORTS', listen)),
    ...of('SALLYPORT_ADMIN_LISTEN', config.adminListen),
    ...of('SALLYPORT_HEALTH_LISTEN', config.healthListen),
  ];
  for (const { late, first } of clashesOf(listeners)) {
    const message = `port ${late.listen.port} is taken by ${first.name}`;
    reader.fault(late.name, 'listeners-clash', message, 'choose another port');
  }
  const here = { isRedirected: config.inboundListen !== null, ips: config.workload.ips };
  for (const { policyPort, app } of config.inboundPorts) {
    const ours = listenerOfOurs(listeners, app, here);
    if (ours === undefined) continue;
    const message = `${hostPort(app.host, app.port)}, the app of port ${policyPort}, is where Sallyport itself listens (${ours.name})`;
    const hint = 'let the app listen on another port, as by 8080=127.0.0.1:3000';
    reader.fault('SALLYPORT_INBOUND_PORTS', 'own-app', message, hint);
  }
}

/** What is to change nothing must not be read as policy, nor what is written. */
function refuseReadAsPolicy(reader: VariableReader, { policyPath, candidatePath, decisions }: Config): void {
  const rows = [
    ['SALLYPORT_CANDIDATE_POLICY', candidatePath, 'keep the candidate in a folder of its own'],
    ['SALLYPORT_DECISIONS_FILE', decisions?.file ?? null, 'record to a folder of its own'],
  ] as const;
  for (const [name, path, hint] of rows) {
    if (path === null || policyPath === null || !isReadAsPolicy(path, policyPath)) continue;
    reader.fault(name, 'read-as-policy', `${path} is read as policy, by SALLYPORT_POLICY=${policyPath}`, hint);
  }
}

/** Read by bin/sallyport and by the tests, not by this file. */
const readElsewhere = new Set(['SALLYPORT_NODE', 'SALLYPORT_SHARED']);

/**
 * Kubernetes gives every container the addresses of Services, so one named `sallyport` fills the same prefix. The end
 * `_PORT` alone may be a slip of one of ours: there Kubernetes always writes a URL.
 */
function isOfKubernetesService(name: string, value: string | undefined): boolean {
  if (/_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)_\w+$/.test(name)) return true;
  return /_PORT(_\d+_(TCP|UDP|SCTP))?$/.test(name) && /^(tcp|udp|sctp):\/\//.test(value ?? '');
}

/** `SALYPORT_POLICY`, `sallyport_policy`: not our prefix, but one of our variables but for a slip. */
function isNearlyOurs(name: string): boolean {
  return /^S\w*L\w*P\w*R?T/i.test(name) && nearestVariable(name) !== undefined;
}

/** What all share makes none of them likelier. */
function nearestVariable(name: string): string | undefined {
  const prefix = 'SALLYPORT_';
  const known = Object.keys(variables);
  if (!name.startsWith(prefix)) return nearestName(name, known);
  const nearest = nearestName(
    name.slice(prefix.length),
    known.map((each) => each.slice(prefix.length)),
  );
  return nearest === undefined ? undefined : prefix + nearest;
}

function unknownVariables(env: Environment): ConfigFault[] {
  return Object.keys(env)
    .filter((name) => !Object.hasOwn(variables, name) && (name.startsWith('SALLYPORT_') || isNearlyOurs(name)))
    .filter((name) => !readElsewhere.has(name) && !isOfKubernetesService(name, env[name]))
    .map((name) => {
      const nearest = nearestVariable(name);
      const hint = nearest === undefined ? 'remove it' : `did you mean ${nearest}?`;
      return { variable: name, code: 'unknown-variable', message: 'is not a variable that Sallyport reads', hint };
    });
}
