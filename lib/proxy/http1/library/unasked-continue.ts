import type { Socket } from 'node:net';
import { isRequestHead } from './undici-pool.ts';

/** How an interim response begins; `?` is any digit. */
const interimLine = Buffer.from('HTTP/1.? 1??');
const character = { any: 0x3f, zero: 0x30, one: 0x31, two: 0x32, nine: 0x39, lineFeed: 0x0a, carriageReturn: 0x0d };

/** What the next byte from the app belongs to: a status line, the rest of an interim response, or neither. */
type MessagePart = 'line' | 'interim' | 'final';

/** Reads along what an app sends, as far as its interim responses go. */
class Responses {
  #place: MessagePart = 'final';
  /** Of the status line that is being read: its bytes so far, and the status' second digit. */
  #length = 0;
  #tens = 0;
  /** Ends of lines in succession, in an interim response. */
  #ends = 0;

  /** A request goes out: what comes next is the beginning of a response. */
  begin(): void {
    this.#place = 'line';
    this.#length = 0;
  }

  /** Turns each 100 in these bytes into 102. */
  read(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && this.#place !== 'final'; at++) {
      const byte = bytes[at] as number;
      if (this.#place === 'line') this.#line(bytes, at, byte);
      else if (byte === character.lineFeed) {
        if (++this.#ends === 2) this.begin();
      } else if (byte !== character.carriageReturn) this.#ends = 0;
    }
  }

  #line(bytes: Buffer, at: number, byte: number): void {
    const wanted = interimLine[this.#length++];
    if (wanted === character.any ? byte < character.zero || byte > character.nine : byte !== wanted) {
      this.#place = 'final';
    } else if (this.#length === interimLine.length - 1) {
      this.#tens = byte;
    } else if (this.#length === interimLine.length) {
      const isContinue = this.#tens === character.zero && byte === character.zero;
      if (isContinue) bytes[at] = character.two;
      // Behind 101 there is no HTTP.
      this.#place = this.#tens === character.zero && byte === character.one ? 'final' : 'interim';
      this.#ends = 0;
    }
  }
}

/**
 * undici takes `100 Continue` for a fault of the app. Nobody asks for one here, and yet an app may send it: a client must
 * be able to read it (RFC 9110 15.2). undici gets to read 102 in its place, which says as little, and is counted alike.
 *
 * @param socket a connection to the app that undici has not used yet.
 */
export function withoutContinue(socket: Socket): Socket {
  const responses = new Responses();
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket);
  const reading = (size?: number): unknown => {
    const bytes: unknown = read(size);
    if (Buffer.isBuffer(bytes)) responses.read(bytes);
    return bytes;
  };
  socket.read = reading;
  const writing = (data: string | Uint8Array, ...rest: []): boolean => {
    if (isRequestHead(data)) responses.begin();
    return write(data, ...rest);
  };
  socket.write = writing as Socket['write'];
  return socket;
}
