import { boolean } from '../config/values.ts';
import type { VariableName } from '../config/variables.ts';
import type { OptionParser } from './option-values.ts';
import * as read from './option-values.ts';

/**
 * One thing that may be said of a pod's sidecar. Its name is a flag's and, behind `prefix`, an annotation's: Linkerd's
 * prefix where Linkerd has one of the same meaning.
 */
export interface Option<T> {
  readonly prefix: 'config.linkerd.io' | 'sallyport.dev';
  /** What stands for its value in help; null for a flag that takes none. */
  readonly value: string | null;
  readonly says: string;
  /** What holds where nobody says anything, as help and the page show it. */
  readonly shown: string;
  /** The text that is then read; null where the value is then null. */
  readonly fallback: string | null;
  /** Whether nothing at all is an empty list. Everywhere else it is a fault. */
  readonly emptyIsList: boolean;
  /** The variable of the proxy that has its text. */
  readonly variable: VariableName | null;
  readonly parse: OptionParser<T>;
}

type Stated<T, F extends string | null> = Pick<Option<T>, 'value' | 'says' | 'shown' | 'parse'> &
  Partial<Option<T>> & { readonly fallback?: F };
/** With a fallback something always holds. */
type Held<T, F> = Option<T> & { readonly fallback: F };

/** Of Linkerd's own annotations. */
function linkerds<T, F extends string | null = null>(option: Stated<T, F>): Held<T, F> {
  return { prefix: 'config.linkerd.io', emptyIsList: false, variable: null, ...option, fallback: fallbackOf(option) };
}
function ours<T, F extends string | null = null>(option: Stated<T, F>): Held<T, F> {
  return { prefix: 'sallyport.dev', emptyIsList: false, variable: null, ...option, fallback: fallbackOf(option) };
}
function fallbackOf<F extends string | null>({ fallback = null }: { readonly fallback?: F | null }): F {
  // Left out, the type is null as well.
  return fallback as F;
}

/** An amount of a resource that one of the two containers asks for, or may use. */
function resource(
  make: typeof ours,
  parse: OptionParser<read.Amount>,
  says: string,
  shown: string,
): Held<read.Amount, null> {
  return make({ value: 'AMOUNT', says, shown, parse });
}

const whereOthers = (amount: string): string => `${amount} where every container of the pod has one`;

/** In the order of help and of the page's table. */
export const options = {
  image: ours({ value: 'REF', says: 'of Sallyport', shown: 'sallyport:<this version>', parse: read.image }),
  'image-pull-policy': linkerds({
    value: 'POLICY',
    says: 'Always, IfNotPresent or Never',
    shown: "Kubernetes' own",
    parse: read.pullPolicy,
  }),
  'image-pull-secrets': ours({
    value: 'LIST',
    says: 'Secrets to pull the image with, besides those of the pod',
    shown: 'none',
    parse: read.names,
    emptyIsList: true,
  }),
  'policy-configmap': ours({
    value: 'NAME',
    says: "the ConfigMap of policy files, which must exist for the pod to start; {serviceaccount} in it is the pod's",
    shown: 'sallyport-policy',
    fallback: 'sallyport-policy',
    parse: read.objectName,
  }),
  'candidate-configmap': ours({
    value: 'NAME',
    says: "the ConfigMap of a candidate policy, which may come, go and change while the pod runs; {serviceaccount} in it is the pod's",
    shown: 'no candidate',
    parse: read.objectName,
  }),
  'identity-secret': ours({
    value: 'NAME',
    says: "a Secret with tls.crt, tls.key and ca.crt; {serviceaccount} in it is the pod's",
    shown: 'no TLS is terminated',
    parse: read.objectName,
  }),
  'default-inbound-policy': linkerds({
    value: 'P',
    says: 'for ports without a Server',
    shown: 'deny',
    fallback: 'deny',
    variable: 'SALLYPORT_DEFAULT_INBOUND_POLICY',
    parse: read.variableText('SALLYPORT_DEFAULT_INBOUND_POLICY'),
  }),
  'skip-inbound-ports': linkerds({
    value: 'LIST',
    says: 'ports that are left alone, such as 25,9000-9100: no policy governs them',
    shown: 'none',
    emptyIsList: true,
    parse: read.ports(true),
  }),
  'skip-subnets': linkerds({
    value: 'LIST',
    says: 'clients that are left alone, such as 10.1.0.0/16: no policy governs them',
    shown: 'none',
    emptyIsList: true,
    parse: read.subnetList,
  }),
  'opaque-ports': linkerds({
    value: 'LIST',
    says: 'ports without a Server that are never inspected',
    shown: "Sallyport's own list",
    emptyIsList: true,
    variable: 'SALLYPORT_OPAQUE_PORTS',
    parse: read.ports(false),
  }),
  'proxy-require-identity-inbound-ports': linkerds({
    value: 'LIST',
    says: 'ports without a Server on which *-unauthenticated means *-authenticated',
    shown: 'none',
    emptyIsList: true,
    variable: 'SALLYPORT_REQUIRE_IDENTITY_PORTS',
    parse: read.ports(false),
  }),
  'inbound-ports': ours({
    value: 'LIST',
    says: 'listen on these, such as 8080=127.0.0.1:3000, and redirect nothing: without the init container',
    shown: 'connections are redirected',
    variable: 'SALLYPORT_INBOUND_PORTS',
    parse: read.variableText('SALLYPORT_INBOUND_PORTS'),
  }),
  'own-address': ours({
    value: null,
    says: 'also guard connections from inside the pod to its own addresses',
    shown: 'false',
    parse: boolean,
  }),
  'cluster-networks': ours({
    value: 'LIST',
    says: 'what cluster-* policies admit',
    shown: 'the private networks',
    emptyIsList: true,
    variable: 'SALLYPORT_CLUSTER_NETWORKS',
    parse: read.variableText('SALLYPORT_CLUSTER_NETWORKS'),
  }),
  'probe-networks': ours({
    value: 'LIST',
    says: 'where probes may come from; empty: probes have no route of their own',
    shown: 'everywhere',
    emptyIsList: true,
    variable: 'SALLYPORT_PROBE_NETWORKS',
    parse: read.variableText('SALLYPORT_PROBE_NETWORKS'),
  }),
  'trust-domain': ours({
    value: 'NAME',
    says: 'ends the identity of a ServiceAccount',
    shown: 'cluster.local',
    variable: 'SALLYPORT_TRUST_DOMAIN',
    parse: read.variableText('SALLYPORT_TRUST_DOMAIN'),
  }),
  'control-plane-namespace': ours({
    value: 'NS',
    says: 'part of that identity',
    shown: 'linkerd',
    variable: 'SALLYPORT_CONTROL_PLANE_NAMESPACE',
    parse: read.variableText('SALLYPORT_CONTROL_PLANE_NAMESPACE'),
  }),
  'admin-port': linkerds({
    value: 'PORT',
    says: 'of metrics, behind policy',
    shown: '4191',
    fallback: '4191',
    parse: read.port,
  }),
  'health-port': ours({
    value: 'PORT',
    says: "of the kubelet's probes of Sallyport itself",
    shown: '4192',
    fallback: '4192',
    parse: read.port,
  }),
  'detect-timeout': ours({
    value: 'DURATION',
    says: 'for the first bytes of a connection',
    shown: '10s',
    variable: 'SALLYPORT_DETECT_TIMEOUT',
    parse: read.variableText('SALLYPORT_DETECT_TIMEOUT'),
  }),
  'proxy-inbound-connect-timeout': linkerds({
    value: 'DURATION',
    says: 'for connecting to the app',
    shown: '1s',
    variable: 'SALLYPORT_CONNECT_TIMEOUT',
    parse: read.variableText('SALLYPORT_CONNECT_TIMEOUT'),
  }),
  'request-timeout': ours({
    value: 'DURATION',
    says: "from a request's head to the end of its response, or off",
    shown: 'off',
    variable: 'SALLYPORT_REQUEST_TIMEOUT',
    parse: read.variableText('SALLYPORT_REQUEST_TIMEOUT'),
  }),
  'shutdown-grace-period': linkerds({
    value: 'DURATION',
    says: "for work in flight after a stop, no longer than the pod's own",
    shown: "the pod's, at most 2m",
    parse: read.variableText('SALLYPORT_SHUTDOWN_GRACE_PERIOD'),
  }),
  'proxy-log-level': linkerds({
    value: 'LEVEL',
    says: "trace, debug, info, warn, error or off; of Linkerd's directives the one for linkerd",
    shown: 'info',
    variable: 'SALLYPORT_LOG',
    parse: read.variableText('SALLYPORT_LOG', read.logLevel),
  }),
  'proxy-log-format': linkerds({
    value: 'FORMAT',
    says: 'json or plain',
    shown: 'json',
    variable: 'SALLYPORT_LOG_FORMAT',
    parse: read.variableText('SALLYPORT_LOG_FORMAT'),
  }),
  'access-log': linkerds({
    value: 'FORMAT',
    says: 'off, apache or json: one line a request',
    shown: 'off',
    variable: 'SALLYPORT_ACCESS_LOG',
    parse: read.variableText('SALLYPORT_ACCESS_LOG'),
  }),
  decisions: ours({
    value: 'WHICH',
    says: 'off, refused or all: decisions to record, on standard output and for suggest --from',
    shown: 'off',
    variable: 'SALLYPORT_DECISIONS',
    parse: read.variableText('SALLYPORT_DECISIONS'),
  }),
  'decisions-interval': ours({
    value: 'DURATION',
    says: 'equal decisions are counted for so long and are one line, or off',
    shown: 'off',
    variable: 'SALLYPORT_DECISIONS_INTERVAL',
    parse: read.variableText('SALLYPORT_DECISIONS_INTERVAL'),
  }),
  'decisions-hash': ours({
    value: null,
    says: 'values of header fields are hashed in them',
    shown: 'false',
    variable: 'SALLYPORT_DECISIONS_HASH',
    parse: boolean,
  }),
  workers: ours({
    value: 'NUMBER',
    says: 'threads that serve; each further one takes up to 35 MB of memory',
    shown: 'the whole cores of proxy-cpu-limit',
    variable: 'SALLYPORT_WORKERS',
    parse: read.variableText('SALLYPORT_WORKERS'),
  }),
  'proxy-cpu-request': resource(linkerds, read.cpuAmount, 'what the sidecar asks for', '20m'),
  'proxy-cpu-limit': resource(linkerds, read.cpuAmount, 'what it may use', whereOthers('1')),
  'proxy-memory-request': resource(linkerds, read.byteAmount, 'what the sidecar asks for', '96Mi'),
  'proxy-memory-limit': resource(linkerds, read.byteAmount, 'what it may use', '256Mi'),
  'proxy-ephemeral-storage-request': resource(
    linkerds,
    read.byteAmount,
    'what the sidecar asks for, for its log',
    whereOthers('64Mi'),
  ),
  'proxy-ephemeral-storage-limit': resource(linkerds, read.byteAmount, 'what it may use', whereOthers('256Mi')),
  'init-cpu-request': resource(ours, read.cpuAmount, 'what the init container asks for', '10m'),
  'init-cpu-limit': resource(ours, read.cpuAmount, 'what it may use', whereOthers('1')),
  'init-memory-request': resource(ours, read.byteAmount, 'what the init container asks for', '64Mi'),
  'init-memory-limit': resource(ours, read.byteAmount, 'what it may use', '128Mi'),
  'init-ephemeral-storage-request': resource(
    ours,
    read.byteAmount,
    'what the init container asks for',
    whereOthers('64Mi'),
  ),
  'init-ephemeral-storage-limit': resource(ours, read.byteAmount, 'what it may use', whereOthers('256Mi')),
} as const satisfies Readonly<Record<string, Option<unknown>>>;

export type OptionName = keyof typeof options;

/** What holds for one pod. Null where nobody says anything and there is no fallback. */
export type PodOptions = {
  readonly [Name in OptionName]: (typeof options)[Name] extends Held<infer T, infer F>
    ? F extends null
      ? T | null
      : T
    : never;
};

export const optionNames = Object.keys(options) as OptionName[];

export function annotationOf(name: OptionName): string {
  return `${options[name].prefix}/${name}`;
}
