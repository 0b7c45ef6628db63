import type { ConnectionOptions } from 'node:tls';
import { RawClient, type RawTarget } from './raw-http.ts';
import { ConditionTimeout, patience } from './until.ts';

/*
 * HTTP/2 by hand: node:http2 will not send what these tests must send. Header blocks are literals without Huffman coding
 * or indexing (RFC 7541 6.2.2), so every byte of a name or value is the test's own.
 */

export const type = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const flag = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const;

/** Settings identifiers (RFC 9113 6.5.2). */
export const setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

const nothing = Buffer.alloc(0);

export function frame(frameType: number, flags: number, streamId: number, payload: Buffer = nothing): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(frameType, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(6 * settings.length);
  for (const [i, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, 6 * i);
    payload.writeUInt32BE(value, 6 * i + 2);
  }
  return frame(type.settings, 0, 0, payload);
}

/** Numbers of 32 bits, as payloads have them. */
export function numbers(...values: readonly number[]): Buffer {
  const payload = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) payload.writeUInt32BE(value, 4 * i);
  return payload;
}

export function resetFrame(streamId: number, code: number): Buffer {
  return frame(type.rstStream, 0, streamId, numbers(code));
}

export function windowFrame(streamId: number, increment: number): Buffer {
  return frame(type.windowUpdate, 0, streamId, numbers(increment));
}

export function goawayFrame(lastStreamId: number, code = 0): Buffer {
  return frame(type.goaway, 0, 0, numbers(lastStreamId, code));
}

export function dataFrame(streamId: number, content: Buffer | string, endStream = false): Buffer {
  const payload = typeof content === 'string' ? Buffer.from(content, 'latin1') : content;
  return frame(type.data, endStream ? flag.endStream : 0, streamId, payload);
}

export type Fields = readonly (readonly [name: string, value: string])[];

export function headerBlock(fields: Fields): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), hpackString(name), hpackString(value)]));
}

/** RFC 7541 5.2: a 7-bit prefixed length without the Huffman bit, then the bytes; one character is one byte. */
function hpackString(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes]);
  const length = [127];
  let left = bytes.length - 127;
  for (; left >= 128; left = left >>> 7) length.push((left & 127) | 128);
  length.push(left);
  return Buffer.concat([Buffer.from(length), bytes]);
}

export function headersFrame(streamId: number, fields: Fields, endStream = true): Buffer {
  return frame(type.headers, flag.endHeaders | (endStream ? flag.endStream : 0), streamId, headerBlock(fields));
}

/** The pseudo-header fields of a request, and whatever else. */
export function requestFields(path: string, more: Fields = [], method = 'GET', authority = 'web'): Fields {
  return [[':method', method], [':scheme', 'http'], [':authority', authority], [':path', path], ...more];
}

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** What became of a stream. */
export type Outcome =
  | { readonly kind: 'answered'; readonly status: number }
  | { readonly kind: 'reset'; readonly code: number }
  /** The whole connection was given up: GOAWAY, or just the end. */
  | { readonly kind: 'ended'; readonly code: number | null };

/** One word for it, to compare with a row: a status, or `reset`, or `ended`. */
export function outcomeText(outcome: Outcome): string {
  return outcome.kind === 'answered' ? String(outcome.status) : outcome.kind;
}

/** One request on a connection of its own. */
export async function http2Outcome(port: number, fields: Fields, tls?: ConnectionOptions): Promise<string> {
  const client = await FrameClient.open(tls === undefined ? { port } : { port, tls });
  try {
    client.send(headersFrame(1, fields));
    return outcomeText(await client.outcome(1));
  } finally {
    client.destroy();
  }
}

/** An HTTP/2 connection on which the test writes every frame but the acknowledgements of SETTINGS. */
export class FrameClient {
  readonly raw: RawClient;
  #parsed = 0;
  readonly #frames: Frame[] = [];

  private constructor(raw: RawClient) {
    this.raw = raw;
  }

  /** Sends the preface and a SETTINGS frame; no dynamic table, so that answers can be read without a state. */
  static async open(target: RawTarget, settings: readonly (readonly [number, number])[] = []): Promise<FrameClient> {
    const client = new FrameClient(await RawClient.open(target));
    client.send(preface, settingsFrame([[setting.headerTableSize, 0], ...settings]));
    return client;
  }

  send(...frames: readonly Buffer[]): void {
    this.raw.send(frames.length === 1 ? (frames[0] as Buffer) : Buffer.concat(frames));
  }

  /** Every whole frame so far. */
  frames(): readonly Frame[] {
    const bytes = this.raw.received;
    while (bytes.length - this.#parsed >= 9) {
      const length = bytes.readUIntBE(this.#parsed, 3);
      if (bytes.length - this.#parsed < 9 + length) break;
      const at = this.#parsed;
      this.#parsed += 9 + length;
      const received = {
        type: bytes.readUInt8(at + 3),
        flags: bytes.readUInt8(at + 4),
        streamId: bytes.readUInt32BE(at + 5) & 0x7fffffff,
        payload: bytes.subarray(at + 9, at + 9 + length),
      };
      this.#frames.push(received);
      if (received.type === type.settings && (received.flags & flag.ack) === 0) {
        this.send(frame(type.settings, flag.ack, 0));
      }
    }
    return this.#frames;
  }

  /** Waits until it is known what became of the stream; throws where that stays open. */
  async outcome(streamId: number, leastMs = 5_000): Promise<Outcome> {
    const timeoutMs = leastMs * patience();
    await this.raw.waits(() => this.#outcome(streamId) !== undefined, timeoutMs);
    const outcome = this.#outcome(streamId);
    if (outcome !== undefined) return outcome;
    if (this.raw.ended) return { kind: 'ended', code: null };
    throw new ConditionTimeout(`an end of stream ${streamId}`, timeoutMs, this.frames().map(describe).join(', '));
  }

  #outcome(streamId: number): Outcome | undefined {
    for (const received of this.frames()) {
      if (received.type === type.goaway) {
        const code = received.payload.readUInt32BE(4);
        if (code !== 0) return { kind: 'ended', code };
      }
      if (received.streamId !== streamId) continue;
      if (received.type === type.headers) return { kind: 'answered', status: statusOf(received.payload) };
      if (received.type === type.rstStream) return { kind: 'reset', code: received.payload.readUInt32BE(0) };
    }
    return undefined;
  }

  destroy(): void {
    this.raw.destroy();
  }
}

function describe(received: Frame): string {
  return `type ${received.type} on ${received.streamId}`;
}

/** Statuses with an entry of their own in the static table (RFC 7541 appendix A). */
const indexedStatuses = [200, 204, 206, 304, 400, 404, 500];

/** `:status`, which comes first. */
function statusOf(block: Buffer): number {
  let at = 0;
  // Dynamic table size updates: 0, as we asked.
  while (((block[at] ?? 0) & 0xe0) === 0x20) at++;
  const first = block[at] ?? 0;
  if (first >= 0x88 && first <= 0x8e) return indexedStatuses[first - 0x88] as number;
  const length = (block[at + 1] ?? 0) & 0x7f;
  const value = block.subarray(at + 2, at + 2 + length);
  const huffman = ((block[at + 1] ?? 0) & 0x80) !== 0;
  return Number(huffman ? huffmanDigits(value) : value.toString('latin1'));
}

/** Decimal digits alone (RFC 7541 appendix B): 0, 1, 2 have five bits, the rest six. */
function huffmanDigits(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  let digits = '';
  for (let at = 0; at + 5 <= bits.length; ) {
    const five = Number.parseInt(bits.slice(at, at + 5), 2);
    if (five <= 2) {
      digits += five;
      at += 5;
      continue;
    }
    const six = Number.parseInt(bits.slice(at, at + 6), 2);
    if (six < 25 || six > 31 || at + 6 > bits.length) break;
    digits += six - 22;
    at += 6;
  }
  return digits;
}
