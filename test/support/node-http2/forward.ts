import type { ClientHttp2Stream, Http2Stream } from 'node:http2';
import type { Admitted } from '../../../lib/proxy/http/admitted.ts';
import { headerValue } from '../../../lib/proxy/http/headers.ts';
import { ToldByReset } from '../../../lib/proxy/http2/relay/loss.ts';
import { errorCode, reasonName } from '../../../lib/proxy/http2/session/protocol.ts';
import type { RequestScope } from '../../../lib/proxy/recorder.ts';
import type { HeaderList } from '../../../lib/request-fields.ts';
import type { Http2Exchange } from './exchange.ts';
import type { Http2Pool } from './pool.ts';

/** Sends a permitted request to an HTTP/2 app (prior knowledge) and its answer back, with trailers both ways. */
export function forwardHttp2(
  admitted: Admitted,
  exchange: Http2Exchange,
  fields: HeaderList,
  pool: Http2Pool,
  failed: (error: unknown) => void,
): void {
  const { scope } = admitted;
  const headers: HeaderList = [
    ':method',
    exchange.method,
    ':scheme',
    'http',
    ':authority',
    exchange.host,
    ':path',
    exchange.target,
    ...fields,
  ];
  const { body } = exchange;
  let upstream: ClientHttp2Stream | null = null;
  exchange.onAborted = () => {
    upstream?.close(errorCode.cancel);
    scope.responseEnded(null, '');
  };
  if (body === null) {
    scope.requestFrame(0);
    scope.requestEnded();
  }
  const attempt = (mayRetry: boolean): void => {
    const options = { endStream: body === null, waitForTrailers: body !== null };
    const isWanted = (): boolean => !exchange.aborted;
    pool.request(admitted, headers, options, isWanted, (error, stream) => {
      if (exchange.aborted) {
        stream?.close(errorCode.cancel);
        return;
      }
      if (error !== null || stream === null) {
        failed(error);
        scope.responseEnded(null, 'unclassified');
        return;
      }
      upstream = stream;
      relay(exchange, scope, stream, failed, mayRetry && body === null ? () => attempt(false) : null);
    });
  };
  attempt(true);
}

function relay(
  exchange: Http2Exchange,
  scope: RequestScope,
  stream: ClientHttp2Stream,
  failed: (error: unknown) => void,
  retry: (() => void) | null,
): void {
  const { body, grpc } = exchange;
  const { session } = stream;
  let grpcStatus: string | null = null;
  let trailers: HeaderList = [];
  let fault: Error | null = null;
  let informed = false;

  if (body !== null) {
    body.on('data', (chunk: Buffer) => {
      scope.requestFrame(chunk.length);
      if (!stream.write(chunk)) {
        body.pause();
        stream.once('drain', () => body.resume());
      }
    });
    body.once('end', () => {
      scope.requestEnded();
      stream.end();
    });
    stream.once('wantTrailers', () => sendTrailers(stream, exchange.requestTrailers()));
  }

  stream.on('headers', (_headers, _flags, raw) => {
    const { status, rest } = splitResponse(raw as unknown as HeaderList);
    informed = true;
    exchange.informational(status, rest);
  });
  stream.once('response', (_headers, flags, raw) => {
    const { status, rest } = splitResponse(raw as unknown as HeaderList);
    const ends = (flags & 1) === 1;
    if (grpc) grpcStatus = headerValue(rest, 'grpc-status');
    scope.responseHead(status);
    exchange.respond(status, '', rest, !ends);
  });
  stream.on('data', (chunk: Buffer) => {
    scope.responseFrame(chunk.length);
    if (!exchange.write(chunk)) {
      stream.pause();
      exchange.onDrain(() => stream.resume());
    }
  });
  stream.once('trailers', (_headers, _flags, raw) => {
    trailers = (raw as unknown as HeaderList) ?? [];
    if (grpc) grpcStatus = headerValue(trailers, 'grpc-status') ?? grpcStatus;
  });
  let finished = false;
  stream.once('end', () => {
    const code = stream.rstCode;
    // A reset also ends the readable side; only a stream that ended by itself is a whole answer.
    if (finished || !exchange.responded || (code !== undefined && code !== errorCode.noError)) return;
    finished = true;
    exchange.end(trailers);
    scope.responseEnded(grpcStatus, '');
  });
  stream.on('error', (error) => {
    fault = error;
  });
  stream.once('close', () => {
    if (finished || exchange.aborted) return;
    finished = true;
    const code = stream.rstCode;
    // REFUSED_STREAM promises that the app did nothing with it (RFC 9113 8.7).
    if (code === errorCode.refusedStream && retry !== null && !exchange.responded && !informed) {
      retry();
      return;
    }
    // Node says the same of streams whose connection is gone.
    const cancelled = code === errorCode.cancel && session?.destroyed === false;
    if (exchange.responded) exchange.abort(cancelled ? errorCode.cancel : errorCode.internalError);
    else if (code === errorCode.refusedStream && !informed) failed(new ToldByReset(code));
    else if (cancelled && grpc) failed(new ToldByReset(errorCode.cancel));
    else failed(fault ?? new Error('the application closed the stream'));
    scope.responseEnded(grpcStatus, `h2(${reasonName(code ?? errorCode.internalError)})`);
  });
}

function splitResponse(raw: HeaderList): { status: number; rest: HeaderList } {
  const rest: HeaderList = [];
  let status = 0;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    if (raw[i] === ':status') status = Number(raw[i + 1]);
    else rest.push(raw[i] as string, raw[i + 1] as string);
  }
  return { status, rest };
}

/** Node refuses some fields that have come through nghttp2, and throws; their receiver must not take the rest. */
export function sendTrailers(stream: Http2Stream, trailers: HeaderList): void {
  try {
    stream.sendTrailers(asObject(trailers));
  } catch {
    stream.close(errorCode.internalError);
  }
}

/** node:http2 takes trailers as an object only. */
export function asObject(list: HeaderList): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i] as string;
    const value = list[i + 1] as string;
    const known = object[name];
    if (known === undefined) object[name] = value;
    else object[name] = Array.isArray(known) ? [...known, value] : [known, value];
  }
  return object;
}
