import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls';
import { HpackDecoder } from '../../lib/proxy/http2/hpack/decoder.ts';
import { reasonName } from '../../lib/proxy/http2/session/protocol.ts';
import type { Teardown } from './children.ts';
import {
  dataFrame,
  type Fields,
  type Frame,
  flag,
  frame,
  type as frameType,
  headersFrame,
  preface,
  setting,
  settingsFrame,
  windowFrame,
} from './http2-frames.ts';
import { ConditionTimeout, patience } from './until.ts';

/*
 * HTTP/2 written by hand, as either side of a connection. What is sent is the test's, byte for byte; what is received is
 * cut into frames, and header blocks are read.
 */

export interface PeerOptions {
  /** The first SETTINGS; null sends none. */
  readonly settings?: readonly (readonly [id: number, value: number])[] | null;
  /** Gives back room for every DATA frame at once, on the stream and on the connection. Otherwise the test does. */
  readonly consumes?: boolean;
}

/** What has become of one stream, as its receiver sees it. */
export interface Message {
  /** Header blocks in the order in which they came: interim responses, the head, trailers. */
  readonly blocks: (readonly (readonly [name: string, value: string])[])[];
  readonly parts: Buffer[];
  bytes: number;
  ended: boolean;
  /** The code of RST_STREAM; null where none came. */
  reset: number | null;
}

/** One end of an HTTP/2 connection. */
export class FramePeer {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  readonly messages = new Map<number, Message>();
  /** Set by a header block that cannot be read. */
  fault: string | null = null;
  /** The other side has ended the connection. */
  ended = false;
  onFrame: ((received: Frame) => void) | null = null;
  readonly #decoder = new HpackDecoder(4096, 1 << 20, 10_000);
  readonly #consumes: boolean;
  #bytes = Buffer.alloc(0);
  #skip: number;
  #block: Buffer[] = [];
  #waiters = new Set<() => void>();
  #pings = 0;
  /** Room that the other side has given us: for all streams, for a new one, and what each has had more or less. */
  #room = 65_535;
  #initialRoom = 65_535;
  readonly #streamRoom = new Map<number, number>();

  constructor(socket: Socket, role: 'client' | 'server', options: PeerOptions) {
    this.socket = socket;
    this.#consumes = options.consumes ?? true;
    this.#skip = role === 'server' ? preface.length : 0;
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        this.ended = true;
        this.#wake();
      });
    }
    const { settings = [] } = options;
    if (role === 'client') this.send(preface);
    if (settings !== null) this.send(settingsFrame(settings));
  }

  send(...bytes: readonly Buffer[]): void {
    if (this.socket.writable) this.socket.write(bytes.length === 1 ? (bytes[0] as Buffer) : Buffer.concat(bytes));
  }

  message(streamId: number): Message {
    let message = this.messages.get(streamId);
    if (message === undefined) {
      message = { blocks: [], parts: [], bytes: 0, ended: false, reset: null };
      this.messages.set(streamId, message);
    }
    return message;
  }

  content(streamId: number): string {
    return Buffer.concat(this.message(streamId).parts).toString('latin1');
  }

  /** The final status; 0 while there is none. */
  status(streamId: number): number {
    const statuses = this.message(streamId).blocks.map((fields) => Number(fieldOf(fields, ':status') ?? 0));
    return statuses.find((status) => status >= 200) ?? 0;
  }

  /** The code of the last GOAWAY; null where none came. */
  get goaway(): { readonly last: number; readonly code: number } | null {
    const received = this.frames.findLast(({ type }) => type === frameType.goaway);
    if (received === undefined) return null;
    return { last: received.payload.readUInt32BE(0), code: received.payload.readUInt32BE(4) };
  }

  /** One word for what has become of a stream. */
  outcome(streamId: number): string {
    const { reset, ended } = this.message(streamId);
    const status = this.status(streamId);
    const words = [];
    if (status !== 0) words.push(String(status));
    if (reset !== null) words.push(reasonName(reset));
    else if (status !== 0 && !ended) words.push('open');
    return words.length === 0 ? 'nothing' : words.join(' ');
  }

  /** Waits until the stream is over for us: its message is complete, it was reset, or the connection has ended. */
  async over(streamId: number): Promise<string> {
    const message = this.message(streamId);
    await this.until(`an end of stream ${streamId}`, () => message.ended || message.reset !== null || this.ended);
    return this.outcome(streamId);
  }

  /** Bytes of DATA that may be sent on a stream. */
  room(streamId: number): number {
    return Math.min(this.#room, this.#initialRoom + (this.#streamRoom.get(streamId) ?? 0));
  }

  /** Sends DATA that fits, whatever the room: the test's own DATA frames are not counted. */
  data(streamId: number, content: Buffer, endStream = false): void {
    this.#room -= content.length;
    this.#streamRoom.set(streamId, (this.#streamRoom.get(streamId) ?? 0) - content.length);
    this.send(dataFrame(streamId, content, endStream));
  }

  /** Sends content as the other side gives room for it; resolves when all has left, or the stream is over. */
  async body(streamId: number, content: Buffer): Promise<void> {
    const message = this.message(streamId);
    const isOver = (): boolean => message.reset !== null || this.ended;
    for (let at = 0; at < content.length && !isOver(); ) {
      await this.until(`room on ${streamId}`, () => this.room(streamId) > 0 || isOver());
      const step = Math.min(16_384, this.room(streamId), content.length - at);
      if (step <= 0) continue;
      this.data(streamId, content.subarray(at, at + step), at + step === content.length);
      at += step;
    }
  }

  /** Waits for something that only a frame, or the end of the connection, can bring about. */
  async until(what: string, condition: () => boolean, leastMs = 5000): Promise<void> {
    const timeoutMs = leastMs * patience();
    const deadline = Date.now() + timeoutMs;
    while (!condition()) {
      const left = deadline - Date.now();
      if (left <= 0) throw new ConditionTimeout(what, timeoutMs, this.describe());
      await new Promise<void>((resolve) => {
        const timer = setTimeout(() => this.#wake(), left);
        this.#waiters.add(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  /** Whether the other side answers a PING: everything sent before it has been dealt with. */
  async lives(): Promise<boolean> {
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(0x70696e67);
    payload.writeUInt32BE(++this.#pings, 4);
    this.send(frame(frameType.ping, 0, 0, payload));
    const isAnswer = (received: Frame): boolean =>
      received.type === frameType.ping && received.flags === flag.ack && received.payload.equals(payload);
    let seen = 0;
    let answered = false;
    await this.until('the acknowledgement of a PING', () => {
      for (; seen < this.frames.length; seen++) answered ||= isAnswer(this.frames[seen] as Frame);
      return answered || this.ended;
    });
    return answered;
  }

  describe(): string {
    return this.frames
      .slice(-20)
      .map(({ type, flags, streamId, payload }) => `${type}/${flags} on ${streamId} (${payload.length})`)
      .join(', ');
  }

  destroy(): void {
    this.socket.destroy();
  }

  #receive(chunk: Buffer): void {
    const skipped = Math.min(this.#skip, chunk.length);
    this.#skip -= skipped;
    const fresh = skipped === 0 ? chunk : chunk.subarray(skipped);
    const bytes = this.#bytes.length === 0 ? fresh : Buffer.concat([this.#bytes, fresh]);
    let at = 0;
    while (bytes.length - at >= 9) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (bytes.length < end) break;
      const received: Frame = {
        type: bytes.readUInt8(at + 3),
        flags: bytes.readUInt8(at + 4),
        streamId: bytes.readUInt32BE(at + 5) & 0x7fffffff,
        payload: Buffer.from(bytes.subarray(at + 9, end)),
      };
      at = end;
      this.frames.push(received);
      this.#take(received);
      this.onFrame?.(received);
    }
    this.#bytes = Buffer.from(bytes.subarray(at));
    this.#wake();
  }

  #take(received: Frame): void {
    const { type, flags, streamId, payload } = received;
    switch (type) {
      case frameType.settings:
        if ((flags & flag.ack) !== 0) return;
        for (let at = 0; at < payload.length; at += 6) {
          if (payload.readUInt16BE(at) === setting.initialWindowSize) this.#initialRoom = payload.readUInt32BE(at + 2);
        }
        this.send(frame(frameType.settings, flag.ack, 0));
        return;
      case frameType.windowUpdate: {
        const increment = payload.readUInt32BE(0);
        if (streamId === 0) this.#room += increment;
        else this.#streamRoom.set(streamId, (this.#streamRoom.get(streamId) ?? 0) + increment);
        return;
      }
      case frameType.ping:
        if ((flags & flag.ack) === 0) this.send(frame(frameType.ping, flag.ack, 0, payload));
        return;
      case frameType.headers:
      case frameType.continuation: {
        this.#block.push(payload);
        const message = this.message(streamId);
        if ((flags & flag.endHeaders) !== 0) {
          const block = Buffer.concat(this.#block);
          this.#block = [];
          const decoded = this.#decoder.decode(block, 0, block.length);
          if (decoded.kind === 'fields') message.blocks.push(pairs(decoded.fields));
          else this.fault = `header block of stream ${streamId} is ${decoded.kind}`;
        }
        if (type === frameType.headers && (flags & flag.endStream) !== 0) message.ended = true;
        return;
      }
      case frameType.data: {
        const message = this.message(streamId);
        message.parts.push(payload);
        message.bytes += payload.length;
        if ((flags & flag.endStream) !== 0) message.ended = true;
        if (!this.#consumes || payload.length === 0) return;
        this.send(windowFrame(0, payload.length));
        if (!message.ended) this.send(windowFrame(streamId, payload.length));
        return;
      }
      case frameType.rstStream:
        this.message(streamId).reset = payload.readUInt32BE(0);
    }
  }

  #wake(): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of waiters) waiter();
  }
}

function pairs(list: readonly string[]): (readonly [string, string])[] {
  return list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1] as string] as const] : []));
}

export function fieldOf(fields: Fields, name: string): string | undefined {
  return fields.find(([key]) => key === name)?.[1];
}

export interface ClientOptions extends PeerOptions {
  readonly tls?: ConnectionOptions;
}

/** A client; ended with the test. */
export function openClient(t: Teardown, port: number, options: ClientOptions = {}): Promise<FramePeer> {
  return new Promise((resolve, reject) => {
    const address = { port, host: '127.0.0.1', allowHalfOpen: true };
    const socket = options.tls === undefined ? connect(address) : tlsConnect({ ...address, ...options.tls });
    t.teardown(() => socket.destroy());
    socket.once('error', reject);
    socket.once(options.tls === undefined ? 'connect' : 'secureConnect', () => {
      resolve(new FramePeer(socket, 'client', options));
    });
  });
}

/** A request as it came to the app. */
export interface AppRequest {
  readonly connection: AppPeer;
  readonly id: number;
  readonly fields: Fields;
  readonly path: string;
  readonly message: Message;
}

export interface AppPeer extends FramePeer {
  /** Counted from 0 over the whole app. */
  readonly number: number;
}

export interface FrameAppOptions extends PeerOptions {
  /** Called with each head. */
  readonly onRequest?: (request: AppRequest) => void;
  /** Called when a request is complete; answers 200 where nothing is said. */
  readonly onEnd?: (request: AppRequest) => void;
  readonly onConnection?: (connection: AppPeer) => void;
}

export interface FrameApp {
  readonly port: number;
  readonly connections: readonly AppPeer[];
  readonly requests: AppRequest[];
  close(): Promise<void>;
}

export const okFields: Fields = [[':status', '200']];

/** An app that speaks HTTP/2 with prior knowledge; what it answers is the test's. */
export function startFrameApp(t: Teardown, options: FrameAppOptions = {}): Promise<FrameApp> {
  const connections: AppPeer[] = [];
  const requests: AppRequest[] = [];
  const onEnd =
    options.onEnd ?? (({ connection, id }: AppRequest) => connection.send(headersFrame(id, okFields, true)));
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const peer = new FramePeer(socket, 'server', { ...options, settings: options.settings ?? null });
    const connection = Object.assign(peer, { number: connections.length });
    connections.push(connection);
    if (options.settings === undefined) connection.send(settingsFrame([[setting.headerTableSize, 4096]]));
    const open = new Map<number, AppRequest>();
    connection.onFrame = ({ type, flags, streamId }) => {
      const message = connection.message(streamId);
      const isHead = (type === frameType.headers || type === frameType.continuation) && (flags & flag.endHeaders) !== 0;
      if (isHead && message.blocks.length === 1 && !open.has(streamId)) {
        const fields = message.blocks[0] as Fields;
        const request = { connection, id: streamId, fields, path: fieldOf(fields, ':path') ?? '', message };
        open.set(streamId, request);
        requests.push(request);
        options.onRequest?.(request);
      }
      const request = open.get(streamId);
      const mayEnd = isHead || type === frameType.data;
      if (request !== undefined && mayEnd && message.ended) {
        open.delete(streamId);
        onEnd(request);
      }
    };
    socket.on('end', () => socket.end());
    options.onConnection?.(connection);
  });
  const close = (): Promise<void> => {
    for (const connection of connections) connection.destroy();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  t.teardown(close);
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () =>
      resolve({ port: (server.address() as AddressInfo).port, connections, requests, close }),
    );
  });
}
