import { sourceOf } from '../../fairness/sources.ts';
import { guarded } from '../../guard.ts';
import type { Admitted, AdmittedNow } from '../../http/admitted.ts';
import { endAfterLastBytes, endAfterLastResponse, endWithStatus } from '../../http/last-bytes.ts';
import { type Failure, failures, type Refusal, upstreamFailure } from '../../http/refuse.ts';
import { maySendAgain, sendingLost } from '../../http/retry.ts';
import { TunnelRequest } from '../../http/tunnel-request.ts';
import { isLent } from '../../lent-data.ts';
import { maxDrainBytes } from '../../limits.ts';
import { resetUnlessEnded } from '../../resets.ts';
import { holdBack } from '../../socket-calls.ts';
import type { AppConnection, ResponseSink } from '../app-connection.ts';
import type { AppPool } from '../app-pool.ts';
import { writeJoined, writeLent, writeText } from '../joined-write.ts';
import type { Switch } from '../leaving-http.ts';
import type { ResponseHead } from '../plain-response.ts';
import type { ContentFault, RequestContent } from './content.ts';
import { type ChunkDecoder, forOldClient } from './old-client.ts';
import type { PlainRequest } from './plain-request.ts';
import { refusalHead } from './refusal-head.ts';
import type { RequestHome } from './request-home.ts';
import { heldOn, noWay, type Way } from './way.ts';

const nothing = Buffer.alloc(0);

/** One request on the fast lane, from its head to the end of its response. */
export class FastRequest implements ResponseSink {
  readonly kind = 'request';
  /** The response is the last one of its connection. */
  isLast: boolean;
  readonly #home: RequestHome;
  readonly #request: PlainRequest;
  /** On the clock of `performance.now()`; 0 where nobody asks. */
  readonly #startedAt: number;
  readonly #content: RequestContent;
  /** Null once its end is recorded; of a request that is refused, always. */
  #admitted: Admitted | null = null;
  #way: Way = noWay;
  #response: 'awaited' | 'begun' | 'complete' = 'awaited';
  /** What there is to send again. */
  #kept: 'nothing' | 'its head' = 'nothing';
  /** Of a body whose chunks its client does not understand. */
  #decoder: ChunkDecoder | null = null;
  /** Bytes of content that are still read away when the response came first. */
  #drainLeft = 0;

  constructor(home: RequestHome, request: PlainRequest, content: RequestContent, isLast: boolean) {
    this.#home = home;
    this.#request = request;
    this.#content = content;
    this.isLast = isLast;
    this.#startedAt = home.pipeline.needsStart ? performance.now() : 0;
  }

  /** What more of its content comes is taken by this, and then received. */
  get content(): RequestContent {
    return this.#content;
  }

  get heldForApp(): number {
    return heldOn(this.#way);
  }

  /** The client has said so, and sends nothing more. */
  get endsByClient(): boolean {
    return !this.#request.fields.keepAlive;
  }

  get requestComplete(): boolean {
    return this.#content.isComplete;
  }

  /** Decides on it, and sends it on with the content that came with its head; or refuses it. */
  begin(): void {
    const request = this.#request;
    const admitted = this.#home.pipeline.admit(this.#home.connection, request);
    if (admitted.kind === 'refused') return void this.#refuse(admitted.refusal);
    this.#admitted = admitted;
    const { size, isComplete } = this.#content;
    const part = this.#content.handOn();
    // One final response or 100, never both: the permit comes before the client is asked for its content.
    const asks = request.fields.expectsContinue && !isComplete;
    if (asks) this.#write('HTTP/1.1 100 Continue\r\n\r\n');
    if (asks && part.length === 0) this.#way = { kind: 'awaits-content', admitted };
    else this.#forward(admitted, size, part);
    if (isComplete) admitted.scope.requestEnded();
  }

  /** Sends the head, and the content that has come by now. */
  #forward(admitted: AdmittedNow, size: number, content: Buffer): void {
    if (size > 0) admitted.scope.requestFrame(size);
    const app = this.#pool.take(admitted, this.#request.repeatable);
    if (app === null) return void this.#connect(admitted, isLent(content) ? Buffer.from(content) : content);
    if (this.#request.carries === 'nothing') this.#kept = 'its head';
    this.#send(admitted, app, content);
  }

  /** Behind a wait. Null: policy refuses it by now, and the client is told so. `app`: what it was to leave on. */
  #admitLate(before: Admitted, app: AppConnection | null): AdmittedNow | null {
    const admitted = this.#home.pipeline.admitLate(this.#home.connection, this.#request, before);
    if (admitted.kind === 'admitted') {
      this.#admitted = admitted;
      return admitted;
    }
    this.#way = noWay;
    if (app !== null) this.#pool.putBack(app);
    this.#ended('');
    this.#refuse(admitted.refusal);
    return null;
  }

  get #pool(): AppPool {
    return this.#request.isApart ? this.#home.ownPool : this.#home.pool;
  }

  #connect(before: Admitted, content: Buffer): void {
    const { connection } = this.#home;
    // What follows must wait for the app.
    if (!this.#content.isComplete) this.#home.socket.pause();
    const connected = (error: Error | null, app: AppConnection | null): void => {
      this.#way = noWay;
      if (app === null) return void this.onFailed(error ?? new Error('not connected'));
      const admitted = this.#admitLate(before, app);
      if (admitted === null) return;
      this.#send(admitted, app, content);
      if (!this.#content.isComplete && !app.socket.writableNeedDrain) this.#home.socket.resume();
    };
    this.#way = {
      kind: 'connecting',
      contentBytes: content.length,
      pending: this.#pool.connect(
        before,
        sourceOf(connection.facts.client.ip),
        guarded('HTTP/1, a request on the fast lane', this, connected),
      ),
    };
  }

  #send(admitted: AdmittedNow, app: AppConnection, content: Buffer): void {
    this.#way = app;
    const head = this.#request.outgoing(this.#home.connection.facts.client, admitted);
    const onSwitch = this.#request.carries === 'upgrade' ? this.#switched(admitted, app) : undefined;
    app.begin(admitted, this.#request.method, this.#request.hop.reuse, this, onSwitch);
    if (!writeJoined(app.socket, head, content, isLent(content))) this.#awaitApp(app);
  }

  /** Called when the app agrees to leave HTTP: from there on the two connections are a tunnel. */
  #switched(before: Admitted, app: AppConnection): Switch {
    return (head, rest) => {
      this.#way = noWay;
      this.#admitted?.scope.responseHead(head.status);
      const admitted = this.#admitted ?? before;
      this.#ended('');
      const lines = `${head.forward}Connection: Upgrade\r\nUpgrade: ${head.upgrade}\r\n\r\n`;
      if (!writeJoined(this.#home.socket, lines, rest, true)) app.socket.pause();
      this.#accessed(head.status, head.forward);
      return this.#home.switched(app, new TunnelRequest(this.#home, this.#request, this.#request.forward, admitted));
    };
  }

  /** Content that came later has been taken. */
  receive(): void {
    const { size, isComplete } = this.#content;
    const part = this.#content.handOn();
    if (this.#isAnswered) {
      this.#receiveRest(size, part);
    } else if (this.#way.kind === 'app') {
      if (size > 0) this.#admitted?.scope.requestFrame(size);
      if (part.length > 0 && !this.#way.sendMore(part)) this.#awaitApp(this.#way);
    } else if (this.#way.kind === 'awaits-content' && part.length > 0) {
      const admitted = this.#admitLate(this.#way.admitted, null);
      if (admitted === null) return;
      this.#forward(admitted, size, part);
    }
    if (!isComplete) {
      if (this.#isAnswered && this.isLast) this.#home.finished(this);
      return;
    }
    this.#admitted?.scope.requestEnded();
    if (this.#home.hasNext) this.#home.socket.pause();
    if (this.#isAnswered) this.#home.finished(this);
  }

  /** The response came first. A little more is taken, which keeps both connections. */
  #receiveRest(size: number, content: Buffer): void {
    this.#drainLeft -= size;
    if (this.#drainLeft < 0) this.isLast = true;
    if (this.#way.kind !== 'app') return;
    if (this.isLast) this.#leaveApp();
    else if (!this.#way.sendRest(content, this.#content.isComplete)) this.#way = noWay;
  }

  /** The app is slow: what more there is of the content waits. */
  #awaitApp(app: AppConnection): void {
    if (this.#content.isComplete) return;
    const { socket, connection } = this.#home;
    socket.pause();
    connection.keeper.look();
    app.socket.once('drain', () => {
      if (!this.#content.isComplete || !this.#home.hasNext) socket.resume();
    });
  }

  drained(): void {
    if (this.#way.kind === 'app') this.#way.socket.resume();
  }

  /** Whether more of its content may be read: not while the app is not there yet, or is slow. */
  get takesContent(): boolean {
    const way = this.#way;
    return way.kind === 'app' ? !way.socket.writableNeedDrain : way.kind !== 'connecting';
  }

  onHead(head: ResponseHead, received: Buffer, isEnd: boolean): void {
    if (head.status < 200) {
      // 100 was never asked for here; all others are the client's (RFC 9110 15.2), and HTTP/1.0 knows none.
      if (head.status !== 100 && !this.#request.isOld) this.#write(`${head.forward}\r\n`);
      return;
    }
    const old = this.#request.isOld && head.framing.kind !== 'length' ? forOldClient(head) : null;
    const isEndless = old?.isEndless ?? head.framing.kind === 'until-close';
    this.#response = 'begun';
    if (isEndless || old?.hasLength === false || this.#home.isEnding) this.isLast = true;
    if (isEndless) resetUnlessEnded(this.#home.socket);
    this.#decoder = old?.decoder ?? null;
    const scope = this.#admitted?.scope;
    scope?.responseHead(head.status);
    const { forward } = old ?? head;
    const lines = this.isLast
      ? `${forward}connection: close\r\n\r\n`
      : `${forward}${this.#request.keptLines(this.#home.pipeline.limits)}\r\n`;
    const body = this.#decoder === null ? received : this.#decoder.decode(received);
    if (body.length > 0) scope?.responseFrame(body.length);
    if (isEnd && this.isLast) this.#sendLast(lines, body);
    else if (!writeJoined(this.#home.socket, lines, body, true)) this.#hold();
    this.#accessed(head.status, forward);
  }

  onBody(received: Buffer, isEnd: boolean): void {
    const body = this.#decoder === null ? received : this.#decoder.decode(received);
    if (body.length === 0) return;
    this.#admitted?.scope.responseFrame(body.length);
    if (isEnd && this.isLast) holdBack(this.#home.socket);
    if (!writeLent(this.#home.socket, body)) this.#hold();
  }

  /** The last bytes of a connection leave with its end. */
  #sendLast(lines: string, content: Buffer): void {
    if (this.#home.sendLast(lines, content)) return;
    const { socket } = this.#home;
    holdBack(socket);
    if (!writeJoined(socket, lines, content, true)) this.#hold();
  }

  #write(text: string): void {
    if (!writeText(this.#home.socket, text)) this.#hold();
  }

  #hold(): void {
    this.#home.connection.keeper.look();
    if (this.#way.kind === 'app') this.#way.socket.pause();
  }

  onEnd(awaiting: AppConnection | null): void {
    this.#way = awaiting ?? noWay;
    if (this.isLast) this.#leaveApp();
    this.#ended('');
    this.#over();
  }

  onFailed(error: Error): void {
    const loss = sendingLost(this.#way.kind === 'app' ? this.#way : null);
    const before = this.#admitted;
    this.#way = noWay;
    if (this.#kept === 'its head' && before !== null && maySendAgain(this.#request.repeatable, loss)) {
      // An idle connection that the app closed just as we took it: once more, on a new one.
      this.#kept = 'nothing';
      const admitted = this.#admitLate(before, null);
      if (admitted !== null) this.#connect(admitted, nothing);
      return;
    }
    this.#fail(upstreamFailure(error));
  }

  /** Ends it, and its connection: after a fault of ours, or where its client must see that no more comes of a response (RFC 9112 8). */
  destroy(): void {
    this.#home.socket.destroy();
  }

  abandon(): void {
    this.#leaveApp();
    this.#ended('');
  }

  /** No more of its content has come for too long. Its connection ends with it. */
  giveUp(): void {
    // Paused: it is the app that does not read.
    if (this.#response === 'awaited' && this.#home.socket.isPaused()) this.#fail(failures.requestTimeout);
    else this.#endWith('late', 'unclassified');
  }

  /** What comes of its content cannot be read any further. Its connection ends with it. */
  refuseContent(fault: ContentFault): void {
    this.#endWith(fault, '');
  }

  #endWith(fault: ContentFault | 'late', error: '' | 'unclassified'): void {
    const { pipeline, connection, socket } = this.#home;
    this.#leaveApp();
    if (this.#isAnswered) endAfterLastBytes(socket, 'impatient');
    else if (this.#response !== 'awaited') this.destroy();
    else endWithStatus(socket, pipeline.cutShort(connection, this.#admitted, this.#request, fault, this.#startedAt));
    this.#ended(error);
  }

  /** Its client has ended within its content. */
  endWithin(): void {
    if (this.#isAnswered) endAfterLastResponse(this.#home.socket, true);
    else this.destroy();
  }

  /** Ends it with 504 if it began before `since` and has no complete response. */
  endOverdue(since: number): void {
    if (this.#admitted === null || this.#startedAt > since) return;
    this.#home.pipeline.limitReached('request_timeout', this.#home.connection);
    this.#fail(failures.requestTimeout);
  }

  /** Policy has changed: ends it where it is refused by now. */
  recheck(): void {
    const { pipeline, connection } = this.#home;
    // An app that has answered need not have the rest of the content, and nobody knows whether it still may.
    if (this.#admitted === null) return void this.#leaveApp();
    const again = pipeline.recheck(connection, this.#request, this.#admitted);
    if (again.kind === 'refused') this.#breakOff(again.refusal);
    else this.#admitted = again;
  }

  /** The response is complete, though the request may not be: whatever ends the connection, it must arrive. */
  get #isAnswered(): boolean {
    return this.#response === 'complete';
  }

  /** Nothing more is expected of the app. */
  #leaveApp(): void {
    if (this.#way.kind === 'connecting') this.#way.pending.cancel();
    else if (this.#way.kind === 'app') this.#way.abandon();
    this.#way = noWay;
  }

  #ended(error: '' | 'unclassified'): void {
    const admitted = this.#admitted;
    this.#admitted = null;
    admitted?.scope.responseEnded(null, error);
  }

  /** The app has not answered, or not to the end. */
  #fail(failure: Failure): void {
    const { pipeline, connection } = this.#home;
    if (this.#admitted !== null) {
      const record = this.#response === 'awaited' ? 'failed' : 'brokeOff';
      pipeline[record](connection, this.#admitted, this.#request, failure);
    }
    this.#breakOff(failure.refusal);
  }

  /** Nothing of the app's is wanted any more: the response is this, or its client must see that no more comes of it. */
  #breakOff(refusal: Refusal): void {
    const awaited = this.#response === 'awaited' ? this.#admitted : null;
    awaited?.scope.refused(refusal.status, refusal.grpc);
    this.#leaveApp();
    this.#ended('unclassified');
    if (awaited === null) this.destroy();
    else this.#refuse(refusal);
  }

  #refuse(refusal: Refusal): void {
    // With Expect the client may or may not send its content now: the next bytes could be either (RFC 9110 10.1.1).
    if (refusal.close || this.#request.fields.expectsContinue || this.#home.isEnding) this.isLast = true;
    const ending = this.isLast ? 'connection: close\r\n' : this.#request.keptLines(this.#home.pipeline.limits);
    const head = refusalHead(refusal, this.#home.connection.facts, ending);
    if (this.isLast) this.#sendLast(head, nothing);
    else this.#write(head);
    this.#accessed(refusal.status, head);
    this.#over();
  }

  /** The response is complete. */
  #over(): void {
    this.#response = 'complete';
    this.#drainLeft = maxDrainBytes;
    if (!this.#content.isComplete && !this.isLast) this.#home.socket.resume();
    else this.#home.finished(this);
  }

  #accessed(status: number, responseLines: string): void {
    const { pipeline, connection } = this.#home;
    pipeline.answered(connection.facts, this.#request, status, responseLines, this.#startedAt);
  }
}
