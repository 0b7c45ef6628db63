import http from 'node:http';
import { Duplex } from 'node:stream';

/*
 * Node's own parser, strict, over streams in memory: what it makes of some bytes is the truth that the fast lane is
 * held to.
 */

/** One end of a connection in memory. */
class Wire extends Duplex {
  override _read(): void {}
  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done();
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly raw: readonly string[];
  /** Whether another request may follow, as the parser sees it; null where what follows is no HTTP any more. */
  readonly keepAlive: boolean | null;
  body: Buffer;
  complete: boolean;
}

export interface RequestReading {
  readonly requests: readonly ReadRequest[];
  readonly fault: string | null;
}

const server = http.createServer({ insecureHTTPParser: false, requireHostHeader: true, maxHeaderSize: 64 * 1024 });
server.maxHeadersCount = 0;
const readings = new WeakMap<object, { requests: ReadRequest[]; fault: string | null }>();
function take(request: http.IncomingMessage, response: http.ServerResponse | Duplex): void {
  const reading = readings.get(request.socket);
  const read: ReadRequest = {
    method: request.method ?? '',
    target: request.url ?? '',
    version: request.httpVersion,
    raw: request.rawHeaders,
    keepAlive: response instanceof http.ServerResponse ? response.shouldKeepAlive : null,
    body: Buffer.alloc(0),
    complete: false,
  };
  reading?.requests.push(read);
  request.on('data', (chunk: Buffer) => {
    read.body = Buffer.concat([read.body, chunk]);
  });
  request.on('end', () => {
    read.complete = request.complete;
    response.end();
  });
  request.on('error', () => {});
}
for (const event of ['request', 'checkContinue', 'checkExpectation', 'upgrade']) server.on(event, take);
server.on('clientError', (error: Error & { code?: string }, socket) => {
  const reading = readings.get(socket);
  if (reading !== undefined) reading.fault ??= error.code ?? error.message;
  socket.destroy();
});

/** What Node's server reads from a connection on which exactly these bytes arrive. */
export async function readRequests(text: string): Promise<RequestReading> {
  const wire = new Wire();
  const reading = { requests: [] as ReadRequest[], fault: null as string | null };
  readings.set(wire, reading);
  server.emit('connection', wire);
  wire.push(Buffer.from(text, 'latin1'));
  for (let turns = 0; turns < 3 || (turns < 20 && reading.requests.some(({ complete }) => !complete)); turns++) {
    await turn();
  }
  wire.destroy();
  return reading;
}

export interface ResponseReading {
  /** Null when no final response came. */
  readonly status: number | null;
  readonly interim: readonly number[];
  readonly body: Buffer;
  readonly raw: readonly string[];
  readonly trailers: readonly string[];
  /** The end of the message was seen. */
  readonly complete: boolean;
  readonly fault: string | null;
}

/** What Node's client reads from a connection on which these bytes arrive, and then its end. */
export async function readResponse(method: string, text: string): Promise<ResponseReading> {
  const wire = new Wire();
  const interim: number[] = [];
  const chunks: Buffer[] = [];
  let response: http.IncomingMessage | null = null;
  let fault: string | null = null;
  let over = false;
  const request = http.request({ method, path: '/', createConnection: () => wire, insecureHTTPParser: false });
  request.on('information', ({ statusCode }) => interim.push(statusCode));
  request.on('continue', () => interim.push(100));
  request.on('upgrade', (upgraded: http.IncomingMessage) => {
    response = upgraded;
    fault ??= 'upgrade';
    over = true;
  });
  request.on('response', (message) => {
    response = message;
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.on('error', (error: Error & { code?: string }) => {
      fault ??= error.code ?? error.message;
    });
    message.on('close', () => {
      over = true;
    });
  });
  request.on('error', (error: Error & { code?: string }) => {
    fault ??= error.code ?? error.message;
    over = true;
  });
  request.end();
  await turn();
  wire.push(Buffer.from(text, 'latin1'));
  await turn();
  wire.push(null);
  for (let turns = 0; turns < 20 && !over; turns++) await turn();
  wire.destroy();
  request.destroy();
  const message = response as http.IncomingMessage | null;
  return {
    status: message?.statusCode ?? null,
    interim,
    body: Buffer.concat(chunks),
    raw: message?.rawHeaders ?? [],
    trailers: message?.rawTrailers ?? [],
    complete: message?.complete ?? false,
    fault,
  };
}
