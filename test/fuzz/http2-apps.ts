import http2, { type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { Teardown } from '../support/children.ts';
import { strictParser } from '../support/request-parsers.ts';
import { startSocketApp } from '../support/socket-app.ts';

/** A request as an app saw it, in a form in which equal requests are equal texts. */
export interface SeenRequest {
  readonly text: string;
  /** Its end came, and nothing else before it. */
  readonly complete: boolean;
}

export interface RecordingApp {
  readonly port: number;
  /** In the order in which they ended. */
  readonly requests: SeenRequest[];
  /** What a proxy must never send. */
  readonly faults: string[];
  /** Requests that have begun and not ended. */
  readonly open: number;
}

/** Names whose fields are the connection's, or which announce a body's length, which can be done in two ways. */
const ofTheConnection = new Set(['connection', 'content-length', 'transfer-encoding']);
/** HTTP/1 apps may get these, or not: the trailers do not follow, and the 100 was the proxy's to give. */
const ofHttp2 = new Set([...ofTheConnection, 'trailer', 'expect']);

function seen(
  carrier: string,
  request: { method: string; target: string; lines: readonly string[]; body: Buffer; trailers: readonly string[] },
): string {
  const { method, target, lines, body, trailers } = request;
  const dropped = carrier === 'HTTP/1' ? ofHttp2 : ofTheConnection;
  const kept = lines.filter((line) => !dropped.has(line.slice(0, line.indexOf(':', 1)))).sort();
  return JSON.stringify([carrier, method, target, kept, body.toString('latin1'), [...trailers].sort()]);
}

const lines = (raw: readonly string[]): string[] =>
  raw.flatMap((name, i) => (i % 2 === 0 ? [`${name.toLowerCase()}: ${raw[i + 1]}`] : []));

/** What the app says back, by the path alone; the body tells what was received. */
function answerTo(method: string, target: string, body: Buffer): { status: number; body: string; trailers: boolean } {
  const text = `${method} ${target} ${body.length}`;
  if (target.startsWith('/204')) return { status: 204, body: '', trailers: false };
  if (target.startsWith('/empty')) return { status: 200, body: '', trailers: false };
  return { status: target.startsWith('/404') ? 404 : 200, body: text, trailers: target.startsWith('/trailers') };
}

/**
 * An app that takes HTTP/2 (by nghttp2) and HTTP/1 (by the letter) on one port, as the proxy chooses, answers when it has
 * the whole request, and records what it got.
 */
export async function startRecordingApp(t: Teardown): Promise<RecordingApp> {
  const requests: SeenRequest[] = [];
  const faults: string[] = [];
  let open = 0;

  const http2Server = http2.createServer();
  http2Server.on('sessionError', (error: Error & { code?: string }) => {
    // A proxy that stops resets what is under way.
    if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') faults.push(`HTTP/2: ${error.message}`);
  });
  http2Server.on('stream', (stream, _headers, _flags, raw) => {
    takeStream(stream as ServerHttp2Stream, raw as unknown as string[]);
  });

  function takeStream(stream: ServerHttp2Stream, raw: string[]): void {
    const value = (name: string): string => raw[raw.indexOf(name) + 1] ?? '';
    const [method, target] = [value(':method'), value(':path')];
    const chunks: Buffer[] = [];
    let trailers: string[] = [];
    let complete = false;
    open++;
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('trailers', (_fields, _flags, rawTrailers) => {
      trailers = lines(rawTrailers as unknown as string[]);
    });
    stream.on('end', () => {
      complete = stream.rstCode === 0 && !stream.aborted;
      if (complete && !stream.closed && !stream.destroyed) answer(stream, method, target, Buffer.concat(chunks));
    });
    stream.on('close', () => {
      open--;
      const body = Buffer.concat(chunks);
      requests.push({ text: seen('HTTP/2', { method, target, lines: lines(raw), body, trailers }), complete });
    });
  }

  function answer(stream: ServerHttp2Stream, method: string, target: string, received: Buffer): void {
    const { status, body, trailers } = answerTo(method, target, received);
    if (target.startsWith('/103')) stream.additionalHeaders({ ':status': 103, link: '</a>' });
    const bodiless = body === '' || method === 'HEAD';
    stream.respond({ ':status': status, 'x-answer': 'yes', 'x-long': 'y'.repeat(50) }, {
      endStream: bodiless,
      waitForTrailers: trailers && !bodiless,
      sendDate: false,
    } as http2.ServerStreamResponseOptions);
    stream.once('wantTrailers', () => stream.sendTrailers({ 'x-sum': '1' }));
    if (!bodiless) stream.end(body);
  }

  function takeHttp1(socket: Socket, first: Buffer): void {
    let pending = Buffer.alloc(0);
    const take = (chunk: Buffer): void => {
      pending = Buffer.concat([pending, chunk]);
      while (pending.length > 0) {
        const progress = strictParser(pending);
        if (progress.kind === 'malformed') {
          faults.push(`HTTP/1: ${progress.why}`);
          socket.destroy();
        }
        if (progress.kind !== 'complete') return;
        pending = pending.subarray(progress.end);
        const { method, target, headers, body, trailers } = progress.request;
        const texts = (list: typeof headers): string[] =>
          list.map(([name, value]) => `${name.toLowerCase()}: ${value}`);
        const text = seen('HTTP/1', { method, target, lines: texts(headers), body, trailers: texts(trailers) });
        requests.push({ text, complete: true });
        socket.write(http1Answer(method, target, body), 'latin1');
      }
    };
    socket.on('data', take);
    take(first);
  }

  function http1Answer(method: string, target: string, received: Buffer): string {
    const { status, body, trailers } = answerTo(method, target, received);
    const interim = target.startsWith('/103') ? 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n' : '';
    const head = `${interim}HTTP/1.1 ${status} X\r\nX-Answer: yes\r\n`;
    if (status === 204) return `${head}\r\n`;
    if (!trailers) return `${head}Content-Length: ${body.length}\r\n\r\n${method === 'HEAD' ? '' : body}`;
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\nX-Sum: 1\r\n\r\n`;
    return `${head}Transfer-Encoding: chunked\r\n\r\n${method === 'HEAD' ? '' : chunks}`;
  }

  const serve = (socket: Socket): void => {
    socket.once('data', (chunk: Buffer) => {
      if (!chunk.toString('latin1').startsWith('PRI')) {
        takeHttp1(socket, chunk);
        return;
      }
      socket.pause();
      socket.unshift(chunk);
      http2Server.emit('connection', socket);
    });
  };
  const { port } = await startSocketApp(t, serve, { noDelay: true });
  return {
    port,
    requests,
    faults,
    get open() {
      return open;
    },
  };
}
