import { type ResourceRef, refText } from '../resource-ref.ts';
import type { Authorization, GrantList } from './decide/client-match.ts';
import type { CompiledPort, PolicyIndex } from './decide/policy-index.ts';

/*
 * What one policy lets in that another did not, for a person who reads the log. It compares grants whole, not clients:
 * where it cannot tell that something is as narrow as before it is named. Only what is shown of long lists is cut.
 */

const mostLines = 20;

/** One line for each part of the second policy that may let in more than the first; empty where none does. */
export function widened(before: PolicyIndex, after: PolicyIndex): string[] {
  const lines: string[] = [];
  const closing = new Set(after.isolation.policies.map(refText));
  const opened = before.isolation.policies.map(refText).filter((name) => !closing.has(name));
  if (opened.length > 0) lines.push(`connections: ${listed(opened)} no longer closes the pod`);
  const ports = new Set([...before.servers, ...after.servers].map(({ port }) => port));
  for (const port of [...ports].sort((a, b) => a - b)) {
    if (lines.length > mostLines) break;
    lines.push(...widerPort(before.port(port), after.port(port)));
  }
  return lines.length > mostLines ? [...lines.slice(0, mostLines), 'and more'] : lines;
}

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
  if (before.rateLimit !== null && after.rateLimit === null) {
    lines.push(`${at}: no longer limited by ${refText(before.rateLimit.ref)}`);
  }
  return lines;
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
    const addresses =
      networks === null ? null : ([4, 6] as const).map((family) => networks.intervals(family).join(' '));
    const names = tls.kind === 'identities' ? [tls.identities.exact, tls.identities.suffixes] : [];
    text = JSON.stringify([addresses, tls.kind, ...names.map((all) => [...all].sort()), probe]);
    scopes.set(grant, text);
  }
  return text;
}

function grantText(grant: Authorization): string {
  const { networks, tls } = grant;
  const who = tls.kind === 'identities' ? tls.identities.text : tls.kind === 'any-tls' ? 'anybody with TLS' : 'anybody';
  return `${who} from ${networks?.text ?? 'anywhere'} (${refText(grant.ref as ResourceRef)})`;
}

function listed(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ');
}
