/**
 * `/live` and `/ready` on a port of their own, outside every policy: a kubelet must reach them from any address, even
 * under `deny`. So it answers nothing else and spends next to nothing on whoever connects.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { liveAnswer, readyAnswer } from './probe-answers.ts';
import type { ReadyState } from './readiness.ts';

export interface HealthServer {
  /** Rejects when the address cannot be bound. */
  listen(host: string, port: number): Promise<AddressInfo>;
  /** Ends open connections too: probes are short. */
  close(): Promise<void>;
}

export interface HealthOptions {
  ready(): ReadyState;
  /** False: to be started afresh. */
  live(): boolean;
}

const limits = {
  maxHeaderSize: 4096,
  /** For the whole request, headers included. */
  requestTimeoutMs: 2000,
  keepAliveTimeoutMs: 5000,
  connectionsCheckingIntervalMs: 500,
  maxConnections: 256,
  maxRequestsPerSocket: 1000,
  /** Silent connections, and those that do not read their answers. */
  socketTimeoutMs: 10_000,
} as const;

export function createHealthServer(options: HealthOptions): HealthServer {
  const server = createServer(
    {
      maxHeaderSize: limits.maxHeaderSize,
      headersTimeout: limits.requestTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: limits.connectionsCheckingIntervalMs,
      // Node answers a missing Host with a line of its own; a probe by address has no need of one.
      requireHostHeader: false,
    },
    (request, response) => respond(options, request, response),
  );
  endOldestBeyond(server, limits.maxConnections);
  server.maxRequestsPerSocket = limits.maxRequestsPerSocket;
  server.timeout = limits.socketTimeoutMs;
  server.on('clientError', (_error, socket) => {
    if (!socket.writable) socket.destroy();
    else
      socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n', () => socket.destroy());
  });
  // Expectations and upgrades are not for probes.
  server.on('checkExpectation', (_request, response) => refuse(response, 417, ''));
  server.on('checkContinue', (request, response) => respond(options, request, response));
  server.on('connect', (_request, socket) => socket.destroy());

  return {
    listen(host, port) {
      return new Promise((resolve, reject) => {
        server.once('error', reject);
        // Without a host Node listens on :: or, where the kernel has no IPv6, on 0.0.0.0.
        server.listen({ port, ...(host === '::' ? {} : { host }) }, () => {
          server.off('error', reject);
          // An accept that fails later (EMFILE) costs one probe, not the process.
          server.on('error', () => {});
          resolve(server.address() as AddressInfo);
        });
      });
    },
    close() {
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

/**
 * Beyond the limit the oldest connection of whoever has most ends, not the newest: who holds many open, or opens them by
 * the thousand, must not keep a probe out, because a kubelet that gets no answer restarts the pod.
 */
function endOldestBeyond(server: Server, limit: number): void {
  // A Set keeps the order of insertion.
  const open = new Map<string, Set<Socket>>();
  let count = 0;
  const forget = (client: string, sockets: Set<Socket>, socket: Socket): void => {
    if (!sockets.delete(socket)) return;
    count--;
    if (sockets.size === 0 && open.get(client) === sockets) open.delete(client);
  };
  server.on('connection', (socket) => {
    const client = socket.remoteAddress ?? '';
    const sockets = open.get(client) ?? new Set();
    open.set(client, sockets.add(socket));
    count++;
    socket.once('close', () => forget(client, sockets, socket));
    if (count <= limit) return;
    const [heaviest, most] = [...open].reduce((a, b) => (b[1].size > a[1].size ? b : a));
    for (const oldest of most) {
      forget(heaviest, most, oldest);
      oldest.destroy();
      return;
    }
  });
}

function respond(options: HealthOptions, request: IncomingMessage, response: ServerResponse): void {
  // A prober that breaks off has its answer already or wants none; 'close' follows, and the socket is gone.
  request.on('error', () => {});
  // The same, seen from the other side.
  response.on('error', () => {});
  // Nothing here reads a body; what comes of one is dropped, within the request's deadline.
  request.resume();
  const { method = '', url = '' } = request;
  const query = url.indexOf('?');
  const path = query === -1 ? url : url.slice(0, query);
  if (path !== '/live' && path !== '/ready') {
    refuse(response, 404, 'not found\n');
  } else if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    refuse(response, 405, 'method not allowed\n');
  } else {
    const { status, body } = path === '/live' ? liveAnswer(options.live()) : readyAnswer(options.ready());
    answer(response, status, body);
  }
}

/** Whoever asks for something else has no further business here. */
function refuse(response: ServerResponse, status: number, body: string): void {
  response.setHeader('connection', 'close');
  answer(response, status, body);
}

function answer(response: ServerResponse, status: number, body: string): void {
  response.statusCode = status;
  response.setHeader('content-type', 'text/plain; charset=utf-8');
  response.setHeader('content-length', Buffer.byteLength(body));
  response.end(body);
}
