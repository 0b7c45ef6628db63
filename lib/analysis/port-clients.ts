import type { Authorization, GrantList } from '../policy/decide/client-match.ts';
import type { NetworkIsolation } from '../policy/decide/network-policy.ts';
import type { CompiledPort, RouteTable } from '../policy/decide/policy-index.ts';
import type { IdentitySet } from '../policy/identities.ts';
import { type NetworkSet, networkSetOf } from '../policy/networks.ts';
import type { NamedMatch } from '../policy/route-rule.ts';
import { AddressClasses } from './addresses.ts';
import type { AskedPolicy, QuestionScope } from './blocks.ts';
import { nameHolds, type TlsClass, tlsClasses } from './callers.ts';
import { ClientSpace } from './clients.ts';
import { limitText } from './outcome.ts';

/** Let in by NetworkPolicies whatever they say. */
const loopback = networkSetOf(['127.0.0.0/8', '::1/128']);

/** Everything that policies of one port tell clients apart by. */
export function clientSpace(options: {
  readonly sides: readonly AskedPolicy[];
  readonly ports: readonly CompiledPort[];
  readonly port: number;
  /** Tests of routes on the verified identity. */
  readonly tests: readonly NamedMatch[];
  readonly scope: QuestionScope;
  readonly unexamined: (what: string) => void;
}): ClientSpace {
  const { sides, ports, port, tests, scope } = options;
  const networks = new Set<NetworkSet>();
  const identities = new Set<IdentitySet>();
  for (const grant of grantsOf(ports)) {
    if (grant.networks !== null) networks.add(grant.networks);
    if (grant.tls.kind === 'identities') identities.add(grant.tls.identities);
  }
  const isolations = sides.map(({ index }) => index.isolation);
  for (const isolation of isolations) for (const set of admittedFrom(isolation, port)) networks.add(set);
  const limits = ports.map(({ rateLimit }) => rateLimit);
  const named = limits.flatMap((limit) => [...(limit?.overrides.keys() ?? [])]);
  const { classes, unexamined } = tlsClasses(identities, named, tests);
  for (const what of unexamined) options.unexamined(what);
  const addresses = new AddressClasses(networks, scope.ip ?? null);
  return new ClientSpace({
    addresses,
    tls: scope.tls === undefined ? classes : [scope.tls],
    markOf: (tls: TlsClass) => {
      const name = tls.kind === 'identity' ? tls.name : null;
      return JSON.stringify([
        limits.map((limit) => limitText(limit, name)),
        tests.map((test) => (nameHolds(test, tls) ? 1 : 0)).join(''),
      ]);
    },
    addressMarkOf: (index) => {
      const ip = addresses.classes[index]?.sample;
      return ip === undefined ? '' : isolations.map((isolation) => isolation.admits(port, ip).kind).join();
    },
  });
}

function admittedFrom(isolation: NetworkIsolation, port: number): NetworkSet[] {
  if (isolation.policies.length === 0) return [];
  const from = isolation.openings.flatMap(({ ports, from: set }) => {
    const opens = ports === null || ports.some(({ first, last }) => first <= port && port <= last);
    return opens && set !== null ? [set] : [];
  });
  return [loopback, isolation.always, ...from];
}

/** Every authorization that a port may credit. */
function grantsOf(ports: readonly CompiledPort[]): Set<Authorization> {
  const lists = new Set<GrantList>();
  const add = (list: GrantList | null): void => {
    for (let each = list; each !== null && !lists.has(each); each = each.tail) lists.add(each);
  };
  const found = new Set<Authorization>();
  const addTable = (table: RouteTable | null): void => {
    for (const { grants } of table?.rules ?? []) add(grants);
  };
  for (const { grants, routes, tlsProbes, tcpProbe } of ports) {
    add(grants);
    addTable(routes);
    addTable(tlsProbes);
    if (tcpProbe !== null) found.add(tcpProbe);
  }
  for (const { entries } of lists) for (const grant of entries) found.add(grant);
  return found;
}
