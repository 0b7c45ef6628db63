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
 * path prefix by which the route matched, as `RouteMatch` has it; null where it matched otherwise.
 */
export function redirectTarget(filter: RedirectFilter, request: RequestFacts, prefix: string | null): RedirectOutcome {
  const shown = authority.test(request.host) ? request.host : null;
  if (shown === null && filter.hostname === null) return { kind: 'redirect', location: null };
  const target = redirectPath(filter, request, prefix);
  if (target === null) return { kind: 'redirect', location: null };

  // A request for the application comes in as http: TLS, where there is any, ends at the proxy.
  const scheme = filter.scheme ?? 'http';
  const host = redirectAuthority(filter, scheme, shown ?? '');
  const own = request.query === '' ? request.path : `${request.path}?${request.query}`;
  const unchanged = scheme === 'http' && host.toLowerCase() === shown?.toLowerCase() && target === own;
  return unchanged ? same : { kind: 'redirect', location: `${scheme}://${host}${escapeUnsafe(target)}` };
}

/** `own` is the request's, empty where it has none that can be sent on. */
function redirectAuthority({ scheme: named, hostname, port }: RedirectFilter, scheme: string, own: string): string {
  const [, ownHost = '', ownPort = ''] = /^(.*?)(?::(\d+))?$/s.exec(own) ?? [];
  const isDefault = (port: string): boolean => port === '' || port === defaultPorts[scheme];
  if (port !== null) {
    // A host and a port that are written both stand as they are written.
    if (hostname !== null) return `${hostname}:${port}`;
    return isDefault(`${port}`) ? ownHost : `${ownHost}:${port}`;
  }
  // A scheme that is named brings its own port (Gateway API, HTTPRequestRedirectFilter.port).
  if (named !== null) return hostname ?? ownHost;
  if (hostname !== null) return isDefault(ownPort) ? hostname : `${hostname}:${ownPort}`;
  return own;
}

/** With the query: a path that is written whole has its own, or none; null where the filter has no path to replace. */
function redirectPath({ path }: RedirectFilter, request: RequestFacts, prefix: string | null): string | null {
  const query = request.query === '' ? '' : `?${request.query}`;
  const own = request.path;
  if (path === null) return (own.startsWith('/') ? own : '/') + query;
  const value = byteText(path.value);
  if (path.type === 'full') return value.startsWith('/') ? value : `/${value}`;
  if (prefix === null) return null;
  const rest = own.slice(prefix.length);
  // One slash between both, whoever has it (Gateway API, HTTPPathModifier.replacePrefixMatch).
  const start = value.replace(/\/+$/, '');
  const replaced = rest === '' || rest.startsWith('/') ? start + rest : `${start}/${rest}`;
  return (replaced.startsWith('/') ? replaced : `/${replaced}`) + query;
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
