import fc, { type Arbitrary } from 'fast-check';
import { flag, type as frameTypes, preface } from '../support/http2-frames.ts';

/** One frame as it will be written; `length` may lie. */
export interface RawFrame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
  readonly length?: number;
}

export function encodeFrame({ type, flags, streamId, payload, length }: RawFrame): Buffer {
  const bytes = Buffer.alloc(9 + payload.length);
  bytes.writeUIntBE(length ?? payload.length, 0, 3);
  bytes.writeUInt8(type, 3);
  bytes.writeUInt8(flags, 4);
  bytes.writeUInt32BE(streamId, 5);
  payload.copy(bytes, 9);
  return bytes;
}

/** The frames that stand in these bytes, and nothing of what is not whole. */
export function readFrames(bytes: Buffer): RawFrame[] {
  const frames: RawFrame[] = [];
  for (let at = 0; bytes.length - at >= 9; ) {
    const length = bytes.readUIntBE(at, 3);
    if (bytes.length - at < 9 + length) break;
    frames.push({
      type: bytes.readUInt8(at + 3),
      flags: bytes.readUInt8(at + 4),
      streamId: bytes.readUInt32BE(at + 5) & 0x7fffffff,
      payload: bytes.subarray(at + 9, at + 9 + length),
    });
    at += 9 + length;
  }
  return frames;
}

export function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** How a field is written (RFC 7541 6): as a literal, with its name and value added to the table, or never to be. */
type Form = 'literal' | 'indexing' | 'never';
export type Field = readonly [name: string, value: string, form?: Form];

/** Fields to header blocks, with a dynamic table that never fills up. */
export class BlockWriter {
  readonly #table: string[] = [];

  block(fields: readonly Field[]): Buffer {
    return Buffer.concat(fields.map((field) => this.#field(field)));
  }

  #field([name, value, form = 'literal']: Field): Buffer {
    if (form === 'indexing') {
      const key = `${name}\0${value}`;
      const at = this.#table.indexOf(key);
      if (at !== -1 && at < 60) return Buffer.of(0x80 | (62 + at));
      if (this.#table.length < 50) {
        this.#table.unshift(key);
        return Buffer.concat([Buffer.of(0x40), string(name), string(value)]);
      }
    }
    return Buffer.concat([Buffer.of(form === 'never' ? 0x10 : 0x00), string(name), string(value)]);
  }
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes]);
  const length = [127];
  let left = bytes.length - 127;
  for (; left >= 128; left >>>= 7) length.push((left & 127) | 128);
  length.push(left);
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** What a request does wrong; null in most. */
export type Fault =
  | { readonly kind: 'without'; readonly name: string }
  | { readonly kind: 'twice'; readonly name: string }
  | { readonly kind: 'pseudo-last'; readonly name: string }
  | { readonly kind: 'value'; readonly name: string; readonly value: string }
  | { readonly kind: 'field'; readonly field: Field }
  | { readonly kind: 'length'; readonly value: string };

export interface Plan extends BlockShape {
  readonly method: string;
  readonly path: string;
  readonly fields: readonly Field[];
  readonly fault: Fault | null;
  /** Carried as HTTP/1 (Linkerd's orig-proto). */
  readonly downgraded: boolean;
  readonly body: readonly Chunk[];
  readonly announced: boolean;
  readonly trailers: readonly Field[] | null;
  readonly ending: 'end' | 'empty-end' | 'none' | 'reset';
}

/** A frame of the connection, or one that concerns a stream from outside of its plan. */
export interface Aside {
  readonly type: number;
  readonly flags: number;
  /** The how-manieth stream of the conversation; null: the connection. */
  readonly stream: number | null;
  readonly payload: Buffer;
}

export interface Conversation {
  readonly settings: readonly (readonly [id: number, value: number])[];
  readonly plans: readonly Plan[];
  /** Whose turn it is, again and again. */
  readonly order: readonly number[];
  readonly asides: readonly { readonly at: number; readonly aside: Aside }[];
}

export const form = fc.constantFrom<Form>('literal', 'indexing', 'indexing', 'never');
const regular: Arbitrary<Field> = fc.oneof(
  fc.tuple(fc.constantFrom('x-a', 'x-b', 'accept', 'user-agent'), fc.constantFrom('', '1', 'a b', '\xe9'), form),
  fc.constantFrom<Field>(
    ['te', 'trailers'],
    ['cookie', 'a=b'],
    ['cookie', 'c=d'],
    ['content-type', 'text/plain'],
    ['l5d-client-id', 'admin'],
    ['l5d_client.id', 'admin'],
    ['host', 'a.example'],
    ['trailer', 'x-sum'],
    ['forwarded', 'for=1.2.3.4'],
    ['x-long', 'z'.repeat(300)],
    ['via', '1.1 a'],
    ['priority', 'u=1'],
  ),
);

/** Fields that are malformed, or nearly so. */
export const oddFields: readonly Field[] = [
  ['X-Upper', '1'],
  ['connection', 'close'],
  ['connection', 'keep-alive, x-a'],
  ['keep-alive', 'timeout=1'],
  ['proxy-connection', 'close'],
  ['transfer-encoding', 'chunked'],
  ['upgrade', 'h2c'],
  ['te', 'gzip'],
  ['te', 'trailers, deflate'],
  ['te', 'Trailers'],
  ['http2-settings', 'AAA'],
  ['', 'x'],
  ['x y', '1'],
  ['x:y', '1'],
  ['x\r\ny', '1'],
  ['x\0', '1'],
  ['x-crlf', 'a\r\nx-smuggled: 1'],
  ['x-nul', 'a\0b'],
  ['x-lf', 'a\n'],
  ['x-cr', 'a\rb'],
  ['x-space', ' a'],
  ['x-space', 'a '],
  ['x-tab', '\ta'],
  ['x-tab', 'a\tb'],
  ['x-ctl', 'a\x01b'],
  ['x-del', 'a\x7fb'],
  ['\xe9', '1'],
  ['host', 'b.example'],
  ['host', 'A.EXAMPLE'],
  ['host', 'a@example'],
  ['host', ''],
  [':path', '/x'],
  [':status', '200'],
  [':unknown', 'x'],
  [':protocol', 'websocket'],
  ['content-length', '0'],
  ['content-length', '5'],
  ['content-length', '+5'],
  ['content-length', '05'],
  ['content-length', ''],
  ['content-length', '5, 5'],
  ['content-length', '18446744073709551616'],
  ['expect', '100-continue'],
  ['expect', 'x'],
  ['l5d-orig-proto', 'HTTP/1.0'],
  ['l5d-orig-proto', 'nonsense'],
];

const pseudoName = fc.constantFrom(':method', ':scheme', ':authority', ':path');
const fault: Arbitrary<Fault> = fc.oneof(
  fc.record({ kind: fc.constant('without' as const), name: pseudoName }),
  fc.record({ kind: fc.constant('twice' as const), name: pseudoName }),
  fc.record({ kind: fc.constant('pseudo-last' as const), name: pseudoName }),
  fc.record({
    kind: fc.constant('value' as const),
    name: pseudoName,
    value: fc.constantFrom(
      '',
      '*',
      'CONNECT',
      'a b',
      'a\r\nb',
      'x',
      'http://b.example/x',
      '/a#b',
      '/\xe9',
      '/a\tb',
      '//',
      '/a\x7f',
    ),
  }),
  fc.record({ kind: fc.constant('field' as const), field: fc.constantFrom(...oddFields) }),
  fc.record({ kind: fc.constant('length' as const), value: fc.constantFrom('0', '1', '1000', '-1', 'x', '5') }),
);

export const some = <T>(arbitrary: Arbitrary<T>, weight: number): Arbitrary<T | null> =>
  fc.oneof({ weight, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });

export const padding = some(fc.constantFrom(0, 1, 10, 255), 4);
export const body: Arbitrary<readonly Chunk[]> = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  {
    weight: 2,
    arbitrary: fc.array(
      fc.record({
        text: fc.constantFrom('hello', '', 'GET / HTTP/1.1\r\n\r\n', '0\r\n\r\n', 'x'.repeat(500)),
        padding,
      }),
      { maxLength: 3 },
    ),
  },
);
const trailers: Arbitrary<readonly Field[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.tuple(fc.constantFrom('x-sum', 'x-b', 'grpc-status'), fc.constantFrom('', '1'), form) },
    { weight: 1, arbitrary: fc.constantFrom(...oddFields) },
  ),
  { maxLength: 2 },
);

const plan: Arbitrary<Plan> = fc.record({
  method: fc.constantFrom('GET', 'GET', 'POST', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'DELETE', 'X-OWN'),
  path: fc.constantFrom('/', '/', '/a%2fb?c=d', '/DENIED', '/trailers', '/204', '/empty', '/404', '/103'),
  fields: fc.array(regular, { maxLength: 3 }),
  fault: some(fault, 6),
  downgraded: fc.boolean(),
  blockCuts: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.nat(100), { maxLength: 3 }) },
  ),
  padding,
  priority: fc.constantFrom(false, false, false, true),
  body,
  announced: fc.boolean(),
  trailers: some(trailers, 4),
  ending: fc.constantFrom('end', 'end', 'end', 'end', 'empty-end', 'none', 'reset'),
});

const settingId = fc.constantFrom(1, 2, 3, 4, 4, 4, 5, 6, 8, 0x99);
const settingValue = fc.constantFrom(0, 1, 2, 100, 4096, 16_384, 65_535, 70_000, 2 ** 24 - 1, 2 ** 31 - 1, 2 ** 31);
/** Enough room for the responses, so that most streams end. */
export const kindSettings = fc.constantFrom<(readonly [number, number])[]>(
  [],
  [[1, 0]],
  [[4, 1 << 20]],
  [
    [3, 100],
    [5, 16_384],
  ],
);
export const wildSettings = fc.array(fc.tuple(settingId, settingValue), { maxLength: 3 });

export function settingsPayload(settings: readonly (readonly [number, number])[]): Buffer {
  const payload = Buffer.alloc(6 * settings.length);
  for (const [i, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, 6 * i);
    payload.writeUInt32BE(value, 6 * i + 2);
  }
  return payload;
}

const increment = fc.constantFrom(0, 1, 1000, 65_535, 2 ** 30, 2 ** 31 - 1, 2 ** 31 + 5).map(number);
const someStream = fc.nat(5);
export const aside: Arbitrary<Aside> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant(frameTypes.ping),
      flags: fc.constantFrom(0, 0, 0, flag.ack),
      stream: fc.constant(null),
      payload: fc.constantFrom(Buffer.alloc(8), Buffer.alloc(8), Buffer.from('12345678'), Buffer.alloc(7)),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant(frameTypes.settings),
      flags: fc.constantFrom(0, 0, 0, flag.ack),
      stream: fc.constant(null),
      payload: fc.oneof(kindSettings, wildSettings).map(settingsPayload),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant(frameTypes.windowUpdate),
      flags: fc.constant(0),
      stream: fc.oneof(fc.constant(null), someStream),
      payload: increment,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant(frameTypes.priority),
      flags: fc.constant(0),
      stream: someStream,
      payload: fc.constantFrom(Buffer.of(0, 0, 0, 0, 1), Buffer.of(0, 0, 0, 3, 1), Buffer.of(128, 0, 0, 1, 1)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant(frameTypes.rstStream),
      flags: fc.constant(0),
      stream: someStream,
      payload: fc.constantFrom(8, 0, 1, 0x99).map(number),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom(0x20, 0xa, 0xc, 0xf0),
      flags: fc.nat(255),
      stream: fc.oneof(fc.constant(null), someStream),
      payload: fc.constantFrom(Buffer.alloc(0), Buffer.from('hello')),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom(frameTypes.goaway, frameTypes.pushPromise, frameTypes.continuation, frameTypes.data),
      flags: fc.constantFrom(0, flag.endStream, flag.endHeaders),
      stream: fc.oneof(fc.constant(null), someStream),
      payload: fc.constantFrom(Buffer.alloc(8), Buffer.alloc(0), Buffer.from('hello')),
    }),
  },
);

/** Conversations that are sound but for what a plan's fault or an aside does. */
export const conversation: Arbitrary<Conversation> = fc.record({
  settings: fc.oneof({ weight: 8, arbitrary: kindSettings }, { weight: 1, arbitrary: wildSettings }),
  plans: fc.array(plan, { minLength: 1, maxLength: 4 }),
  order: fc.array(fc.nat(3), { maxLength: 12 }),
  asides: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.record({ at: fc.nat(20), aside }), { maxLength: 3 }) },
  ),
});

function headFields(plan: Plan, place: number): Field[] {
  const target = plan.path.replace(/^\/([^?]*)/, (_all, first: string) => `/${first}/${place}`);
  const pseudo: Field[] = [
    [':method', plan.method, 'indexing'],
    [':scheme', 'http', 'indexing'],
    [':authority', 'a.example', 'indexing'],
    [':path', target],
  ];
  const fields: Field[] = [...plan.fields];
  if (plan.downgraded) fields.push(['l5d-orig-proto', 'HTTP/1.1', 'indexing']);
  const length = plan.body.reduce((sum, { text }) => sum + text.length, 0);
  if (plan.announced && plan.body.length > 0) fields.push(['content-length', String(length)]);
  const { fault } = plan;
  if (fault === null) return [...pseudo, ...fields];
  switch (fault.kind) {
    case 'without':
      return [...pseudo.filter(([name]) => name !== fault.name), ...fields];
    case 'twice':
      return [...pseudo, ...pseudo.filter(([name]) => name === fault.name), ...fields];
    case 'pseudo-last':
      return [
        ...pseudo.filter(([name]) => name !== fault.name),
        ...fields,
        ...pseudo.filter(([name]) => name === fault.name),
      ];
    case 'value':
      return [...pseudo.map(([name, value]): Field => [name, name === fault.name ? fault.value : value]), ...fields];
    case 'field':
      return [...pseudo, ...fields, fault.field];
    case 'length':
      return [...pseudo, ...fields.filter(([name]) => name !== 'content-length'), ['content-length', fault.value]];
  }
}

export function pad(payload: Buffer, bytes: number): Buffer {
  return Buffer.concat([Buffer.of(bytes), payload, Buffer.alloc(bytes)]);
}

/** How a header block is written. */
export interface BlockShape {
  /** Where it is cut into CONTINUATIONs. */
  readonly blockCuts: readonly number[];
  readonly padding: number | null;
  readonly priority: boolean;
}

/** A header block, in HEADERS and as many CONTINUATIONs as it is cut into. */
export function blockFrames(shape: BlockShape, streamId: number, block: Buffer, endStream: boolean): RawFrame[] {
  const points = [...new Set(shape.blockCuts.map((point) => point % (block.length + 1)))].sort((a, b) => a - b);
  const parts = [0, ...points].map((from, i) => block.subarray(from, points[i] ?? block.length));
  return parts.map((part, i) => {
    const last = i === parts.length - 1 ? flag.endHeaders : 0;
    if (i > 0) return { type: frameTypes.continuation, flags: last, streamId, payload: part };
    let flags = last | (endStream ? flag.endStream : 0);
    let payload = shape.priority ? Buffer.concat([Buffer.of(0, 0, 0, 0, 16), part]) : part;
    if (shape.priority) flags |= flag.priority;
    if (shape.padding !== null) {
      payload = pad(payload, shape.padding);
      flags |= flag.padded;
    }
    return { type: frameTypes.headers, flags, streamId, payload };
  });
}

/** A piece of a body. */
export interface Chunk {
  readonly text: string;
  readonly padding: number | null;
}

export function dataFrame({ text, padding }: Chunk, streamId: number, endStream: boolean): RawFrame {
  const bytes = Buffer.from(text, 'latin1');
  const flags = (endStream ? flag.endStream : 0) | (padding === null ? 0 : flag.padded);
  return { type: frameTypes.data, flags, streamId, payload: padding === null ? bytes : pad(bytes, padding) };
}

/** The frames of one stream; those of one step leave together. */
function* steps(plan: Plan, place: number, streamId: number, writer: BlockWriter): Generator<RawFrame[]> {
  const head = writer.block(headFields(plan, place));
  const chunks = plan.body;
  const ends = plan.ending === 'end' && plan.trailers === null;
  yield blockFrames(plan, streamId, head, ends && chunks.length === 0);
  for (const [i, chunk] of chunks.entries()) {
    yield [dataFrame(chunk, streamId, ends && i === chunks.length - 1)];
  }
  if (plan.ending === 'reset') {
    yield [{ type: frameTypes.rstStream, flags: 0, streamId, payload: number(8) }];
  } else if (plan.ending !== 'none' && plan.trailers !== null) {
    yield blockFrames(plan, streamId, writer.block(plan.trailers), true);
  } else if (plan.ending === 'empty-end') {
    yield [{ type: frameTypes.data, flags: flag.endStream, streamId, payload: Buffer.alloc(0) }];
  }
}

export const sentinel = 'sentinel';

/** All frames behind the preface, in their order; the last one is a PING whose answer says that all were read. */
export function framesOf({ settings, plans, order, asides }: Conversation): RawFrame[] {
  const writer = new BlockWriter();
  const frames: RawFrame[] = [];
  const waiting = plans.map((plan, place) => ({ plan, place }));
  const open: Generator<RawFrame[]>[] = [];
  let opened = 0;
  let turn = 0;
  while (open.length + waiting.length > 0) {
    const pick = order.length === 0 ? 0 : (order[turn % order.length] as number);
    turn++;
    // Streams are opened in the order of their numbers.
    const at = pick % (open.length + (waiting.length > 0 ? 1 : 0));
    if (at === open.length) {
      const next = waiting.shift() as { plan: Plan; place: number };
      open.push(steps(next.plan, next.place, 2 * opened++ + 1, writer));
    }
    const step = (open[at] as Generator<RawFrame[]>).next();
    if (step.done === true) open.splice(at, 1);
    else frames.push(...step.value);
  }
  for (const { at, aside } of asides) {
    const streamId = aside.stream === null ? 0 : 2 * aside.stream + 1;
    frames.splice(at % (frames.length + 1), 0, {
      type: aside.type,
      flags: aside.flags,
      streamId,
      payload: aside.payload,
    });
  }
  return [
    { type: frameTypes.settings, flags: 0, streamId: 0, payload: settingsPayload(settings) },
    { type: frameTypes.settings, flags: flag.ack, streamId: 0, payload: Buffer.alloc(0) },
    ...frames,
    { type: frameTypes.ping, flags: 0, streamId: 0, payload: Buffer.from(sentinel) },
  ];
}

/** One way to damage frames; places are taken modulo what there is. */
export type FrameMutation =
  | { readonly kind: 'drop' | 'double'; readonly at: number }
  | { readonly kind: 'swap'; readonly at: number; readonly with: number }
  | { readonly kind: 'flags' | 'type' | 'stream' | 'length'; readonly at: number; readonly value: number }
  | { readonly kind: 'byte'; readonly at: number; readonly byte: number; readonly value: number }
  | { readonly kind: 'insert' | 'remove'; readonly at: number; readonly byte: number; readonly value: number }
  /** Ends the bytes here, for good. */
  | { readonly kind: 'cut'; readonly at: number };

const at = fc.nat(30);
export const frameMutation: Arbitrary<FrameMutation> = fc.oneof(
  fc.record({ kind: fc.constantFrom('drop' as const, 'double' as const), at }),
  fc.record({ kind: fc.constant('swap' as const), at, with: at }),
  fc.record({ kind: fc.constant('flags' as const), at, value: fc.constantFrom(1, 4, 8, 0x20, 0x2c, 0xff) }),
  fc.record({ kind: fc.constant('type' as const), at, value: fc.nat(11) }),
  fc.record({
    kind: fc.constant('stream' as const),
    at,
    value: fc.constantFrom(0, 1, 2, 3, 5, 7, 9, 2 ** 31 + 1, 2 ** 31 - 1),
  }),
  fc.record({
    kind: fc.constant('length' as const),
    at,
    value: fc.constantFrom(0, 1, 4, 5, 8, 9, 20, 16_384, 16_385, 2 ** 24 - 1),
  }),
  fc.record({
    kind: fc.constantFrom('byte' as const, 'insert' as const, 'remove' as const),
    at,
    byte: fc.nat(60),
    value: fc.nat(255),
  }),
  fc.record({ kind: fc.constant('cut' as const), at: fc.nat(400) }),
);

/** The bytes of one side: what it begins with, and these frames with their mutations. */
export function bytesOf(
  sound: readonly RawFrame[],
  mutations: readonly FrameMutation[],
  beginning: Buffer = preface,
): Buffer {
  const frames = [...sound];
  let end = Number.POSITIVE_INFINITY;
  for (const change of mutations) {
    if (change.kind === 'cut') {
      end = change.at;
      continue;
    }
    if (frames.length === 0) break;
    const place = change.at % frames.length;
    const frame = frames[place] as RawFrame;
    switch (change.kind) {
      case 'drop':
        frames.splice(place, 1);
        break;
      case 'double':
        frames.splice(place, 0, frame);
        break;
      case 'swap': {
        const other = change.with % frames.length;
        frames[place] = frames[other] as RawFrame;
        frames[other] = frame;
        break;
      }
      case 'flags':
        frames[place] = { ...frame, flags: frame.flags ^ change.value };
        break;
      case 'type':
        frames[place] = { ...frame, type: change.value };
        break;
      case 'stream':
        frames[place] = { ...frame, streamId: change.value };
        break;
      case 'length':
        frames[place] = { ...frame, length: change.value };
        break;
      default: {
        const byte = change.byte % (frame.payload.length + 1);
        const inserted = change.kind === 'remove' ? Buffer.alloc(0) : Buffer.of(change.value);
        const rest = frame.payload.subarray(byte + (change.kind === 'insert' ? 0 : 1));
        frames[place] = { ...frame, payload: Buffer.concat([frame.payload.subarray(0, byte), inserted, rest]) };
      }
    }
  }
  const bytes = Buffer.concat([beginning, ...frames.map(encodeFrame)]);
  // Not within the preface: what has none is no HTTP/2.
  return bytes.subarray(0, Math.max(beginning.length, end));
}
