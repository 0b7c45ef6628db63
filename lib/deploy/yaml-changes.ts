/* What a change to a YAML document is, and what it makes of the document's decoded data. */

import { type FieldPath, valueAt } from '../policy/field-path.ts';

/** Something at the front of the collection at `path`, which must be there: empty and null ones count. */
export interface Addition {
  readonly kind: 'add';
  readonly path: FieldPath;
  readonly entries?: Readonly<Record<string, unknown>>;
  readonly items?: readonly unknown[];
}

/** Keys or items out of the collection at `path`. `restore`: nothing is left of it, and its value was written so. */
export interface Removal {
  readonly kind: 'remove';
  readonly path: FieldPath;
  readonly keys?: readonly string[];
  readonly indices?: readonly number[];
  readonly restore?: string | undefined;
}

export type Change = Addition | Removal;

/** Null, `{}` and `[]` all say that there is nothing, to Kubernetes and so here. */
export function bare(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, item: unknown) =>
    typeof item === 'object' && item !== null && Object.keys(item).length === 0 ? null : item,
  );
}

/** Makes a change to decoded data. */
export function applyToValue(root: unknown, change: Change): void {
  const parent = valueAt(root, change.path.slice(0, -1)) as Record<string | number, unknown>;
  const name = change.path.at(-1) as string | number;
  const old = parent[name] ?? null;
  if (change.kind === 'add') {
    parent[name] = change.items
      ? [...change.items, ...((old as unknown[] | null) ?? [])]
      : { ...change.entries, ...(old as object | null) };
  } else if (Array.isArray(old)) {
    parent[name] = old.filter((_item, index) => !(change.indices ?? []).includes(index));
  } else {
    parent[name] = Object.fromEntries(Object.entries(old ?? {}).filter(([key]) => !(change.keys ?? []).includes(key)));
  }
}
