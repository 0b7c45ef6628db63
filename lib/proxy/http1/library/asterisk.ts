import http from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { CodedError } from '../../../errors/coded-error.ts';
import { guarded } from '../../guard.ts';
import { headerValue, without } from '../../http/headers.ts';
import { otherSideClosed } from './undici-pool.ts';

/**
 * Sends `OPTIONS *` (RFC 9112 3.2.4), a target that undici will not send, each time on a connection of its own. To be used
 * where a dispatcher is.
 */
export function asteriskSender(agent: http.Agent): Pick<Dispatcher, 'dispatch'> {
  return {
    dispatch: ({ method, headers, body }, handler) => {
      // No trailers go on to an HTTP/1 app, and Node refuses to announce some where there are no chunks.
      const fields = [...without(headers as string[], 'trailer')];
      const content = body instanceof Readable ? body : null;
      if (content !== null && headerValue(fields, 'content-length') === null)
        fields.push('Transfer-Encoding', 'chunked');
      const request = http.request({ agent, method, path: '*', headers: fields, setHost: false });
      const ends = { destroy: () => void request.destroy() };
      let received: http.IncomingMessage | null = null;
      const controller = {
        abort: () => request.destroy(),
        pause: () => received?.pause(),
        resume: () => received?.resume(),
        get rawHeaders() {
          return received?.rawHeaders ?? null;
        },
        get rawTrailers() {
          return received?.rawTrailers ?? null;
        },
      } as unknown as Dispatcher.DispatchController;
      // `OPTIONS *` asks for no switch of protocols.
      const switched = (): CodedError =>
        new CodedError('ERR_SALLYPORT_BAD_RESPONSE', 'the application switched protocols');
      let hasFailed = false;
      const failed = guarded('OPTIONS *, failed', ends, (error: Error) => {
        hasFailed = true;
        handler.onResponseError?.(controller, error);
      });
      const responded = (response: http.IncomingMessage): void => {
        received = response;
        // Without `Upgrade` Node takes a 101 for a response like any other.
        if (response.statusCode === 101) {
          failed(switched());
          request.destroy();
          return;
        }
        handler.onResponseStart?.(controller, response.statusCode ?? 0, {}, response.statusMessage ?? '');
        response.on(
          'data',
          guarded('OPTIONS *, content', ends, (chunk: Buffer) => handler.onResponseData?.(controller, chunk)),
        );
        const ended = (): void => {
          if (response.complete) handler.onResponseEnd?.(controller, {});
          else handler.onResponseError?.(controller, new Error(otherSideClosed));
        };
        response.once('close', guarded('OPTIONS *, ended', ends, ended));
      };
      request.on('error', failed);
      // With `Upgrade` it ends the connection and says no more.
      request.once('close', () => {
        if (received === null && !hasFailed) failed(switched());
      });
      request.once('response', guarded('OPTIONS *, response', ends, responded));
      handler.onRequestStart?.(controller, null);
      if (content === null) request.end();
      else content.pipe(request);
      return true;
    },
  };
}
