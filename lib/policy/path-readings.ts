/*
 * One path, many readings. Policy decides on a path and the application then reads it again, by rules of its own: it may
 * decode escapes (once, twice, or only some), take a backslash for a slash, cut `;parameters`, merge slashes, resolve dot
 * segments. Where that could end elsewhere than the policy looked, a rule is evaded (CVE-2019-9901, CVE-2021-29492,
 * CVE-2025-32431 and many more). So every reading is decided, and a request passes only if all of them agree. The path
 * that is forwarded stays as it came.
 */

/** Nearly all paths: every server reads them alike. Segments are not empty, not dots, and hold nothing to decode or cut. */
const plain = /^\/(?:(?!\.\.?(?:\/|$))[\w\-~!$&'()*+,=:@.]+(?:\/|$))*$/;

/** Plain but for `;`, which is an ordinary character of a path (RFC 3986 section 3.3) that some servers cut from. */
const plainWithParameters = /^\/(?:(?!\.\.?(?:[/;]|$))[\w\-~!$&'()*+,=:@.;]+(?:\/|$))*$/;

/** C0 controls, DEL, and the `#` of a fragment, which no request target may hold (RFC 9112 section 3.2). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for.
const forbidden = /[\x00-\x1f\x7f#]/;
/** The same controls escaped, at any depth of escaping; `%23` is a legal character of a path. */
const forbiddenEscaped = /%(?:25)*(?:[01][0-9a-f]|7f)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const control = /[\x00-\x1f\x7f]/;

/** More readings than an honest path ever has; beyond it the request is refused rather than examined further. */
const mostReadings = 48;
/** A path with something to read differently may be this long; each reading costs time in proportion. */
const longestAmbiguous = 8192;

export type PathInspection =
  | { readonly kind: 'plain' }
  /** `parametersOnly`: nothing but `;parameters` sets its readings apart. */
  | { readonly kind: 'ambiguous'; readonly parametersOnly: boolean }
  | { readonly kind: 'invalid'; readonly detail: string };

const plainPath: PathInspection = { kind: 'plain' };

function invalid(detail: string): PathInspection {
  return { kind: 'invalid', detail };
}

/**
 * What kind of path this is. Anything that does not begin with `/` is invalid, but for the two targets that have no path:
 * `*` of OPTIONS (RFC 9112 section 3.2.4) and the authority of CONNECT, whose path is empty. Those two match routes whose
 * prefix is `/`, and no exact path.
 */
export function inspectPath(method: string, path: string): PathInspection {
  if (plain.test(path)) return plainPath;
  if (path === '*' && method === 'OPTIONS') return plainPath;
  if (path === '' && method === 'CONNECT') return plainPath;
  if (!path.startsWith('/')) return invalid('the path does not begin with "/"');
  if (forbidden.test(path) || forbiddenEscaped.test(path)) {
    return invalid('the path holds a control character or a fragment');
  }
  if (path.length > longestAmbiguous) return invalid('the path is too long to be read in every way');
  return { kind: 'ambiguous', parametersOnly: plainWithParameters.test(path) };
}

/** A way in which some server reads a path; each yields its argument where it has nothing to do. */
type Reading = (path: string) => string;

function decode(path: string, keep: RegExp | null): string {
  return path.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    const parts = escapes.match(/%../g) as string[];
    let decoded = '';
    let run = '';
    const flush = (): void => {
      decoded += decodeRun(run);
      run = '';
    };
    for (const part of parts) {
      if (keep?.test(part)) {
        flush();
        decoded += part;
      } else run += part;
    }
    flush();
    return decoded;
  });
}

/** Escapes that are no UTF-8 are read byte by byte, as servers do that read paths as Latin-1. */
function decodeRun(run: string): string {
  try {
    return decodeURIComponent(run);
  } catch {
    return run.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
}

const decodeAll: Reading = (path) => decode(path, null);
/** Escaped separators kept, as by servers for which `a%2Fb` is one segment. */
const decodeSegments: Reading = (path) => decode(path, /^%(?:2f|5c)$/i);
/** Unreserved characters alone (RFC 3986 section 6.2.2.2), as normalizing proxies do. */
const decodeUnreserved: Reading = (path) => decode(path, /^%(?![46][1-9a-f]|[57][0-9a]|3[0-9]|2[de]|5f|7e)/i);

const others: readonly Reading[] = [
  // The case of escapes (RFC 3986 section 6.2.2.1).
  (path) => path.replace(/%[0-9a-f]{2}/gi, (octet) => octet.toUpperCase()),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.replace(/;[^/]*/g, ''),
  (path) => path.replace(/\/{2,}/g, '/'),
  resolveDots,
  // `?` and `#` that decoding brought to light, for servers that split the target after decoding it.
  (path) => path.replace(/[?#].*$/s, ''),
  // Overlong UTF-8 for ".", "/" and "\", which lenient decoders accept.
  (path) =>
    path
      .replace(/%c0%ae/gi, '.')
      .replace(/%c0%af/gi, '/')
      .replace(/%c1%9c/gi, '\\'),
];

/** Dot segments removed (RFC 3986 section 5.2.4); `..` at the root stays at the root. */
function resolveDots(path: string): string {
  if (!/(?:^|\/)\.\.?(?:\/|$)/.test(path)) return path;
  const segments = path.split('/');
  const kept: string[] = [];
  segments.forEach((segment, i) => {
    const last = i === segments.length - 1;
    if (segment === '..') {
      if (kept.length > 1) kept.pop();
      if (last) kept.push('');
    } else if (segment === '.') {
      if (last) kept.push('');
    } else kept.push(segment);
  });
  const resolved = kept.join('/');
  return resolved.startsWith('/') ? resolved : `/${resolved}`;
}

/**
 * Every reading of an ambiguous path but the path itself, in no order that matters: all combinations of the readings
 * above, with at most two decodings. Ends with null, which refuses, where there are too many to examine or one holds a
 * control character that several layers of escapes had hidden.
 */
export function* readings(path: string): Generator<string | null> {
  // The fewest decodings by which each reading was reached: fewer leave more to be done to it.
  const seen = new Map<string, number>([[path, 0]]);
  const pending: [string, number][] = [[path, 0]];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [from, decodings] = next;
    const found: [string, number][] = others.map((read) => [read(from), decodings]);
    found.push([decodeUnreserved(from), decodings]);
    if (decodings < 2) found.push([decodeAll(from), decodings + 1], [decodeSegments(from), decodings + 1]);
    for (const [reading, depth] of found) {
      const known = seen.get(reading);
      if (known !== undefined && known <= depth) continue;
      seen.set(reading, depth);
      pending.push([reading, depth]);
      if (known !== undefined) continue;
      if (seen.size > mostReadings || control.test(reading)) {
        yield null;
        return;
      }
      yield reading;
    }
  }
}
