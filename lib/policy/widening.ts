import { type ResourceRef, refText } from '../resource-ref.ts';
import type { Authorization, GrantList } from './decide/client-match.ts';
import type { NetworkIsolation, ResolvedIngressRule } from './decide/network-policy.ts';
import type { CompiledPort, PolicyIndex, RateLimit } from './decide/policy-index.ts';
import type { NetworkSet } from './networks.ts';

/*
 * What one policy lets in that another did not, for a person who reads the log. It compares grants whole, not clients:
 * where it cannot tell that something is as narrow as before it is named. Only what is shown of long lists is cut.
 */

const mostLines = 20;

/** One line for each part of the second policy that may let in more than the first; empty where none does. */
export function widened(before: PolicyIndex, after: PolicyIndex): string[] {
  const lines = widerConnections(before.isolation, after.isolation);
  const ports = new Set([...before.servers, ...after.servers].map(({ port }) => port));
  for (const port of [...ports].sort((a, b) => a - b)) {
    if (lines.length > mostLines) break;
    lines.push(...widerPort(before.port(port), after.port(port)));
  }
  return lines.length > mostLines ? [...lines.slice(0, mostLines), 'and more'] : lines;
}

/** A NetworkPolicy less is not wider while another closes the pod: each opens what it names, and all others stay out. */
function widerConnections(before: NetworkIsolation, after: NetworkIsolation): string[] {
  if (before.policies.length === 0) return [];
  if (after.policies.length === 0) {
    return [`connections: no NetworkPolicy closes the pod any more, as ${listed(before.policies.map(refText))} did`];
  }
  const known = new Set(before.openings.map(opened));
  return after.openings
    .filter((opening) => !isShut(opening) && !known.has(opened(opening)))
    .map(
      ({ policy, portsText, from }) =>
        `connections: ${refText(policy)} opens ${portsText} to ${from?.text ?? 'anybody'}`,
    );
}

/** Equal for rules that open the same ports to the same addresses. */
function opened({ ports, from }: ResolvedIngressRule): string {
  return JSON.stringify([ports?.map(({ first, last }) => `${first}-${last}`).sort() ?? null, addressesOf(from)]);
}

function isShut({ ports, from }: ResolvedIngressRule): boolean {
  return ports?.length === 0 || addressesOf(from)?.every((addresses) => addresses === '') === true;
}

/** The route of a port to which no document is attached. */
const everyRequest = refText({ group: '', kind: 'default', name: 'default' });

function widerPort(before: CompiledPort, after: CompiledPort): string[] {
  const lines: string[] = [];
  const at = `port ${after.port}`;
  if (refText(before.server) !== refText(after.server)) {
    lines.push(
      ...newGrants(
        before.grants,
        after.grants,
        `${at}: ${refText(after.server)} in place of ${refText(before.server)}`,
      ),
    );
  } else {
    lines.push(...newGrants(before.grants, after.grants, `${at}: ${refText(after.server)}`));
  }
  const routesBefore = byRoute(before);
  const routesAfter = byRoute(after);
  for (const [name, grants] of routesAfter) {
    lines.push(...newGrants(routesBefore.get(name) ?? before.grants, grants, `${at}: ${name}`, after.grants));
  }
  const gone = [...routesBefore].filter(([name, grants]) => !routesAfter.has(name) && isWiderAnywhere(grants, after));
  if (gone.length > 0)
    lines.push(`${at}: requests of ${listed(gone.map(([name]) => name))} are decided by what is left`);
  if (routesBefore.size > 0 && !routesBefore.has(everyRequest) && routesAfter.has(everyRequest)) {
    lines.push(`${at}: no route is left, so requests that none took are decided by ${refText(after.server)}`);
  }
  if (before.protocol !== after.protocol) {
    lines.push(`${at}: its protocol is ${after.protocol} in place of ${before.protocol}`);
  }
  if (before.rateLimit !== null && after.rateLimit === null) {
    lines.push(`${at}: no longer limited by ${refText(before.rateLimit.ref)}`);
  } else if (before.rateLimit !== null && after.rateLimit !== null && limitsLess(before.rateLimit, after.rateLimit)) {
    lines.push(`${at}: ${refText(after.rateLimit.ref)} limits less than before`);
  }
  return lines;
}

function limitsLess(before: RateLimit, after: RateLimit): boolean {
  const above = (was: number | null, is: number | null): boolean => was !== null && (is === null || is > was);
  const named = new Set([...before.overrides.keys(), ...after.overrides.keys()]);
  return (
    above(before.total, after.total) ||
    above(before.identity, after.identity) ||
    [...named].some((client) => above(rateOf(before, client), rateOf(after, client))) ||
    sharesLess(before, after)
  );
}

function rateOf({ overrides, identity }: RateLimit, client: string): number | null {
  const override = overrides.get(client);
  return override === undefined ? identity : override.rate;
}

/** Whether clients that had one rate together have it in several parts, each of them whole. */
function sharesLess(before: RateLimit, after: RateLimit): boolean {
  const parts = new Map<number, number | string>();
  for (const [client, { entry, rate }] of before.overrides) {
    if (rate === null) continue;
    const part = after.overrides.get(client)?.entry ?? client;
    if ((parts.get(entry) ?? part) !== part) return true;
    parts.set(entry, part);
  }
  return false;
}

/** The rules of one document are as wide as all of them. */
function byRoute({ routes }: CompiledPort): Map<string, GrantList> {
  return new Map((routes?.rules ?? []).map(({ route, grants }) => [refText(route), grants]));
}

function isWiderAnywhere(grants: GrantList, { grants: own, routes }: CompiledPort): boolean {
  return [own, ...(routes?.rules ?? []).map((rule) => rule.grants)].some((other) => newOnes(grants, other).length > 0);
}

/** `told`: grants that another line names already. */
function newGrants(before: GrantList, after: GrantList, what: string, told?: GrantList): string[] {
  const known = told === undefined ? new Set<string>() : new Set(all(told).map(scope));
  const fresh = newOnes(before, after).filter((grant) => !known.has(scope(grant)));
  return fresh.length === 0 ? [] : [`${what}: open to ${listed(fresh.map(grantText))}`];
}

function newOnes(before: GrantList, after: GrantList): Authorization[] {
  const known = all(before);
  const scopes = new Set(known.map(scope));
  const everyone = known.some(({ networks, tls }) => networks === null && tls.kind === 'unauthenticated');
  return everyone ? [] : all(after).filter((grant) => !scopes.has(scope(grant)));
}

function all(grants: GrantList): readonly Authorization[] {
  return grants.tail === null ? grants.entries : [...grants.entries, ...all(grants.tail)];
}

const scopes = new WeakMap<Authorization, string>();

/** Equal for grants to the same clients. */
function scope(grant: Authorization): string {
  let text = scopes.get(grant);
  if (text === undefined) {
    const { networks, tls, probe } = grant;
    const names = tls.kind === 'identities' ? [tls.identities.exact, tls.identities.suffixes] : [];
    text = JSON.stringify([addressesOf(networks), tls.kind, ...names.map((all) => [...all].sort()), probe]);
    scopes.set(grant, text);
  }
  return text;
}

/** Of each family; null for all there are. */
function addressesOf(networks: NetworkSet | null): readonly string[] | null {
  return networks === null ? null : ([4, 6] as const).map((family) => networks.intervals(family).join(' '));
}

function grantText(grant: Authorization): string {
  const { networks, tls } = grant;
  const who = tls.kind === 'identities' ? tls.identities.text : tls.kind === 'any-tls' ? 'anybody with TLS' : 'anybody';
  return `${who} from ${networks?.text ?? 'anywhere'} (${refText(grant.ref as ResourceRef)})`;
}

function listed(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ');
}
