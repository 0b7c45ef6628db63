import fc from 'fast-check';
import t, { type Test } from 'tap';
import { HpackDecoder } from '../../lib/proxy/http2/hpack/decoder.ts';
import { frame, headersFrame, preface, requestFields, resetFrame, settingsFrame } from '../support/http2-frames.ts';
import { type FramePeer, openClient } from '../support/http2-peers.ts';
import { type Engine, engines, type Lane, startLane } from '../support/lanes.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';
import { type RecordingApp, startRecordingApp } from './http2-apps.ts';
import { type Answer, Http2Client } from './http2-client.ts';
import {
  bytesOf,
  conversation,
  type FrameMutation,
  frameMutation,
  framesOf,
  type RawFrame,
  readFrames,
  sentinel,
} from './http2-conversation.ts';
import { inTurn, lastLook } from './looks.ts';
import { cut, cuts } from './mutations.ts';

/*
 * The same bytes of an HTTP/2 client, cut alike, to a proxy with our engine and to one with nghttp2: the same requests
 * are decided and reach the app, and each stream is answered alike or broken off by both.
 */

t.setTimeout(timeLimitMs);

interface Variant {
  readonly engine: Engine;
  readonly lane: Lane;
  readonly app: RecordingApp;
  /** What was sound enough to be decided. */
  readonly decided: string[];
  /** Another client, who is served whatever the one that is looked at does; null for the library. */
  readonly neighbour: FramePeer | null;
  /** What it has left behind before. */
  readonly left: { connections: number; requests: number; open: number };
}

interface Observation {
  /** What became of each stream, in a form in which equal ends are equal texts. */
  readonly answers: ReadonlyMap<number, string>;
  /** Streams that the proxy has reset with an error. */
  readonly refused: boolean;
  /** The code of GOAWAY; null when none came. */
  readonly goaway: number | null;
  /** The proxy ended the connection, or said that it would. */
  readonly ended: boolean;
  /** Everything was read. */
  readonly read: boolean;
  readonly decided: readonly string[];
  /** Complete requests, as the app saw them. */
  readonly requests: readonly string[];
  /** What is wrong whatever the other lane does. */
  readonly faults: readonly string[];
}

async function variants(t: Test): Promise<Variant[]> {
  const list: Variant[] = [];
  for (const engine of engines) {
    const app = await startRecordingApp(t);
    const decided: string[] = [];
    const lane = await startLane(t, {
      engine: 'library',
      http2Engine: engine,
      app: app.port,
      protocol: 'http2',
      onDecided: (request) => decided.push(request),
    });
    const neighbour = engine === 'fast' ? await openClient(t, lane.port) : null;
    const connections = neighbour === null ? 0 : 1;
    list.push({ engine, lane, app, decided, neighbour, left: { connections, requests: 0, open: 0 } });
  }
  return list;
}

const neighbourPath = '/of-a-neighbour';
let neighbourStream = -1;

/** What is wrong with the response to another client; null where nothing is. */
async function asks(neighbour: FramePeer): Promise<string | null> {
  neighbourStream += 2;
  const id = neighbourStream;
  neighbour.send(headersFrame(id, requestFields(neighbourPath)));
  const outcome = await neighbour.over(id).catch(() => 'nothing');
  neighbour.messages.delete(id);
  neighbour.frames.length = 0;
  return outcome === '200' ? null : `a neighbour gets ${outcome}`;
}

/** @param quietMs when nothing more has come for so long, nothing more is expected. */
async function observe(variant: Variant, packets: readonly Buffer[], quietMs: number): Promise<Observation> {
  const { lane, app, decided, neighbour, left } = variant;
  app.requests.length = 0;
  decided.length = 0;
  const sent = readFrames(Buffer.concat(packets).subarray(24));
  const client = await Http2Client.open(lane.port);
  const { raw } = client;
  try {
    for (const packet of packets) {
      raw.send(packet);
      // A turn, so that packets do not become one.
      await new Promise((resolve) => setImmediate(resolve));
    }
    const served = neighbour === null ? null : asks(neighbour);
    const sentinelIsLast = sent.at(-1)?.payload.toString('latin1') === sentinel;
    const opened = new Set(sent.filter(({ type }) => type === 1).map(({ streamId }) => streamId));
    const settled = (): boolean =>
      sentinelIsLast &&
      client.pongs.has(sentinel) &&
      app.open === left.open &&
      [...opened].every((id) => client.isSettled(id));
    for (;;) {
      const came = raw.receivedLength + app.requests.length;
      if (await raw.waits(settled, quietMs)) break;
      if (raw.ended || raw.receivedLength + app.requests.length === came) break;
    }
    const unserved = await served;
    // Before our own end, which breaks off what is open.
    const requests = app.requests
      .filter(({ complete, text }) => complete && !text.includes(neighbourPath))
      .map(({ text }) => text);
    const observation: Observation = {
      answers: new Map([...client.answers].map(([id, answer]) => [id, seen(answer)])),
      refused: [...client.answers.values()].some(({ reset }) => (reset ?? 0) !== 0),
      goaway: client.goaway,
      ended: raw.ended || client.goaway !== null,
      read: client.pongs.has(sentinel),
      decided: decided.filter((text) => !text.includes(neighbourPath)).sort(),
      requests: requests.sort(),
      faults: [...client.faults, ...app.faults, ...(unserved === null ? [] : [unserved])],
    };
    raw.halfClose();
    await raw.ends(3000);
    return observation;
  } finally {
    app.faults.length = 0;
    raw.destroy();
  }
}

/** The look that is under way: a search that runs out of time leaves its last one behind. */
/** Null when the lanes cannot be told apart by these bytes. */
function difference(list: readonly Variant[], bytes: Buffer, at: readonly number[] | null): Promise<string | null> {
  return inTurn(() => compared(list, bytes, at));
}

async function compared(list: readonly Variant[], bytes: Buffer, at: readonly number[] | null): Promise<string | null> {
  const packets = cut(bytes.toString('latin1'), at);
  let said: string | null = null;
  // What was only slow is the same at the second, patient look.
  for (const quietMs of [20, 300]) {
    const [fast, library] = (await Promise.all(list.map((variant) => observe(variant, packets, quietMs)))) as [
      Observation,
      Observation,
    ];
    said = await leftBehind(list);
    said ??= compare(fast, library, bytes.subarray(24));
    if (said === null) return null;
  }
  return said;
}

/**
 * Waits until nothing is left of the look. Node's session, told to close and then broken off for what the client sent,
 * may stay for ever with what was open on it: what the library lane has left behind once is not waited for again.
 */
async function leftBehind(list: readonly Variant[]): Promise<string | null> {
  for (const { engine, lane, app, left } of list) {
    const connections = (): number => lane.live.size - left.connections;
    const requests = (): number => lane.counts.started - lane.counts.ended - left.requests;
    const open = (): number => app.open - left.open;
    const idle = (): boolean => connections() === 0 && requests() === 0 && open() === 0;
    const timeoutMs = engine === 'fast' ? 3000 : 500;
    const over = await until('the end', idle, { timeoutMs, everyMs: 1 }).catch(() => false);
    if (over !== false) continue;
    if (engine === 'fast')
      return `left behind: ${connections()} connections, ${requests()} requests, ${open()} at the app`;
    left.connections += connections();
    left.requests += requests();
    left.open += open();
  }
  return null;
}

/** A response, in a form in which equal responses are equal texts. */
function seen({ interim, status, fields, body, trailers, complete, reset }: Answer): string {
  if (reset !== null && !complete) return 'broken off';
  if (!complete) return status === null ? 'nothing' : `incomplete ${status}`;
  const kept: string[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] !== 'date') kept.push(`${fields[i]}: ${fields[i + 1]}`);
  }
  return JSON.stringify([interim, status, kept.sort(), Buffer.concat(body).toString('latin1'), trailers]);
}

/** What the client has sent on one stream. */
interface Sent {
  /** Of the first header block. */
  readonly fields: readonly string[];
  /** A field that must not be passed on, in the head or in the trailers. */
  readonly malformed: boolean;
  /** A Host that nghttp2 may not take for one. */
  readonly oddHost: boolean;
  readonly ended: boolean;
  readonly reset: boolean;
}

const internalError = 2;
const streamClosed = 5;
const frameSizeError = 6;

const nameForm = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const valueForm = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

/** A field that must not be passed on; of pseudo-header fields only the values. */
function isMalformed(fields: readonly string[], trailers: boolean): boolean {
  return fields.some((text, i) => {
    if (i % 2 === 1) return !valueForm.test(text);
    if (text === 'http2-settings' || (trailers && (text === 'content-length' || text === 'host'))) return true;
    return !text.startsWith(':') && !nameForm.test(text);
  });
}

function sentStreams(frames: readonly RawFrame[]): Map<number, Sent> {
  const decoder = new HpackDecoder(1 << 20, 1 << 24, 10_000);
  const streams = new Map<number, Sent>();
  let block: Buffer[] = [];
  /** The block began behind the stream's end. */
  let late = false;
  for (const { type, flags, streamId, payload } of frames) {
    const known = streams.get(streamId) ?? { fields: [], malformed: false, oddHost: false, ended: false, reset: false };
    const ended = known.ended || (type <= 1 && (flags & 1) !== 0);
    streams.set(streamId, { ...known, ended, reset: known.reset || type === 3 });
    if (type !== 1 && type !== 9) continue;
    if (type === 1) late = known.ended;
    const padding = type === 1 && (flags & 0x8) !== 0 ? (payload[0] ?? 0) : -1;
    const from = (padding < 0 ? 0 : 1) + (type === 1 && (flags & 0x20) !== 0 ? 5 : 0);
    block.push(payload.subarray(from, payload.length - Math.max(0, padding)));
    if ((flags & 4) === 0) continue;
    const whole = Buffer.concat(block);
    block = [];
    const decoded = decoder.decode(whole, 0, whole.length);
    if (decoded.kind !== 'fields') break;
    const { fields } = decoded;
    streams.set(streamId, {
      ...known,
      ended,
      fields: known.fields.length > 0 ? known.fields : fields,
      // What comes behind the end is refused for that, whatever it is.
      malformed: known.malformed || (!late && isMalformed(fields, known.fields.length > 0)),
      oddHost: known.oddHost || fields.some((text, i) => fields[i - 1] === 'host' && /[^\w.:[\]-]/.test(text)),
    });
  }
  return streams;
}

function field({ fields }: Sent, name: string): string | undefined {
  const at = fields.findIndex((text, i) => i % 2 === 0 && text === name);
  return at === -1 ? undefined : fields[at + 1];
}

/**
 * Where the engines may differ on one stream:
 * - nghttp2 leaves a field out whose name or value is none; we reset the stream (RFC 9113 8.2.1), and so for
 *   HTTP2-Settings, which belongs to a connection, and for framing and routing
 *   among the trailers;
 * - an HTTP/1 app has its request when it has as many bytes as were announced, END_STREAM or not;
 * - a response without content can end though the client gives no window, for us only;
 * - a response may overtake the client's own reset, and a refusal the fault that comes behind it, or not;
 * - Node's client refuses to repeat a field that should be single, which is a 502.
 */
function mayDiffer(sent: Sent, fast: string, library: string): boolean {
  if ((sent.malformed || sent.oddHost) && fast === 'broken off') return true;
  if (sent.reset) return true;
  if (library === 'broken off' && fast.startsWith('[[],403,')) return true;
  const announced = field(sent, 'content-length') !== undefined;
  if (announced && fast.startsWith('[') && !library.startsWith('[')) return true;
  if (library.startsWith('incomplete') && /^\[.*\],"",null\]$/.test(fast)) return true;
  return library.startsWith('[[],502,') && !fast.startsWith('[[],502,');
}

function compare(fast: Observation, library: Observation, bytes: Buffer): string | null {
  const frames = readFrames(bytes);
  const torn = frames.reduce((sum, { payload }) => sum + 9 + payload.length, 0) < bytes.length;
  const streams = sentStreams(frames);
  const [fault] = fast.faults;
  if (fault !== undefined) return `fast: ${fault}`;
  const malformed = fast.requests.find((request) => isOfMalformed(request, streams));
  if (malformed !== undefined) return `malformed, and let through: ${malformed}`;
  for (const observation of [fast, library]) {
    for (const request of observation.requests) {
      const text = tornFrom(request, streams);
      if (text !== null) return `${observation === fast ? 'fast' : 'library'}: complete for the app only: ${text}`;
    }
  }
  const isFailure = ({ goaway, ended }: Observation): boolean => (goaway !== null ? goaway !== 0 : ended);
  const [fastFailed, libraryFailed] = [isFailure(fast), isFailure(library)];
  if (libraryFailed && !fastFailed && !mayGoOn(fast, library, frames, torn)) {
    return `library ended by ${library.goaway}, fast ${fast.goaway}`;
  }
  if (fastFailed && !library.ended && !mayEnd(fast, frames, torn))
    return `fast ended by ${fast.goaway}, library ${library.goaway}`;

  const nothing = 'nothing';
  const excused = new Set<string>();
  const excuse = (sent: Sent): void => {
    const path = field(sent, ':path') ?? '';
    if (path !== '') excused.add(pathOf(path));
  };
  for (const sent of streams.values()) if (sent.reset || sent.malformed || sent.oddHost) excuse(sent);
  // nghttp2 passes on what has come of a DATA frame; we wait for the rest.
  const half = streams.get(tornStream(frames, bytes));
  if (half !== undefined && field(half, 'content-length') !== undefined) excuse(half);
  for (const id of new Set([...fast.answers.keys(), ...library.answers.keys()])) {
    const a = fast.answers.get(id) ?? nothing;
    const b = library.answers.get(id) ?? nothing;
    const sent = streams.get(id);
    if (a === b) continue;
    // nghttp2 reads half a header block; we wait for the rest.
    if (torn && a === nothing) continue;
    if (sent === undefined) return `an answer to nothing: ${id}`;
    excuse(sent);
    const whole = (text: string): boolean => text.startsWith('[');
    // After the end of a connection, what came before it may have been answered, or not.
    if ((fast.ended || library.ended) && (!whole(a) || !whole(b))) continue;
    if (!mayDiffer(sent, a, b)) return `stream ${id}: fast ${a}, library ${b}`;
  }
  const only = (mine: readonly string[], other: readonly string[]): string | undefined =>
    mine.find((text) => !other.includes(text) && ![...excused].some((path) => text.includes(path)));
  if (!library.ended) {
    const request = only(fast.decided, library.decided) ?? only(fast.requests, library.requests);
    if (request !== undefined) return `only fast: ${request}`;
  }
  if (!fast.ended) {
    const request = only(library.decided, fast.decided) ?? only(library.requests, fast.requests);
    if (request !== undefined) return `only library: ${request}`;
  }
  return null;
}

/** The stream of the frame that has not come as a whole; 0 where there is none. */
function tornStream(frames: readonly RawFrame[], bytes: Buffer): number {
  const at = frames.reduce((sum, { payload }) => sum + 9 + payload.length, 0);
  return bytes.length - at < 9 ? 0 : bytes.readUInt32BE(at + 5) & 0x7fffffff;
}

const pathOf = (target: string): string => target.replace(/\?.*/, '');

const announcesEnd = (sent: Sent): boolean => !sent.ended && field(sent, 'content-length') !== undefined;

/** A request that should have been refused for one of its fields. */
function isOfMalformed(request: string, streams: ReadonlyMap<number, Sent>): boolean {
  const [carrier, , target] = JSON.parse(request) as string[];
  const senders = [...streams.values()].filter((sent) => field(sent, ':path') === target);
  // Trailers come too late where the app has as many bytes as were announced.
  if (carrier === 'HTTP/1' && senders.some((sent) => field(sent, 'content-length') !== undefined)) return false;
  return senders.length > 0 && senders.every((sent) => sent.malformed);
}

/** A request that the app took for complete, and the client never ended; null where there is none. */
function tornFrom(request: string, streams: ReadonlyMap<number, Sent>): string | null {
  const [carrier, , target] = JSON.parse(request) as string[];
  const senders = [...streams.values()].filter((sent) => field(sent, ':path') === target);
  if (senders.some(({ ended }) => ended)) return null;
  if (carrier === 'HTTP/1' && senders.some(announcesEnd)) return null;
  return request;
}

/**
 * Where Node ends a connection and we do not:
 * - at the acknowledgement of a PING that it has not sent;
 * - with INTERNAL_ERROR or STREAM_CLOSED where we end one stream;
 * - where the window of one stream becomes too large, or grows by nothing;
 * - where a frame is wrong by its first bytes, before the whole frame has come.
 */
function mayGoOn(fast: Observation, library: Observation, frames: readonly RawFrame[], torn: boolean): boolean {
  if ((library.goaway === internalError || library.goaway === streamClosed) && fast.refused) return true;
  if (torn) return true;
  return frames.some(({ type, flags, streamId, payload }) => {
    if (type === 6) return (flags & 1) !== 0;
    if (type !== 8 || streamId === 0 || payload.length !== 4) return false;
    const increment = payload.readUInt32BE(0) & 0x7fffffff;
    return increment === 0 || increment >= 2 ** 30;
  });
}

/**
 * Where we end a connection and nghttp2 does not:
 * - frames for a stream that is over, or that was skipped, which nghttp2 leaves out (RFC 9113 5.1, 5.1.1);
 * - a value that cannot be, in a setting that is repeated: nghttp2 looks at the last one only;
 * - padding longer than its frame, on a stream that is over;
 * - a CONTINUATION longer than we take, which nghttp2 takes by pieces;
 * - a PRIORITY without a stream, of a wrong length, or on itself (RFC 7540 5.3.1): nghttp2 no longer looks at them.
 */
function mayEnd(fast: Observation, frames: readonly RawFrame[], torn: boolean): boolean {
  if (torn && fast.goaway === frameSizeError) return true;
  const open = new Set<number>();
  let highest = 0;
  for (const { type, flags, streamId, payload } of frames) {
    if (type === 4 && payload.length % 6 === 0 && repeats(payload)) return true;
    if (type === 3) open.delete(streamId);
    if (type === 2 && isOddPriority(streamId, payload)) return true;
    if (type > 1) continue;
    if (streamId > highest && type === 1) {
      open.add(streamId);
      highest = streamId;
    }
    if (!open.has(streamId) || (type === 0 && (flags & 8) !== 0 && (payload[0] ?? 0) >= payload.length)) return true;
    if ((flags & 1) !== 0) open.delete(streamId);
  }
  return false;
}

function isOddPriority(streamId: number, payload: Buffer): boolean {
  return streamId === 0 || payload.length !== 5 || (payload.readUInt32BE(0) & 0x7fffffff) === streamId;
}

function repeats(settings: Buffer): boolean {
  const ids = new Set<number>();
  for (let at = 0; at < settings.length; at += 6) ids.add(settings.readUInt16BE(at));
  return 6 * ids.size < settings.length;
}

/** Found by searching, or near to what was; the frames behind the settings. */
const regressions: readonly (readonly [name: string, ...frames: Buffer[]])[] = [
  [
    'no :authority and no Host',
    headersFrame(
      1,
      requestFields('/').filter(([name]) => name !== ':authority'),
    ),
  ],
  ['an empty :authority', headersFrame(1, requestFields('/', [], 'GET', ''))],
  [
    'Host twice, and alike',
    headersFrame(
      1,
      requestFields('/', [
        ['host', 'web'],
        ['host', 'web'],
      ]),
    ),
  ],
  ['TE in capitals', headersFrame(1, requestFields('/', [['te', 'Trailers']]))],
  ['a switch in the settings that is neither on nor off', settingsFrame([[8, 2]]), headersFrame(1, requestFields('/'))],
  [
    'Content-Length among the trailers',
    headersFrame(1, requestFields('/', [], 'POST'), false),
    headersFrame(1, [['content-length', '05']]),
  ],
  [
    'Host among the trailers',
    headersFrame(1, requestFields('/', [['host', 'web']], 'POST'), false),
    headersFrame(1, [['host', 'other']]),
  ],
  ['a line end in a value', headersFrame(1, requestFields('/', [['x-a', 'a\r\nx-b: 1']]))],
  [
    'a line end in a trailer',
    headersFrame(1, requestFields('/', [], 'POST'), false),
    headersFrame(1, [['x-a', 'a\r\nx-b: 1']]),
  ],
  [
    'trailers that do not end the stream',
    headersFrame(1, requestFields('/', [], 'POST'), false),
    headersFrame(1, [['x-sum', '1']], false),
  ],
  [
    'HTTP2-Settings among the trailers',
    headersFrame(1, requestFields('/', [], 'POST'), false),
    headersFrame(1, [['http2-settings', 'AAA']]),
  ],
  [
    'a reset behind content, for an HTTP/1 app',
    headersFrame(1, requestFields('/', [['l5d-orig-proto', 'HTTP/1.1']], 'PUT'), false),
    frame(0, 0, 1, Buffer.from('hello')),
    resetFrame(1, 8),
  ],
  [
    'trailers for an HTTP/1 app, and a method that has no content',
    headersFrame(1, requestFields('/', [['l5d-orig-proto', 'HTTP/1.1']]), false),
    headersFrame(1, [['x-sum', '1']]),
  ],
];

t.test('conversations', async (t) => {
  const list = await variants(t);
  await t.test('cases once found', async (t) => {
    const begin = [preface, settingsFrame([]), frame(4, 1, 0)];
    const end = frame(6, 0, 0, Buffer.from(sentinel));
    const early = Buffer.concat([preface, frame(4, 1, 0), settingsFrame([]), headersFrame(1, requestFields('/')), end]);
    t.equal(await difference(list, early, null), null, 'an acknowledgement before any SETTINGS');
    for (const [name, ...frames] of regressions) {
      for (const at of [[], null]) {
        const bytes = Buffer.concat([...begin, ...frames, end]);
        t.equal(await difference(list, bytes, at), null, `${name}, ${at === null ? 'by bytes' : 'whole'}`);
      }
    }
  });

  for (const [name, mutations, share] of [
    ['sound', fc.constant<FrameMutation[]>([]), 0.4],
    ['mutated', fc.array(frameMutation, { minLength: 1, maxLength: 3 }), 0.6],
  ] as const) {
    await t.test(`generated, ${name}`, async (t) => {
      let runs = 0;
      const found = await search(
        fc.asyncProperty(conversation, mutations, cuts, async (talk, changes, at) => {
          runs++;
          const seen = await difference(list, bytesOf(framesOf(talk), changes), at);
          if (seen !== null) throw new Error(seen);
        }),
        share,
      );
      t.equal(found, null);
      t.ok(runs > 10, `${runs} conversations`);
    });
  }
  await lastLook();
  for (const { engine, lane, left } of list) {
    t.equal(lane.counts.started - lane.counts.ended, left.requests, `${engine}: every request is counted out`);
  }
});
