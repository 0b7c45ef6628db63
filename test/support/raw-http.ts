import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls';
import { ConditionTimeout, patience } from './until.ts';

/** Latin-1: each character is one byte, as in the shared cases. */
export function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

export interface RawTarget {
  readonly port: number;
  readonly host?: string;
  readonly localAddress?: string;
  /** Connects with TLS first; ALPN, SNI and certificate are the caller's. */
  readonly tls?: ConnectionOptions;
}

/** A client that sends exactly the bytes it is given and keeps every byte it receives. */
export class RawClient {
  readonly socket: Socket;
  #received: Buffer[] = [];
  #length = 0;
  #error: NodeJS.ErrnoException | null = null;
  #closed = false;
  /** The peer's FIN has been read, or the connection is gone. */
  #ended = false;
  #waiters = new Set<() => void>();

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.#received.push(chunk);
      this.#length += chunk.length;
      this.#wake();
    });
    socket.on('end', () => {
      this.#ended = true;
      this.#wake();
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#error ??= error;
      this.#wake();
    });
    socket.on('close', () => {
      this.#ended = true;
      this.#closed = true;
      this.#wake();
    });
  }

  static open(target: RawTarget): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const { port, host = '127.0.0.1', localAddress } = target;
      const address = { port, host, allowHalfOpen: true, ...(localAddress === undefined ? {} : { localAddress }) };
      const socket = target.tls === undefined ? connect(address) : tlsConnect({ ...address, ...target.tls });
      socket.once('error', reject);
      socket.once(target.tls === undefined ? 'connect' : 'secureConnect', () => {
        socket.off('error', reject);
        resolve(new RawClient(socket));
      });
    });
  }

  get received(): Buffer {
    if (this.#received.length > 1) this.#received = [Buffer.concat(this.#received)];
    return this.#received[0] ?? Buffer.alloc(0);
  }
  get receivedLength(): number {
    return this.#length;
  }
  get error(): NodeJS.ErrnoException | null {
    return this.#error;
  }
  /** The peer ended its side. */
  get ended(): boolean {
    return this.#ended;
  }
  get closed(): boolean {
    return this.#closed;
  }

  send(bytes: Buffer): void {
    if (this.socket.writable) this.socket.write(bytes);
  }

  /** One write per byte, each in its own turn of the event loop; stops early when the peer has ended. */
  async sendByteByByte(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length && !this.#ended && this.socket.writable; at++) {
      this.socket.write(bytes.subarray(at, at + 1));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  halfClose(): void {
    if (this.socket.writable) this.socket.end();
  }

  /** Ends the connection with RST instead of FIN. */
  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** True once `condition` holds; false when the peer ended first, or after `leastMs`, longer on a machine that is busy. */
  reaches(condition: () => boolean, leastMs: number): Promise<boolean> {
    return this.waits(condition, leastMs * patience());
  }

  /** The same for so long and no longer: where it is ordinary that nothing comes. */
  async waits(condition: () => boolean, timeoutMs: number): Promise<boolean> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      if (condition()) return true;
      const left = deadline - Date.now();
      if (this.#ended || left <= 0) return false;
      await this.#next(left);
    }
  }

  /** True when the peer ended within `leastMs`, longer on a machine that is busy. */
  ends(leastMs: number): Promise<boolean> {
    return this.reaches(() => this.#ended, leastMs);
  }

  /** Waits until `count` final responses have arrived; throws where they do not. */
  async responses(methods: readonly string[], leastMs = 5_000): Promise<ParsedResponse[]> {
    const timeoutMs = leastMs * patience();
    const parsed = (): ResponseStream => parseResponses(this.received, methods, this.#ended);
    const finals = (): ParsedResponse[] => parsed().responses.filter((response) => response.status >= 200);
    if (await this.waits(() => finals().length >= methods.length, timeoutMs)) return finals();
    if (finals().length >= methods.length) return finals();
    throw new ConditionTimeout(
      `${methods.length} responses`,
      timeoutMs,
      JSON.stringify(this.received.toString('latin1').slice(0, 500)),
    );
  }

  destroy(): void {
    this.socket.destroy();
  }

  #next(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#waiters.add(done);
    });
  }

  #wake(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }
}

export interface ParsedResponse {
  readonly version: string;
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
  readonly trailers: readonly (readonly [string, string])[];
}

export interface ResponseStream {
  readonly responses: readonly ParsedResponse[];
  /** What broke the grammar; null for a stream that is right so far. */
  readonly fault: string | null;
  /** Bytes of a message that has begun but not ended. */
  readonly incomplete: boolean;
}

export function headerValues(message: Pick<ParsedResponse, 'headers'>, name: string): string[] {
  return message.headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
}

/** Any status of three digits: those from 600 on are not HTTP's, but they can be read (RFC 9110 15). */
const statusLine = /^HTTP\/1\.[01] ([1-9]\d\d) [\t\x20-\x7e\x80-\xff]*$/;
const fieldLine =
  /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*$/;

/** Thrown inside the parser when more bytes are needed. */
const needMore = Symbol('need more bytes');

class Cursor {
  readonly bytes: Buffer;
  at = 0;
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
  line(): string {
    const end = this.bytes.indexOf('\r\n', this.at);
    if (end === -1) {
      if (this.bytes.subarray(this.at).includes(0x0a)) throw new Error('a line ends with LF alone');
      throw needMore;
    }
    const text = this.bytes.toString('latin1', this.at, end);
    if (/[\r\n\0]/.test(text)) throw new Error(`CR, LF or NUL inside ${JSON.stringify(text)}`);
    this.at = end + 2;
    return text;
  }
  take(length: number): Buffer {
    if (this.bytes.length - this.at < length) throw needMore;
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
}

function fields(cursor: Cursor): [string, string][] {
  const list: [string, string][] = [];
  for (let line = cursor.line(); line !== ''; line = cursor.line()) {
    const match = fieldLine.exec(line);
    if (match === null) throw new Error(`not a field line: ${JSON.stringify(line)}`);
    list.push([match[1] as string, match[2] as string]);
  }
  return list;
}

function chunkedBody(cursor: Cursor): { body: Buffer; trailers: [string, string][] } {
  const parts: Buffer[] = [];
  for (;;) {
    const line = cursor.line();
    if (!/^[0-9A-Fa-f]{1,12}(?:;.*)?$/.test(line)) throw new Error(`not a chunk size: ${JSON.stringify(line)}`);
    const size = Number.parseInt(line, 16);
    if (size === 0) return { body: Buffer.concat(parts), trailers: fields(cursor) };
    parts.push(cursor.take(size));
    if (cursor.take(2).toString('latin1') !== '\r\n') throw new Error('a chunk does not end with CRLF');
  }
}

export const saysClose = ({ headers }: ParsedResponse): boolean =>
  headers.some(([name, value]) => /^connection$/i.test(name) && /close/i.test(value));

/**
 * Reads a stream of responses by RFC 9112 without any leniency. `methods` are those of the requests sent, in order:
 * they decide whether a response has a body. A response without a length ends with the connection (`ended`).
 */
export function parseResponses(bytes: Buffer, methods: readonly string[], ended: boolean): ResponseStream {
  const responses: ParsedResponse[] = [];
  const cursor = new Cursor(bytes);
  let finals = 0;
  try {
    while (cursor.at < bytes.length) {
      const begin = cursor.line();
      const match = statusLine.exec(begin);
      if (match === null) throw new Error(`not a status line: ${JSON.stringify(begin)}`);
      const status = Number(match[1]);
      const headers = fields(cursor);
      const response = { version: begin.slice(0, 8), status, headers };
      const lengths = headerValues(response, 'content-length');
      const codings = headerValues(response, 'transfer-encoding');
      if (lengths.length > 1 || lengths.some((value) => !/^\d+$/.test(value))) {
        throw new Error(`Content-Length ${JSON.stringify(lengths)}`);
      }
      if (codings.length > 1 || codings.some((value) => value.toLowerCase() !== 'chunked')) {
        throw new Error(`Transfer-Encoding ${JSON.stringify(codings)}`);
      }
      if (lengths.length === 1 && codings.length === 1) throw new Error('Content-Length and Transfer-Encoding');
      const bodiless = status < 200 || status === 204 || status === 304 || methods[finals] === 'HEAD';
      if ((status < 200 || status === 204) && lengths.length + codings.length > 0) {
        throw new Error(`a ${status} declares a body`);
      }
      let body = Buffer.alloc(0);
      let trailers: [string, string][] = [];
      if (bodiless) {
        // RFC 9112 section 6.3 rule 1: whatever the fields say, the message ends with its header section.
      } else if (codings.length === 1) {
        ({ body, trailers } = chunkedBody(cursor) as { body: Buffer<ArrayBuffer>; trailers: [string, string][] });
      } else if (lengths.length === 1) {
        body = Buffer.from(cursor.take(Number(lengths[0])));
      } else if (ended) {
        body = Buffer.from(cursor.take(bytes.length - cursor.at));
      } else {
        throw needMore;
      }
      responses.push({ ...response, body, trailers });
      // After 101 the bytes belong to another protocol.
      if (status === 101) return { responses, fault: null, incomplete: false };
      if (status >= 200) finals += 1;
    }
  } catch (stop) {
    if (stop === needMore) return { responses, fault: null, incomplete: true };
    return { responses, fault: (stop as Error).message, incomplete: true };
  }
  return { responses, fault: null, incomplete: false };
}

/** Fields that no fast lane takes, though nothing is wrong with them (test/unit/proxy/http1/fast/plain-request.test.ts). */
export const offTheFastLane: readonly string[] = ['Connection: x', 'Connection: y'];
/** The same as lines of a head. */
export const oddLines = `${offTheFastLane.join('\r\n')}\r\n`;

/** A sound request to switch to WebSocket, as lines of a head. */
export const webSocketLines =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
