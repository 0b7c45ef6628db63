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
  // What of a request goes on.
  'set',
  'remove',
  // Rates.
  'total',
  'identity',
  'overrides',
]);

/** Without it a reference is to somebody else, of the document's own namespace. */
const elsewhere: ReadonlySet<string> = new Set(['namespace']);

/**
 * What narrows there alone: a NetworkPolicy's peer, the ports that it opens, a route's being attached to a Server, and where
 * a redirect leads, which goes to the application where that is where it was sent.
 */
const narrowingIn: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['from', new Set(['podSelector', 'namespaceSelector', 'ipBlock'])],
  ['ports', new Set(['port', 'protocol'])],
  ['parentRefs', new Set(['group', 'kind'])],
  ['requestRedirect', new Set(['scheme', 'hostname', 'port'])],
  ['requiredAuthenticationRefs', elsewhere],
  ['identityRefs', elsewhere],
  ['serviceAccounts', elsewhere],
  ['clientRefs', elsewhere],
]);

export type Holder = Readonly<Record<string, unknown>>;

/** Whether a document might let in more without the field, which is in `holder`. */
export function narrows(path: Path, { operator }: Holder): boolean {
  const names = path.filter((key) => typeof key === 'string');
  const field = names.at(-1) ?? '';
  const within = names.at(-2) ?? '';
  // A selector that holds for no pod leaves the port to what is wider.
  if (field === 'values' && within === 'matchExpressions') return operator !== 'Exists' && operator !== 'DoesNotExist';
  return narrowing.has(field) || narrowingIn.get(within)?.has(field) === true;
}

/** Their keys are the author's own words. */
const maps: ReadonlySet<string> = new Set(['matchLabels', 'labels']);

/**
 * Of copies: no key of a document is special, and a shape may compare a field of any kind (`{ length: { valueOf: 1 } }`),
 * which throws where an object cannot be made a number.
 */
const plain: object = Object.freeze(Object.create(null, { [Symbol.toPrimitive]: { value: () => Number.NaN } }));

/** What was written, with null only where it stays. */
export interface Copied {
  readonly copy: unknown;
  /** Where fields are null that do not stay; the empty path is the value itself. */
  readonly dropped: readonly Path[];
}

/** A copy in which those fields alone are null that `stays` names. A label with no value stays: its shape refuses it. */
export function copied(value: unknown, stays: (path: Path, holder: Holder) => boolean): Copied {
  const dropped: Path[] = value === null ? [[]] : [];
  const path: (string | number)[] = [];
  const copyOf = (value: unknown, keep: boolean): unknown => {
    if (Array.isArray(value)) {
      return value.map((item, i) => {
        path.push(i);
        const copy = copyOf(item, false);
        path.pop();
        return copy;
      });
    }
    if (!isFields(value)) return value ?? undefined;
    const copy: Record<string, unknown> = Object.create(plain);
    for (const [key, field] of Object.entries(value)) {
      path.push(key);
      if (field !== null) copy[key] = copyOf(field, maps.has(key));
      else if (keep || stays(path, value)) copy[key] = null;
      else dropped.push([...path]);
      path.pop();
    }
    return copy;
  };
  return { copy: copyOf(value, false), dropped };
}

export function withoutNulls(value: unknown): unknown {
  return copied(value, () => false).copy;
}

export function isFields(value: unknown): value is Holder {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
