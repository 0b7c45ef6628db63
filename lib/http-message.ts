/*
 * What makes an HTTP request sound, whichever version carries it: the same for the data plane, which refuses the rest, and
 * for `explain`, which says so.
 */

/** RFC 9110 5.6.2: a method, the name of a field. */
export const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Methods that some server knows: the IANA registry's, and those of common parsers. */
const knownMethods: ReadonlySet<string> = new Set(
  `ACL ANNOUNCE BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE DESCRIBE FLUSH GET GET_PARAMETER HEAD LABEL
  LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE NOTIFY OPTIONS ORDERPATCH PATCH
  PAUSE PLAY POST PRI PROPFIND PROPPATCH PURGE PUT QUERY REBIND RECORD REDIRECT REPORT SEARCH SETUP SET_PARAMETER SOURCE
  SUBSCRIBE TEARDOWN TRACE TRACK UNBIND UNCHECKOUT UNLINK UNLOCK UNSUBSCRIBE UPDATE UPDATEREDIRECTREF
  VERSION-CONTROL`.split(/\s+/),
);

/**
 * Whether a method may be decided and forwarded: any token (RFC 9110 9.1) but one that differs from a known method by case
 * alone, which policy would tell from it and many a server would not. Answered 400.
 */
export function isSoundMethod(method: string): boolean {
  if (knownMethods.has(method)) return true;
  return token.test(method) && !knownMethods.has(method.toUpperCase());
}

/** What carries requests itself: HTTP, in a version of its own or by its ALPN name, and TLS, inside which it would go on. */
const carriesRequests = /^(?:h[0-9]|(?:http|https|tls|ssl)(?![a-z0-9]))/;

/** A name, or a name and a version (RFC 9110 7.8). */
function isProtocol(text: string): boolean {
  const parts = text.split('/');
  return parts.length <= 2 && parts.every((part) => token.test(part));
}

/** What an Upgrade field names, in lower case. */
function protocolsOf(upgrade: string): string[] {
  const names = upgrade.split(',').map((name) => trimBlanks(name).toLowerCase());
  return names.filter((name) => name !== '');
}

/**
 * Whether a request without content that has this Upgrade field is taken for one that asks to leave HTTP. h2c (RFC 9113
 * 3.1), HTTP by any other name and TLS (RFC 2817 3) would tunnel past the decision of each request, so it is served as if
 * it had not asked; and so is one that names what is no protocol, of which a server may make one of these (Netty leaves out blanks).
 */
export function asksToSwitch(upgrade: string): boolean {
  const protocols = protocolsOf(upgrade);
  return protocols.length > 0 && protocols.every((name) => isProtocol(name) && !carriesRequests.test(name));
}

/** Whether an app's agreement names some of what it was asked for, and nothing else (RFC 9110 7.8). */
export function agreesTo(asked: string, agreed: string): boolean {
  const offered = protocolsOf(asked);
  const named = protocolsOf(agreed);
  return named.length > 0 && named.every((name) => offered.includes(name));
}

/**
 * `content-length` or `transfer-encoding` in any other spelling that CGI, WSGI or Rack fold onto it: a server that looks
 * for its framing behind the fold, as thin does, would see another message. Answered 400.
 */
export function isFramingAlias(lower: string): boolean {
  if (lower.length === 14) return /^content[^a-z0-9-]length$/.test(lower);
  return lower.length === 17 && /^transfer[^a-z0-9-]encoding$/.test(lower);
}

/**
 * Without the blanks around it (RFC 9110 section 5.5). Not a regular expression: one that looks for blanks at the end tries
 * again at each blank inside, and 16 KiB of them in one value would hold the event loop for half a second.
 */
export function trimBlanks(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isBlank(text.charCodeAt(from))) from++;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--;
  return from === 0 && to === text.length ? text : text.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
