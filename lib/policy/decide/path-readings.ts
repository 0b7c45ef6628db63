import { remembered } from '../../remembered.ts';
import { escapedByte, hexDigit, isAscii, utf8Text } from '../bytes.ts';

/*
 * One path, many readings. Policy decides on a path and the application then reads it again, by rules of its own. Where
 * that could end elsewhere than the policy looked, a rule is evaded (CVE-2019-9901, CVE-2021-29492, CVE-2025-32431 and
 * many more). So every reading is decided, and a request passes only if all of them agree. The path that is forwarded
 * stays as it came. Strings hold one character per byte.
 *
 * What servers do, and so what is read here:
 * - decode escapes, once or twice, all of them or all but separators; `%uXXXX` (ASP, JavaScript's unescape) and overlong
 *   UTF-8 (old decoders) too;
 * - take a backslash for a slash, merge slashes, resolve dot segments, cut `;parameters` (Java servlets);
 * - cut what stands behind a `?` or `#` that decoding brought to light;
 * - read what begins with two slashes as `//authority/path` (WHATWG URLs, hence `new URL(request.url, base)` on Node;
 *   java.net.URI, hence its HttpServer);
 * - compare without case, with or without a trailing slash (Express, ASP.NET), and without trailing dots and spaces
 *   (Windows): see `foldPath`.
 *
 * Not read: Unicode normalization forms, 8.3 names and alternate streams of Windows, which nothing that serves HTTP in a
 * Linux pod applies to routes.
 *
 * All of it is linear in the path's length, and bounded in all by `mostReadings` and `mostWork`; a path that would need
 * more is refused. No step throws.
 */

/** Most paths: every server reads them alike, but for the case of letters, a trailing slash, and dots that end segments. */
const plain = /^\/(?:(?!\.\.?(?:\/|$))[\w\-~!$&'()*+,=:@.]+(?:\/|$))*$/;

/** Nearly all paths: the same without upper case. */
const plainLower = /^\/(?:(?!\.\.?(?:\/|$))[a-z0-9_\-~!$&'()*+,=:@.]+(?:\/|$))*$/;
const endingDot = /\.(?:\/|$)/;

/** Plain but for `;`, which is an ordinary character of a path (RFC 3986 section 3.3) that some servers cut from. */
const plainWithParameters = /^\/(?:(?!\.\.?(?:[/;]|$))[\w\-~!$&'()*+,=:@.;]+(?:\/|$))*$/;

/** C0 controls, DEL, and the `#` of a fragment, which no request target may hold (RFC 9112 section 3.2); what is no byte. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const forbidden = /[\x00-\x1f\x7f#\u0100-\uffff]/;
/** The same controls escaped, at any depth of escaping; `%23` is a legal character of a path. */
const forbiddenEscaped = /%(?:25)*(?:[01][0-9a-f]|7f)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const control = /[\x00-\x1f\x7f]/;

/** More readings than an honest path ever has; beyond it the request is refused rather than examined further. */
const mostReadings = 48;
/** A path with something to read differently may be this long. */
const longestAmbiguous = 4096;
/** Bytes that all readings of one path together may pass through; about 2 ns each. */
const mostWork = 16_384;

export type PathInspection =
  /** `folded`: it reads the same without case and trailing dots. */
  | { readonly kind: 'plain'; readonly folded: boolean }
  /** `parametersOnly`: nothing but `;parameters` sets its readings apart. */
  | { readonly kind: 'ambiguous'; readonly parametersOnly: boolean }
  | { readonly kind: 'invalid'; readonly detail: string };

const foldedPath: PathInspection = { kind: 'plain', folded: true };
const plainPath: PathInspection = { kind: 'plain', folded: false };

function invalid(detail: string): PathInspection {
  return { kind: 'invalid', detail };
}

/**
 * What kind of path this is. Anything that does not begin with `/` is invalid, but for the two targets that have no path:
 * `*` of OPTIONS (RFC 9112 section 3.2.4) and the authority of CONNECT, whose path is empty. Those two match routes whose
 * prefix is `/`, and no exact path.
 */
export function inspectPath(method: string, path: string): PathInspection {
  if (path === '*' && method === 'OPTIONS') return foldedPath;
  if (path === '' && method === 'CONNECT') return foldedPath;
  return inspectAnyPath(path);
}

const inspectAnyPath = remembered((path: string): PathInspection => {
  if (plainLower.test(path)) return path.includes('.') && endingDot.test(path) ? plainPath : foldedPath;
  if (plain.test(path)) return plainPath;
  if (!path.startsWith('/')) return invalid('the path does not begin with "/"');
  if (forbidden.test(path)) return invalid('the path holds a control character or a fragment');
  if (path.length > longestAmbiguous) return invalid('the path is too long to be read in every way');
  if (forbiddenEscaped.test(path)) return invalid('the path holds a control character or a fragment');
  return { kind: 'ambiguous', parametersOnly: plainWithParameters.test(path) };
});

/** A step of reading; each yields its argument where it has nothing to do. */
type Step = (path: string) => string;

/** Where a step reads and writes; none makes a path longer. */
const source = Buffer.alloc(longestAmbiguous);
const target = Buffer.alloc(longestAmbiguous);

function separator(byte: number): boolean {
  return byte === 0x2f /* / */ || byte === 0x5c /* \ */;
}

function decode(path: string, keepSeparators: boolean): string {
  if (!path.includes('%')) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  for (let at = 0; at < end; ) {
    const byte = escapedByte(source, at, end);
    if (byte === -1 || (keepSeparators && separator(byte))) target[size++] = source[at++] as number;
    else {
      target[size++] = byte;
      at += 3;
    }
  }
  return size === end ? path : target.toString('latin1', 0, size);
}

const decodeAll: Step = (path) => decode(path, false);
/** Escaped separators kept, as by servers for which `a%2Fb` is one segment. */
const decodeSegments: Step = (path) => decode(path, true);

/** `%uXXXX` to UTF-8. */
function decodeWide(path: string): string {
  if (!/%u/i.test(path)) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  for (let at = 0; at < end; ) {
    const wide = wideEscape(at, end);
    if (wide === -1) target[size++] = source[at++] as number;
    else {
      size = writeUtf8(wide, size);
      at += 6;
    }
  }
  return size === end ? path : target.toString('latin1', 0, size);
}

/** The character of `%uXXXX`; -1 where there is none. */
function wideEscape(at: number, end: number): number {
  if (at + 5 >= end || source[at] !== 0x25 || ((source[at + 1] as number) | 0x20) !== 0x75 /* u */) return -1;
  let code = 0;
  for (let i = at + 2; i < at + 6; i++) {
    const digit = hexDigit(source[i] as number);
    if (digit === -1) return -1;
    code = code * 16 + digit;
  }
  return code;
}

/** Fullwidth forms and other slashes, in UTF-8, as the ASCII that they stand for to decoders that fit what they have not. */
function fitAscii(path: string): string {
  if (!/\xef\xbc|\xef\xbd|\xe2\x88\x95|\xe2\x81\x84/.test(path)) return path;
  return path
    .replace(/\xef\xbc[\x81-\xbf]/g, (form) => String.fromCharCode(form.charCodeAt(2) - 0x60))
    .replace(/\xef\xbd[\x80-\x9e]/g, (form) => String.fromCharCode(form.charCodeAt(2) - 0x20))
    .replace(/\xe2\x88\x95|\xe2\x81\x84/g, '/');
}

const overlongStart = /%(?:c[01]|e0|f0)|[\xc0\xc1\xe0\xf0]/i;

/** Overlong UTF-8, escaped or raw, for ASCII (RFC 3629 section 3 forbids it; lenient decoders accept it). */
function decodeOverlong(path: string): string {
  if (!overlongStart.test(path)) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  for (let at = 0; at < end; ) {
    const more = continuations(octet(at, end));
    const ascii = more === 0 ? -1 : overlongAscii(at, end, more);
    if (ascii === -1) target[size++] = source[at++] as number;
    else {
      target[size++] = ascii;
      for (let i = 0; i <= more; i++) at += octetLength(at, end);
    }
  }
  return size === end ? path : target.toString('latin1', 0, size);
}

function writeUtf8(code: number, at: number): number {
  let size = at;
  if (code < 0x80) target[size++] = code;
  else {
    if (code < 0x800) target[size++] = 0xc0 | (code >> 6);
    else {
      target[size++] = 0xe0 | (code >> 12);
      target[size++] = 0x80 | ((code >> 6) & 0x3f);
    }
    target[size++] = 0x80 | (code & 0x3f);
  }
  return size;
}

/** The byte at a place, escaped or raw; 0 behind the end. */
function octet(at: number, end: number): number {
  const escaped = escapedByte(source, at, end);
  if (escaped !== -1) return escaped;
  return at < end ? (source[at] as number) : 0;
}

function octetLength(at: number, end: number): number {
  return escapedByte(source, at, end) === -1 ? 1 : 3;
}

/** How many bytes follow the first one of what may be overlong; 0 for any other byte. */
function continuations(lead: number): number {
  return lead === 0xc0 || lead === 0xc1 ? 1 : lead === 0xe0 ? 2 : lead === 0xf0 ? 3 : 0;
}

function overlongAscii(at: number, end: number, more: number): number {
  let code = more === 1 ? octet(at, end) & 0x1f : 0;
  let next = at + octetLength(at, end);
  for (let i = 0; i < more; i++) {
    const byte = octet(next, end);
    if ((byte & 0xc0) !== 0x80) return -1;
    code = code * 64 + (byte & 0x3f);
    next += octetLength(next, end);
  }
  return code < 0x80 ? code : -1;
}

function backslashes(path: string): string {
  if (!path.includes('\\')) return path;
  const end = source.write(path, 'latin1');
  for (let at = 0; at < end; at++) if (source[at] === 0x5c) source[at] = 0x2f;
  return source.toString('latin1', 0, end);
}

function cutParameters(path: string): string {
  if (!path.includes(';')) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  let cutting = false;
  for (let at = 0; at < end; at++) {
    const byte = source[at] as number;
    if (byte === 0x2f) cutting = false;
    else if (byte === 0x3b /* ; */) cutting = true;
    if (!cutting) target[size++] = byte;
  }
  return target.toString('latin1', 0, size);
}

function mergeSlashes(path: string): string {
  if (!path.includes('//')) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  for (let at = 0; at < end; at++) {
    if (source[at] !== 0x2f || at === 0 || source[at - 1] !== 0x2f) target[size++] = source[at] as number;
  }
  return target.toString('latin1', 0, size);
}

/** Dot segments removed (RFC 3986 section 5.2.4); `..` at the root stays at the root. */
function resolveDots(path: string): string {
  if (!/\/\.\.?(?:\/|$)/.test(path)) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  for (let at = 0; at < end; ) {
    // At a slash, always: each turn takes one `/segment`.
    let next = at + 1;
    while (next < end && source[next] !== 0x2f) next++;
    const length = next - at - 1;
    const dots = length <= 2 && source[at + 1] === 0x2e && (length === 1 || (length === 2 && source[at + 2] === 0x2e));
    if (!dots) {
      for (let i = at; i < next; i++) target[size++] = source[i] as number;
    } else {
      if (length === 2 && size > 0)
        do size--;
        while (target[size] !== 0x2f);
      // The last segment leaves its slash behind.
      if (next === end) target[size++] = 0x2f;
    }
    at = next;
  }
  return size === 0 ? '/' : target.toString('latin1', 0, size);
}

/** `?` and `#` that decoding brought to light, for servers that split the target after decoding it. */
function cutQuery(path: string): string {
  const mark = path.search(/[?#]/);
  return mark === -1 ? path : path.slice(0, mark);
}

/** What begins with two slashes, either way up, has an authority before its path (WHATWG URL; RFC 3986 section 4.2). */
function cutAuthority(path: string): string {
  if (!/^\/[/\\]/.test(path)) return path;
  const rest = path.replace(/^[/\\]+[^/\\?#]*/, '');
  return rest.startsWith('/') || rest.startsWith('\\') ? `/${rest.slice(1)}` : `/${rest}`;
}

/** Steps that may be taken at any point, any number of times. */
const steps: readonly Step[] = [
  decodeWide,
  decodeOverlong,
  fitAscii,
  backslashes,
  cutParameters,
  mergeSlashes,
  resolveDots,
  cutQuery,
  cutAuthority,
];
/** Of a rule's own path only the spelling is read: where it lies is what its author wrote. */
const stepsOfRules: readonly Step[] = [decodeWide, decodeOverlong, fitAscii, backslashes, mergeSlashes];

/**
 * What all combinations of these steps make of a path, with at most two decodings. Ends with null, which refuses, where there
 * are too many to examine, or one holds a control character that several layers of escapes had hidden.
 */
function* readBy(others: readonly Step[], path: string): Generator<string | null> {
  // The fewest decodings by which each reading was reached: fewer leave more to be done to it.
  const seen = new Map<string, number>([[path, 0]]);
  const pending: [string, number][] = [[path, 0]];
  let work = 0;
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [from, decodings] = next;
    const decoders = decodings < 2 ? 2 : 0;
    for (let i = 0; i < others.length + decoders; i++) {
      const step = others[i] ?? (i === others.length ? decodeAll : decodeSegments);
      const reading = step(from);
      if (reading === from) continue;
      work += from.length;
      const depth = i < others.length ? decodings : decodings + 1;
      const known = seen.get(reading);
      if (known !== undefined && known <= depth) continue;
      seen.set(reading, depth);
      pending.push([reading, depth]);
      if (known !== undefined) continue;
      if (seen.size > mostReadings || work > mostWork || control.test(reading)) {
        yield null;
        return;
      }
      yield reading;
    }
  }
}

/** Every reading of an ambiguous path but the path itself, in no order that matters; null last where it is to be refused. */
export const readings = remembered((path: string): readonly (string | null)[] => [...readBy(steps, path)]);

/** A rule's path in every spelling that servers take for the same; the path itself first. */
export function spellings(path: string): string[] {
  if (path.length > longestAmbiguous) return [path];
  return [path, ...readBy(stepsOfRules, path)].filter((spelling) => spelling !== null);
}

const spellingsOf = remembered(spellings);

/**
 * Whether a reading of a path is still what the author of a rule named by its literal path, by which the path as it came was
 * found: the literal itself in another spelling, or, of a prefix, something below that.
 */
export function staysBelow(literal: string, prefix: boolean, reading: string): boolean {
  return spellingsOf(literal).some(
    (spelling) =>
      reading === spelling || (prefix && reading.startsWith(spelling.endsWith('/') ? spelling : `${spelling}/`)),
  );
}

const needsFolding = /[A-Z\x80-\xff]|[. ](?:\/|$)/;

/**
 * The one spelling that stands for all that servers without a sense of case take for the same: letters in lower case, no
 * dots or spaces at the end of a segment (segments of dots alone stay), and no slash at the end of the path.
 */
export function foldPath(path: string): string {
  let folded = path;
  if (needsFolding.test(path)) {
    folded = foldCase(path);
    if (/[. ](?:\/|$)/.test(folded)) folded = cutSegmentEnds(folded);
  }
  if (!folded.endsWith('/') || folded.length === 1) return folded;
  let end = folded.length;
  while (end > 1 && folded.charCodeAt(end - 1) === 0x2f) end--;
  return folded.slice(0, end);
}

/** Lower case, of all of Unicode where the bytes are UTF-8, with the one letter besides that stands for an ASCII one. */
export function foldCase(bytes: string): string {
  if (isAscii(bytes)) return bytes.toLowerCase();
  const lower = utf8Text(bytes)?.toLowerCase().replaceAll('\u017f', 's');
  if (lower === undefined) return bytes.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  return Buffer.from(lower, 'utf8').toString('latin1');
}

function cutSegmentEnds(path: string): string {
  if (path.length > longestAmbiguous) return path;
  const end = source.write(path, 'latin1');
  let size = 0;
  for (let at = 0; at < end; ) {
    let next = at + 1;
    while (next < end && source[next] !== 0x2f) next++;
    let kept = next;
    while (kept > at + 1 && (source[kept - 1] === 0x2e || source[kept - 1] === 0x20)) kept--;
    if (kept === at + 1) kept = next;
    for (let i = at; i < kept; i++) target[size++] = source[i] as number;
    at = next;
  }
  return target.toString('latin1', 0, size);
}
