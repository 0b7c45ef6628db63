/*
 * A request's target and host as every reader of requests takes them: the lanes before they ask policy, and `explain` where
 * there is no lane.
 */

/** A request-target taken apart (RFC 9112 3.2). */
export interface Target {
  /** Path and query as received; `*` for OPTIONS. */
  readonly target: string;
  readonly path: string;
  readonly query: string;
  /** The authority of an absolute-form target, which then replaces Host (RFC 9112 3.2.2). */
  readonly authority: string | null;
}

/**
 * Whether the bytes of a target, one character each, may be those of text: raw UTF-8 is none of RFC 9112's, and yet what many
 * clients send. Other bytes are refused (so does Linkerd): each server would make text of its own of them.
 */
export function isTargetText(url: string): boolean {
  if (!/[\x80-\xff]/.test(url)) return true;
  const bytes = Buffer.from(url, 'latin1');
  return Buffer.from(bytes.toString('utf8'), 'utf8').equals(bytes);
}

/** Null for a target that no origin server may be asked for; answered 400. */
export function readTarget(method: string, url: string): Target | null {
  if (!isTargetText(url)) return null;
  let target = url;
  let authority: string | null = null;
  if (target.charCodeAt(0) !== 0x2f /* / */) {
    if (target === '*') return method === 'OPTIONS' ? { target, path: '*', query: '', authority } : null;
    const absolute = /^https?:\/\/([^/?#]+)(.*)$/is.exec(target);
    const [, name = '', rest = ''] = absolute ?? [];
    if (absolute === null || !isHost(name)) return null;
    authority = name;
    target = rest.startsWith('/') ? rest : `/${rest}`;
  }
  const mark = target.indexOf('?');
  return mark === -1
    ? { target, path: target, query: '', authority }
    : { target, path: target.slice(0, mark), query: target.slice(mark + 1), authority };
}

/**
 * RFC 9112 3.2: host[:port]; user information, lists and other delimiters would let two readers see two hosts, and so would
 * escapes: `a%2eb` is `a.b` to some (Linkerd refuses them).
 */
export function isHost(text: string): boolean {
  return /^(?:[A-Za-z0-9._~!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?$/.test(text);
}

/** The target of CONNECT, which is a host and a port and has no path (RFC 9112 3.2.3); null for anything else. */
export function readAuthority(authority: string): Target | null {
  if (!/^[^/?#@\s]+:[0-9]+$/.test(authority) || !isHost(authority)) return null;
  return { target: authority, path: '', query: '', authority };
}
