import http from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { CodedError } from '../../../errors/coded-error.ts';
import { guarded } from '../../guard.ts';
import type { Admitted } from '../../http/admitted.ts';
import { headerValue, without } from '../../http/headers.ts';
import type { Endpoint } from '../../upstream/endpoint.ts';
import type { LibraryUpstreams } from './library-upstreams.ts';
import { type MayLeave, none, notSent, otherSideClosed, type Sender } from './undici-pool.ts';

/**
 * Sends `OPTIONS *` (RFC 9112 3.2.4), a target that undici will not send, each time on a connection of its own. To be used
 * where a dispatcher is.
 */
export function asteriskSender(upstreams: LibraryUpstreams, admitted: Admitted, endpoint: Endpoint): Sender {
  return {
    dispatch: (options, handler, mayLeave) => {
      const connected = (error: Error | null, socket: Socket): void => {
        if (error === null) new AsteriskRequest(socket, options, handler).send(upstreams, mayLeave);
        else handler.onResponseError?.(none, error);
      };
      upstreams.connect(admitted, endpoint, connected);
      return true;
    },
  };
}

class AsteriskRequest {
  readonly #socket: Socket;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #controller: Dispatcher.DispatchController;
  #request: http.ClientRequest | null = null;
  #received: http.IncomingMessage | null = null;
  #aborted = false;
  #hasFailed = false;

  /** @param socket connected, and nobody else's. */
  constructor(socket: Socket, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
    this.#socket = socket;
    this.#options = options;
    this.#handler = handler;
    const self = this;
    this.#controller = {
      abort: () => this.destroy(),
      pause: () => void this.#received?.pause(),
      resume: () => void this.#received?.resume(),
      get aborted() {
        return self.#aborted;
      },
      get rawHeaders() {
        return self.#received?.rawHeaders ?? null;
      },
      get rawTrailers() {
        return self.#received?.rawTrailers ?? null;
      },
    } as unknown as Dispatcher.DispatchController;
  }

  send(upstreams: LibraryUpstreams, mayLeave: MayLeave): void {
    this.#handler.onRequestStart?.(this.#controller, null);
    if (this.#aborted) return;
    const admitted = mayLeave();
    if (admitted === null) {
      this.destroy();
      this.#handler.onResponseError?.(this.#controller, notSent);
      return;
    }
    const { method, headers, body } = this.#options;
    // No trailers go on to an HTTP/1 app, and Node refuses to announce some where there are no chunks.
    const fields = [...without(headers as string[], 'trailer')];
    const content = body instanceof Readable ? body : null;
    if (content !== null && headerValue(fields, 'content-length') === null) fields.push('Transfer-Encoding', 'chunked');
    const agent = upstreams.agent(admitted, this.#socket);
    const request = http.request({ agent, method, path: '*', headers: fields, setHost: false });
    this.#request = request;
    request.on('error', guarded('OPTIONS *, failed', this, this.#failed));
    // With `Upgrade` it ends the connection and says no more.
    request.once('close', () => {
      if (this.#received === null && !this.#hasFailed) this.#failed(switched());
    });
    request.once('response', guarded('OPTIONS *, response', this, this.#responded));
    if (content === null) request.end();
    else content.pipe(request);
  }

  destroy(): void {
    this.#aborted = true;
    this.#request?.destroy();
    this.#socket.destroy();
  }

  readonly #failed = (error: Error): void => {
    this.#hasFailed = true;
    this.#handler.onResponseError?.(this.#controller, error);
  };

  readonly #responded = (response: http.IncomingMessage): void => {
    const handler = this.#handler;
    const controller = this.#controller;
    this.#received = response;
    // Without `Upgrade` Node takes a 101 for a response like any other.
    if (response.statusCode === 101) {
      this.#failed(switched());
      this.destroy();
      return;
    }
    handler.onResponseStart?.(controller, response.statusCode ?? 0, {}, response.statusMessage ?? '');
    const received = (chunk: Buffer): void => handler.onResponseData?.(controller, chunk);
    response.on('data', guarded('OPTIONS *, content', this, received));
    const ended = (): void => {
      if (response.complete) handler.onResponseEnd?.(controller, {});
      else handler.onResponseError?.(controller, new Error(otherSideClosed));
    };
    response.once('close', guarded('OPTIONS *, ended', this, ended));
  };
}

/** `OPTIONS *` asks for no switch of protocols. */
function switched(): CodedError {
  return new CodedError('ERR_SALLYPORT_BAD_RESPONSE', 'the application switched protocols');
}
