import type { HeaderChanges } from '../../policy/decision.ts';
import {
  addNominated,
  dropNamed,
  framingFields,
  type HeaderList,
  hopByHop,
  identityHeader,
  isIdentityAlias,
} from '../../request-fields.ts';

/**
 * A request's trailers for the app: they never become headers that decide anything, and promise nothing further (RFC 9110
 * 6.5.1). Lower-case names.
 */
export function withoutIdentity(trailers: HeaderList): HeaderList {
  const kept: HeaderList = [];
  for (let i = 0; i + 1 < trailers.length; i += 2) {
    const name = trailers[i] as string;
    if (name !== 'trailer' && !isIdentityAlias(name)) kept.push(name, trailers[i + 1] as string);
  }
  return kept;
}

/** Headers of an app's HTTP/1 response, without those of its connection. */
export function scanResponseHeaders(raw: readonly (string | Buffer)[]): HeaderList {
  const forward: HeaderList = [];
  let nominated: Set<string> | null = null;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = latin1(raw[i] as string | Buffer);
    const value = latin1(raw[i + 1] as string | Buffer);
    const lower = name.toLowerCase();
    if (lower === 'connection') {
      nominated = addNominated(nominated, value, framingFields);
      continue;
    }
    if (!hopByHop.has(lower)) forward.push(name, value);
  }
  return nominated === null ? forward : dropNamed(forward, nominated);
}

/** The protocols that an app says it goes on with (RFC 9110 7.8), of the same headers. */
export function upgradeOf(raw: readonly (string | Buffer)[]): string {
  return headerValues(raw.map(latin1), 'upgrade').join(', ');
}

function latin1(text: string | Buffer): string {
  return typeof text === 'string' ? text : text.toString('latin1');
}

/** The first value under a lower-case name; null where absent. */
export function headerValue(list: readonly string[], lower: string): string | null {
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i] as string;
    if (name.length === lower.length && name.toLowerCase() === lower) return list[i + 1] as string;
  }
  return null;
}

export function headerValues(list: readonly string[], lower: string): string[] {
  const values: string[] = [];
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i] as string;
    if (name.length === lower.length && name.toLowerCase() === lower) values.push(list[i + 1] as string);
  }
  return values;
}

export function without(list: HeaderList, lower: string): HeaderList {
  return headerValue(list, lower) === null ? list : dropNamed(list, new Set([lower]));
}

/** Framing, connection and identity are never a document's to change. */
const unchangeable: ReadonlySet<string> = new Set([
  ...hopByHop,
  'content-length',
  'expect',
  'te',
  'trailer',
  identityHeader,
]);

/** Whether they do the same to any request. */
export function sameChanges(one: HeaderChanges | null, other: HeaderChanges | null): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** RequestHeaderModifier in Linkerd's order: add, set, remove. */
export function applyHeaderChanges(list: HeaderList, changes: HeaderChanges): HeaderList {
  let result = list;
  for (const [name, value] of changes.add) {
    if (unchangeable.has(name)) continue;
    // There can be one Host only (RFC 9112 3.2).
    const kept = name === 'host' ? dropNamed(result, new Set([name])) : result;
    result = [...kept, name, value];
  }
  for (const [name, value] of changes.set) {
    if (!unchangeable.has(name)) result = [...dropNamed(result, new Set([name])), name, value];
  }
  const removed = new Set(changes.remove.filter((name) => !unchangeable.has(name) && name !== 'host'));
  return removed.size === 0 ? result : dropNamed(result, removed);
}
