import { push } from '../policy/lists.ts';
import { portsOfServer, type Workload } from '../policy/workload.ts';
import type { DecisionRecord } from '../records/record.ts';
import type { ResourceRef } from '../resource-ref.ts';
import { type ClientFacts, type Grant, grantsFor, tellingGrants } from './clients.ts';
import { type ClientUse, type Evidence, type Group, groupText, note, type Seen } from './evidence.ts';
import { byCaller, type Constraints, clientsKey, joined, type Match, matchesOf, type Unwritten } from './matches.ts';
import type { Existing, Missing } from './merge.ts';
import { formMatches, formText, mayMeet, pathOf } from './paths.ts';

/** Requests that have the same clients, hence one route. */
export interface RouteDraft {
  /** Null: any. */
  readonly host: string | null;
  readonly matches: readonly Match[];
  readonly grants: readonly Grant[];
}

export interface PortDraft {
  readonly port: number;
  /** As a Server names it. */
  readonly name: string | number;
  readonly protocol: 'unknown' | 'gRPC' | 'opaque' | 'TLS';
  readonly seen: Seen;
  /** `connections`: whoever may connect may do everything, since what is not HTTP has no routes, nor anything beside it. */
  readonly kind: 'routes' | 'connections';
  readonly routes: readonly RouteDraft[];
  /** Of the Server itself. */
  readonly grants: readonly Grant[];
  /** What those are for. */
  readonly groups: ReadonlySet<string>;
}

/** What is added to a Server or a route that exists. */
export type SuggestedAddition =
  | {
      readonly kind: 'clients';
      readonly port: number;
      readonly target: ResourceRef;
      readonly grants: readonly Grant[];
      readonly groups: ReadonlySet<string>;
      /** What its clients asked for. */
      readonly asked: ReadonlySet<string>;
    }
  | {
      readonly kind: 'routes';
      readonly port: number;
      readonly server: ResourceRef;
      readonly calls: boolean;
      readonly routes: readonly RouteDraft[];
    };

export interface Draft {
  readonly ports: readonly PortDraft[];
  /** Beside a policy that exists. */
  readonly additions: readonly SuggestedAddition[];
  /** What no document can say, as text. */
  readonly unwritten: readonly Unwritten[];
}

export type DraftFacts = ClientFacts & Pick<Workload, 'namedPorts' | 'adminPort'>;

/**
 * The least that lets in what was seen, but for the rules of `paths.ts` and `clients.ts`.
 *
 * @param missing what a policy that exists refuses of it; null: there is none.
 */
export function draft(
  evidence: Evidence,
  missing: readonly Missing[] | null,
  facts: DraftFacts,
  constraints: Constraints,
): Draft {
  const unwritten: Unwritten[] = [];
  const places = missing ?? wholePorts(evidence);
  const ports = places
    .filter(({ place }) => place.kind === 'port')
    .sort((a, b) => a.port - b.port)
    .map(({ port, groups }) => portDraft(port, groups, facts, constraints, unwritten));
  const additions = places.flatMap((each) => additionOf(each, facts, constraints, unwritten) ?? []);
  return { ports, additions, unwritten };
}

function wholePorts(evidence: Evidence): Missing[] {
  const byPort = new Map<number, Group[]>();
  for (const group of evidence.groups.values()) push(byPort, group.port, group);
  return [...byPort].map(([port, groups]) => ({ port, place: { kind: 'port' }, groups }));
}

function additionOf(
  { port, place, groups }: Missing,
  facts: DraftFacts,
  constraints: Constraints,
  unwritten: Unwritten[],
): SuggestedAddition | null {
  switch (place.kind) {
    case 'port':
      return null;
    case 'clients': {
      const uses = groups.flatMap(({ paths }) => [...paths.values()].flatMap((each) => [...each.values()]));
      const keys = new Set(groups.map(({ key }) => key));
      return {
        kind: 'clients',
        port,
        target: place.target,
        grants: allGrants(uses, keys, facts, constraints),
        groups: keys,
        asked: new Set(groups.map(groupText)),
      };
    }
    case 'routes': {
      const { server, calls } = place;
      const matches = joined(
        groups.flatMap((group) => matchesOf(group, calls, constraints, unwritten)),
        constraints,
      );
      return { kind: 'routes', port, server, calls, routes: routesOf(matches, facts, constraints) };
    }
  }
}

function portDraft(
  port: number,
  groups: readonly Group[],
  facts: DraftFacts,
  constraints: Constraints,
  unwritten: Unwritten[],
): PortDraft {
  const seen: Seen = { count: 0, first: null, last: null };
  const uses = groups.flatMap((group) => [...group.paths.values()].flatMap((each) => [...each.values()]));
  for (const use of uses) note(seen, use);
  const name = serverPort(port, facts);
  const bytes = groups.some(({ carried }) => carried === 'bytes');
  if (bytes) {
    const keys = new Set(groups.map(({ key }) => key));
    // Who may probe may not do all; and beside no routes the pod's probes pass without a document.
    const others = uses.filter(({ caller }) => caller.kind !== 'probe');
    const grants = allGrants(others, keys, facts, constraints);
    return { port, name, protocol: blindly(uses), seen, kind: 'connections', routes: [], grants, groups: keys };
  }
  const calls = groups.every(({ carried }) => carried === 'grpc');
  const matches = joined(
    groups.flatMap((group) => matchesOf(group, calls, constraints, unwritten)),
    constraints,
  );
  const routes = routesOf(matches, facts, constraints);
  return {
    port,
    name,
    protocol: calls ? 'gRPC' : 'unknown',
    seen,
    kind: 'routes',
    routes,
    grants: [],
    groups: new Set(),
  };
}

/** Of a whole Server or route. */
function allGrants(
  uses: readonly ClientUse[],
  groups: ReadonlySet<string>,
  facts: ClientFacts,
  { telling, exactNetworks }: Constraints,
): readonly Grant[] {
  const isTelling = [...groups].some((key) => telling.has(key));
  return isTelling ? tellingGrants([...byCaller(uses).values()], facts) : grantsFor(uses, facts, exactNetworks);
}

/** What nobody has looked into stays so, where that was the case for all that came. */
function blindly(uses: readonly ClientUse[]): PortDraft['protocol'] {
  const [only, ...others] = new Set(uses.map(({ record }) => record.question.declared));
  if (others.length > 0) return 'unknown';
  return only === 'opaque' ? 'opaque' : only === 'tls' ? 'TLS' : 'unknown';
}

function routesOf(matches: readonly Match[], facts: ClientFacts, constraints: Constraints): RouteDraft[] {
  return byClients(matches).map((together) => {
    const uses = together.flatMap(({ callers }) => [...callers.values()]);
    const variant = together[0]?.variant ?? null;
    const host = variant?.host ?? '';
    const grants = variant === null ? grantsFor(uses, facts, constraints.exactNetworks) : tellingGrants(uses, facts);
    return { host: host === '' ? null : host, matches: together, grants };
  });
}

/** The name by which the pod calls it, where that means no other port. */
function serverPort(port: number, facts: DraftFacts): string | number {
  if (port === facts.adminPort) return 'linkerd-admin';
  for (const [name, ports] of facts.namedPorts) {
    if (ports.length === 1 && ports[0] === port && portsOfServer(facts as Workload, name).length === 1) return name;
  }
  return port;
}

/** Matches with the same clients, in the order of their paths; the busiest set first. */
function byClients(matches: readonly Match[]): Match[][] {
  const sets = new Map<string, Match[]>();
  for (const match of matches) {
    const key = clientsKey(match);
    push(sets, key, match);
  }
  const order = ({ form, method }: Match): string => `${formText(form)} ${method}`;
  const routes = [...sets.values()];
  for (const route of routes) route.sort((a, b) => (order(a) < order(b) ? -1 : 1));
  return routes.sort((a, b) => (order(a[0] as Match) < order(b[0] as Match) ? -1 : 1));
}

/** Where a request is looked for: an exact path in one look, a form of paths one by one. */
interface MatchIndex {
  readonly exact: Map<string, Match[]>;
  readonly forms: Match[];
}

/** The groups of matches that take any of these requests: of all, or of those that are wider than what was seen. */
export function takenBy(
  { ports, additions }: Draft,
  requests: readonly { readonly port: number; readonly record: DecisionRecord }[],
  which: 'wider' | 'any',
): readonly string[] {
  const byPort = new Map<number, MatchIndex>();
  const found = new Set<string>();
  const asked = new Set(requests.map(({ port }) => port));
  for (const each of [...ports, ...additions]) {
    const index = byPort.get(each.port) ?? { exact: new Map<string, Match[]>(), forms: [] };
    byPort.set(each.port, index);
    for (const { matches } of 'routes' in each ? each.routes : []) {
      for (const match of matches) {
        if (match.form.kind === 'parts') index.forms.push(match);
        else if (which === 'any') push(index.exact, `${match.method} ${match.form.path}`, match);
      }
    }
    if (which === 'any' && 'groups' in each && asked.has(each.port)) for (const key of each.groups) found.add(key);
  }
  const looked = new Set<string>();
  for (const { port, record } of requests) {
    const { method = '', path: target = '' } = record.question;
    const path = pathOf(target);
    const index = byPort.get(port);
    const request = `${port} ${method} ${path}`;
    if (index === undefined || looked.has(request)) continue;
    looked.add(request);
    const takers = index.forms.filter((match) => match.method === method && formMatches(match.form, path));
    for (const { groups } of [...takers, ...(index.exact.get(`${method} ${path}`) ?? [])]) {
      for (const key of groups) found.add(key);
    }
  }
  return [...found];
}

/** The groups of requests that a draft generalises to what routes of the policy have already: those it must not take from them. */
export function takenFrom({ matchesOf }: Existing, { additions }: Draft): readonly string[] {
  return additions.flatMap((addition) => {
    if (addition.kind !== 'routes' || addition.calls) return [];
    const taken = matchesOf(addition.server);
    return addition.routes
      .flatMap(({ matches }) => matches)
      .filter(({ method, form }) =>
        taken.some((each) => (each.method === null || each.method === method) && mayMeet(form, each.path)),
      )
      .flatMap(({ groups }) => [...groups]);
  });
}
