import type { Duplex } from 'node:stream';
import { oddNamesOf } from '../../policy/decision.ts';
import type { Admitted } from './admitted.ts';
import type { Request } from './exchange.ts';
import { fieldPairs, fieldValues } from './field-lines.ts';
import { smallHead } from './held-heads.ts';
import type { HttpConnection, RequestPipeline } from './request-pipeline.ts';

/** The client connection that has become a tunnel. */
export interface TunnelHome {
  readonly pipeline: RequestPipeline;
  readonly connection: HttpConnection;
  readonly socket: Duplex;
}

/**
 * The request that a tunnel began with (WebSocket, another upgrade, CONNECT), for as long as the tunnel lasts: a later policy
 * decides by it whether the tunnel may go on. It has what decisions look at, and nothing else of the request.
 */
export class TunnelRequest implements Request {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly version: string;
  readonly grpc = false;
  readonly carries = 'upgrade';
  readonly #lines: string;
  readonly #home: TunnelHome;
  /** Null once it has been refused. */
  #admitted: Admitted | null;

  /**
   * @param home what it holds is counted until this is closed.
   * @param lines the fields that it was decided on, each ended with CRLF.
   */
  constructor(home: TunnelHome, request: Request, lines: string, admitted: Admitted) {
    this.#home = home;
    this.#admitted = admitted;
    this.method = request.method;
    this.version = request.version;
    this.target = alone(request.target);
    this.path = request.path === request.target ? this.target : alone(request.path);
    this.query = alone(request.query);
    this.host = alone(request.host);
    this.#lines = alone(lines);
    this.#count();
  }

  /** As for requests in flight: of small heads there are no more than connections. */
  #count(): void {
    const { headBytes } = this;
    const { pipeline, socket } = this.#home;
    const { heads } = pipeline;
    if (headBytes <= smallHead || socket.closed) return;
    // There is room: it was counted as a request, twice as large, until now.
    if (heads.take(headBytes)) socket.once('close', () => heads.release(headBytes));
  }

  get headBytes(): number {
    return this.#lines.length + this.target.length + this.path.length + this.query.length + this.host.length;
  }

  header(name: string): readonly string[] {
    return fieldValues(this.#lines, name);
  }

  get oddNames(): readonly string[] {
    return oddNamesOf(fieldPairs(this.#lines));
  }

  /** Decides again, since policy has changed. False: the tunnel is to end, and that is recorded; said once. */
  mayGoOn(): boolean {
    if (this.#admitted === null) return true;
    const { pipeline, connection } = this.#home;
    const again = pipeline.recheck(connection, this, this.#admitted);
    this.#admitted = again.kind === 'admitted' ? again : null;
    return again.kind === 'admitted';
  }
}

/** The same text in memory of its own: a part of a head keeps all of the head. */
function alone(text: string): string {
  return text.length === 0 ? '' : Buffer.from(text, 'latin1').toString('latin1');
}
