import { createHash } from 'node:crypto';

/** As much of RFC 6455 as an echo of short binary messages needs, on both sides. */
const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const key = Buffer.from('sallyport bench!').toString('base64');
const finalBinary = 0x82;
const maskBit = 0x80;
/** A client must mask (section 5.3); which mask does not matter to a proxy. */
const mask = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);
/** Payloads up to here have their length in the second byte (section 5.2). */
const shortest = 126;

export function handshake(port: number): string {
  return [
    'GET / HTTP/1.1',
    `Host: 127.0.0.1:${port}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${key}`,
    '\r\n',
  ].join('\r\n');
}

export type Answer = 'accepted' | 'refused' | 'incomplete';

/** Nothing may follow the answer: the client speaks first. */
export function handshakeAnswered(head: string): Answer {
  if (!head.includes('\r\n\r\n')) return 'incomplete';
  const accepted = /^sec-websocket-accept: *(\S+)\r$/im.exec(head)?.[1];
  return head.startsWith('HTTP/1.1 101 ') && accepted === acceptance(key) && head.endsWith('\r\n\r\n')
    ? 'accepted'
    : 'refused';
}

/** The server's answer to a handshake; null when it is none. */
export function acceptHandshake(head: string): string | null {
  const offered = /^sec-websocket-key: *(\S+)\r$/im.exec(head)?.[1];
  if (offered === undefined || !/^upgrade: *websocket\r$/im.test(head)) return null;
  return [
    'HTTP/1.1 101 Switching Protocols',
    'Connection: Upgrade',
    'Upgrade: websocket',
    `Sec-WebSocket-Accept: ${acceptance(offered)}`,
    '\r\n',
  ].join('\r\n');
}

function acceptance(offered: string): string {
  return createHash('sha1').update(`${offered}${guid}`).digest('base64');
}

export function clientFrame(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(2 + mask.length + message.length);
  frame[0] = finalBinary;
  frame[1] = maskBit | message.length;
  frame.set(mask, 2);
  for (let i = 0; i < message.length; i++) frame[6 + i] = (message[i] as number) ^ (mask[i & 3] as number);
  return frame;
}

export function serverFrame(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(2 + message.length);
  frame[0] = finalBinary;
  frame[1] = message.length;
  frame.set(message, 2);
  return frame;
}

/**
 * The first frame of what a client sent: its message and how many bytes it took; null while it is incomplete.
 * @throws for anything but a short masked binary message.
 */
export function readClientFrame(bytes: Buffer): { readonly message: Buffer; readonly length: number } | null {
  if (bytes.length < 6) return null;
  const size = (bytes[1] as number) & ~maskBit;
  if (bytes[0] !== finalBinary || ((bytes[1] as number) & maskBit) === 0 || size >= shortest) {
    throw new Error(`not a frame of this benchmark: ${bytes.subarray(0, 6).toString('hex')}`);
  }
  const length = 6 + size;
  if (bytes.length < length) return null;
  const message = Buffer.allocUnsafe(size);
  for (let i = 0; i < size; i++) message[i] = (bytes[6 + i] as number) ^ (bytes[2 + (i & 3)] as number);
  return { message, length };
}
