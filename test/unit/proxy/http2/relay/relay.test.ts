import t from 'tap';
import type { Admitted, AdmittedNow } from '../../../../../lib/proxy/http/admitted.ts';
import type { AppExchange, ExchangeLoss } from '../../../../../lib/proxy/http2/app/app-exchange.ts';
import type { ClientStream } from '../../../../../lib/proxy/http2/client/client-stream.ts';
import { Http2ResponseHead } from '../../../../../lib/proxy/http2/message/response-head.ts';
import { noTrailers, Trailers } from '../../../../../lib/proxy/http2/message/trailers.ts';
import { type AppSide, Relay } from '../../../../../lib/proxy/http2/relay/relay.ts';
import { errorCode, reasonName } from '../../../../../lib/proxy/http2/session/protocol.ts';

interface Given {
  readonly method?: string;
  /** Content is to come. */
  readonly hasContent?: boolean;
  readonly grpc?: boolean;
  /** How often the app can only be reached later. */
  readonly waits?: boolean;
}

/** A relay between two sides that write down what they are told, and answer at the test's word. */
class Stage {
  readonly told: string[] = [];
  readonly relay: Relay<string>;
  readonly stream: { remoteEnded: boolean; responded: boolean; trailers: Trailers; relay: object | null };
  /** The client takes no more for now. */
  isFull = false;
  readonly #admitted: AdmittedNow;
  #drained: (() => void) | null = null;
  #waits: boolean;

  constructor({ method = 'GET', hasContent = false, grpc = false, waits = false }: Given) {
    this.#waits = waits;
    const tell = (text: string): void => {
      this.told.push(text);
    };
    const stream = {
      method,
      grpc,
      remoteEnded: !hasContent,
      responded: false,
      trailers: noTrailers,
      relay: null,
      isAlone: true,
      requestHead: { contentLength: -1, listBytes: 100 },
      connection: { client: { ip: '10.0.0.1' } },
      consume: (bytes: number) => tell(`client: ${bytes} more`),
      holdContent: (bytes: number) => tell(`client: ${bytes} held`),
      inform: (head: Http2ResponseHead) => tell(`client: ${head.status}`),
      respondWith: (head: Http2ResponseHead, hasBody: boolean) => {
        stream.responded = true;
        tell(`client: ${head.status}${hasBody ? '' : ', end'}`);
      },
      write: (bytes: Buffer, from: number, to: number) => {
        tell(`client: ${bytes.toString('latin1', from, to)}`);
        return !this.isFull;
      },
      onDrain: (resume: () => void) => {
        this.#drained = resume;
      },
      endWith: (trailers: Trailers) => tell(`client: end ${trailers.fields}`),
      failed: (error: Error, reset: number | null) =>
        tell(`failed: ${error.message}${reset === null ? '' : `, told ${reasonName(reset)}`}`),
      abort: (code: number) => tell(`client: ${reasonName(code)}`),
      destroy: () => tell('client: connection ended'),
      admitLate: () => this.#admitted,
    };
    this.stream = stream;
    const scope = {
      requestFrame: (bytes: number) => tell(`counted ${bytes}`),
      requestEnded: () => tell('counted the request'),
      responseHead: (status: number) => tell(`counted ${status}`),
      responseFrame: (bytes: number) => tell(`counted ${bytes} back`),
      responseEnded: (grpcStatus: string | null, error: string) =>
        tell(`counted the end${grpcStatus === null ? '' : ` ${grpcStatus}`}${error === '' ? '' : `: ${error}`}`),
    };
    const side: AppSide<string> = {
      open: (_relay, _admitted, isAgain) => {
        tell(isAgain ? 'app: again' : 'app: open');
        return this.#waits ? null : this.app;
      },
      cancel: () => tell('app: cancelled'),
    };
    this.#admitted = { kind: 'admitted', permit: {}, scope } as unknown as AdmittedNow;
    this.relay = new Relay(this.#admitted, stream as unknown as ClientStream, side, () => 'head');
  }

  readonly app: AppExchange = {
    takeOver: (early, end) =>
      this.told.push(`app: early ${early?.bytes ?? 0}${end === null ? '' : `, end ${end.fields}`}`),
    content: (bytes, from, to, isLast) =>
      this.told.push(`app: ${bytes.toString('latin1', from, to)}${isLast ? ', last' : ''}`),
    contentEnded: (trailers) => this.told.push(`app: end ${trailers.fields}`),
    consume: (bytes) => this.told.push(`app: ${bytes} more`),
    abandon: () => this.told.push('app: abandoned'),
  };

  readonly start = (): void => this.relay.start(this.#admitted);

  drain(): void {
    this.isFull = false;
    this.#drained?.();
  }

  content(text: string): void {
    this.relay.content(Buffer.from(text), 0, text.length);
  }

  contentEnded(trailers: string[] = []): void {
    this.stream.trailers = new Trailers(trailers);
    this.stream.remoteEnded = true;
    this.relay.contentEnded();
  }

  data(text: string): boolean {
    return this.relay.data(Buffer.from(text), 0, text.length);
  }
}

const ok = new Http2ResponseHead(200, ['x', 'y'], -1);
const early = new Http2ResponseHead(103, [], -1);
const lostConnection: ExchangeLoss = { kind: 'connection', by: 'other', error: new Error('gone') };
const idle: ExchangeLoss = { kind: 'connection', by: 'idle', error: new Error('closed') };
const reset = (code: number): ExchangeLoss => ({ kind: 'reset', code });
const refused = reset(errorCode.refusedStream);
const cancelled = reset(errorCode.cancel);
const internal = reset(errorCode.internalError);

const begins = ['counted 0', 'counted the request', 'app: open'];

const exchanges: readonly (readonly [
  name: string,
  given: Given,
  run: (stage: Stage) => void,
  told: readonly string[],
])[] = [
  [
    'a response with content',
    {},
    (stage) => {
      stage.relay.head(ok, false);
      stage.data('abc');
      stage.relay.ended(new Trailers(['t', 'v']));
    },
    [...begins, 'counted 200', 'client: 200', 'counted 3 back', 'client: abc', 'client: end t,v', 'counted the end'],
  ],
  [
    'one without, behind an interim one',
    {},
    (stage) => {
      stage.relay.interim(early);
      stage.relay.head(ok, true);
      stage.relay.ended(noTrailers);
    },
    [...begins, 'client: 103', 'counted 200', 'client: 200, end', 'client: end ', 'counted the end'],
  ],
  [
    'a gRPC status in the trailers',
    { grpc: true },
    (stage) => {
      stage.relay.head(ok, false);
      stage.relay.ended(new Trailers(['grpc-status', '5']));
    },
    [...begins, 'counted 200', 'client: 200', 'client: end grpc-status,5', 'counted the end 5'],
  ],
  [
    'and in the head',
    { grpc: true },
    (stage) => {
      stage.relay.head(new Http2ResponseHead(200, ['grpc-status', '7'], -1), true);
      stage.relay.ended(noTrailers);
    },
    [...begins, 'counted 200', 'client: 200, end', 'client: end ', 'counted the end 7'],
  ],
  [
    'a client that takes no more',
    {},
    (stage) => {
      stage.relay.head(ok, false);
      stage.isFull = true;
      t.notOk(stage.data('ab'));
      t.notOk(stage.data('c'));
      stage.drain();
      t.ok(stage.data('d'));
    },
    [
      ...begins,
      'counted 200',
      'client: 200',
      'counted 2 back',
      'client: ab',
      'counted 1 back',
      'client: c',
      'app: 3 more',
      'counted 1 back',
      'client: d',
    ],
  ],
  [
    'content',
    { method: 'POST', hasContent: true },
    (stage) => {
      stage.content('ab');
      stage.relay.taken(2);
      stage.stream.remoteEnded = true;
      stage.content('c');
      stage.contentEnded(['x', 'y', 'l5d-client-id', 'forged']);
    },
    [
      'app: open',
      'app: early 0',
      'counted 2',
      'app: ab',
      'client: 2 more',
      'counted 1',
      'app: c, last',
      'counted the request',
      'app: end x,y',
    ],
  ],
  [
    'content that comes before the app',
    { method: 'POST', hasContent: true, waits: true },
    (stage) => {
      stage.content('ab');
      stage.content('c');
      stage.contentEnded(['x', 'y', 'l5d-client-id', 'forged']);
      stage.relay.begun(stage.app);
    },
    [
      'app: open',
      'counted 2',
      'client: 258 held',
      'counted 1',
      'client: 4610 held',
      'counted the request',
      'app: early 3, end x,y',
    ],
  ],
  [
    'some of it',
    { method: 'POST', hasContent: true, waits: true },
    (stage) => {
      stage.content('ab');
      stage.relay.begun(stage.app);
      stage.content('c');
    },
    ['app: open', 'counted 2', 'client: 258 held', 'app: early 2', 'counted 1', 'app: c'],
  ],
  [
    'an end without content, before the app',
    { method: 'POST', hasContent: true, waits: true },
    (stage) => {
      stage.contentEnded();
      t.ok(stage.relay.isComplete);
      stage.relay.begun(stage.app);
    },
    ['app: open', 'counted the request'],
  ],
  [
    'nothing but trailers',
    { method: 'POST', hasContent: true, waits: true },
    (stage) => {
      stage.contentEnded(['x', 'y']);
      t.notOk(stage.relay.isComplete);
      stage.relay.begun(stage.app);
    },
    ['app: open', 'counted the request', 'app: early 0, end x,y'],
  ],
  ['a client that goes', {}, ({ relay }) => relay.clientGone(), [...begins, 'app: abandoned', 'counted the end']],
  [
    'a client that goes while it waits',
    { waits: true },
    ({ relay }) => relay.clientGone(),
    [...begins, 'app: cancelled', 'counted the end'],
  ],
  [
    'a client that goes within the response',
    {},
    ({ relay }) => {
      relay.head(ok, false);
      relay.clientGone();
    },
    [...begins, 'counted 200', 'client: 200', 'app: abandoned', 'counted the end'],
  ],
];

t.test('an exchange', async (t) => {
  for (const [name, given, run, told] of exchanges) {
    const stage = new Stage(given);
    stage.start();
    run(stage);
    t.same(stage.told, told, name);
  }
});

type At = 'waiting' | 'sent' | 'after a 103' | 'after the head';

const closed = 'failed: the application closed the stream';

/** What is said of the loss; `app: again` alone where the request is sent once more. */
const losses: readonly (readonly [loss: ExchangeLoss, at: At, given: Given, told: readonly string[]])[] = [
  [lostConnection, 'waiting', {}, ['failed: gone', 'counted the end: unclassified']],
  [lostConnection, 'sent', {}, ['failed: gone', 'counted the end: unclassified']],
  [lostConnection, 'after a 103', {}, ['failed: gone', 'counted the end: unclassified']],
  [lostConnection, 'after the head', {}, ['failed: gone, told INTERNAL_ERROR', 'counted the end: unclassified']],
  [idle, 'sent', {}, ['app: again']],
  [idle, 'sent', { method: 'POST' }, ['failed: closed', 'counted the end: unclassified']],
  [idle, 'sent', { method: 'PUT', hasContent: true }, ['failed: closed', 'counted the end: unclassified']],
  [idle, 'after a 103', {}, ['failed: closed', 'counted the end: unclassified']],
  [refused, 'sent', {}, ['app: again']],
  [refused, 'sent', { method: 'POST' }, ['app: again']],
  [
    refused,
    'sent',
    { hasContent: true },
    [
      'failed: the application ended the stream: REFUSED_STREAM, told REFUSED_STREAM',
      'counted the end: h2(REFUSED_STREAM)',
    ],
  ],
  [refused, 'after a 103', {}, [closed, 'counted the end: h2(REFUSED_STREAM)']],
  [refused, 'after the head', {}, [`${closed}, told INTERNAL_ERROR`, 'counted the end: h2(REFUSED_STREAM)']],
  [cancelled, 'sent', {}, [closed, 'counted the end: h2(CANCEL)']],
  [
    cancelled,
    'sent',
    { grpc: true },
    ['failed: the application ended the stream: CANCEL, told CANCEL', 'counted the end: h2(CANCEL)'],
  ],
  [cancelled, 'after the head', {}, [`${closed}, told CANCEL`, 'counted the end: h2(CANCEL)']],
  [internal, 'sent', { grpc: true }, [closed, 'counted the end: h2(INTERNAL_ERROR)']],
  [
    internal,
    'after the head',
    { grpc: true },
    [`${closed}, told INTERNAL_ERROR`, 'counted the end: h2(INTERNAL_ERROR)'],
  ],
  [
    { kind: 'unread' },
    'sent',
    { hasContent: true },
    ['failed: the application has read no content for too long', 'counted the end: unclassified'],
  ],
  [
    { kind: 'unread' },
    'after the head',
    { hasContent: true },
    ['failed: the application has read no content for too long, told INTERNAL_ERROR', 'counted the end: unclassified'],
  ],
  [{ kind: 'fault' }, 'sent', {}, ['client: INTERNAL_ERROR', 'counted the end: unclassified']],
  [{ kind: 'fault' }, 'after the head', {}, ['client: INTERNAL_ERROR', 'counted the end: unclassified']],
];

t.test('what the loss of an exchange means for the client', async (t) => {
  for (const [loss, at, given, told] of losses) {
    const name = `${JSON.stringify(loss)} ${at}, ${JSON.stringify(given)}`;
    const stage = new Stage({ ...given, waits: at === 'waiting' });
    stage.start();
    if (at === 'after a 103') stage.relay.interim(early);
    if (at === 'after the head') stage.relay.head(ok, false);
    stage.told.length = 0;
    stage.relay.lost(loss);
    t.same(stage.told, told, name);
    t.equal(stage.stream.relay === null, told[0] !== 'app: again', `${name}: nobody relays any more`);
  }
});

t.test('a request is sent twice at most', async (t) => {
  for (const loss of [refused, idle]) {
    const stage = new Stage({});
    stage.start();
    stage.relay.lost(loss);
    stage.told.length = 0;
    stage.relay.lost(loss);
    t.not(stage.told[0], 'app: again');
    t.equal(stage.told.length, 2);
  }
});

t.test('a fault ends the connection of its client', async (t) => {
  const stage = new Stage({});
  stage.start();
  stage.relay.destroy();
  t.equal(stage.told.at(-1), 'client: connection ended');
});

t.test('content asks for room, as much as it may need at once', async (t) => {
  for (const [contentLength, hasContent, room] of [
    [-1, false, 0],
    [-1, true, 16_384],
    [0, true, 1],
    [100, true, 100],
    [1_000_000, true, 16_384],
  ] as const) {
    const stream = { method: 'POST', remoteEnded: !hasContent, requestHead: { contentLength } };
    const side = { open: () => null, cancel: () => {} };
    const relay = new Relay({} as Admitted, stream as unknown as ClientStream, side, () => '');
    t.equal(relay.room, room, `${contentLength}`);
  }
});
