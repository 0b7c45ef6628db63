/** Bytes that Go leaves as they are in a path (net/url, `EscapedPath`): unreserved ones and those with a meaning there. */
const asTheyAre = /^[A-Za-z0-9\-_.~$&+,/:;=@]$/;
/** What Go also takes as it is in a path that was written so. */
const writable = /^(?:[A-Za-z0-9\-_.~!$&'()*+,/:;=@[\]]|%[0-9A-Fa-f]{2})*$/;

/**
 * The path that the kubelet asks for where `httpGet` of a probe has this one (k8s.io/kubernetes/pkg/probe/http, Go's net/url),
 * without query and fragment: what is missing of a slash in front is added, and what no request line may hold is escaped.
 *
 * @returns undefined for what begins as an address or a scheme without one, of which nobody means a path.
 */
export function kubeletPath(text: string): string | undefined {
  if (/^(?:\/\/|[a-z][a-z0-9+.-]*:(?!\/\/[^/]))/i.test(text)) return undefined;
  const [, path = '', rest = ''] = /^(?:[a-z][a-z0-9+.-]*:\/\/[\w.:-]*(?=[/?#]|$))?([^?#]*)(.*)$/is.exec(text) ?? [];
  // Go reads no URI reference out of these, and the kubelet then takes all of the text for the path.
  const isUri =
    !/\p{Cc}/u.test(path + rest.split('#', 1)[0]) && !/%(?![0-9A-Fa-f]{2})/.test(path) && !/^[^/]*:/.test(path);
  const asked = isUri ? escapedAsWritten(path) : escaped(bytesOf(text));
  return asked.startsWith('/') ? asked : `/${asked}`;
}

function escapedAsWritten(path: string): string {
  return writable.test(path) ? path : escaped(decoded(path));
}

/** One character each. */
function bytesOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

function decoded(path: string): string {
  return bytesOf(path).replaceAll(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
}

function escaped(bytes: string): string {
  return [...bytes]
    .map((byte) => (asTheyAre.test(byte) ? byte : `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`))
    .join('');
}
