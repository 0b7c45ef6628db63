import { createHash } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { startEmojiService } from './grpc-shop.ts';
import { blob } from './pod-blob.ts';

// The app of a pod, a program: HTTP, raw TCP and gRPC on ports of their own, bound as apps bind. It knows nothing of any
// proxy. One JSON object a line on stdout: first where gRPC listens, then each connection with its peer.

/** Ports and the addresses on which they are bound. */
const http: readonly [port: number, host: string][] = [
  [8080, '127.0.0.1'],
  [8081, '::'],
  [8082, '::1'],
  [9090, '0.0.0.0'],
];
const echo: readonly [port: number, host: string][] = [[7000, '::']];

const held: ServerResponse[] = [];

function announce(port: number, server: Server): void {
  server.on('connection', (socket: Socket) => {
    socket.on('error', () => {});
    process.stdout.write(`${JSON.stringify({ port, peer: socket.remoteAddress })}\n`);
  });
}

function respond(request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://app');
  const hash = createHash('sha256');
  let bytes = 0;
  request.on('error', () => {});
  request.on('data', (chunk: Buffer) => {
    hash.update(chunk);
    bytes += chunk.length;
  });
  request.on('end', () => {
    if (pathname === '/blob') response.end(blob(Number(searchParams.get('bytes'))));
    else if (pathname === '/metrics') response.setHeader('content-type', 'text/plain').end('app_up 1\n');
    else if (pathname === '/hold') held.push(response);
    else if (pathname === '/release') {
      for (const one of held.splice(0)) one.end('held and released');
      response.end('released');
    } else {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ path: pathname, method: request.method, bytes, sha256: hash.digest('hex') }));
    }
  });
}

await Promise.all([
  ...http.map(([port, host]) => {
    const server = createHttpServer(respond);
    announce(port, server);
    return new Promise<void>((resolve) => server.listen(port, host, resolve));
  }),
  ...echo.map(([port, host]) => {
    const server = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));
    announce(port, server);
    return new Promise<void>((resolve) => server.listen(port, host, resolve));
  }),
]);
const grpc = await startEmojiService({ teardown: () => {} });
process.stdout.write(`${JSON.stringify({ grpc })}\n`);
