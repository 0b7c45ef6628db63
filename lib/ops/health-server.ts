/**
 * `/live` and `/ready` on a port of their own, outside every policy: a kubelet must reach them from any address, even
 * under `deny`. So it answers nothing else and spends next to nothing on a connection.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { token } from '../http-message.ts';
import { liveResponse, readyResponse } from './probe-responses.ts';
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
  /** Characters of a request's head. */
  head: 4096,
  /** Milliseconds for the head, and then for taking the response. */
  patienceMs: 2000,
  connections: 256,
} as const;

const reasons = {
  200: 'OK',
  400: 'Bad Request',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  417: 'Expectation Failed',
  503: 'Service Unavailable',
};
type Status = keyof typeof reasons;

/**
 * One request a connection, and nothing is read behind its head: Node's own server would parse the thousands that fit into
 * one read, for anybody, before anything else is served.
 */
export function createHealthServer(options: HealthOptions): HealthServer {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    serve(options, socket);
  });
  endOldestBeyond(server, limits.connections);

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
        for (const socket of sockets) socket.destroy();
      });
    },
  };
}

/**
 * Beyond the limit the oldest connection of the client that has most ends, not the newest: who holds many open, or opens them by
 * the thousand, must not keep a probe out, because a kubelet that gets no response restarts the pod.
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

function serve(options: HealthOptions, socket: Socket): void {
  let head = '';
  let answered = false;
  // A prober that breaks off has its response already or wants none; 'close' follows, and the socket is gone.
  socket.on('error', () => {});
  const finish = (text: string): void => {
    answered = true;
    socket.off('data', onData);
    timer.refresh();
    socket.end(text);
    // What else has come is dropped, so that it cannot turn the end into a reset before the response was read.
    socket.resume();
  };
  const onData = (bytes: Buffer): void => {
    const seen = Math.max(0, head.length - 3);
    head += bytes.toString('latin1', 0, limits.head);
    const end = head.indexOf('\r\n\r\n', seen);
    const isBinary = /[^\t\r\n\x20-\x7e\x80-\xff]/.test(end === -1 ? head : head.slice(0, end));
    if (end !== -1 && !isBinary) finish(respond(options, head.slice(0, end)));
    else if (isBinary || head.length >= limits.head) finish(answer(400, '', false));
  };
  const timer = setTimeout(() => {
    if (answered || head === '') socket.destroy();
    else finish(answer(408, '', false));
  }, limits.patienceMs);
  socket.once('close', () => clearTimeout(timer));
  socket.on('data', onData);
}

/** @param head the request line and the fields, without the empty line. */
function respond(options: HealthOptions, head: string): string {
  const [line = '', ...fields] = head.split('\r\n');
  const [, method = '', target = ''] = /^([^ ]+) ([\x21-\x7e]+) HTTP\/1\.[01]$/.exec(line) ?? [];
  const sound = fields.every((field) => {
    const [, name = ''] = /^([^:]+):[\t\x20-\x7e\x80-\xff]*$/.exec(field) ?? [];
    return token.test(name);
  });
  if (!token.test(method) || !sound) return answer(400, '', false);
  // Of what a probe has no use for, nothing is taken in good faith.
  const has = (field: RegExp): boolean => fields.some((each) => field.test(each));
  if (has(/^content-length:/i) && has(/^transfer-encoding:/i)) return answer(400, '', false);
  if (method === 'CONNECT') return '';
  if (has(/^expect:(?!\s*100-continue\s*$)/i)) return answer(417, '', false);
  const [path] = target.split('?', 1);
  const bodiless = method === 'HEAD';
  if (path !== '/live' && path !== '/ready') return answer(404, 'not found\n', bodiless);
  if (method !== 'GET' && method !== 'HEAD') return answer(405, 'method not allowed\n', false);
  const { status, body } = path === '/live' ? liveResponse(options.live()) : readyResponse(options.ready());
  return answer(status, body, bodiless);
}

function answer(status: Status, body: string, bodiless: boolean): string {
  const fields = [
    `HTTP/1.1 ${status} ${reasons[status]}`,
    'connection: close',
    ...(status === 405 ? ['allow: GET, HEAD'] : []),
    ...(body === '' ? [] : ['content-type: text/plain; charset=utf-8']),
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return `${fields.join('\r\n')}\r\n\r\n${bodiless ? '' : body}`;
}
