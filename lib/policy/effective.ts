import { type ResourceRef, refText } from '../resource-ref.ts';
import type { Authorization, GrantList } from './decide/client-match.ts';
import type { NetworkIsolation } from './decide/network-policy.ts';
import type { CompiledPort, PolicyIndex } from './decide/policy-index.ts';
import type { Workload } from './workload.ts';

/*
 * The policy in force as plain JSON, for people: which server each port has, what lets clients in, and which routes there
 * are. Of many routes or authorizations only the first are shown, with the number of all.
 */

const mostShown = 200;

interface GrantView {
  readonly authz: string;
  readonly networks: string;
  readonly clients: string;
  readonly audit: boolean;
}
interface BrokenView {
  readonly authz: string;
  readonly broken: string;
}
interface RouteView {
  readonly route: string;
  readonly sealed: boolean;
  /** The route's own; its server's come on top. */
  readonly authorizations: readonly (GrantView | BrokenView)[];
}
interface NetworkPolicyView {
  readonly policy: string;
  readonly rules: readonly { readonly path: string; readonly ports: string; readonly from: string }[];
}
interface PortView {
  readonly port: number;
  readonly server: ResourceRef;
  readonly protocol: string;
  readonly authorizations: readonly (GrantView | BrokenView)[];
  readonly routes: readonly RouteView[];
  readonly routeCount: number;
  readonly rateLimit: { readonly name: string; readonly total: number | null; readonly identity: number | null } | null;
}
export interface EffectivePolicy {
  readonly pod: { readonly name: string; readonly namespace: string; readonly ips: readonly string[] };
  /** Those that select the pod: they come before all else. */
  readonly networkPolicies: readonly NetworkPolicyView[];
  /** For ports without a Server. */
  readonly defaultPolicy: string;
  readonly ports: readonly PortView[];
}

/** Ports with a Server, and those that the pod names or is probed on. */
export function effectivePolicy(index: PolicyIndex, workload: Workload): EffectivePolicy {
  const ports = new Set([
    ...index.servers.map(({ port }) => port),
    ...[...workload.namedPorts.values()].flat(),
    ...(workload.adminPort === null ? [] : [workload.adminPort]),
    ...workload.probes.keys(),
  ]);
  return {
    pod: {
      name: workload.podName,
      namespace: workload.namespace,
      ips: workload.ips.map(({ text }) => text),
    },
    networkPolicies: networkPolicyViews(index.isolation),
    defaultPolicy: workload.defaultPolicy,
    ports: [...ports].sort((a, b) => a - b).map((port) => portView(index.port(port))),
  };
}

function networkPolicyViews({ policies, openings }: NetworkIsolation): NetworkPolicyView[] {
  return policies.slice(0, mostShown).map((policy) => ({
    policy: refText(policy),
    rules: openings
      .filter((opening) => opening.policy.name === policy.name)
      .slice(0, mostShown)
      .map(({ path, portsText, from }) => ({ path, ports: portsText, from: from === null ? 'anybody' : from.text })),
  }));
}

function portView({ port, server, protocol, grants, routes, rateLimit }: CompiledPort): PortView {
  const rules = routes?.rules ?? [];
  return {
    port,
    server,
    protocol,
    authorizations: grantViews(grants),
    routes: rules.slice(0, mostShown).map((rule) => ({
      route: refText(rule.route),
      sealed: rule.sealed,
      authorizations: rule.grants === grants ? [] : grantViews(rule.grants),
    })),
    routeCount: rules.length,
    rateLimit:
      rateLimit === null ? null : { name: rateLimit.ref.name, total: rateLimit.total, identity: rateLimit.identity },
  };
}

function grantViews({ entries, broken }: GrantList): (GrantView | BrokenView)[] {
  return [
    ...entries.slice(0, mostShown).map(grantView),
    ...broken.slice(0, mostShown).map(({ ref, detail }) => ({ authz: refText(ref), broken: detail })),
  ];
}

function grantView({ ref, networks, tls, audit }: Authorization): GrantView {
  const clients = tls.kind === 'identities' ? tls.identities.text : tls.kind === 'any-tls' ? 'any with TLS' : 'anybody';
  return { authz: refText(ref), networks: networks === null ? 'any' : networks.text, clients, audit };
}
