import { STATUS_CODES } from 'node:http';
import type { Readable } from 'node:stream';
import { CodedError } from '../../errors/coded-error.ts';
import type { IpAddress } from '../../ip.ts';
import type { HeaderList } from '../../request-fields.ts';
import { internalFault } from '../guard.ts';
import type { Admitted, AdmittedNow, Refused } from './admitted.ts';
import type { Exchange } from './exchange.ts';

/** A request to an application that lives in this process. */
export interface ApplicationRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Whom the client means: the target's authority, or Host; empty where it names nobody. */
  readonly host: string;
  readonly clientIp: IpAddress;
  header(name: string): readonly string[];
  /** End-to-end fields as they would go on over HTTP/1, name and value in turn; those of the permit that `admitLate` has asked for last. */
  readonly fields: HeaderList;
  /** Called once, when the client is gone before it has its response. */
  onAborted(listener: () => void): void;
  /** The whole body. @throws when it exceeds the application's limit, or policy refuses the request by the time it has come. */
  body(maxBytes: number): Promise<Buffer>;
  /** For who has waited, and sends the request on. @throws when policy refuses it by now; the client is told so. */
  admitLate(): AdmittedNow;
}

export interface ApplicationResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | Buffer;
}

/** Served behind the inbound path, so that policy decides who reaches it. */
export interface Application {
  /** `admitted`: evidence that policy lets it in, now. */
  handle(request: ApplicationRequest, admitted: AdmittedNow): Promise<ApplicationResponse>;
}

/** Its client is gone, or policy refuses the request by now: nothing is to be done any more, and nothing answered. */
export const notWanted = new Error('the request is not wanted any more');

/** What a lane has of a request for an application. */
export interface ApplicationAsking {
  /** Reads the request's content, all of it. */
  readonly readBody: ApplicationRequest['body'];
  failed(error: unknown): void;
  fields(admitted: Admitted): HeaderList;
  /** See `RequestPipeline`. */
  admitLate(before: Admitted): AdmittedNow | Refused;
}

export function serveApplication(
  admitted: AdmittedNow,
  exchange: Exchange,
  application: Application,
  asking: ApplicationAsking,
): void {
  const { scope } = admitted;
  let current: Admitted = admitted;
  let aborted: (() => void) | null = null;
  // Nobody waits for what the application still says: its client is gone, or has another response.
  let over = false;
  const request: ApplicationRequest = {
    method: exchange.method,
    path: exchange.path,
    query: exchange.query,
    host: exchange.host,
    clientIp: exchange.connection.client.ip,
    header: (name) => exchange.header(name),
    // Content comes when the client likes.
    body: async (maxBytes) => {
      const content = await asking.readBody(maxBytes);
      admitLate();
      return content;
    },
    admitLate: () => admitLate(),
    get fields() {
      return asking.fields(current);
    },
    onAborted: (listener) => {
      aborted = listener;
    },
  };
  const clientGone = (): void => {
    over = true;
    scope.responseEnded(null, '');
    aborted?.();
  };
  exchange.onAborted = clientGone;
  const admitLate = (): AdmittedNow => {
    const late = over ? null : asking.admitLate(current);
    if (late?.kind === 'admitted') {
      current = late;
      return late;
    }
    if (late !== null) {
      over = true;
      exchange.refuse(late.refusal);
      scope.responseEnded(null, '');
    }
    throw notWanted;
  };
  const respond = (response: ApplicationResponse): void => {
    if (over) return;
    const body = typeof response.body === 'string' ? Buffer.from(response.body) : response.body;
    const headers = response.headers.flat();
    // RFC 9110 8.6: no length where there can be no content.
    if (response.status !== 204) headers.push('content-length', String(body.length));
    scope.requestEnded();
    scope.responseHead(response.status);
    const hasBody = body.length > 0 && exchange.method !== 'HEAD';
    exchange.respond(response.status, STATUS_CODES[response.status] ?? '', headers, hasBody);
    if (hasBody) {
      scope.responseFrame(body.length);
      exchange.write(body);
    }
    exchange.end([]);
    scope.responseEnded(null, '');
  };
  const refuse = (error: unknown): void => {
    if (over) return;
    const isKnown = error instanceof CodedError;
    asking.failed(isKnown ? error : new CodedError('ERR_SALLYPORT_UNEXPECTED', 'application failed', { cause: error }));
    scope.responseEnded(null, 'unclassified');
  };
  const ends = { destroy: () => exchange.abort() };
  application
    .handle(request, admitted)
    .then(respond, refuse)
    .catch((error: unknown) => {
      scope.responseEnded(null, 'unclassified');
      internalFault('an application of ours', ends, error);
    });
}

/** All of a stream. */
export function readStream(body: Readable | null, maxBytes: number): Promise<Buffer> {
  if (body === null) return Promise.resolve(Buffer.alloc(0));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    body.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) reject(new Error('request body too large'));
      else chunks.push(chunk);
    });
    body.once('end', () => resolve(Buffer.concat(chunks)));
    body.once('error', reject);
    body.once('close', () => reject(new Error('request aborted')));
    body.resume();
  });
}
