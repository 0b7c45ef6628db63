import type { EventEmitter } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Teardown } from './children.ts';
import { preface } from './http2-frames.ts';

/** What an app knows of a request that it has, by its name. */
export interface Lasting {
  /** Bytes of content, or of the tunnel, that have come. */
  bytes: number;
  /** Nothing more of it can come, nor leave. */
  over: boolean;
}

export interface LastingApp {
  readonly port: number;
  /** By the last part of the path, or the first label of the authority of CONNECT. */
  readonly requests: ReadonlyMap<string, Lasting>;
}

/** Milliseconds between two pieces of what has no end. */
const everyMs = 20;

/**
 * An app that ends nothing: over HTTP/1 and HTTP/2 on one port. `/download/NAME` and `/events/NAME` are answered without end,
 * `/call/NAME` with a head (gRPC) and messages without end, any other path not at all. Upgrades and CONNECT are agreed to and
 * what comes is sent back, but for `/pending/NAME`.
 */
export async function startLastingApp(t: Teardown): Promise<LastingApp> {
  const requests = new Map<string, Lasting>();
  const sockets = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  const begin = (name: string, stream: EventEmitter): Lasting => {
    const lasting = { bytes: 0, over: false };
    requests.set(name, lasting);
    stream.once('close', () => {
      lasting.over = true;
    });
    return lasting;
  };
  const answer = (request: IncomingMessage | Http2ServerRequest, response: ServerResponse | Http2ServerResponse) => {
    const [, kind = '', name = ''] = (request.url ?? '').split('/');
    const lasting = begin(name, response as ServerResponse);
    request.on('error', () => {});
    (response as ServerResponse).on('error', () => {});
    request.on('data', (chunk: Buffer) => {
      lasting.bytes += chunk.length;
    });
    const type = { download: 'text/plain', events: 'text/event-stream', call: 'application/grpc' }[kind];
    if (type === undefined) return;
    (response as ServerResponse).writeHead(200, { 'content-type': type });
    const timer = setInterval(() => void (response as ServerResponse).write('data: more\n\n'), everyMs);
    timers.add(timer);
    (response as ServerResponse).once('close', () => clearInterval(timer));
  };
  const carry = (name: string, socket: Duplex, agreement: string): void => {
    const lasting = begin(name, socket);
    socket.on('error', () => {});
    if (agreement !== '') socket.write(agreement);
    socket.on('data', (chunk: Buffer) => {
      lasting.bytes += chunk.length;
      socket.write(chunk);
    });
  };
  const http1 = createHttp(answer);
  http1.on('upgrade', (request, socket) => {
    const [, kind = '', name = ''] = (request.url ?? '').split('/');
    const agreed = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n\r\n`;
    carry(name, socket, kind === 'pending' ? '' : agreed);
  });
  http1.on('connect', (request, socket) => {
    carry((request.url ?? '').split('.')[0] ?? '', socket, 'HTTP/1.1 200 OK\r\n\r\n');
  });
  const http2 = createHttp2(answer as never);
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('readable', () => {
      const first = socket.read() as Buffer | null;
      if (first === null) return;
      socket.unshift(first);
      const isHttp2 = first.subarray(0, 4).equals(preface.subarray(0, 4));
      (isHttp2 ? http2 : http1).emit('connection', socket);
    });
  });
  t.teardown(() => {
    for (const timer of timers) clearInterval(timer);
    for (const socket of sockets) socket.destroy();
    server.close();
    http1.close();
    http2.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, requests };
}
