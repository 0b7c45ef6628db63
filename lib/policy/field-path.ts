/** Leads from a decoded document to a field or an item in it. */
export type FieldPath = readonly (string | number)[];

/** The value at a path of decoded data; undefined where the path leads nowhere. */
export function valueAt(value: unknown, path: FieldPath): unknown {
  let at = value;
  for (const step of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined;
    at = (at as Record<string | number, unknown>)[step];
  }
  return at;
}
