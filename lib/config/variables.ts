import { type AnyCode, type Complaint, complaintText } from '../errors/complaint.ts';
import { defaultPolicies, type PortSet, parsePortSet, workloadKinds } from '../policy/workload.ts';
import { limitVariables } from './limit-variables.ts';
import type { Parser } from './values.ts';
import * as read from './values.ts';
import { always, listed, optional, type Variable } from './variable.ts';

const portSet: Parser<PortSet> = (given) => {
  const { ports, fault } = parsePortSet(given);
  return fault === null
    ? { value: ports }
    : { code: 'bad-ports', fault, hint: 'write ports and ranges, such as 25,9000-9100' };
};
const loopbackPorts: Parser<PortSet> = (given) => (given === 'all' ? { value: { has: () => true } } : portSet(given));
const networks = read.list(read.network);

/** Every variable that is read, in the order of the contract's table; README's table is checked against it. */
export const variables = {
  SALLYPORT_POLICY: optional('none', read.text, 'file or folder of policy documents, watched'),
  SALLYPORT_CANDIDATE_POLICY: optional('none', read.text, 'a policy decided beside it, watched; changes nothing'),
  SALLYPORT_DEFAULT_INBOUND_POLICY: always('deny', read.oneOf(defaultPolicies), 'for ports without a Server'),
  SALLYPORT_INBOUND_LISTEN: always('0.0.0.0:4143', read.listenAddress, 'for redirected connections'),
  SALLYPORT_INBOUND_PORTS: optional(
    'none',
    read.some(read.list(read.inboundPort)),
    'explicit listeners, 8080=127.0.0.1:3000,…',
  ),
  SALLYPORT_APP_HOST: always('127.0.0.1', read.appHost, 'of redirected connections; original: as the client meant'),
  SALLYPORT_LOOPBACK_PORTS: optional(
    'none',
    read.some(loopbackPorts),
    'redirected to loopback though nothing declares them; all',
  ),
  // Not port 0: the admin port is a fact of the workload, and policy is compiled for it before anything is bound.
  SALLYPORT_ADMIN_LISTEN: always('0.0.0.0:4191', read.listenAddressOrOff(1), 'behind the policy of its port; or off'),
  SALLYPORT_HEALTH_LISTEN: always('0.0.0.0:4192', read.listenAddressOrOff(0), 'outside every policy; or off'),
  SALLYPORT_POD_NAME: optional('host name', read.dnsName, 'the pod, in logs'),
  SALLYPORT_WORKLOAD_KIND: always('pod', read.oneOf(workloadKinds), 'external: no pod, but an ExternalWorkload'),
  SALLYPORT_POD_NAMESPACE: optional('default', read.dnsName, 'where documents without a namespace live'),
  SALLYPORT_POD_IPS: optional("the host's own addresses", read.some(read.list(read.ip)), 'what podClusterIp means'),
  SALLYPORT_NODE_IPS: optional(
    'none',
    read.some(read.list(read.ip)),
    "the node's addresses; default gateways count beside them",
  ),
  SALLYPORT_POD_LABELS: optional('none', read.some(read.labels), 'k=v,…, for podSelector'),
  SALLYPORT_POD_LABELS_FILE: optional('none', read.text, "the downward API's file of labels, watched"),
  SALLYPORT_POD_PORTS: optional('none', read.some(read.namedPorts), 'named ports, http=8080,…'),
  SALLYPORT_PROBES: optional('none', read.some(read.probes), "the app's probes, 8080/healthz,grpc:9000,…"),
  SALLYPORT_POD_MANIFEST: optional('none', read.text, 'a Pod or a workload in YAML, in place of the pod variables'),
  SALLYPORT_CLUSTER_NETWORKS: listed(
    '10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8',
    networks,
    'what cluster-* policies admit',
  ),
  SALLYPORT_PROBE_NETWORKS: listed('0.0.0.0/0,::/0', networks, 'where probes may come from'),
  SALLYPORT_PROBES_WITH_ROUTES: always('false', read.boolean, 'probes pass where routes are attached, too'),
  SALLYPORT_AUTHORIZE_LOCALHOST: always('true', read.boolean, 'the implicit localhost authorization'),
  SALLYPORT_OPAQUE_PORTS: listed('25,587,3306,4444,5432,6379,9300,11211', portSet, 'never inspected without a Server'),
  SALLYPORT_REQUIRE_IDENTITY_PORTS: optional(
    'none',
    read.some(portSet),
    'where *-unauthenticated means *-authenticated',
  ),
  SALLYPORT_IDENTITY_CERT: optional('none', read.text, 'PEM file, watched'),
  SALLYPORT_IDENTITY_KEY: optional('none', read.text, 'PEM file, watched'),
  SALLYPORT_IDENTITY_TRUST_ANCHORS: optional('none', read.text, 'PEM file, watched'),
  SALLYPORT_IDENTITY_NAME: optional(
    "the certificate's DNS SANs",
    read.some(read.list(read.dnsName)),
    'SNI terminated here',
  ),
  SALLYPORT_TRUST_DOMAIN: always('cluster.local', read.dnsName, 'ends the identity of a service account'),
  SALLYPORT_CONTROL_PLANE_NAMESPACE: always('linkerd', read.dnsName, 'part of the identity of a service account'),
  SALLYPORT_POLICY_CHANGE_ENDS: always('all', read.oneOf(['all', 'tunnels']), 'of what it refuses and is under way'),
  SALLYPORT_DETECT_TIMEOUT: always('10s', read.timeout, 'for the first bytes of a connection'),
  SALLYPORT_CONNECT_TIMEOUT: always('1s', read.timeout, 'for connecting to the app'),
  SALLYPORT_SHUTDOWN_GRACE_PERIOD: always('2m', read.duration, 'for work in flight after a stop'),
  ...limitVariables,
  SALLYPORT_WORKERS: optional('whole cores of the CPU limit', read.count, 'threads that serve'),
  SALLYPORT_HTTP1_FAST_LANE: always('true', read.boolean, 'plain HTTP/1 requests take the short way'),
  SALLYPORT_LOG: always('info', read.oneOf(['trace', 'debug', 'info', 'warn', 'error', 'off']), 'level'),
  SALLYPORT_LOG_FORMAT: always('json', read.oneOf(['json', 'plain']), 'of the log on stdout'),
  SALLYPORT_LOG_LINES: always('200', read.count, 'a minute, that clients and the app cause'),
  SALLYPORT_SLOW_REQUEST: always('5s', read.timeoutOrOff, 'to the head of a response; later ones have a line'),
  SALLYPORT_ACCESS_LOG: always('off', read.oneOf(['off', 'apache', 'json']), 'one line a request on stderr'),
  SALLYPORT_DECISIONS: always('off', read.oneOf(['off', 'refused', 'all']), 'decisions to record, as lines of JSON'),
  SALLYPORT_DECISIONS_FILE: optional('standard output', read.text, 'where they are recorded'),
  SALLYPORT_DECISIONS_INTERVAL: always('off', read.timeoutOrOff, 'equal ones are counted for so long'),
  SALLYPORT_DECISIONS_HASH: always('false', read.boolean, 'values of header fields are hashed'),
  SALLYPORT_DECISIONS_MAX_BYTES: always('64MiB', read.bytes, 'of the file, which is then replaced'),
  SALLYPORT_DECISIONS_KEEP: always('3', read.count, 'files that are full and kept'),
} as const satisfies Record<string, Variable<unknown>>;

export type VariableName = keyof typeof variables;
export type VariableValue<N extends VariableName> = (typeof variables)[N] extends Variable<infer T> ? T : never;

/** One thing wrong with the environment. `variable` is the flag's name when the value came from a flag. */
export interface ConfigFault extends Complaint {
  readonly variable: string;
}

/** One line for people: `SALLYPORT_LOG: "loud" is not known (one of trace, …) [bad-choice]`. */
export function faultText(fault: ConfigFault): string {
  return `${fault.variable}: ${complaintText(fault)}`;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** `explain`'s flags: each stands for a variable, replaces it, and wins over the Pod manifest's annotations too. */
export type Flags = ReadonlyMap<VariableName, { readonly flag: string; readonly value: string }>;

/** Reads variables one by one and collects every fault, so that all of them are reported together. */
export class VariableReader {
  readonly faults: ConfigFault[] = [];
  readonly #env: Environment;
  readonly #flags: Flags;
  /** What holds where neither a flag nor the environment says anything. */
  beneath: ReadonlyMap<string, string> = new Map();

  constructor(env: Environment, flags: Flags = new Map()) {
    this.#env = env;
    this.#flags = flags;
  }

  isSet(name: VariableName): boolean {
    return this.#given(name) !== null;
  }

  isFlag(name: VariableName): boolean {
    return this.#flags.has(name);
  }

  /** The value, or the default's. A faulty one is noted; the default's value then only lets the reading go on. */
  get<N extends VariableName>(name: N): VariableValue<N> {
    const variable: Variable<unknown> = variables[name];
    const given = this.#given(name);
    if (given !== null) {
      const parsed = variable.parse(given);
      if ('value' in parsed) return parsed.value as VariableValue<N>;
      this.fault(name, parsed.code, parsed.fault, parsed.hint);
    }
    if (variable.fallback === null) return null as VariableValue<N>;
    const parsed = variable.parse(variable.fallback);
    if ('fault' in parsed) throw new Error(`the default of ${name}: ${parsed.fault}`);
    return parsed.value as VariableValue<N>;
  }

  fault(name: VariableName, code: AnyCode, message: string, hint: string): void {
    this.faults.push({ variable: this.#flags.get(name)?.flag ?? name, code, message, hint });
  }

  #given(name: VariableName): string | null {
    const given = (this.#flags.get(name)?.value ?? this.#env[name] ?? this.beneath.get(name))?.trim();
    return given === undefined || (given === '' && !variables[name].emptyIsList) ? null : given;
  }
}
