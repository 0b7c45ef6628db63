import type { Readable, Writable } from 'node:stream';

/**
 * As much of Protocol Buffers' wire format as it takes to change a few fields of messages of which all others go on as
 * they came, and the length before each message on the conformance programs' standard input and output (32 bits, the
 * highest first).
 */
export interface Field {
  readonly number: number;
  /** A number, or the content of a text, bytes or message; other kinds of fields are not looked into. */
  readonly value: bigint | Buffer | null;
  /** The field as it came, with its tag. */
  readonly raw: Buffer;
}

/** Every field of a message, in order. Throws a RangeError where it is none. */
export function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  for (let at = 0; at < message.length; ) {
    const from = at;
    const varint = (): bigint => {
      let value = 0n;
      for (let shift = 0n; ; shift += 7n) {
        const byte = message.readUInt8(at++);
        value |= BigInt(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
    };
    const tag = Number(varint());
    let value: Field['value'] = null;
    const kind = tag & 7;
    if (kind === 0) {
      value = varint();
    } else if (kind === 2) {
      const length = Number(varint());
      value = message.subarray(at, at + length);
      at += length;
    } else if (kind === 1 || kind === 5) {
      at += kind === 1 ? 8 : 4;
    } else {
      throw new RangeError(`a field of kind ${kind}`);
    }
    if (at > message.length) throw new RangeError('a field beyond the message');
    fields.push({ number: tag >> 3, value, raw: message.subarray(from, at) });
  }
  return fields;
}

/** A message without some of its fields. */
export function without(fields: readonly Field[], ...numbers: readonly number[]): Buffer {
  return Buffer.concat(fields.filter(({ number }) => !numbers.includes(number)).map(({ raw }) => raw));
}

/** One field, to be appended: of two with one number the later counts. */
export function field(number: number, value: number | string | Buffer): Buffer {
  if (typeof value === 'number') return Buffer.concat([varintOf(number << 3), varintOf(value)]);
  const content = Buffer.from(value);
  return Buffer.concat([varintOf((number << 3) | 2), varintOf(content.length), content]);
}

function varintOf(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    bytes.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    if (rest < 0x80) return Buffer.from(bytes);
  }
}

/** Whole messages, as they come, until the stream ends. */
export async function* messagesFrom(stream: Readable): AsyncGenerator<Buffer, void> {
  let pending: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    pending = Buffer.concat([pending, chunk as Buffer]);
    while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32BE()) {
      const end = 4 + pending.readUInt32BE();
      yield pending.subarray(4, end);
      pending = pending.subarray(end);
    }
  }
}

export function writeMessage(stream: Writable, message: Buffer): boolean {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.length);
  return stream.write(Buffer.concat([length, message]));
}

/** The first message of a stream that carries one. */
export async function firstMessage(stream: Readable): Promise<Buffer> {
  for await (const message of messagesFrom(stream)) return message;
  throw new Error('no message came');
}
