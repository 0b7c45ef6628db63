import type { App } from './apps/apps.ts';
import { ab } from './loads/ab.ts';
import { besideLoad } from './loads/beside-load.ts';
import { h2load } from './loads/h2load.ts';
import { halfLoad } from './loads/half-load.ts';
import type { Load } from './loads/load.ts';
import { socketLoad } from './loads/socket-load.ts';
import { wrk } from './loads/wrk.ts';
import type { Way } from './peers/peer.ts';
import { originalProtocol } from './probes.ts';
import { type NginxModule, nginxEcho, nginxStream, type Program } from './programs.ts';
import { answers } from './rule.ts';

export interface Scenario extends Way {
  readonly name: string;
  readonly about: string;
  readonly app: App;
  readonly load: Load;
  /** What load and app need installed, beside nginx. */
  readonly needs: readonly (Program | NginxModule)[];
  /** What rate and cost are counted in. */
  readonly unit: 'request' | 'message' | 'MiB';
  /** At a rate that leaves every core time to spare, for the latencies: where one has none they are not to be printed. */
  readonly isPaced?: true;
  /** Whether the load can also speak to the app itself, which shows the ceiling that load and app set. */
  readonly direct: boolean;
  /** Whom the load cannot be asked of, and why. */
  readonly without?: { readonly peer: 'caddy'; readonly why: string };
}

const plain = { mutualTls: false, direct: true } as const;
const overTls = { mutualTls: true, direct: false } as const;
const http2Load = {
  protocol: 'http2',
  connections: 8,
  streams: 16,
  path: '/',
  answerLength: answers.http.length,
} as const;

/** Plain HTTP/1 to an HTTP/1.1 app. */
function http1(
  named: Pick<Scenario, 'name' | 'about' | 'load' | 'needs'> & Partial<Pick<Scenario, 'unit' | 'without' | 'isPaced'>>,
): Scenario {
  return { ...plain, carriage: 'http1', app: 'http1', unit: 'request', ...named };
}

function post(name: string, about: string, framing: 'length' | 'chunked', bytes: number): Scenario {
  const load = wrk({ connections: 32, close: false, request: { method: 'POST', body: { framing, bytes } } });
  return http1({ name, about: `HTTP/1.1, ${about}, 32 connections kept alive`, load, needs: ['wrk'] });
}

export const scenarios: readonly Scenario[] = [
  http1({
    name: 'http1-keepalive',
    about: 'HTTP/1.1, 32 connections kept alive',
    load: wrk({ connections: 32, close: false }),
    needs: ['wrk'],
  }),
  http1({
    name: 'http1-half-load',
    about:
      'HTTP/1.1, 32 connections kept alive, at half of what the slower of Sallyport and HAProxy reaches: for the latencies',
    load: halfLoad({ connections: 32 }),
    needs: ['h2load'],
    isPaced: true,
  }),
  http1({
    name: 'http1-connection-per-request',
    about: 'HTTP/1.1, a new connection for each request, 16 at a time',
    load: wrk({ connections: 16, close: true }),
    needs: ['wrk'],
  }),
  http1({
    name: 'http10-keepalive',
    about: 'HTTP/1.0, 32 connections kept alive',
    load: ab({ connections: 32, keepAlive: true, method: 'GET' }),
    needs: ['ab'],
  }),
  http1({
    name: 'http10-connection-per-request',
    about: 'HTTP/1.0, a new connection for each request, 32 at a time: what nginx sends unless told',
    load: ab({ connections: 32, keepAlive: false, method: 'GET' }),
    needs: ['ab'],
  }),
  post('http1-post', 'POST of 5 bytes with their length', 'length', 5),
  post('http1-post-10k', 'POST of 10 KB with their length', 'length', 10_000),
  post('http1-post-chunked', 'POST of 5 bytes in a chunk', 'chunked', 5),
  http1({
    name: 'http1-post-expect',
    about: 'HTTP/1.1, POST of 5 bytes that waits for 100 Continue, 32 connections kept alive',
    load: socketLoad({ exchange: 'expect', connections: 32 }),
    needs: [],
    without: { peer: 'caddy', why: 'it closes a connection whose app has answered before the content' },
  }),
  http1({
    name: 'http1-head',
    about: 'HEAD, HTTP/1.0, 32 connections kept alive',
    load: ab({ connections: 32, keepAlive: true, method: 'HEAD' }),
    needs: ['ab'],
  }),
  {
    ...overTls,
    name: 'mtls-keepalive',
    about: 'HTTP/1.1 in mutual TLS 1.3, 32 connections kept alive',
    carriage: 'http1',
    app: 'http1',
    load: wrk({ connections: 32, close: false }),
    needs: ['wrk', nginxStream],
    unit: 'request',
  },
  {
    ...overTls,
    name: 'mtls-http10-keepalive',
    about: 'HTTP/1.0 in mutual TLS 1.3, 32 connections kept alive',
    carriage: 'http1',
    app: 'http1',
    load: ab({ connections: 32, keepAlive: true, method: 'GET' }),
    needs: ['ab', nginxStream],
    unit: 'request',
  },
  {
    ...overTls,
    name: 'mtls-handshake',
    about: 'HTTP/1.1 in mutual TLS 1.3, a full ECDSA P-256 handshake for each request, 32 at a time',
    carriage: 'http1',
    app: 'http1',
    load: wrk({ connections: 32, close: true }),
    needs: ['wrk', nginxStream],
    unit: 'request',
  },
  {
    ...overTls,
    name: 'mtls-half-load',
    about: 'HTTP/1.1 in mutual TLS 1.3, 32 connections kept alive, at half of what the slower of the two reaches',
    carriage: 'http1',
    app: 'http1',
    load: halfLoad({ connections: 32 }),
    needs: ['h2load', nginxStream],
    unit: 'request',
    isPaced: true,
  },
  http1({
    name: 'beside-downloads',
    about:
      'HTTP/1.1, 500 requests a second beside downloads of 16 MiB on 4 connections: the latencies are those of the requests',
    load: besideLoad(socketLoad({ exchange: 'download', connections: 4 })),
    needs: [],
    unit: 'MiB',
  }),
  {
    ...overTls,
    name: 'beside-handshakes',
    about: 'the same 500 requests in mutual TLS beside as many handshakes as come of 32 clients',
    carriage: 'http1',
    app: 'http1',
    load: besideLoad(wrk({ connections: 32, close: true })),
    needs: ['wrk', nginxStream],
    unit: 'request',
  },
  {
    ...plain,
    name: 'h2c-to-http1',
    about: 'HTTP/2 with prior knowledge to an HTTP/1.1 app, 8 connections of 16 streams',
    carriage: 'http2-to-http1',
    app: 'http1',
    load: h2load({ ...http2Load, headers: [`${originalProtocol.name}: ${originalProtocol.value}`] }),
    needs: ['h2load'],
    unit: 'request',
    direct: false,
  },
  {
    ...plain,
    name: 'h2c-to-h2c',
    about: 'HTTP/2 with prior knowledge on both sides, 8 connections of 16 streams',
    carriage: 'http2',
    app: 'http2',
    load: h2load({ ...http2Load, headers: [] }),
    needs: ['h2load'],
    unit: 'request',
  },
  {
    ...plain,
    name: 'tcp-small',
    about: 'TCP, 64 bytes there and back, 32 connections',
    carriage: 'tcp',
    app: 'echo',
    load: socketLoad({ exchange: 'tcp', connections: 32 }),
    needs: [],
    unit: 'message',
  },
  {
    ...plain,
    name: 'tcp-bulk',
    about: 'TCP, 64 MiB at a time from the app, 4 connections',
    carriage: 'tcp',
    app: 'bulk',
    load: socketLoad({ exchange: 'bulk', connections: 4 }),
    needs: [],
    unit: 'MiB',
  },
  {
    ...plain,
    name: 'websocket-echo',
    about: 'WebSocket, 64 bytes there and back, 32 connections',
    carriage: 'websocket',
    app: 'websocket',
    load: socketLoad({ exchange: 'websocket', connections: 32 }),
    needs: [],
    unit: 'message',
  },
  {
    ...plain,
    name: 'grpc-unary',
    about: 'gRPC, one small message each way, 8 connections of 16 calls',
    carriage: 'grpc',
    app: 'http2',
    load: h2load({
      ...http2Load,
      path: answers.grpcPath,
      headers: ['content-type: application/grpc', 'te: trailers'],
      body: answers.grpcRequest,
      answerLength: answers.grpcReply.length,
    }),
    needs: ['h2load', nginxEcho],
    unit: 'request',
  },
];
