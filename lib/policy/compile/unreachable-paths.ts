import { byteText } from '../bytes.ts';
import { inspectPath, readings, staysBelow } from '../decide/path-readings.ts';
import type { HttpRouteDocument } from '../documents/types.ts';
import type { HttpMatch } from '../route-rule.ts';
import type { Linking } from './linking.ts';

/*
 * Paths of routes for which every request is refused (400): no request can ask for them as they are written, or some server
 * takes them for a path that no route of the same Server is for.
 */

/** Says so of each, with the spelling that works. `routes`: all of one Server. */
export function warnOfUnreachable(routes: readonly HttpRouteDocument[], linking: Linking): void {
  const matches = routes.flatMap(({ spec }) => spec.rules.flatMap((rule) => rule.matches));
  for (const route of routes) {
    if (route.spec.refused !== undefined) continue;
    route.spec.rules.forEach(({ matches: own }, i) => {
      for (const match of own) {
        const fault = match.path.type === 'regex' ? null : faultOf(match, matches);
        if (fault === null) continue;
        const { why, spelling } = fault;
        const hint = spelling === null ? 'Match a prefix above it.' : `Write "${spelling}".`;
        const message = `path "${match.path.value}" matches no request that is let in: ${why}`;
        linking.warn(route, ['spec', 'rules', i], 'path-never-matches', message, hint);
      }
    });
  }
}

function faultOf(match: HttpMatch, all: readonly HttpMatch[]): { why: string; spelling: string | null } | null {
  const { type, value } = match.path;
  // Admission says so of these.
  if (/[?#]/.test(value)) return null;
  const escaped = value.replace(/ /g, '%20');
  if (escaped !== value) {
    return { why: 'no target of a request holds a blank', spelling: faultOf(at(match, escaped), all) ? null : escaped };
  }
  const path = byteText(value);
  const inspection = inspectPath('GET', path);
  if (inspection.kind === 'plain') return null;
  if (inspection.kind === 'invalid') return { why: inspection.detail, spelling: null };
  let why: string | null = null;
  let spelling: string | null = null;
  for (const reading of readings(path)) {
    if (reading === null) return { why: 'it has too many readings', spelling: null };
    if (inspectPath('GET', reading).kind === 'plain') spelling ??= reading;
    if (staysBelow(path, type === 'prefix', reading)) continue;
    if (!all.some((other) => other !== match && mayMatch(other, reading)))
      why ??= `servers may take it for "${reading}"`;
  }
  return why === null ? null : { why, spelling };
}

function at(match: HttpMatch, value: string): HttpMatch {
  return { ...match, path: { ...match.path, value } };
}

/** By its path; an expression may match anything. */
function mayMatch({ path: { type, value } }: HttpMatch, path: string): boolean {
  if (type === 'regex') return true;
  const literal = byteText(value);
  if (type === 'exact') return path === literal;
  const prefix = literal.replace(/\/+$/, '');
  return path.replace(/\/+$/, '') === prefix || path.startsWith(`${prefix}/`);
}
