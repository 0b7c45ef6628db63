import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import * as grpc from '@grpc/grpc-js';

/*
 * An app that is probed in every way, as a program for another network namespace: it prints its ports, then a line for each
 * request that it sees. Its argument is the certificate and key that it shows.
 */

const { cert, key } = JSON.parse(process.argv[2] ?? '') as { readonly cert: string; readonly key: string };
const say = (value: object): void => void process.stdout.write(`${JSON.stringify(value)}\n`);

const answer =
  (kind: string): RequestListener =>
  (request, response) => {
    say({ seen: `${kind} ${request.method} ${request.url}`, token: request.headers['x-token'] ?? null });
    response.setHeader('x-app', kind);
    response.end(request.url === '/large' ? 'x'.repeat(200_000) : `${kind} is well\n`);
  };

const raw = (value: unknown): Buffer => value as Buffer;
const method = (path: string) => ({
  path,
  requestStream: false,
  responseStream: false,
  requestSerialize: raw,
  requestDeserialize: raw,
  responseSerialize: raw,
  responseDeserialize: raw,
});
const health = new grpc.Server();
const served = (name: string): grpc.handleUnaryCall<Buffer, Buffer> => {
  return ({ request }, done) => {
    say({ seen: `grpc ${name} ${request.toString('hex')}` });
    // HealthCheckResponse { status: SERVING }
    done(null, Buffer.from([0x08, 0x01]));
  };
};
health.addService(
  {
    Check: method('/grpc.health.v1.Health/Check'),
    List: method('/grpc.health.v1.Health/List'),
    Drop: method('/shop.v1.Admin/Check'),
  } as unknown as grpc.ServiceDefinition,
  { Check: served('Check'), List: served('List'), Drop: served('Drop') },
);

const bound = (server: Server): Promise<number> =>
  new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)));
const calls = await new Promise<number>((resolve, reject) =>
  health.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
    error === null ? resolve(port) : reject(error),
  ),
);
const plain = createServer(answer('http'));
plain.on('connection', () => say({ connected: 'http' }));
const secured = createTlsServer({ cert, key }, answer('https'));
say({ ports: { http: await bound(plain), https: await bound(secured), grpc: calls } });
