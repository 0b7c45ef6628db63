import type { Path } from './report.ts';

/*
 * Fields without a value. To the API server they are absent, and here too where nothing hangs on it, with a warning. But a
 * list that was commented out, or a template's empty text, may have been all that narrowed a document: such a field stays
 * null, which its shape refuses.
 */

/** What narrows wherever it stands: absent, it limits nothing. */
const narrowing: ReadonlySet<string> = new Set([
  // Clients.
  'networks',
  'except',
  'from',
  // What is selected.
  'matchLabels',
  'matchExpressions',
  'ports',
  'proxyProtocol',
  // Requests.
  'hostnames',
  'rules',
  'matches',
  'path',
  'type',
  'value',
  'headers',
  'queryParams',
  'method',
  'service',
  'filters',
  // Rates.
  'total',
  'identity',
  'overrides',
]);

/** What narrows there alone: a NetworkPolicy's peer, and the ports that it opens. */
const narrowingIn: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['from', new Set(['podSelector', 'namespaceSelector'])],
  ['ports', new Set(['port'])],
]);

/** Whether a document might let in more without the field. */
export function narrows(path: Path): boolean {
  const names = path.filter((key) => typeof key === 'string');
  const field = names.at(-1) ?? '';
  return narrowing.has(field) || narrowingIn.get(names.at(-2) ?? '')?.has(field) === true;
}

/** Their keys are the author's own words. */
const maps: ReadonlySet<string> = new Set(['matchLabels', 'labels']);

/**
 * Of copies: no key of a document is special, and a shape may compare a field of any kind (`{ length: { valueOf: 1 } }`),
 * which throws where an object cannot be made a number.
 */
const plain: object = Object.freeze(Object.create(null, { [Symbol.toPrimitive]: { value: () => Number.NaN } }));

/**
 * A copy without fields that are null. A label with no value stays: dropping it would widen its selector, so the shape
 * refuses it.
 */
export function withoutNulls(value: unknown, keep = false): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item));
  if (!isFields(value)) return value ?? undefined;
  const copy: Record<string, unknown> = Object.create(plain);
  for (const [key, field] of Object.entries(value)) {
    if (field === null && !keep) continue;
    copy[key] = field === null ? null : withoutNulls(field, maps.has(key));
  }
  return copy;
}

/** Where fields are null that `withoutNulls` leaves out. */
export function* nullFields(value: unknown, path: (string | number)[] = []): Generator<Path> {
  const entries = Array.isArray(value) ? value.entries() : isFields(value) ? Object.entries(value) : [];
  for (const [key, field] of entries) {
    path.push(key);
    if (field === null && typeof key === 'string') yield [...path];
    else if (!maps.has(key as string)) yield* nullFields(field, path);
    path.pop();
  }
}

/** A copy in which those null fields alone stay that `stays` names. */
export function withNulls(value: unknown, stays: (path: Path) => boolean): unknown {
  const copy = withoutNulls(value);
  for (const path of nullFields(value)) {
    if (!stays(path)) continue;
    const holder = path.slice(0, -1).reduce((at, key) => (at as Record<string | number, unknown>)[key], copy);
    (holder as Record<string, unknown>)[path.at(-1) as string] = null;
  }
  return copy;
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
