import { push } from '../policy/lists.ts';
import type { PathClass, PathSpace } from './paths.ts';

/** Equal for equal classes. */
export function pathKey(path: PathClass): string {
  return path.kind === 'one' ? `= ${path.path}` : path.kind === 'below' ? `< ${path.prefix}` : path.method;
}

/** A class among the others of its space. */
interface PlacedClass {
  readonly cls: PathClass;
  /** Paths come first, then what lies below prefixes from the longest on. */
  readonly rank: number;
  /** The longest prefix below which it lies; null for none. */
  readonly above: string | null;
}

interface PathFamily {
  readonly all: ReadonlyMap<string, PlacedClass>;
  /** By prefix, what lies below it and below no longer one. */
  readonly children: ReadonlyMap<string, readonly PlacedClass[]>;
}

const families = new WeakMap<PathSpace, PathFamily>();

function familyOf(space: PathSpace): PathFamily {
  const known = families.get(space);
  if (known !== undefined) return known;
  const length = (cls: PathClass): number =>
    cls.kind === 'one' ? Number.POSITIVE_INFINITY : cls.kind === 'below' ? cls.prefix.length : -1;
  const all = new Map<string, PlacedClass>();
  const children = new Map<string, PlacedClass[]>();
  for (const [rank, cls] of [...space.classes].sort((a, b) => length(b) - length(a)).entries()) {
    const placed = { cls, rank, above: space.parentOf(cls) };
    all.set(pathKey(cls), placed);
    if (placed.above !== null) push(children, placed.above, placed);
  }
  const family = { all, children };
  families.set(space, family);
  return family;
}

const mostBut = 5;

/** In as few words as say which paths these are; null for every path. */
export function pathsText(classes: readonly PathClass[], space: PathSpace): string[] | null {
  const had = new Set(classes.map(pathKey));
  const { all, children } = familyOf(space);
  // Many sets that share a space may have a path each: whatever else is in it says nothing of them.
  const told = new Set<PlacedClass>();
  let count = 0;
  for (const key of had) {
    const placed = all.get(key);
    if (placed === undefined) continue;
    count += 1;
    told.add(placed);
    if (placed.cls.kind === 'below') for (const child of children.get(placed.cls.prefix) ?? []) told.add(child);
  }
  if (count === all.size) return null;
  const but = new Map<string, string[]>();
  const rows: { readonly text: string; readonly below: string | null }[] = [];
  for (const { cls, above } of [...told].sort((a, b) => a.rank - b.rank)) {
    const has = had.has(pathKey(cls));
    const parentHas = above !== null && had.has(`< ${above}`);
    if (cls.kind === 'one') {
      const prefix = cls.path === '/' ? '' : cls.path;
      const twin = space.isPrefix(prefix) ? had.has(`< ${prefix}`) : null;
      // One that has all below it as well is told there.
      if (has && !parentHas && twin !== true) rows.push({ text: cls.path, below: null });
      if (!has && parentHas && twin !== false) but.set(above, [...(but.get(above) ?? []), cls.path]);
    } else if (cls.kind === 'below') {
      const point = cls.prefix === '' ? '/' : cls.prefix;
      const whole = had.has(`= ${point}`);
      if (has && !parentHas) rows.push({ text: whole ? `${cls.prefix}[/…]` : `${cls.prefix}/…`, below: cls.prefix });
      if (has && parentHas && !whole) but.set(above, [...(but.get(above) ?? []), point]);
      if (!has && parentHas)
        but.set(above, [...(but.get(above) ?? []), whole ? `${cls.prefix}/…` : `${cls.prefix}[/…]`]);
      if (has && parentHas)
        for (const path of but.get(cls.prefix) ?? []) but.set(above, [...(but.get(above) ?? []), path]);
    } else if (has && !had.has('< '))
      rows.push({ text: cls.method === 'OPTIONS' ? 'OPTIONS *' : 'CONNECT', below: null });
  }
  return rows.map(({ text, below }) => {
    const except = below === null ? [] : (but.get(below) ?? []);
    const shown = except.slice(0, mostBut).join(', ');
    const more = except.length > mostBut ? ` and ${except.length - mostBut} more` : '';
    const own = text === '[/…]' ? 'any path' : text === '/…' ? 'any path but /' : text;
    if (except.length === 0) return own;
    return own === 'any path but /' ? `${own}, ${shown}${more}` : `${own} but ${shown}${more}`;
  });
}
