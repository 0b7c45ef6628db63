import type { Socket } from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { HpackDecoder } from '../../lib/proxy/http2/hpack/decoder.ts';
import {
  dataFrame,
  frame,
  goawayFrame,
  headersFrame,
  preface,
  requestFields,
  resetFrame,
  settingsFrame,
} from '../support/http2-frames.ts';
import { type Engine, engines, type Lane, startLane } from '../support/lanes.ts';
import { strictParser } from '../support/request-parsers.ts';
import { startSocketApp } from '../support/socket-app.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';
import { answerFrames, appAnswer, isSound } from './http2-app-script.ts';
import { type Answer, Http2Client } from './http2-client.ts';
import { bytesOf, type FrameMutation, frameMutation, type RawFrame, readFrames } from './http2-conversation.ts';
import { inTurn, lastLook, patiently } from './looks.ts';
import { cut, cuts, response } from './mutations.ts';

/*
 * The same bytes of an app, sound and hostile, through a proxy with our HTTP/2 engine and through one with nghttp2: what
 * the client gets is the same, and never looks whole where it is not. The next request gets its own response from both.
 */

t.setTimeout(timeLimitMs);

const settingsAck = frame(4, 1, 0);
const plainGreeting = Buffer.concat([settingsFrame([]), settingsAck]);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Script {
  readonly carrier: 'http1' | 'http2';
  readonly method: string;
  /** The request is a gRPC call: what breaks is told in trailers. */
  readonly grpc: boolean;
  /** What an HTTP/2 app begins with. */
  readonly greeting: Buffer;
  readonly packets: readonly Buffer[];
  /** What the app does when it has said all that. */
  readonly ending: 'keep' | 'end' | 'reset';
  /** The request's end is held back until the response has been given. */
  readonly early: boolean;
}

/** An app that plays its script for the first request, and answers every other one. */
interface ScriptedApp {
  readonly port: number;
  script: Script;
  /** A connection has had the script's greeting. */
  greeted: boolean;
  /** The script is over. */
  played: boolean;
  /** How often the first request came. */
  arrivals: number;
  /** Ends every connection. */
  reset(): void;
}

async function startScriptedApp(t: Test): Promise<ScriptedApp> {
  const play = async (socket: Socket): Promise<void> => {
    const { packets, ending } = app.script;
    for (const packet of packets) {
      socket.write(packet);
      await turn();
    }
    if (ending === 'end') socket.end();
    // Without a head start, a reset overtakes what was written before it.
    if (ending === 'reset') setTimeout(() => socket.resetAndDestroy(), 5);
    app.played = true;
  };
  const takeHttp2 = (socket: Socket): ((chunk: Buffer) => void) => {
    const decoder = new HpackDecoder(4096, 1 << 20, 1000);
    let pending: Buffer = Buffer.alloc(0);
    let skip = preface.length;
    const firsts = new Set<number>();
    const ended = (streamId: number): void => {
      if (!firsts.delete(streamId)) return;
      if (!app.script.early) void play(socket);
    };
    let begun = false;
    return (chunk) => {
      pending = Buffer.concat([pending, chunk]);
      if (pending.length < skip) return;
      pending = pending.subarray(skip);
      skip = 0;
      for (const { type, flags, streamId, payload } of readFrames(pending)) {
        pending = pending.subarray(9 + payload.length);
        if (!begun) {
          begun = true;
          socket.write(app.greeted ? plainGreeting : app.script.greeting);
          app.greeted = true;
        }
        if (type === 1) {
          const from = (flags & 0x20) !== 0 ? 5 : 0;
          const decoded = decoder.decode(payload, from, payload.length);
          const fields = decoded.kind === 'fields' ? decoded.fields : [];
          const path = fields[fields.indexOf(':path') + 1];
          if (path === '/first') {
            app.arrivals++;
            if (app.played) {
              socket.write(
                headersFrame(streamId, [
                  [':status', '200'],
                  ['x-again', 'yes'],
                ]),
              );
            } else {
              firsts.add(streamId);
              if (app.script.early) void play(socket);
            }
          } else {
            socket.write(
              Buffer.concat([headersFrame(streamId, [[':status', '200']], false), dataFrame(streamId, 'second', true)]),
            );
          }
        }
        if (type <= 1 && (flags & 1) !== 0) ended(streamId);
      }
    };
  };
  const takeHttp1 = (socket: Socket): ((chunk: Buffer) => void) => {
    let pending: Buffer = Buffer.alloc(0);
    let early = false;
    return (chunk) => {
      pending = Buffer.concat([pending, chunk]);
      for (;;) {
        const progress = strictParser(pending);
        if (progress.kind !== 'complete') break;
        pending = pending.subarray(progress.end);
        if (progress.request.target === '/second') {
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond');
        } else if (!early) {
          app.arrivals++;
          void play(socket);
        }
        early = false;
      }
      if (app.script.early && !app.played && !early && pending.includes('\r\n\r\n')) {
        early = true;
        app.arrivals++;
        void play(socket);
      }
    };
  };
  const serve = (socket: Socket): void => {
    let take: ((chunk: Buffer) => void) | null = null;
    socket.on('data', (chunk: Buffer) => {
      take ??= chunk.subarray(0, 3).toString() === 'PRI' ? takeHttp2(socket) : takeHttp1(socket);
      take(chunk);
    });
  };
  const { port, sockets } = await startSocketApp(t, serve, { noDelay: true });
  const app: ScriptedApp = {
    port,
    script: {
      carrier: 'http2',
      method: 'GET',
      grpc: false,
      greeting: plainGreeting,
      packets: [],
      ending: 'keep',
      early: false,
    },
    greeted: false,
    played: false,
    arrivals: 0,
    reset: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
  return app;
}

interface Variant {
  readonly engine: Engine;
  readonly lane: Lane;
  readonly app: ScriptedApp;
  /** What it has left behind before. */
  readonly left: { connections: number; requests: number };
}

async function variants(t: Test): Promise<Variant[]> {
  const list: Variant[] = [];
  for (const engine of engines) {
    const app = await startScriptedApp(t);
    const lane = await startLane(t, { engine: 'library', http2Engine: engine, app: app.port, protocol: 'http2' });
    list.push({ engine, lane, app, left: { connections: 0, requests: 0 } });
  }
  return list;
}

interface Observation {
  /** What became of the first request, in a form in which equal ends are equal texts. */
  readonly text: string;
  /** There was a whole response, and not one of the proxy's own. */
  readonly whole: boolean;
  readonly body: Buffer;
  readonly fault: string | null;
  /** How often the app was asked. */
  readonly arrivals: number;
  /** What went wrong with the second request; null when it got its own response. */
  readonly second: string | null;
}

const greetingOfClient = Buffer.concat([preface, settingsFrame([[4, 1 << 20]]), settingsAck]);

async function observe({ lane, app, left }: Variant, script: Script, quietMs: number): Promise<Observation> {
  Object.assign(app, { script, greeted: false, played: false, arrivals: 0 });
  const client = await Http2Client.open(lane.port);
  const { raw } = client;
  const carried: [string, string][] = script.carrier === 'http1' ? [['l5d-orig-proto', 'HTTP/1.1']] : [];
  const called: [string, string][] = script.grpc
    ? [
        ['content-type', 'application/grpc'],
        ['te', 'trailers'],
      ]
    : [];
  const announced: [string, string][] = script.early ? [['content-length', '8']] : [];
  raw.send(
    Buffer.concat([
      greetingOfClient,
      headersFrame(1, requestFields('/first', [...carried, ...called, ...announced], script.method), !script.early),
      ...(script.early ? [dataFrame(1, 'half')] : []),
    ]),
  );
  // A script that is not played, because the app was never asked, say, ends the wait as well.
  for (let quiet = 0; quiet < 4; quiet++) {
    const came = raw.receivedLength;
    if (await raw.waits(() => client.isSettled(1) && app.played, quietMs)) break;
    if (raw.ended || (raw.receivedLength === came && app.played)) break;
  }
  const { counts } = lane;
  const heard = (): boolean => app.played && (script.ending === 'keep' || counts.destinations === left.connections);
  const timeoutMs = 4 * quietMs;
  await until('the script', () => app.arrivals === 0 || heard(), { timeoutMs, everyMs: 1 }).catch(() => {});
  // What the app sent last may still be on its way to the proxy.
  await new Promise((resolve) => setTimeout(resolve, 8));
  const answer = client.answer(1);
  const observation = {
    text: seen(answer, script),
    whole: answer.complete && !isOurs(answer, script),
    body: Buffer.concat(answer.body),
    arrivals: app.arrivals,
  };
  const kept = !raw.ended && client.goaway === null ? client : null;
  const second = await secondAnswer(lane, kept, carried);
  raw.reset();
  return { ...observation, fault: client.faults[0] ?? null, second };
}

/** Whether the proxy has made the response, and not the app. */
function isOurs(answer: Answer, script: Script): boolean {
  if (answer.status === 502 || (answer.status === 431 && takesNoHead(script))) return true;
  return script.grpc && tellsOfFailure(answer);
}

/** UNAVAILABLE: the app of a gRPC call is gone, or never was there. */
function tellsOfFailure({ fields, trailers }: Answer): boolean {
  const status = (list: readonly string[]): string | undefined => list[list.lastIndexOf('grpc-status') + 1];
  return [fields, trailers ?? []].some((list) => list.includes('grpc-status') && status(list) === '14');
}

/** @param kept a connection to go on with; null for a new one. */
async function secondAnswer(lane: Lane, kept: Http2Client | null, carried: [string, string][]): Promise<string | null> {
  const client = kept ?? (await Http2Client.open(lane.port));
  if (kept === null) client.raw.send(greetingOfClient);
  client.raw.send(headersFrame(3, requestFields('/second', carried)));
  await client.raw.reaches(() => client.isSettled(3), 2000);
  const answer = client.answer(3);
  if (kept === null) client.raw.destroy();
  const body = Buffer.concat(answer.body).toString();
  if (answer.complete && answer.status === 200 && body === 'second') return null;
  // The proxy may have ended the connection as the request was on its way; then there is no response.
  if (kept !== null && (client.goaway !== null || client.raw.ended)) return secondAnswer(lane, null, carried);
  return `the second response was ${answer.status}, ${JSON.stringify(body)}, complete ${answer.complete}, reset ${answer.reset}`;
}

/** What `secondAnswer` says of a request that the proxy has answered with 431. */
const tooLarge = 'the second response was 431, "", complete true';

/** Fields that one lane may spell in another way than the other. */
const mayBeSpelt = new Set(['date', 'content-length', 'trailer']);

function seen(answer: Answer, { carrier, method }: Script): string {
  const { interim, status, fields, body, trailers, complete, reset } = answer;
  if (reset !== null && !complete) return 'broken off';
  if (!complete) return status === null ? 'nothing' : `incomplete ${status}`;
  const kept: string[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    // undici leaves blanks behind values.
    if (carrier === 'http2') kept.push(`${fields[i]}: ${fields[i + 1]}`);
    else if (!mayBeSpelt.has(fields[i] as string)) kept.push(`${fields[i]}: ${fields[i + 1]?.trim()}`);
  }
  // undici wants no 100 that it has not asked for; Node looks no further than the head where there is no content.
  // Of an HTTP/1 app 100 is for nobody; the library lane reads 102 in its place.
  const told = carrier === 'http2' ? interim : interim.filter((code) => code !== 100 && code !== 102);
  const last = method === 'HEAD' || status === 204 || status === 304 ? null : trailers;
  return JSON.stringify([told, status, kept.sort(), Buffer.concat(body).toString('latin1'), last]);
}

/** Null when the lanes agree. */
function difference(list: readonly Variant[], script: Script, sound: boolean): Promise<string | null> {
  return inTurn(() => patiently([30, 300], (quietMs) => compared(list, script, sound, quietMs)));
}

async function compared(
  list: readonly Variant[],
  script: Script,
  sound: boolean,
  quietMs: number,
): Promise<string | null> {
  const [fast, library] = (await Promise.all(list.map((variant) => observe(variant, script, quietMs)))) as [
    Observation,
    Observation,
  ];
  for (const { engine, lane, app, left } of list) {
    // The next script begins on a connection of its own.
    app.reset();
    const { counts, live } = lane;
    const connections = (): number => live.size + counts.destinations - left.connections;
    const requests = (): number => counts.started - counts.ended - left.requests;
    const idle = (): boolean => connections() === 0 && requests() === 0;
    const timeoutMs = engine === 'fast' ? 3000 : 500;
    const over = await until('the end', idle, { timeoutMs, everyMs: 1 }).catch(() => false);
    if (over !== false) continue;
    if (engine === 'fast') return `left behind: ${connections()} connections, ${requests()} requests`;
    // Node's session may stay for ever when it was broken off for what the app sent: that is not waited for again.
    left.connections += connections();
    left.requests += requests();
  }
  if (fast.fault !== null) return `what the client gets is no HTTP/2: ${fast.fault}`;
  const refused = takesNoHead(script) && fast.second?.startsWith(tooLarge) === true;
  if (fast.second !== null && !refused && !isOutOfStep(script)) return fast.second;
  if (fast.whole && fast.arrivals <= 1) {
    const text = looksWhole(script, fast.body);
    if (text !== null) return `fast: ${text}: ${fast.text}`;
  }
  if (fast.arrivals > Math.max(mayRepeat(script) ? 2 : 1, library.arrivals)) {
    return `arrivals: fast ${fast.arrivals}, library ${library.arrivals}`;
  }
  if (fast.text === library.text) return null;
  // We ask again after any GOAWAY that leaves the request out, Node only after one without an error.
  if (fast.arrivals > library.arrivals) return null;
  // Narrower is allowed: we refuse, or break off, what we do not like in a response.
  if (!fast.whole && !sound) return null;
  // undici is narrower in places; whether such a response is sound is for Node's parser to say, in app-response.test.ts.
  if (script.carrier === 'http1' && !library.whole && !sound) return null;
  if (mayBeWider(script, fast.text)) return null;
  return `fast ${fast.text}, library ${library.text}`;
}

/**
 * Where we pass on what Node does not:
 * - a status above 599, which Node's server does not send;
 * - TE in capitals, which it does not send either;
 * - a 204 that announces content, without the announcement (RFC 9110 8.6);
 * - a response beside ALTSVC or ORIGIN: we know neither, and nghttp2 finds fault with them;
 * - a response beside the acknowledgement of a PING that Node has not sent.
 */
function mayBeWider({ carrier, packets }: Script, text: string): boolean {
  const status = Number(/^\[\[[^\]]*\],([0-9]*)/.exec(text)?.[1]);
  if (status > 599 || status === 204 || /te(?:: |",")trailers/i.test(text)) return true;
  if (carrier === 'http1') return false;
  const frames = readFrames(Buffer.concat(packets));
  return frames.some(({ type, flags }) => type === 10 || type === 12 || (type === 6 && (flags & 1) !== 0));
}

/** The app says that it has done nothing with the request (RFC 9113 8.7). */
function mayRepeat({ packets }: Script): boolean {
  const frames = readFrames(Buffer.concat(packets));
  return frames.some(({ type, payload }) => type === 7 || (type === 3 && payload.at(-1) === 7));
}

/** The app's next response would not be read as one, or it lets nobody ask: what it says then tells nothing. */
function isOutOfStep({ carrier, greeting, packets }: Script): boolean {
  if (carrier === 'http1') return false;
  const bytes = Buffer.concat([greeting, ...packets]);
  const frames = readFrames(bytes);
  if (frames.reduce((sum, { payload }) => sum + 9 + payload.length, 0) < bytes.length) return true;
  const blocks = frames.filter(({ type }) => type === 1 || type === 9);
  if (((blocks.at(-1)?.flags ?? 4) & 4) === 0) return true;
  return settingsOf(frames).some(([id, value]) => id === 3 && value === 0);
}

/**
 * The app takes no header section as large as that of the second request (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113 6.5.2).
 * The limit is advisory, but some servers end the session, with the requests of other clients, for what is above it: such
 * a request gets 431 from the proxy.
 */
function takesNoHead({ carrier, greeting, packets }: Script): boolean {
  if (carrier === 'http1') return false;
  const limits = settingsOf(readFrames(Buffer.concat([greeting, ...packets]))).filter(([id]) => id === 6);
  return limits.some(([, value]) => value < sizeOfSecond);
}

/** Of its fields as RFC 9113 6.5.2 counts them, those that the proxy adds left out. */
const sizeOfSecond = requestFields('/second').reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);

function settingsOf(frames: readonly RawFrame[]): (readonly [id: number, value: number])[] {
  return frames
    .filter(({ type }) => type === 4)
    .flatMap(({ payload }) =>
      Array.from({ length: Math.floor(payload.length / 6) }, (_, i): readonly [number, number] => [
        payload.readUInt16BE(6 * i),
        payload.readUInt32BE(6 * i + 2),
      ]),
    );
}

/** Why an HTTP/2 answer that the client took for whole was none; null when it was. */
function looksWhole(script: Script, body: Buffer): string | null {
  if (script.carrier === 'http1') return null;
  const frames = readFrames(Buffer.concat(script.packets.map((packet) => Buffer.from(packet))));
  const ends = frames.some(({ type, flags, streamId }) => type <= 1 && streamId === 1 && (flags & 1) !== 0);
  if (!ends) return `whole without END_STREAM, ${body.length} bytes`;
  return null;
}

interface Row {
  readonly name: string;
  /** Behind the app's greeting. */
  readonly frames: readonly Buffer[];
  readonly method?: string;
  readonly greeting?: Buffer;
  readonly ending?: Script['ending'];
  /** What the client gets from our engine. */
  readonly text: string;
}

const whole = (body: string, trailers: readonly string[] | null = null, status = 200): string =>
  JSON.stringify([[], status, [], body, trailers]);
const headTooLarge = JSON.stringify([[], 431, ['content-length: 0'], '', null]);
const badGateway = JSON.stringify([[], 502, ['content-length: 0'], '', null]);
const again = JSON.stringify([[], 200, ['x-again: yes'], '', null]);
const head = (...more: [string, string][]): Buffer => headersFrame(1, [[':status', '200'], ...more], false);

/** Sound responses, and cases found by searching, or near to what was. */
const rows: readonly Row[] = [
  { name: 'no content', frames: [headersFrame(1, [[':status', '200']])], text: whole('') },
  { name: 'content', frames: [head(), dataFrame(1, 'hello', true)], text: whole('hello') },
  {
    name: 'content and trailers',
    frames: [head(), dataFrame(1, 'hello'), headersFrame(1, [['x-sum', '1']])],
    text: whole('hello', ['x-sum', '1']),
  },
  {
    name: 'an interim response first',
    frames: [
      headersFrame(
        1,
        [
          [':status', '103'],
          ['link', '</a>'],
        ],
        false,
      ),
      headersFrame(1, [[':status', '200']]),
    ],
    text: JSON.stringify([[103], 200, [], '', null]),
  },
  {
    name: 'content of a response to HEAD',
    method: 'HEAD',
    frames: [head(), dataFrame(1, 'hello', true)],
    text: 'broken off',
  },
  {
    name: 'less than was announced',
    frames: [head(['content-length', '6']), dataFrame(1, 'hello', true)],
    text: 'broken off',
  },
  {
    name: 'more than was announced',
    frames: [head(['content-length', '4']), dataFrame(1, 'hello', true)],
    text: 'broken off',
  },
  { name: 'an end in the middle', frames: [head(), dataFrame(1, 'hello')], ending: 'end', text: 'broken off' },
  {
    name: 'a reset in the middle, without an error',
    frames: [head(), dataFrame(1, 'hello'), resetFrame(1, 0)],
    text: 'broken off',
  },
  {
    name: 'an empty piece of content before the head',
    frames: [dataFrame(1, ''), headersFrame(1, [[':status', '200']])],
    text: badGateway,
  },
  { name: 'no response, and a reset without an error', frames: [resetFrame(1, 0)], text: badGateway },
  { name: 'refused: asked again', frames: [resetFrame(1, 7)], text: again },
  { name: 'going away before it: asked again', frames: [goawayFrame(0)], text: again },
  {
    name: 'a name that is none',
    frames: [
      headersFrame(1, [
        [':status', '200'],
        ['x y', '1'],
      ]),
    ],
    text: badGateway,
  },
  {
    name: 'Content-Length among the trailers',
    frames: [head(), headersFrame(1, [['content-length', '0']])],
    text: 'broken off',
  },
  {
    name: 'a server that takes no head',
    greeting: settingsFrame([[6, 0]]),
    frames: [headersFrame(1, [[':status', '200']])],
    text: headTooLarge,
  },
  {
    name: 'a server that would push',
    greeting: settingsFrame([[2, 1]]),
    frames: [headersFrame(1, [[':status', '200']])],
    text: badGateway,
  },
];

t.test('responses of an HTTP/2 app', async (t) => {
  const list = await variants(t);
  await t.test('rows', async (t) => {
    for (const { name, frames, method = 'GET', greeting, ending = 'keep', text } of rows) {
      for (const at of [[], null]) {
        const script: Script = {
          carrier: 'http2',
          method,
          grpc: false,
          greeting: greeting === undefined ? plainGreeting : Buffer.concat([greeting, settingsAck]),
          packets: cut(Buffer.concat(frames).toString('latin1'), at),
          ending,
          early: false,
        };
        const by = at === null ? 'by bytes' : 'whole';
        t.equal(await difference(list, script, false), null, `${name}, ${by}: no difference`);
        t.equal((await observe(list[0] as Variant, script, 100)).text, text, `${name}, ${by}`);
        for (const { app, lane } of list) {
          app.reset();
          await until('the end', () => lane.live.size === 0 && lane.counts.destinations === 0, { everyMs: 1 });
        }
      }
    }
  });

  for (const [name, mutations, share] of [
    ['sound', fc.constant<FrameMutation[]>([]), 0.3],
    ['mutated', fc.array(frameMutation, { minLength: 1, maxLength: 3 }), 0.4],
  ] as const) {
    await t.test(`generated, ${name}`, async (t) => {
      let runs = 0;
      const found = await search(
        fc.asyncProperty(
          appAnswer,
          mutations,
          cuts,
          fc.constantFrom('GET', 'GET', 'HEAD', 'POST'),
          fc.constantFrom('keep' as const, 'keep' as const, 'end' as const, 'reset' as const),
          fc.constantFrom(false, false, false, true),
          fc.constantFrom(false, false, false, true),
          async (answer, changes, at, method, ending, early, grpc) => {
            runs++;
            const seen = await difference(
              list,
              scriptOf(answerFrames(answer), changes, at, method, ending, early, grpc),
              changes.length === 0 && ending === 'keep' && isSound(answer, method),
            );
            if (seen !== null) throw new Error(seen);
          },
        ),
        share,
      );
      t.equal(found, null);
      t.ok(runs > 10, `${runs} answers`);
    });
  }
  await lastLook();
});

function scriptOf(
  frames: readonly RawFrame[],
  changes: readonly FrameMutation[],
  at: readonly number[] | null,
  method: string,
  ending: Script['ending'],
  early: boolean,
  grpc: boolean,
): Script {
  const greeting = bytesOf(frames.slice(0, 2), [], Buffer.alloc(0));
  const packets = cut(bytesOf(frames.slice(2), changes, Buffer.alloc(0)).toString('latin1'), at);
  return { carrier: 'http2', method, grpc, greeting, packets, ending, early };
}

const ok = 'HTTP/1.1 200 OK\r\n';
/** Nothing here may be refused by either lane, or broken off; or both break it off. */
const http1Rows: readonly (readonly [name: string, text: string, ending: Script['ending']])[] = [
  ['a length', `${ok}Content-Length: 5\r\n\r\nhello`, 'keep'],
  ['a length of nothing', `${ok}Content-Length: 0\r\n\r\n`, 'keep'],
  ['chunks', `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`, 'keep'],
  [
    'chunks and trailers',
    `${ok}Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n0\r\nX: 1\r\n\r\n`,
    'keep',
  ],
  ['no length', `${ok}\r\nhello`, 'end'],
  ['an interim response first', `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok}Content-Length: 0\r\n\r\n`, 'keep'],
  [
    'fields of the connection',
    `${ok}Connection: close, X-A\r\nX-A: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nhello`,
    'end',
  ],
  ['204', 'HTTP/1.1 204 No Content\r\n\r\n', 'keep'],
  ['304 with a length', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n', 'keep'],
  ['half a length', `${ok}Content-Length: 9\r\n\r\nhello`, 'end'],
  ['half of the chunks', `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhel`, 'end'],
  ['chunks without their end', `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`, 'end'],
  ['nothing', '', 'end'],
];

t.test('responses of an HTTP/1 app', async (t) => {
  const list = await variants(t);
  await t.test('rows', async (t) => {
    for (const [name, text, ending] of http1Rows) {
      for (const at of [[], null]) {
        const script: Script = {
          carrier: 'http1',
          method: 'GET',
          grpc: false,
          greeting: plainGreeting,
          packets: cut(text, at),
          ending,
          early: false,
        };
        t.equal(await difference(list, script, true), null, `${name}, ${at === null ? 'by bytes' : 'whole'}`);
      }
    }
  });

  let runs = 0;
  const found = await search(
    fc.asyncProperty(
      fc.constantFrom('GET', 'GET', 'HEAD', 'POST'),
      response,
      cuts,
      fc.constantFrom('keep' as const, 'keep' as const, 'end' as const, 'reset' as const),
      fc.constantFrom(false, false, false, true),
      async (method, text, at, ending, early) => {
        runs++;
        const script: Script = {
          carrier: 'http1',
          method,
          grpc: false,
          greeting: plainGreeting,
          packets: cut(text, at),
          ending,
          early,
        };
        const seen = await difference(list, script, false);
        if (seen !== null) throw new Error(seen);
      },
    ),
    0.3,
    () => runs > 10,
  );
  t.equal(found, null);
  t.ok(runs > 10, `${runs} answers`);
  await lastLook();
});
