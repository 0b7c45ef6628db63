import type { HeaderList } from '../../../request-fields.ts';
import { contentLength } from '../../../request-fields.ts';
import type { Decided } from '../../http/exchange.ts';
import { appHop, isLastRequest } from '../../http/last-request.ts';
import { encodeFields } from '../hpack/encoder.ts';
import { isSoundRequest } from './field-rules.ts';
import { type Http2Head, readHttp2Head } from './head.ts';

/** Memory of a head in flight: its list so many times, decoded and as sent, and for each field so many bytes. */
const textCopies = 2;
const fieldCost = 128;

/** A request's header section, and what it becomes for the app: the same for every request that repeats it. */
export class RequestHead {
  readonly head: Http2Head;
  /** Bytes of content by Content-Length; -1 where there is none. */
  readonly contentLength: number;
  /** Bytes of its list, as RFC 9113 6.5.2 counts them. */
  readonly listBytes: number;
  /** Bytes of memory: its texts here and for the app, and what each field takes beside them. */
  readonly memoryBytes: number;
  /** What was decided on it: as a request that ends with its head, and as one that goes on. */
  decided: Decided | null = null;
  decidedWithContent: Decided | null = null;
  /** What a recorder has made of it, in both cases. */
  noted: object | null = null;
  notedWithContent: object | null = null;
  /**
   * What it is for the app, where that is the same each time: the header block for one that speaks HTTP/2, and for one of
   * HTTP/1 the head with its empty line, one character per byte, of a request without content and of one with. Null until made.
   */
  http2: RequestBlock | null = null;
  http1: string | null = null;
  http1WithContent: string | null = null;

  constructor(head: Http2Head, length: number, listBytes: number) {
    this.head = head;
    this.contentLength = length;
    this.listBytes = listBytes;
    this.memoryBytes = textCopies * listBytes + (fieldCost / 2) * head.forward.length;
  }
}

/** Null when the block is malformed (RFC 9113 8.1.1). */
export function readRequestHead(fields: HeaderList, listBytes: number): RequestHead | null {
  if (!isSoundRequest(fields)) return null;
  const head = readHttp2Head(fields);
  const length = contentLength(fields);
  return head === null || length === null ? null : new RequestHead(head, length, listBytes);
}

/** A request's header block for an app that speaks HTTP/2. */
export interface RequestBlock {
  readonly bytes: Buffer;
  /** Of its list (RFC 9113 6.5.2), which is not the client's: it may be longer. */
  readonly listBytes: number;
}

export function http2Block(head: Http2Head, fields: HeaderList): RequestBlock {
  const pseudo = [':method', head.method, ':scheme', 'http', ':authority', head.host, ':path', head.target];
  const list = [...pseudo, ...fields];
  return { bytes: encodeFields(list), listBytes: list.reduce((sum, text) => sum + text.length, 16 * list.length) };
}

/** Methods whose requests say so when they have no content (RFC 9110 8.6). */
const announcesContent: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

export function http1Text(head: Http2Head, fields: HeaderList, length: number, hasBody: boolean): string {
  // HTTP/1.0 has no way to carry content whose length nobody knows.
  const isChunked = hasBody && length === -1;
  const version = isChunked ? 'HTTP/1.1' : (head.originalProtocol ?? 'HTTP/1.1');
  const hop = appHop(version, false, isLastRequest(head.method, hasBody));
  let text = `${head.method} ${head.target} ${hop.version}\r\n`;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    // The 100 was for us to say (RFC 9110 10.1.1); HTTP/1 takes trailers only where they are announced and wanted.
    if (fields[i] !== 'expect' && fields[i] !== 'trailer') text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  }
  if (length === -1) {
    if (isChunked) text += 'transfer-encoding: chunked\r\n';
    else if (announcesContent.has(head.method)) text += 'content-length: 0\r\n';
  }
  return `${text}${hop.connectionLine}\r\n`;
}
