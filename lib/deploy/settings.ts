import type { Coded } from '../errors/problems.ts';
import { didYouMean } from '../policy/nearest.ts';
import {
  type DefaultPolicy,
  defaultPolicies,
  parseDefaultPolicy,
  parsePortRanges,
  portRangeText,
} from '../policy/workload.ts';
import type { YamlPath } from './yaml-edit.ts';

/** What holds for a whole run of `sallyport inject`; the flags of the command. */
export interface InjectSettings {
  readonly version: string;
  readonly image: string;
  readonly policyConfigMap: string;
  /** Null: no TLS is terminated. */
  readonly identitySecret: string | null;
  /** For pods whose annotations (and whose Namespace's) say nothing. */
  readonly defaultPolicy: DefaultPolicy | null;
  readonly skipInboundPorts: string | null;
  readonly opaquePorts: string | null;
  readonly trustDomain: string | null;
  readonly controlPlaneNamespace: string | null;
  readonly adminPort: number;
  readonly healthPort: number;
  /** Whether connections from inside the pod to its own address are guarded, too. */
  readonly ownAddress: boolean;
  /** For workloads that name none: whose Namespace document gives them annotations. */
  readonly namespace: string;
}

/** Where redirected connections arrive; fixed, as Linkerd's is. */
export const redirectPort = 4143;
/** The user and group of the proxy, whom the redirect rules know it by. */
export const proxyUid = 2102;

/** Null where neither the pod, its Namespace nor a flag says anything: Sallyport's own default then holds. */
export interface PodSettings {
  readonly defaultPolicy: DefaultPolicy | null;
  readonly skipInboundPorts: string | null;
  readonly opaquePorts: string | null;
  readonly requireIdentityPorts: string | null;
}

/** A fault in a pod template; `path` leads from the template to the field. */
export type TemplateFault = Coded & {
  readonly path: YamlPath;
  readonly message: string;
  readonly hint: string;
};

const annotation = {
  defaultPolicy: 'config.linkerd.io/default-inbound-policy',
  skip: 'config.linkerd.io/skip-inbound-ports',
  opaque: 'config.linkerd.io/opaque-ports',
  requireIdentity: 'config.linkerd.io/proxy-require-identity-inbound-ports',
} as const;

type Annotations = Readonly<Record<string, unknown>>;

/**
 * The nearest statement wins: the pod's annotation, then its Namespace's, then the flag, which speaks for the whole
 * stream. What cannot be read is an error: with Linkerd a bad list is empty and a bad policy is the cluster's, and
 * either may open or close more than its author meant, with nobody watching.
 */
export function podSettings(
  settings: InjectSettings,
  own: Annotations,
  ofNamespace: Annotations,
  namedPorts: ReadonlyMap<string, readonly number[]>,
): { readonly settings: PodSettings; readonly faults: readonly TemplateFault[] } {
  const faults: TemplateFault[] = [];
  const stated = (name: string): string | null => {
    const value = own[name] ?? ofNamespace[name] ?? null;
    return value === null ? null : String(value);
  };
  const fault = (name: string, message: string, hint: string): void => {
    const from = Object.hasOwn(own, name) ? '' : ' of the Namespace';
    const path = ['metadata', 'annotations', name];
    faults.push({ severity: 'error', code: 'annotation', path, message: `${name}${from}: ${message}`, hint });
  };
  const ports = (name: string, otherwise: string | null): string | null => {
    const text = stated(name);
    if (text === null) return otherwise;
    const { text: numbers, fault: wrong } = readPorts(numbered(text, namedPorts), name === annotation.skip);
    if (wrong === null) return numbers;
    const hint = didYouMean(
      text,
      namedPorts.keys(),
      "List numbers, ranges and names of the pod's ports: 25,9000-9100.",
    );
    fault(name, wrong, hint);
    return otherwise;
  };
  const policyText = stated(annotation.defaultPolicy);
  const policy = policyText === null ? settings.defaultPolicy : (parseDefaultPolicy(policyText) ?? null);
  if (policyText !== null && policy === null) {
    const message = `"${policyText}" is none of ${defaultPolicies.join(', ')}`;
    fault(annotation.defaultPolicy, message, didYouMean(policyText, defaultPolicies));
  }
  return {
    settings: {
      defaultPolicy: policy,
      skipInboundPorts: ports(annotation.skip, settings.skipInboundPorts),
      opaquePorts: ports(annotation.opaque, settings.opaquePorts),
      requireIdentityPorts: ports(annotation.requireIdentity, null),
    },
    faults,
  };
}

/** A list of ports in one spelling; those to be skipped also as the redirect step will judge them. */
export function readPorts(
  text: string,
  skipped: boolean,
): { readonly text: string; readonly fault: string | null; readonly code: 'bad-ports' | 'reserved-port' } {
  const { ranges, fault } = parsePortRanges(text);
  if (skipped && ranges.some(({ first, last }) => first <= redirectPort && redirectPort <= last)) {
    const message = `${redirectPort} is where redirected connections arrive; it cannot be left alone`;
    return { text: '', fault: message, code: 'reserved-port' };
  }
  return { text: portRangeText(ranges), fault, code: 'bad-ports' };
}

/** Names of the pod's ports become their numbers, as Linkerd's injector does; the rest stays for the parser to judge. */
function numbered(text: string, namedPorts: ReadonlyMap<string, readonly number[]>): string {
  const entries = text.split(',').map((entry) => entry.trim());
  return entries
    .filter((entry) => entry !== '')
    .flatMap((entry) => namedPorts.get(entry)?.map(String) ?? [entry])
    .join(',');
}
