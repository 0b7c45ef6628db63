/** One request as a recorder understood it. */
export interface RecordedRequest {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
  readonly trailers: readonly (readonly [string, string])[];
}

export type RequestProgress =
  /** Nothing but (perhaps) blank lines since the last message. */
  | { readonly kind: 'idle' }
  /** `wants100`: the header section is complete and asks for `100 Continue` before its body. */
  | { readonly kind: 'begun'; readonly wants100: boolean }
  | { readonly kind: 'complete'; readonly request: RecordedRequest; readonly end: number }
  | { readonly kind: 'malformed'; readonly why: string };

/** Reads the first message of `bytes`. */
export type RequestParser = (bytes: Buffer) => RequestProgress;

interface Head {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly headers: [string, string][];
  readonly bodyAt: number;
}

function valuesOf(headers: readonly (readonly [string, string])[], name: string): string[] {
  return headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
}

const strictRequestLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e\x80-\xff]+) (HTTP\/1\.[01])$/;
const strictField = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;

/** RFC 9112 with every optional leniency refused. What it calls malformed, a proxy must not send. */
export const strictParser: RequestParser = (bytes) => {
  if (bytes.length === 0) return { kind: 'idle' };
  const headEnd = bytes.indexOf('\r\n\r\n');
  const text = bytes.toString('latin1', 0, headEnd === -1 ? bytes.length : headEnd);
  if (/(?:^|[^\r])\n|\r(?!\n|$)|\0/.test(text)) return { kind: 'malformed', why: 'bare LF, bare CR or NUL' };
  if (headEnd === -1) return { kind: 'begun', wants100: false };
  const [requestLine = '', ...lines] = text.split('\r\n');
  const request = strictRequestLine.exec(requestLine);
  if (request === null) return { kind: 'malformed', why: `request line ${JSON.stringify(requestLine)}` };
  const headers: [string, string][] = [];
  for (const line of lines) {
    const field = strictField.exec(line);
    if (field === null) return { kind: 'malformed', why: `field line ${JSON.stringify(line)}` };
    headers.push([field[1] as string, field[2] as string]);
  }
  const head: Head = {
    method: request[1] as string,
    target: request[2] as string,
    version: request[3] as string,
    headers,
    bodyAt: headEnd + 4,
  };
  const hosts = valuesOf(headers, 'host').length;
  if (hosts > 1 || (hosts === 0 && head.version === 'HTTP/1.1')) {
    return { kind: 'malformed', why: `${hosts} Host fields in ${head.version}` };
  }
  const lengths = valuesOf(headers, 'content-length');
  const codings = valuesOf(headers, 'transfer-encoding');
  if (lengths.length > 1 || lengths.some((value) => !/^\d{1,15}$/.test(value))) {
    return { kind: 'malformed', why: `Content-Length ${JSON.stringify(lengths)}` };
  }
  if (codings.length > 1 || codings.some((value) => value.toLowerCase() !== 'chunked')) {
    return { kind: 'malformed', why: `Transfer-Encoding ${JSON.stringify(codings)}` };
  }
  if (codings.length + lengths.length > 1) return { kind: 'malformed', why: 'two ways of framing' };
  if (codings.length === 1) return strictChunks(bytes, head);
  return sizedBody(bytes, head, Number(lengths[0] ?? 0));
};

function wants100(head: Head): boolean {
  return valuesOf(head.headers, 'expect').some((value) => value.toLowerCase() === '100-continue');
}

function sizedBody(bytes: Buffer, head: Head, length: number): RequestProgress {
  const end = head.bodyAt + length;
  if (bytes.length < end) return { kind: 'begun', wants100: wants100(head) };
  const { bodyAt, ...rest } = head;
  return { kind: 'complete', end, request: { ...rest, body: bytes.subarray(bodyAt, end), trailers: [] } };
}

function strictChunks(bytes: Buffer, head: Head): RequestProgress {
  const begun: RequestProgress = { kind: 'begun', wants100: wants100(head) && bytes.length === head.bodyAt };
  const parts: Buffer[] = [];
  let at = head.bodyAt;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    const line = bytes.toString('latin1', at, lineEnd === -1 ? bytes.length : lineEnd);
    if (line.includes('\n')) return { kind: 'malformed', why: `bare LF in chunk line ${JSON.stringify(line)}` };
    if (lineEnd === -1) return begun;
    if (!/^[0-9A-Fa-f]{1,12}(?:;[\t\x20-\x7e\x80-\xff]*)?$/.test(line)) {
      return { kind: 'malformed', why: `chunk line ${JSON.stringify(line)}` };
    }
    const size = Number.parseInt(line, 16);
    at = lineEnd + 2;
    if (size === 0) return strictTrailers(bytes, head, at, parts, begun);
    if (bytes.length < at + size + 2) return begun;
    parts.push(bytes.subarray(at, at + size));
    if (bytes.toString('latin1', at + size, at + size + 2) !== '\r\n') {
      return { kind: 'malformed', why: 'chunk data longer than its size' };
    }
    at += size + 2;
  }
}

function strictTrailers(
  bytes: Buffer,
  head: Head,
  from: number,
  parts: readonly Buffer[],
  begun: RequestProgress,
): RequestProgress {
  const trailers: [string, string][] = [];
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return begun;
    const line = bytes.toString('latin1', at, lineEnd);
    at = lineEnd + 2;
    if (line === '') {
      const { bodyAt: _, ...rest } = head;
      return { kind: 'complete', end: at, request: { ...rest, body: Buffer.concat(parts), trailers } };
    }
    const field = strictField.exec(line);
    if (field === null) return { kind: 'malformed', why: `trailer line ${JSON.stringify(line)}` };
    trailers.push([field[1] as string, field[2] as string]);
  }
}

/**
 * Reads as the most careless servers do: any of CR, LF, CRLF ends a line; junk around names and codings is trimmed, also
 * the Unicode kind; numbers are read as far as they go; Content-Length wins; blank lines and garbage are skipped. What a
 * proxy leaves ambiguous, this app takes the wrong way.
 */
export const lenientParser: RequestParser = (bytes) => {
  let at = 0;
  const nextLine = (): string | undefined => {
    for (let end = at; end < bytes.length; end++) {
      const byte = bytes[end];
      if (byte !== 0x0a && byte !== 0x0d) continue;
      // A CR at the very end may be half of a CRLF.
      if (byte === 0x0d && end + 1 === bytes.length) return undefined;
      const line = bytes.toString('latin1', at, end);
      at = end + (byte === 0x0d && bytes[end + 1] === 0x0a ? 2 : 1);
      return line;
    }
    return undefined;
  };
  const trim = (text: string): string => text.replace(/^[\s\0\x80-\xa0]+|[\s\0\x80-\xa0]+$/g, '');
  let line = nextLine();
  while (line !== undefined && !/\S\s+\S/.test(line)) line = nextLine();
  if (line === undefined) return { kind: at < bytes.length ? 'begun' : 'idle', wants100: false };
  const [method = '', target = '', version = ''] = trim(line).split(/\s+/);
  const headers: [string, string][] = [];
  for (;;) {
    const field = nextLine();
    if (field === undefined) return { kind: 'begun', wants100: false };
    if (field === '') break;
    const colon = field.indexOf(':');
    if (colon > 0) headers.push([trim(field.slice(0, colon)).replaceAll(' ', '-'), trim(field.slice(colon + 1))]);
  }
  const head: Head = { method, target, version, headers, bodyAt: at };
  const length = Number.parseInt(valuesOf(headers, 'content-length')[0] ?? '', 10);
  if (length > 0) return sizedBody(bytes, head, length);
  const chunked = valuesOf(headers, 'transfer-encoding').some((value) => value.toLowerCase().includes('chunked'));
  if (!chunked) return sizedBody(bytes, head, 0);
  const begun: RequestProgress = { kind: 'begun', wants100: wants100(head) && bytes.length === at };
  const parts: Buffer[] = [];
  for (;;) {
    const sizeLine = nextLine();
    if (sizeLine === undefined) return begun;
    const size = Number.parseInt(trim(sizeLine).replace(/^0x/i, '').replaceAll('_', ''), 16);
    if (!(size > 0)) break;
    if (bytes.length < at + size) return begun;
    parts.push(bytes.subarray(at, at + size));
    at += size;
    const rest = nextLine();
    if (rest === undefined) return begun;
  }
  const trailers: [string, string][] = [];
  for (;;) {
    const field = nextLine();
    if (field === undefined) return begun;
    if (field === '') break;
    const colon = field.indexOf(':');
    if (colon > 0) trailers.push([trim(field.slice(0, colon)), trim(field.slice(colon + 1))]);
  }
  const { bodyAt: _, ...rest } = head;
  return { kind: 'complete', end: at, request: { ...rest, body: Buffer.concat(parts), trailers } };
};
