import type { App } from './apps/apps.ts';
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
  /** Whether the load can also speak to the app itself, which shows the ceiling that load and app set. */
  readonly direct: boolean;
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

export const scenarios: readonly Scenario[] = [
  {
    ...plain,
    name: 'http1-keepalive',
    about: 'HTTP/1.1, 32 connections kept alive',
    carriage: 'http1',
    app: 'http1',
    load: wrk({ connections: 32, close: false }),
    needs: ['wrk'],
    unit: 'request',
  },
  {
    ...plain,
    name: 'http1-half-load',
    about: "HTTP/1.1, 32 connections kept alive, at half of Sallyport's highest rate: for the latencies",
    carriage: 'http1',
    app: 'http1',
    load: halfLoad({ connections: 32 }),
    needs: ['wrk', 'h2load'],
    unit: 'request',
  },
  {
    ...plain,
    name: 'http1-connection-per-request',
    about: 'HTTP/1.1, a new connection for each request, 32 at a time',
    carriage: 'http1',
    app: 'http1',
    load: wrk({ connections: 32, close: true }),
    needs: ['wrk'],
    unit: 'request',
  },
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
    name: 'mtls-handshake',
    about: 'HTTP/1.1 in mutual TLS 1.3, a full ECDSA P-256 handshake for each request, 32 at a time',
    carriage: 'http1',
    app: 'http1',
    load: wrk({ connections: 32, close: true }),
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
