import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import { oddNamesOf, type RequestFacts } from '../../../policy/decision.ts';
import type { HeaderList, ScannedHead } from '../../../request-fields.ts';
import type { Target } from '../../../request-target.ts';
import type { ConnectionFacts } from '../../connection-facts.ts';
import { guarded } from '../../guard.ts';
import type { Admitted } from '../../http/admitted.ts';
import { fieldLines } from '../../http/field-lines.ts';
import { headerValue, headerValues, without } from '../../http/headers.ts';
import { type Refusal, refusalHeaders } from '../../http/refuse.ts';
import type { RequestPipeline } from '../../http/request-pipeline.ts';
import { maxDrainBytes } from '../../limits.ts';
import { detach, endAfter, staysOpen } from '../../node-internals.ts';
import { resetUnlessEnded } from '../../resets.ts';
import { maxFramingBytes, maxFramingRatio } from '../limits.ts';
import type { LibraryExchange } from './library-exchange.ts';

/** One HTTP/1 request and its response on Node's own parser. */
export class Http1Exchange implements LibraryExchange {
  readonly connection: ConnectionFacts;
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly version: string;
  // Linkerd counts as gRPC only what comes over HTTP/2.
  readonly grpc = false;
  readonly forwardHeaders: HeaderList;
  readonly saysConnection: boolean;
  readonly body: Readable | null;
  readonly carries: RequestFacts['carries'];
  admitted: Admitted | null = null;
  onAborted: (() => void) | null = null;
  /** Run once, when the request is permitted: `100 Continue` goes out only then. */
  onPermitted: (() => void) | null = null;
  /** Run whenever the client is slow. */
  onSlow: (() => void) | null = null;
  /** Run once, when the response has left or can no longer leave. */
  onOver: (() => void) | null = null;
  /** Run once, when the app has agreed to leave HTTP; it is given the connection to the app. */
  onSwitched: ((app: Duplex) => void) | null = null;
  responded = false;
  aborted = false;
  readonly #request: IncomingMessage;
  /** A request that has been read lets go of it. */
  readonly #socket: Socket;
  readonly #response: ServerResponse;
  readonly #pipeline: RequestPipeline;
  readonly startedAt = performance.now();
  #fed = 0;
  #content = 0;

  constructor(
    connection: ConnectionFacts,
    pipeline: RequestPipeline,
    request: IncomingMessage,
    response: ServerResponse,
    target: Target,
    head: ScannedHead,
    kind: 'message' | 'upgrade',
  ) {
    this.connection = connection;
    this.#pipeline = pipeline;
    this.#request = request;
    this.#socket = request.socket;
    this.#response = response;
    this.method = request.method as string;
    this.target = target.target;
    this.path = target.path;
    this.query = target.query;
    this.host = target.authority ?? head.host ?? '';
    this.version = `HTTP/${request.httpVersion}`;
    // HTTP/1.0 needs none, and none is made up.
    const named = target.authority !== null || head.host !== null;
    this.forwardHeaders = named ? ['Host', this.host, ...head.forward] : head.forward;
    this.saysConnection = request.headers.connection !== undefined;
    const headers = request.headers;
    const length = headers['content-length'];
    this.body = headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0') ? request : null;
    this.carries = kind === 'upgrade' ? 'upgrade' : this.body === null ? 'nothing' : 'body';
    response.sendDate = false;
    if (this.body !== null) {
      // Listening must not start the flow before somebody is there to take it.
      request.pause();
      request.on('data', (chunk: Buffer) => {
        this.#content += chunk.length;
      });
    }
    response.once(
      'close',
      guarded('HTTP/1, the end of a response', request.socket, () => this.#closed()),
    );
  }

  get headBytes(): number {
    // Fields that do not go on are kept, too.
    const { rawHeaders } = this.#request;
    return 2 * rawHeaders.reduce((sum, text) => sum + text.length, this.target.length);
  }

  header(name: string): readonly string[] {
    return headerValues(this.forwardHeaders, name);
  }

  get oddNames(): readonly string[] {
    return oddNamesOf(this.forwardHeaders);
  }

  /** More of the body has come than has been taken. */
  get isBehind(): boolean {
    return this.unreadBytes > 0;
  }

  get unreadBytes(): number {
    return this.#request.readableLength;
  }

  /** Bytes of the body came, framing included. False when there is more framing than any honest sender needs. */
  fed(bytes: number): boolean {
    this.#fed += bytes;
    const content = this.#content + this.#request.readableLength;
    return this.#fed - content <= maxFramingBytes + maxFramingRatio * content;
  }

  /** The request's body is still coming. */
  get incomplete(): boolean {
    return this.body !== null && !this.#request.complete;
  }

  /** The response is complete, though the request may not be: whatever ends the connection, it must arrive. */
  get isAnswered(): boolean {
    return this.#response.writableEnded;
  }

  /** The rest of the request will never come, or is not what it was announced as: the app must see it break off. */
  breakOff(): void {
    if (this.aborted) return;
    this.aborted = true;
    this.onAborted?.();
    this.onAborted = null;
  }

  /** What the app would still say is not wanted; the client gets another response, or none. */
  cancel(): void {
    this.onAborted?.();
    this.onAborted = null;
  }

  #closed(): void {
    if (!this.#response.writableFinished || this.incomplete) this.breakOff();
    this.onOver?.();
    this.onOver = null;
  }

  informational(status: number, headers: HeaderList): void {
    // HTTP/1.0 knows no 1xx, and 100 is for us to say (RFC 9110 10.1.1).
    if (status === 100 || status === 101 || this.version !== 'HTTP/1.1') return;
    const fields = without(headers, 'content-length');
    // Node's ways of writing one take 102, or 103 with links that it likes, or are not in each release that we run on.
    this.#socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${fieldLines(fields)}\r\n`, 'latin1');
  }

  /** The response is the last one of its connection, and says so where it has not begun. */
  endConnection(): void {
    if (!this.responded) endAfter(this.#response);
  }

  respond(status: number, statusText: string, headers: HeaderList, hasBody: boolean): void {
    this.responded = true;
    // undici decodes the reason as UTF-8; what is not, Node refuses to write. Nobody reads it (RFC 9112 4).
    const reason = /^[\t\x20-\x7e\x80-\xff]*$/.test(statusText) ? statusText : '';
    // Trailers can only follow chunks; Node refuses to announce any elsewhere.
    const hasLength = headerValue(headers, 'content-length') !== null;
    const chunked = hasBody && this.version === 'HTTP/1.1' && !hasLength;
    if (hasBody && !chunked && !hasLength) resetUnlessEnded(this.#socket);
    // That the connection stays is understood in HTTP/1.1. Node forgets which response is the last if it must not say it, so
    // a client that has ended its side is told.
    const stays = staysOpen(this.#response) && !this.#socket.readableEnded;
    if (this.version === 'HTTP/1.1' && stays) this.#response.removeHeader('connection');
    this.#response.writeHead(status, reason, chunked ? headers : without(headers, 'trailer'));
    this.#pipeline.responded(this, status, headers, this.startedAt);
  }

  write(chunk: Buffer): boolean {
    return this.#response.write(chunk);
  }

  onDrain(resume: () => void): void {
    this.onSlow?.();
    this.#response.once('drain', resume);
  }

  /** The client has taken what there was, where Node does not see it. */
  drained(): void {
    this.#response.emit('drain');
  }

  end(trailers: HeaderList): void {
    if (trailers.length > 0) {
      const pairs: [string, string][] = [];
      for (let i = 0; i + 1 < trailers.length; i += 2) pairs.push([trailers[i] as string, trailers[i + 1] as string]);
      this.#response.addTrailers(pairs);
    }
    this.#response.end();
    this.#drainBody();
  }

  abort(): void {
    // No last chunk, or fewer bytes than announced: the client sees that the message is incomplete (RFC 9112 8).
    this.#response.destroy();
  }

  refuse(refusal: Refusal): void {
    if (this.aborted) return;
    if (this.responded) {
      this.abort();
      return;
    }
    const headers = refusalHeaders(refusal, this.connection, false);
    // With Expect the client may or may not send the body now: the next bytes could be either (RFC 9110 10.1.1).
    if (refusal.close || this.#request.headers.expect !== undefined) headers.push('connection', 'close');
    this.respond(refusal.status, STATUS_CODES[refusal.status] ?? '', headers, false);
    this.#response.end();
    this.#drainBody();
  }

  /** Answers a switch of protocols; the socket, and `app`, belong to the tunnel from now on. */
  switched(status: number, protocol: string | null, headers: HeaderList, app: Duplex): void {
    const list = protocol === null ? headers : [...headers, 'Connection', 'Upgrade', 'Upgrade', protocol];
    const line = `HTTP/1.1 ${status} ${protocol === null ? 'Connection Established' : 'Switching Protocols'}\r\n`;
    this.responded = true;
    this.onAborted = null;
    this.onSwitched?.(app);
    this.onSwitched = null;
    detach(this.#response, this.#socket);
    this.#pipeline.responded(this, status, headers, this.startedAt);
    this.#socket.write(`${line}${fieldLines(list)}\r\n`, 'latin1');
  }

  /** What is left of the body must be read, or the connection must end: its bytes are never the next request. */
  #drainBody(): void {
    if (!this.incomplete) return;
    const socket = this.#socket;
    let left = maxDrainBytes;
    this.#request.unpipe?.();
    const content = (chunk: Buffer): void => {
      left -= chunk.length;
      if (left >= 0) return;
      // Only once: each call waits for the response to leave with a listener of its own.
      this.#request.removeListener('data', content);
      socket.destroySoon();
    };
    this.#request.on('data', content);
    // undici gives up a body that the app did not wait for; then nobody reads it, and nothing behind it either.
    this.#request.once('close', () => {
      if (this.incomplete) socket.destroySoon();
    });
    this.#request.resume();
  }
}
