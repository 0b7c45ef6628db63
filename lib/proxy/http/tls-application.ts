import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type TLSSocket, connect as tlsConnect } from 'node:tls';
import { CodedError } from '../../errors/coded-error.ts';
import { dropNamed } from '../../request-fields.ts';
import type { Asker } from '../fairness/fair-queue.ts';
import { HandshakeTurn, type HandshakeTurns } from '../fairness/handshake-turns.ts';
import { sourceOf } from '../fairness/sources.ts';
import { guarded } from '../guard.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { Done, Upstreams } from '../upstream/upstreams.ts';
import type { Admitted, AdmittedNow } from './admitted.ts';
import { type Application, type ApplicationRequest, type ApplicationResponse, notWanted } from './application.ts';
import { scanResponseHeaders } from './headers.ts';

/** A kubelet reads no more than the first 10 KiB of what a probe is answered; the rest would only be carried. */
const mostContent = 64 * 1024;
/** Milliseconds for one request, all in all. A kubelet waits for a second unless it is told to wait longer. */
const longest = 60_000;

/** The content is collected, so that its length is told anew, and no trailers follow it. */
const madeAnew: ReadonlySet<string> = new Set(['content-length', 'te', 'trailer']);

/**
 * The app as it speaks TLS, for the requests of one client's connection that were decided: one connection a request, whose
 * certificate nobody verifies, as the kubelet does not when it asks an app by HTTPS. For probes, hence `GET` without content
 * and short responses.
 */
export function tlsApplication(upstreams: Upstreams, endpoint: Endpoint, asker: Asker, turns: TlsTurns): Application {
  // One after the other, as the kubelet asks: each is a handshake here and in the app, for a few bytes of the client's.
  let before: Promise<unknown> = Promise.resolve();
  return {
    handle(request, admitted) {
      let isGone = false;
      request.onAborted(() => {
        isGone = true;
      });
      const ask = (): Promise<ApplicationResponse> =>
        new Promise((resolve, reject) => {
          if (isGone) reject(gone());
          else new TlsExchange(request, turns, resolve, reject).begin(upstreams, endpoint, asker, admitted);
        });
      const response = before.then(ask);
      before = Promise.allSettled([response]);
      return response;
    },
  };
}

function gone(): Error {
  return new Error('the client is gone');
}

type TlsTurns = Pick<HandshakeTurns, 'add' | 'over'>;

class TlsExchange {
  readonly #request: ApplicationRequest;
  readonly #turns: TlsTurns;
  readonly #resolve: (response: ApplicationResponse) => void;
  readonly #reject: (error: Error) => void;
  #sent: ClientRequest | null = null;
  #socket: Socket | null = null;
  readonly #timer: NodeJS.Timeout;

  constructor(
    request: ApplicationRequest,
    turns: TlsTurns,
    resolve: (response: ApplicationResponse) => void,
    reject: (error: Error) => void,
  ) {
    this.#request = request;
    this.#turns = turns;
    this.#resolve = resolve;
    this.#reject = reject;
    const late = (): void => this.#fail(new CodedError('ERR_SALLYPORT_REQUEST_TIMEOUT', 'no response in time'));
    this.#timer = setTimeout(guarded('an HTTPS probe, late', null, late), longest);
  }

  begin(upstreams: Upstreams, endpoint: Endpoint, asker: Asker, admitted: Admitted): void {
    const connected: Done = (error, socket) => {
      if (error === null) this.#wait(socket);
      else this.#fail(error instanceof CodedError ? error : new CodedError('ERR_SALLYPORT_UNREACHABLE', error.message));
    };
    const pending = upstreams.connect(admitted, endpoint, asker, connected);
    this.#request.onAborted(() => {
      pending.cancel();
      this.#fail(gone());
    });
  }

  #wait(socket: Socket): void {
    this.#socket = socket;
    const handshake = new HandshakeTurn(socket, () => this.#speak(socket, handshake));
    const closed = (): void => {
      this.#turns.over(handshake);
      // Its turn never comes.
      if (this.#sent === null)
        this.#fail(new CodedError('ERR_SALLYPORT_UNREACHABLE', 'the application closed the connection before TLS'));
    };
    socket.once('close', guarded('an HTTPS probe, closed', null, closed));
    this.#turns.add(sourceOf(this.#request.clientIp), handshake);
  }

  /** TLS without verification, then one request on it. */
  #speak(socket: Socket, handshake: HandshakeTurn): void {
    const secured = tlsConnect({ socket, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
    secured.on('error', (error) => this.#unreachable(error));
    const established = (): void => {
      this.#turns.over(handshake);
      this.#ask(secured);
    };
    secured.once('secureConnect', guarded('an HTTPS probe, secured', secured, established));
  }

  #unreachable(error: Error): void {
    this.#fail(new CodedError('ERR_SALLYPORT_UNREACHABLE', error.message, { cause: error }));
  }

  /** It may have waited for others, for a connection and for its handshake. */
  #ask(secured: TLSSocket): void {
    try {
      this.#send(secured, this.#request.admitLate());
    } catch (error) {
      if (error !== notWanted) throw error;
      this.#fail(notWanted);
    }
  }

  #send(secured: TLSSocket, _admitted: AdmittedNow): void {
    const { method, path, query, fields } = this.#request;
    this.#sent = httpRequest({
      method,
      path: query === '' ? path : `${path}?${query}`,
      headers: fields as string[],
      setHost: false,
      createConnection: () => secured,
    });
    this.#sent.on('error', (error) => this.#unreachable(error));
    this.#sent.once(
      'upgrade',
      guarded('an HTTPS probe, upgraded', secured, () => this.#broken('switched protocols')),
    );
    this.#sent.once(
      'response',
      guarded('an HTTPS probe', secured, (response) => this.#receive(response)),
    );
    this.#sent.end();
  }

  #receive(response: IncomingMessage): void {
    const chunks: Buffer[] = [];
    let size = 0;
    const finish = (): void => {
      const body = Buffer.concat(chunks).subarray(0, mostContent);
      const fields = dropNamed(scanResponseHeaders(response.rawHeaders), madeAnew);
      const headers = Array.from({ length: fields.length / 2 }, (_, i) => {
        return [fields[i * 2] as string, fields[i * 2 + 1] as string] as const;
      });
      this.#release();
      this.#resolve({ status: response.statusCode ?? 502, headers, body });
    };
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= mostContent) finish();
    });
    response.once('end', finish);
    // Node takes a response that breaks off for no error where nobody listens for one.
    const closed = (): void => this.#broken('ended its response early');
    response.once('close', guarded('an HTTPS probe, ended', this.#socket, closed));
  }

  #broken(what: string): void {
    this.#fail(new CodedError('ERR_SALLYPORT_BAD_RESPONSE', `the application ${what}`));
  }

  #fail(error: Error): void {
    this.#release();
    this.#reject(error);
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#sent?.destroy();
    this.#socket?.destroy();
  }
}
