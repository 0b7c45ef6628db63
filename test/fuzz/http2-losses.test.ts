import type { Socket } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { errorCode } from '../../lib/proxy/http2/session/protocol.ts';
import type { Teardown } from '../support/children.ts';
import {
  dataFrame,
  type Fields,
  goawayFrame,
  headersFrame,
  requestFields,
  resetFrame,
} from '../support/http2-frames.ts';
import { type AppPeer, type AppRequest, okFields, openClient, startFrameApp } from '../support/http2-peers.ts';
import { type Lane, startLane } from '../support/lanes.ts';
import { type AppSocket, startRawApp } from '../support/raw-app.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';

/*
 * Apps that lose requests in every way there is, before and behind parts of their responses. Each request is sent once, or
 * once more where nothing can have happened the first time; its client gets the response of its last sending or learns that
 * there is none; content comes in its order; and nothing is left behind.
 */

t.setTimeout(timeLimitMs);

const acts = [
  'answer',
  'answer',
  'answer',
  'answer',
  'refuse',
  'goaway',
  'interim, refuse',
  'head, refuse',
  'cancel',
  'internal',
  'end',
  'destroy',
  'answer, end',
  'part, end',
] as const;
type Act = (typeof acts)[number];

interface Sent {
  readonly method: 'GET' | 'POST' | 'PUT';
  /** Bytes of content, null without any. */
  readonly content: number | null;
  readonly announced: boolean;
  /** What the app does with each sending, and whether it waits for the end of the request. */
  readonly acts: readonly [Act, Act];
  readonly waits: boolean;
  /** The client waits for the response before it goes on. */
  readonly alone: boolean;
}

const sent: fc.Arbitrary<Sent> = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PUT'),
  content: fc.oneof(
    { weight: 2, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constantFrom(0, 1, 9000, 150_000) },
  ),
  announced: fc.boolean(),
  acts: fc.tuple(fc.constantFrom(...acts), fc.constantFrom(...acts)),
  waits: fc.boolean(),
  alone: fc.boolean(),
});

/** What became of one sending, as far as the app knows. */
interface Attempt {
  readonly path: string;
  fate: 'open' | 'answered' | 'unprocessed' | 'idle' | 'lost' | 'unknown';
  readonly content: () => Buffer;
  readonly ended: () => boolean;
}

const contentOf = (index: number, bytes: number): Buffer => {
  const content = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at++) content[at] = (at * 7 + (at >>> 8) * 13 + index) & 0xff;
  return content;
};

interface App {
  readonly port: number;
  readonly attempts: Attempt[];
  /** It has reset a connection: what it had not read by then, it never saw. */
  readonly hasReset: () => boolean;
  /** Whether it has read all that was sent on connections that it has ended itself. */
  readonly hasReadAll: () => boolean;
}

const hasReadAllOf = ({ writableEnded, destroyed }: Socket): boolean => destroyed || !writableEnded;

type Choose = (path: string, attempt: number) => { readonly act: Act; readonly waits: boolean };

/** A connection to an HTTP/2 app. */
class Http2Losses {
  readonly attempts = new Map<number, Attempt>();
  hasReset = false;
  readonly #connection: AppPeer;
  /** What comes from here on was not taken: GOAWAY has said so. */
  #goneFrom = Number.POSITIVE_INFINITY;

  constructor(connection: AppPeer) {
    this.#connection = connection;
  }

  begun(id: number, attempt: Attempt): void {
    this.attempts.set(id, attempt);
    const { socket } = this.#connection;
    if (socket.destroyed) attempt.fate = 'unknown';
    else if (socket.writableEnded) attempt.fate = 'lost';
    else if (id >= this.#goneFrom) attempt.fate = 'unprocessed';
  }

  /** Nothing more is said. */
  #end(isKnown: boolean): void {
    for (const attempt of this.attempts.values()) {
      if (attempt.fate === 'open') attempt.fate = 'lost';
      else if (!isKnown) attempt.fate = 'unknown';
    }
    if (isKnown) this.#connection.socket.end();
    else {
      this.hasReset = true;
      this.#connection.socket.resetAndDestroy();
    }
  }

  #mayGoAway(id: number): boolean {
    return [...this.attempts].every(([other, { fate }]) => other <= id || fate === 'open' || fate === 'unprocessed');
  }

  #goAway(id: number): void {
    this.#goneFrom = id;
    this.#connection.send(goawayFrame(Math.max(0, id - 2)));
    for (const [other, attempt] of this.attempts) if (other >= id) attempt.fate = 'unprocessed';
  }

  play(id: number, act: Act, content: string): void {
    const connection = this.#connection;
    const attempt = this.attempts.get(id);
    if (attempt?.fate !== 'open') return;
    const answer = (): void => {
      connection.send(headersFrame(id, okFields, false), dataFrame(id, content, true));
      attempt.fate = 'answered';
    };
    const reset = (code: number, fate: Attempt['fate'], ...before: readonly Buffer[]): void => {
      connection.send(...before, resetFrame(id, code));
      attempt.fate = fate;
    };
    const partly = headersFrame(id, okFields, false);
    const played: Readonly<Record<Act, () => void>> = {
      answer,
      refuse: () => reset(errorCode.refusedStream, 'unprocessed'),
      goaway: () => (this.#mayGoAway(id) ? this.#goAway(id) : reset(errorCode.refusedStream, 'unprocessed')),
      'interim, refuse': () => reset(errorCode.refusedStream, 'lost', headersFrame(id, [[':status', '103']], false)),
      'head, refuse': () => reset(errorCode.refusedStream, 'lost', partly),
      cancel: () => reset(errorCode.cancel, 'lost'),
      internal: () => reset(errorCode.internalError, 'lost'),
      end: () => this.#end(true),
      destroy: () => this.#end(false),
      'answer, end': () => {
        answer();
        this.#end(true);
      },
      'part, end': () => {
        connection.send(partly, dataFrame(id, 'part'));
        this.#end(true);
      },
    };
    played[act]();
  }
}

async function http2App(t: Teardown, choose: Choose): Promise<App> {
  const attempts: Attempt[] = [];
  const connections = new Map<AppPeer, Http2Losses>();
  const act = ({ connection, id, path }: AppRequest, isOver: boolean): void => {
    const home = connections.get(connection);
    const attempt = home?.attempts.get(id);
    if (home === undefined || attempt === undefined) return;
    const chosen = choose(path, attempts.filter((each) => each.path === path).indexOf(attempt));
    if (chosen.waits === isOver) home.play(id, chosen.act, `${path}#${attempts.indexOf(attempt)}`);
  };
  const { port } = await startFrameApp(t, {
    onConnection: (connection) => connections.set(connection, new Http2Losses(connection)),
    onRequest: (request) => {
      const { connection, id, path, message } = request;
      const content = (): Buffer => Buffer.concat(message.parts);
      const attempt: Attempt = { path, fate: 'open', content, ended: () => message.ended };
      attempts.push(attempt);
      connections.get(connection)?.begun(id, attempt);
      act(request, false);
    },
    onEnd: (request) => act(request, true),
  });
  return {
    port,
    attempts,
    hasReset: () => [...connections.values()].some(({ hasReset }) => hasReset),
    hasReadAll: () => [...connections.keys()].every(({ socket }) => hasReadAllOf(socket)),
  };
}

async function http1App(t: Teardown, choose: Choose): Promise<App> {
  const attempts: Attempt[] = [];
  let hasReset = false;
  const { port, sockets } = await startRawApp(t, {
    answer: ({ target, body }, connection: AppSocket) => {
      const { socket } = connection;
      const number = attempts.filter((each) => each.path === target).length;
      const attempt: Attempt = { path: target, fate: 'open', content: () => body, ended: () => true };
      attempts.push(attempt);
      const text = `${target}#${attempts.length - 1}`;
      const { act } = choose(target, number);
      switch (act) {
        case 'answer':
        case 'refuse':
        case 'goaway':
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
          attempt.fate = 'answered';
          return;
        case 'answer, end':
          socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
          attempt.fate = 'answered';
          return;
        case 'interim, refuse':
          socket.end('HTTP/1.1 103 Early\r\n\r\n');
          attempt.fate = 'lost';
          return;
        case 'head, refuse':
        case 'part, end':
        case 'cancel':
          socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n`);
          attempt.fate = 'lost';
          return;
        case 'internal':
        case 'end':
        case 'destroy':
          attempt.fate = connection.requests > 1 ? 'idle' : 'lost';
          hasReset ||= act === 'destroy';
          if (act === 'destroy') socket.resetAndDestroy();
          else socket.end();
      }
    },
  });
  const hasReadAll = (): boolean => sockets.every(({ socket }) => hasReadAllOf(socket));
  return { port, attempts, hasReset: () => hasReset, hasReadAll };
}

function problems(script: readonly Sent[], app: App, outcomes: readonly string[], wasSentAway: boolean): string[] {
  const found: string[] = [];
  for (const [i, { method, content }] of script.entries()) {
    const attempts = app.attempts.filter(({ path }) => path === `/${i}`);
    const said = (text: string): void =>
      void found.push(`/${i}: ${text} (${attempts.map(({ fate }) => fate)}; ${outcomes[i]})`);
    const last = attempts.at(-1);
    const first = attempts[0];
    if (attempts.length > 2) said('sent more than twice');
    const mayRepeat = (fate: string | undefined): boolean =>
      content === null && (fate === 'unprocessed' || (fate === 'idle' && method !== 'POST'));
    if (attempts.length === 2 && first?.fate !== 'unknown' && !mayRepeat(first?.fate)) said('sent twice');
    if (attempts.length === 1 && mayRepeat(first?.fate)) said('not sent again');
    for (const attempt of attempts) {
      const whole = contentOf(i, content ?? 0);
      const came = attempt.content();
      if (!whole.subarray(0, came.length).equals(came)) said('other content');
      else if (attempt.ended() && came.length !== whole.length) said('content that looks whole');
    }
    const outcome = outcomes[i] as string;
    const whole = /^200 whole \/(\d+)#(\d+)$/.exec(outcome);
    if (outcome.startsWith('200 whole')) {
      if (whole === null || whole[1] !== String(i)) said('a response of another');
      else if (app.attempts[Number(whole[2])] !== last) said('a response of another sending');
      else if (last?.fate !== 'answered' && last?.fate !== 'unknown') said('a response from nowhere');
    } else if (last?.fate === 'answered') said('a response lost');
    if (outcome.includes('REFUSED') && last !== undefined && !['unprocessed', 'unknown'].includes(last.fate))
      said('refused by nobody');
    // Refused is what the client may send again: true of what never came, whoever has ended the connection that it was for.
    const neverCame =
      outcome === 'REFUSED_STREAM' || (wasSentAway && outcome === 'nothing') || (app.hasReset() && outcome === '502');
    if (last === undefined && !neverCame) said('never sent');
  }
  return found;
}

const orig = ['l5d-orig-proto', 'HTTP/1.1'] as const;

async function run(carrier: 'http1' | 'http2', script: readonly Sent[]): Promise<string[]> {
  const after: (() => unknown)[] = [];
  const scope: Teardown = { teardown: (end: () => unknown) => void after.unshift(end) };
  try {
    const choose: Choose = (path, attempt) => {
      const one = script[Number(path.slice(1))];
      return { act: one?.acts[attempt] ?? 'answer', waits: one?.waits ?? true };
    };
    const app = await (carrier === 'http1' ? http1App : http2App)(scope, choose);
    const lane: Lane = await startLane(scope, {
      engine: 'fast',
      http2Engine: 'fast',
      protocol: 'http2',
      app: app.port,
      limits: { maxStreams: 8 },
    });
    const client = await openClient(scope, lane.port);
    const ids: number[] = [];
    for (const [i, { method, content, announced, alone }] of script.entries()) {
      const id = 2 * i + 1;
      ids.push(id);
      const more: Fields = [
        ...(carrier === 'http1' ? [orig] : []),
        ...(content !== null && announced ? [['content-length', String(content)] as const] : []),
      ];
      client.send(headersFrame(id, requestFields(`/${i}`, more, method), content === null));
      if (content === 0) client.data(id, Buffer.alloc(0), true);
      else if (content !== null) void client.body(id, contentOf(i, content));
      if (alone) await client.over(id);
    }
    for (const id of ids) await client.over(id);
    const outcomes = ids.map((id) => {
      const { ended, reset } = client.message(id);
      const status = client.status(id);
      if (status === 200 && ended && (reset === null || reset === 0)) return `200 whole ${client.content(id)}`;
      return `${client.outcome(id)}`;
    });
    await until('no request to be in flight', () => lane.counts.started === lane.counts.ended, {
      lastSeen: () => JSON.stringify(lane.counts),
    });
    await until('the app to have read what it was sent', app.hasReadAll);
    const found = problems(script, app, outcomes, client.goaway !== null);
    // The next one finds a proxy in order.
    const next = await openClient(scope, lane.port);
    next.send(headersFrame(1, requestFields(`/${script.length}`, carrier === 'http1' ? [orig] : [])));
    const outcome = await next.over(1);
    if (outcome !== '200') found.push(`the next: ${outcome}`);
    next.destroy();
    client.destroy();
    await until('nothing to be left', () => lane.live.size === 0 && lane.heldBytes() === 0, {
      lastSeen: () => `${lane.live.size} connections, ${lane.heldBytes()} bytes`,
    });
    return found;
  } finally {
    for (const end of after) await end();
  }
}

for (const carrier of ['http2', 'http1'] as const) {
  t.test(`requests that an app loses over ${carrier}`, async (t) => {
    let runs = 0;
    const property = fc.asyncProperty(fc.array(sent, { minLength: 1, maxLength: 6 }), async (script) => {
      runs++;
      const found = await run(carrier, script);
      if (found.length > 0) throw new Error(found.join('\n'));
    });
    t.equal(await search(property, 0.5, () => runs > 50), null);
    t.comment(`${runs} runs`);
  });
}
