import type { Socket } from 'node:net';
import type { HeaderList } from '../../request-fields.ts';
import { Roster } from '../../roster.ts';
import { Sweeper } from '../fairness/sweeper.ts';
import type { Admitted } from '../http/admitted.ts';
import { serveApplication } from '../http/application.ts';
import { headerValue } from '../http/headers.ts';
import type { HeldHeads } from '../http/held-heads.ts';
import { outgoingFields } from '../http/outgoing-fields.ts';
import type { HttpConnection, RequestPipeline } from '../http/request-pipeline.ts';
import { AppPool } from '../http1/app-pool.ts';
import { ByEndpoint } from '../upstream/endpoint.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { AppSessionPool } from './app/app-session-pool.ts';
import { type ClientLane, ClientSession } from './client/client-session.ts';
import type { ClientStream } from './client/client-stream.ts';
import { CollectedBody } from './client/collected-body.ts';
import { clientSessionLimits } from './client/limits.ts';
import type { Http2Engine, Http2Session } from './engine.ts';
import { http1Text, http2Block, type RequestBlock } from './message/request-head.ts';
import { Http2ResponseHead } from './message/response-head.ts';
import { Http1Side } from './relay/http1-app-exchange.ts';
import { Relay } from './relay/relay.ts';
import type { SessionLimits } from './session/session-role.ts';

export interface Http2LaneOptions {
  readonly pipeline: RequestPipeline;
  readonly upstreams: Upstreams;
}

const goOn = new Http2ResponseHead(100, [], -1);

/** HTTP/2 by an engine of our own: frames of all streams leave together, and a repeated head is read and written once. */
export class Http2Lane implements Http2Engine, ClientLane {
  readonly pipeline: RequestPipeline;
  readonly limits: SessionLimits;
  readonly heads: HeldHeads;
  readonly #open = new Roster<ClientSession>();
  readonly #pools: ByEndpoint<AppPool>;
  readonly #sessions: ByEndpoint<AppSessionPool>;
  readonly #sweeper: Sweeper;

  constructor(options: Http2LaneOptions) {
    this.pipeline = options.pipeline;
    this.#pools = new ByEndpoint(
      (endpoint) => new AppPool(endpoint, options.upstreams),
      (pool) => pool.letGo(),
    );
    this.#sessions = new ByEndpoint(
      (endpoint) => new AppSessionPool(endpoint, options.upstreams, options.pipeline.budget),
      (sessions) => sessions.isUnused,
    );
    this.limits = clientSessionLimits(options.pipeline.limits);
    this.heads = options.pipeline.heads;
    this.#sweeper = new Sweeper(
      'looking at HTTP/2 connections',
      () => [...this.#pools.values(), ...this.#sessions.values()],
      this.#open,
    );
  }

  serve(connection: HttpConnection, socket: Socket, bytes: Buffer): Http2Session {
    const session = new ClientSession(this, connection, socket);
    this.#open.add(session);
    session.start(bytes);
    return session;
  }

  forget(session: ClientSession): void {
    this.#open.delete(session);
  }

  request(connection: HttpConnection, stream: ClientStream): void {
    const { pipeline } = this;
    const admitted = pipeline.admit(connection, stream);
    if (admitted.kind === 'refused') {
      stream.refuse(admitted.refusal);
      return;
    }
    stream.admitted = admitted;
    const { destination } = connection;
    if (destination.kind !== 'app') {
      const failed = (error: unknown): void => stream.failed(error, null);
      const body = new CollectedBody(stream);
      stream.relay = body;
      serveApplication(admitted, stream, destination.application, {
        readBody: (max) => body.read(max),
        failed,
        fields: (by) => http1Fields(by, stream),
        admitLate: (before) => stream.admitLate(before),
      });
      return;
    }
    const { endpoint } = destination;
    if (stream.originalProtocol === null) {
      new Relay(admitted, stream, this.#sessions.at(endpoint), http2BlockFor).start(admitted);
    } else {
      if (!stream.remoteEnded && headerValue(stream.requestHead.head.forward, 'expect') !== null) stream.inform(goOn);
      const side = new Http1Side(this.#pools.at(endpoint), stream.originalProtocol);
      new Relay(admitted, stream, side, http1TextFor).start(admitted);
    }
  }

  close(): void {
    this.#sweeper.close();
    for (const pool of this.#pools.values()) pool.close();
    for (const sessions of this.#sessions.values()) sessions.close();
  }
}

function http2BlockFor(admitted: Admitted, { requestHead, connection }: ClientStream): RequestBlock {
  const isLasting = admitted.permit.headerChanges === null;
  if (isLasting && requestHead.http2 !== null) return requestHead.http2;
  const { head } = requestHead;
  const block = http2Block(head, outgoingFields(connection.client, admitted, head.forward));
  if (isLasting) requestHead.http2 = block;
  return block;
}

function http1TextFor(admitted: Admitted, stream: ClientStream): string {
  const { requestHead } = stream;
  const isBare = stream.carries === 'nothing';
  const isLasting = admitted.permit.headerChanges === null;
  const known = isBare ? requestHead.http1 : requestHead.http1WithContent;
  if (isLasting && known !== null) return known;
  const { head, contentLength } = requestHead;
  const text = http1Text(head, http1Fields(admitted, stream), contentLength, !isBare);
  if (isLasting && isBare) requestHead.http1 = text;
  else if (isLasting) requestHead.http1WithContent = text;
  return text;
}

function http1Fields(admitted: Admitted, { requestHead, connection }: ClientStream): HeaderList {
  const { host, forward } = requestHead.head;
  return outgoingFields(connection.client, admitted, ['host', host, ...forward]);
}
