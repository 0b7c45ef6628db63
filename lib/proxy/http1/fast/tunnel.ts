import type { Socket } from 'node:net';
import type { Rechecked } from '../../fairness/rechecks.ts';
import { guarded } from '../../guard.ts';
import type { HttpConnection, Occupant } from '../../http/request-pipeline.ts';
import type { TunnelRequest } from '../../http/tunnel-request.ts';
import type { Keeper } from '../../kept.ts';
import { lendReads, mayLendReads } from '../../node-streams.ts';
import { DataReader, LentReads } from '../../tcp/lent-reads.ts';
import { atEnd, tieEnds } from '../../tcp/tunnel-ends.ts';
import type { AppConnection } from '../app-connection.ts';
import type { AppTunnel } from '../leaving-http.ts';
import { halfOpenMs } from '../limits.ts';

/** Where a fault of ours was met. */
const entry = 'HTTP/1, a tunnel';

/**
 * What two connections are after the app has agreed to leave HTTP: bytes, both ways. Each end and each reset passes on, and
 * a slow reader holds back the writer. Neither connection ever carries a request again.
 */
export class Tunnel implements AppTunnel, Occupant {
  readonly #request: TunnelRequest;
  readonly #client: Socket;
  readonly #app: Socket;
  readonly isLent: boolean;
  readonly betweenRequests = false;
  readonly awaitsContent = false;
  readonly isTunnel = true;

  /** @param early what the client has sent behind its request, and has waited for the app's agreement. */
  constructor(
    connection: HttpConnection,
    request: TunnelRequest,
    client: Socket,
    { socket: app }: AppConnection,
    early: Buffer,
  ) {
    connection.occupant = this;
    this.#request = request;
    this.#client = client;
    this.#app = app;
    const reader = new DataReader(client, app, connection.keeper);
    tieEnds(client, app);
    this.isLent = this.#lendDownloads(connection.keeper);
    reader.passAll();
    if (early.length > 0) reader.pass(early);
    atEnd(client, guarded(entry, this, this.#clientEnded));
    if (!app.writableNeedDrain && client.isPaused()) client.resume();
  }

  get heldForApp(): number {
    return this.#app.writableLength;
  }

  /** What the app sends from here on goes to the client without a buffer for every read, where that can be. */
  #lendDownloads(keeper: Keeper): boolean {
    const client = this.#client;
    const app = this.#app;
    if (!mayLendReads(app)) {
      client.on('drain', () => app.resume());
      return false;
    }
    const reads = new LentReads(client, keeper);
    reads.from(app);
    lendReads(app, reads);
    // The client has not taken the agreement yet, and `LentReads` does not know that.
    if (app.isPaused()) client.once('drain', () => app.resume());
    return true;
  }

  readonly #clientEnded = (): void => {
    this.#client.setTimeout(halfOpenMs, () => this.#client.destroy());
    this.#app.end();
  };

  /** From the app, where its reads could not be lent for good. */
  receive(bytes: Buffer): void {
    if (!this.#client.write(Buffer.from(bytes))) this.#app.pause();
  }

  destroy(): void {
    this.#client.destroy();
    this.#app.destroy();
  }

  retire(): void {
    // It lasts for as long as both sides want it to.
  }

  giveUp(): void {
    this.destroy();
  }

  endOverdue(): void {
    // The request has ended with the agreement.
  }

  recheck(): Rechecked {
    if (!this.#request.mayGoOn()) this.destroy();
    return 'done';
  }
}
