import { compilePattern } from '../policy/regex.ts';
import type { HttpMatch } from '../policy/route-rule.ts';
/*
 * Which segments of paths stand for many: the stated rules by which a suggestion is wider than what was seen. A segment is
 * generalised only where at least two different values of its class were seen in its place, or very many of no class.
 */

export interface SegmentClass {
  readonly name: string;
  /** RE2, of the whole segment. */
  readonly pattern: string;
  /** As comments call it. */
  readonly says: string;
  /** What makes a segment one of it. */
  readonly test: RegExp;
  /** `pattern`, which may hold more than `test` lets through. */
  readonly holds: RegExp;
}

function segmentClass(name: string, pattern: string, says: string, test?: RegExp): SegmentClass {
  const holds = new RegExp(`^(?:${pattern})$`);
  return { name, pattern, says, test: test ?? holds, holds };
}

/** The first that fits is a segment's class. */
const classes: readonly SegmentClass[] = [
  segmentClass('number', '[0-9]+', 'a number'),
  segmentClass('uuid', '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', 'a UUID'),
  segmentClass(
    'hex',
    '[0-9a-fA-F]{16,}',
    'sixteen or more hexadecimal digits',
    /^(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{16,}$/,
  ),
  segmentClass(
    'token',
    '[0-9A-Za-z_-]{20,}',
    'twenty or more letters, digits, _ and -',
    /^(?=(?:[A-Za-z_-]*[0-9]){2})(?=[0-9_-]*[A-Za-z])[0-9A-Za-z_-]{20,}$/,
  ),
];

/** Any one segment that no server reads in another way. */
export const anySegment: SegmentClass = segmentClass('any', '[0-9A-Za-z_~.@:=+,-]+', 'one segment of any name');

/** As the CRDs allow. */
export const longestPath = 1024;

/** Segments of a path that may stand for others: of a longer one each is text. */
const mostSegments = 32;

/** What every server reads alike; other paths are written out as they came. */
const plain = /^\/(?:(?!\.\.?(?:\/|$))[\w\-~.@:=+,]+(?:\/|$))*$/;

export function isPlain(path: string): boolean {
  return path.length <= longestPath && plain.test(path) && isShort(path);
}

function isShort(path: string): boolean {
  let segments = 0;
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) segments++;
  return segments <= mostSegments;
}

/** The class of a segment; null for one that stands for itself. */
export function classOf(segment: string): SegmentClass | null {
  return classes.find(({ test }) => test.test(segment)) ?? null;
}

/** The path of a request's target, without its query; that of the absolute form without its authority. */
export function pathOf(target: string): string {
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(target)?.[0] ?? '';
  const [path = ''] = target.slice(absolute.length).split('?');
  return path === '' && absolute !== '' ? '/' : path;
}

export function segmentsOf(path: string): readonly string[] {
  return path.split('/').slice(1);
}

/**
 * A path with the names of classes in place of the segments that have one: what such paths have in common. Any other path is
 * one of its own, and none of those, even where it holds such a name.
 */
export function shapeOf(path: string): string {
  if (!isPlain(path)) return `= ${path}`;
  const named = segmentsOf(path).map((segment) => {
    const found = classOf(segment);
    return found === null ? segment : `{${found.name}}`;
  });
  return `/${named.join('/')}`;
}

/** A segment of a path that is to be allowed: itself, or any of a class. */
export type PathPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'class'; readonly of: SegmentClass };

/** A path, or many. */
export type PathForm =
  | { readonly kind: 'exact'; readonly path: string }
  | { readonly kind: 'parts'; readonly parts: readonly PathPart[] };

/** Characters of a text that stand for themselves in RE2. */
function quoted(text: string): string {
  return text.replace(/[.+*?()|[\]{}^$\\]/g, '\\$&');
}

/** RE2, of the whole path. */
export function patternOf(parts: readonly PathPart[]): string {
  return parts.map((part) => `/${part.kind === 'text' ? quoted(part.text) : part.of.pattern}`).join('');
}

/** As comments show it: `/orders/{number}`. */
export function formText(form: PathForm): string {
  if (form.kind === 'exact') return form.path;
  return form.parts.map((part) => `/${part.kind === 'text' ? part.text : `{${part.of.name}}`}`).join('');
}

export function formMatches(form: PathForm, path: string): boolean {
  if (form.kind === 'exact') return form.path === path;
  const segments = segmentsOf(path);
  return (
    segments.length === form.parts.length &&
    form.parts.every((part, at) => {
      const segment = segments[at] ?? '';
      return part.kind === 'text' ? part.text === segment : part.of.holds.test(segment);
    })
  );
}

/** Whether some path of a form of many may match; true where it takes more than a look to tell. */
export function mayMeet(form: PathForm, { type, value }: HttpMatch['path']): boolean {
  if (form.kind === 'exact') return false;
  const { parts } = form;
  if (type === 'exact') return formMatches(form, value);
  if (type === 'prefix') {
    const wanted = segmentsOf(value.replace(/\/$/, ''));
    const first: PathForm = { kind: 'parts', parts: parts.slice(0, wanted.length) };
    return wanted.length === 0 || formMatches(first, `/${wanted.join('/')}`);
  }
  const pattern = compilePattern(value);
  if (!pattern.ok) return false;
  const fixed = parts.findIndex(({ kind }) => kind !== 'text');
  const texts = parts.slice(0, fixed).map((part) => (part.kind === 'text' ? `${part.text}/` : ''));
  const start = `/${texts.join('')}`;
  return start.startsWith(pattern.start) || pattern.start.startsWith(start);
}
