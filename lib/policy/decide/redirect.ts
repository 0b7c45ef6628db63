import { byteText } from '../bytes.ts';
import type { RequestFacts } from '../decision.ts';
import type { RedirectFilter } from '../route-rule.ts';

export type RedirectOutcome =
  /** The target is where the request already is: it is forwarded. */
  | { readonly kind: 'same' }
  /** Null: `replacePrefixMatch` met a match that is no prefix, or there is no host to redirect to. */
  | { readonly kind: 'redirect'; readonly location: string | null };

const same: RedirectOutcome = { kind: 'same' };
/** What may stand in a Location as an authority; a client's Host that holds anything else is not echoed. */
const authority = /^(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?$/;
const defaultPorts: Readonly<Record<string, string>> = { http: '80', https: '443' };

/**
 * Where a RequestRedirect sends a request: each part the filter does not name stays the request's own. `prefix` is the
 * path prefix by which the route matched, without trailing slash; null where it matched otherwise.
 */
export function redirectTarget(filter: RedirectFilter, request: RequestFacts, prefix: string | null): RedirectOutcome {
  if (!authority.test(request.host) && filter.hostname === null) return { kind: 'redirect', location: null };
  const path = redirectPath(filter, request.path, prefix);
  if (path === null) return { kind: 'redirect', location: null };

  // A request for the application comes in as http: TLS, where there is any, ends at the proxy.
  const scheme = filter.scheme ?? 'http';
  const [, ownHost = '', ownPort = ''] =
    /^(.*?)(?::(\d+))?$/s.exec(authority.test(request.host) ? request.host : '') ?? [];
  const host = filter.hostname ?? ownHost;
  // A scheme that is named brings its own port (Gateway API, HTTPRequestRedirectFilter.port).
  const port = filter.port !== null ? String(filter.port) : filter.scheme !== null ? '' : ownPort;
  const shownPort = port === '' || port === defaultPorts[scheme] ? '' : `:${port}`;
  const query = request.query === '' ? '' : `?${request.query}`;
  const unchanged =
    scheme === 'http' &&
    host.toLowerCase() === ownHost.toLowerCase() &&
    (port === '' ? '80' : port) === (ownPort === '' ? '80' : ownPort) &&
    path === request.path;
  return unchanged
    ? same
    : { kind: 'redirect', location: `${scheme}://${host}${shownPort}${escapeUnsafe(path + query)}` };
}

function redirectPath({ path }: RedirectFilter, own: string, prefix: string | null): string | null {
  if (path === null) return own.startsWith('/') ? own : '/';
  const value = byteText(path.value);
  if (path.type === 'full') return value.startsWith('/') ? value : `/${value}`;
  if (prefix === null) return null;
  const replaced = value.replace(/\/+$/, '') + own.slice(prefix.length);
  return replaced.startsWith('/') ? replaced : `/${replaced}`;
}

/** Each byte that may not stand in a URL, escaped: nothing that a client sent may break out of the header, or be read as another host. */
function escapeUnsafe(text: string): string {
  if (/^[\x21-\x5b\x5d-\x7e]*$/.test(text)) return text;
  const bytes = Buffer.from(text, 'latin1');
  const escaped = Buffer.alloc(3 * bytes.length);
  let size = 0;
  for (const byte of bytes) {
    if (byte > 0x20 && byte < 0x7f && byte !== 0x5c) escaped[size++] = byte;
    else {
      escaped[size++] = 0x25;
      escaped[size++] = digits.charCodeAt(byte >> 4);
      escaped[size++] = digits.charCodeAt(byte & 0xf);
    }
  }
  return escaped.toString('latin1', 0, size);
}

const digits = '0123456789ABCDEF';
