import { sourceOf } from '../../fairness/sources.ts';
import { guarded } from '../../guard.ts';
import type { Admitted } from '../../http/admitted.ts';
import { endAfterLastBytes, endAfterLastResponse, endWithStatus } from '../../http/last-bytes.ts';
import { type Failure, failures, type Refusal, upstreamFailure } from '../../http/refuse.ts';
import { maySendAgain, type Repeatable, repeatable, sendingLost } from '../../http/retry.ts';
import { isLent } from '../../lent-data.ts';
import { maxDrainBytes } from '../../limits.ts';
import { resetUnlessEnded } from '../../resets.ts';
import { holdBack } from '../../socket-calls.ts';
import type { AppConnection, ResponseSink, Switch } from '../app-connection.ts';
import type { AppPool } from '../app-pool.ts';
import { writeJoined, writeLent, writeText } from '../joined-write.ts';
import type { ResponseHead } from '../plain-response.ts';
import type { ContentFault, RequestContent } from './content.ts';
import { type ChunkDecoder, forOldClient } from './old-client.ts';
import type { PlainRequest } from './plain-request.ts';
import { refusalHead } from './refusal-head.ts';
import type { RequestHome } from './request-home.ts';
import { noWay, type Way } from './way.ts';

const nothing = Buffer.alloc(0);

/** Where a fault of ours was met. */
const entry = 'HTTP/1, a request on the fast lane';

type Response = 'awaited' | 'begun' | 'complete';

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
  #response: Response = 'awaited';
  /** What there is to send again; null where nothing is kept. */
  #repeat: string | null = null;
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

  /** The client has said so, and sends nothing more. */
  get endsByClient(): boolean {
    return !this.#request.fields.keepAlive;
  }

  get requestComplete(): boolean {
    return this.#content.isComplete;
  }

  get #repeatable(): Repeatable {
    return repeatable(this.#request.method, this.#request.carries !== 'nothing');
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
  #forward(admitted: Admitted, size: number, content: Buffer): void {
    if (size > 0) admitted.scope.requestFrame(size);
    const head = this.#request.outgoing(this.#home.connection.facts.client, admitted);
    const app = this.#pool.take(admitted, this.#repeatable);
    if (app === null) {
      this.#connect(admitted, head, isLent(content) ? Buffer.from(content) : content);
      return;
    }
    if (this.#request.carries === 'nothing') this.#repeat = head;
    this.#send(admitted, app, head, content);
  }

  /** False: policy refuses it by now. */
  #forwardLate(before: Admitted, size: number, content: Buffer): boolean {
    const admitted = this.#home.pipeline.admitLate(this.#home.connection, this.#request, before);
    if (admitted.kind === 'refused') {
      this.#ended('');
      this.#refuse(admitted.refusal);
      return false;
    }
    this.#forward(admitted, size, content);
    return true;
  }

  get #pool(): AppPool {
    return this.#request.isApart ? this.#home.ownPool : this.#home.pool;
  }

  #connect(admitted: Admitted, head: string, content: Buffer): void {
    const { connection } = this.#home;
    // What follows must wait for the app.
    if (!this.#content.isComplete) this.#home.socket.pause();
    const connected = (error: Error | null, app: AppConnection | null): void => {
      this.#way = noWay;
      if (app === null) {
        this.onFailed(error ?? new Error('not connected'));
        return;
      }
      this.#send(admitted, app, head, content);
      if (!this.#content.isComplete && !app.socket.writableNeedDrain) this.#home.socket.resume();
    };
    this.#way = {
      kind: 'connecting',
      pending: this.#pool.connect(admitted, sourceOf(connection.facts.client.ip), guarded(entry, this, connected)),
    };
  }

  #send(admitted: Admitted, app: AppConnection, head: string, content: Buffer): void {
    this.#way = app;
    const { method, isLast } = this.#request;
    const onSwitch = this.#request.carries === 'upgrade' ? this.#switched(app) : undefined;
    app.begin(admitted, method, isLast, this, onSwitch);
    if (!writeJoined(app.socket, head, content, isLent(content))) this.#awaitApp(app);
  }

  /** Called when the app agrees to leave HTTP: from there on the two connections are a tunnel. */
  #switched(app: AppConnection): Switch {
    return (head, rest) => {
      this.#way = noWay;
      this.#admitted?.scope.responseHead(head.status);
      this.#ended('');
      const lines = `${head.forward}Connection: Upgrade\r\nUpgrade: ${head.upgrade}\r\n\r\n`;
      if (!writeJoined(this.#home.socket, lines, rest, true)) app.socket.pause();
      this.#accessed(head.status, head.forward);
      return this.#home.switched(app);
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
      if (!this.#forwardLate(this.#way.admitted, size, part)) return;
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
    const { socket } = this.#home;
    socket.pause();
    app.socket.once('drain', () => {
      if (!this.#content.isComplete || !this.#home.hasNext) socket.resume();
    });
  }

  /** The client has room for more of the response. */
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
      // 100 was never asked for here; 103 is the client's to use, and HTTP/1.0 knows none.
      if (head.status === 103 && !this.#isOld) this.#write(`${head.forward}\r\n`);
      return;
    }
    const old = this.#isOld && head.framing.kind !== 'length' ? forOldClient(head) : null;
    const isEndless = old?.isEndless ?? head.framing.kind === 'until-close';
    this.#response = 'begun';
    if (isEndless || old?.hasLength === false || this.#home.isEnding) this.isLast = true;
    if (isEndless) resetUnlessEnded(this.#home.socket);
    this.#decoder = old?.decoder ?? null;
    this.#repeat = null;
    const scope = this.#admitted?.scope;
    scope?.responseHead(head.status);
    const { forward } = old ?? head;
    const lines = this.isLast ? `${forward}connection: close\r\n\r\n` : `${forward}${this.#keptLines}\r\n`;
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

  get #isOld(): boolean {
    return this.#request.version === 'HTTP/1.0';
  }

  /** HTTP/1.0 must be told that its connection stays (RFC 9112 C.2.2). */
  get #keptLines(): string {
    return this.#isOld ? this.#home.keptLines : '';
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

  /** The client is slow. */
  #hold(): void {
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
    const admitted = this.#admitted;
    const head = this.#repeat;
    this.#way = noWay;
    this.#repeat = null;
    if (head !== null && admitted !== null && maySendAgain(this.#repeatable, loss)) {
      // An idle connection that the app closed just as we took it: once more, on a new one.
      this.#connect(admitted, head, nothing);
      return;
    }
    this.#fail(upstreamFailure(error));
  }

  /** Ends it, and its connection: after a fault of ours, or where its client must see that no more comes of a response (RFC 9112 8). */
  destroy(): void {
    this.#home.socket.destroy();
  }

  /** The client has gone. */
  abandon(): void {
    this.#leaveApp();
    this.#ended('');
  }

  /** No more of its content has come for too long. Its connection ends with it. */
  giveUp(): void {
    // Paused: it is the app that does not read.
    if (this.#response === 'awaited' && this.#home.socket.isPaused()) this.#failLate();
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
    this.#failLate();
  }

  #failLate(): void {
    this.#leaveApp();
    this.#fail(failures.requestTimeout);
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
    this.#repeat = null;
  }

  /** Records the end, once. */
  #ended(error: '' | 'unclassified'): void {
    const admitted = this.#admitted;
    this.#admitted = null;
    admitted?.scope.responseEnded(null, error);
  }

  /** The app has not answered, or not to the end. */
  #fail(failure: Failure): void {
    const { pipeline, connection } = this.#home;
    const admitted = this.#admitted;
    this.#admitted = null;
    if (admitted !== null && this.#response === 'awaited') {
      pipeline.failed(connection, admitted, this.#request, failure);
      admitted.scope.refused(failure.refusal.status, failure.refusal.grpc);
      this.#refuse(failure.refusal);
    } else {
      if (admitted !== null) pipeline.brokeOff(connection, admitted, this.#request, failure);
      this.destroy();
    }
    admitted?.scope.responseEnded(null, 'unclassified');
  }

  #refuse(refusal: Refusal): void {
    // With Expect the client may or may not send its content now: the next bytes could be either (RFC 9110 10.1.1).
    if (refusal.close || this.#request.fields.expectsContinue || this.#home.isEnding) this.isLast = true;
    const ending = this.isLast ? 'connection: close\r\n' : this.#keptLines;
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
