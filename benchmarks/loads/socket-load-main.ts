/**
 * `socket-load-main.ts tcp|websocket|expect|bulk|download PORT CONNECTIONS SECONDS`: prints a LoadResult.
 *
 * tcp and websocket: each connection sends 64 bytes, waits for the same 64 back, compares, sends the next. expect: each
 * connection sends the head of a POST, waits to be told to go on, sends the body, waits for the answer. bulk: each
 * connection orders 64 MiB at a time. download: each connection asks for the app's large answer, over and over. The kernel's bytes land in a buffer that is made once, because what this process
 * spends is time taken from the app, on the same core.
 */
import { connect, type Socket } from 'node:net';
import { createHistogram } from 'node:perf_hooks';
import { block, download, orderLength } from '../apps/pattern.ts';
import { type Answer, clientFrame, handshake, handshakeAnswered, serverFrame } from '../apps/websocket.ts';
import { answers } from '../rule.ts';
import type { LoadResult } from './load.ts';
import { wrongAnswersExit } from './own-load.ts';

const [exchange = '', port = '0', connections = '0', seconds = '0'] = process.argv.slice(2);

const messageLength = 64;
const orderBytes = 64 * 1024 * 1024;
const mebibyte = 1024 * 1024;
const latencyNanos = createHistogram();
let units = 0;
let closing = false;
let open = 0;
const started = performance.now();

function wrong(what: string): never {
  process.stderr.write(`${what}\n`);
  process.exit(wrongAnswersExit);
}

/** `take` gets each piece as it arrives; it may not keep it. */
function dial(size: number, begin: (socket: Socket) => void, take: (piece: Buffer, socket: Socket) => void): void {
  const buffer = Buffer.allocUnsafe(size);
  const socket: Socket = connect({
    host: '127.0.0.1',
    port: Number(port),
    onread: {
      buffer,
      callback(length) {
        take(buffer.subarray(0, length), socket);
        return true;
      },
    },
  });
  socket.setNoDelay(true);
  socket.once('connect', () => begin(socket));
  socket.once('error', (error) => {
    if (!closing) wrong(`a connection failed: ${error.message}`);
  });
  socket.once('close', () => {
    if (!closing) wrong('a connection was closed');
    open -= 1;
    if (open === 0) finish();
  });
  open += 1;
}

/** One message at a time, each unlike the one before, so that a stale answer is noticed. */
function pingPong(frame: (message: Buffer) => Buffer, answer: (message: Buffer) => Buffer): Exchange {
  const message = Buffer.alloc(messageLength, 'a');
  let number = 0;
  let sentAt = 0;
  let expected: Buffer = Buffer.alloc(0);
  let received = 0;
  const send = (socket: Socket): void => {
    number = (number + 1) >>> 0;
    message.writeUInt32LE(number);
    expected = answer(message);
    received = 0;
    sentAt = performance.now();
    socket.write(frame(message));
  };
  return {
    send,
    take(piece, socket) {
      const end = received + piece.length;
      if (end > expected.length || piece.compare(expected, received, end) !== 0) {
        wrong(`message ${number}: expected ${expected.toString('hex')}, got ${piece.toString('hex')} at ${received}`);
      }
      received = end;
      if (received < expected.length) return;
      latencyNanos.record(Math.max(1, Math.round((performance.now() - sentAt) * 1e6)));
      units += 1;
      if (closing) socket.end();
      else send(socket);
    },
  };
}

interface Exchange {
  send(socket: Socket): void;
  take(piece: Buffer, socket: Socket): void;
}

function dialTcp(): void {
  const { send, take } = pingPong(
    (message) => Buffer.from(message),
    (message) => message,
  );
  dial(4096, send, take);
}

function dialWebSocket(): void {
  const { send, take } = pingPong(clientFrame, serverFrame);
  let head = '';
  let upgraded = false;
  dial(
    4096,
    (socket) => socket.write(handshake(Number(port))),
    (piece, socket) => {
      if (upgraded) return take(piece, socket);
      head += piece.toString('latin1');
      const answered: Answer = handshakeAnswered(head);
      if (answered === 'refused') wrong(`the upgrade was answered ${head.split('\r\n')[0]}`);
      if (answered === 'incomplete') return;
      upgraded = true;
      send(socket);
    },
  );
}

const headEnd = '\r\n\r\n';

/** Expect: 100-continue, as a client does it that waits. */
function dialExpect(): void {
  const head = Buffer.from(
    `POST / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
  );
  const body = Buffer.from('hello');
  let sentAt = 0;
  let received = '';
  let asked = false;
  const send = (socket: Socket): void => {
    sentAt = performance.now();
    asked = false;
    socket.write(head);
  };
  dial(4096, send, (piece, socket) => {
    received += piece.toString('latin1');
    while (received.startsWith('HTTP/1.1 100 ') && received.includes(headEnd)) {
      // A proxy may say it, and hand on the app's as well.
      if (!asked) socket.write(body);
      asked = true;
      received = received.slice(received.indexOf(headEnd) + headEnd.length);
    }
    if (received === '' || !received.includes(headEnd)) return;
    if (!asked || !received.startsWith('HTTP/1.1 200 ')) wrong(`was answered: ${received}`);
    if (!received.endsWith(answers.http)) return;
    received = '';
    latencyNanos.record(Math.max(1, Math.round((performance.now() - sentAt) * 1e6)));
    units += 1;
    if (closing) socket.end();
    else send(socket);
  });
}

/**
 * Both ends of every piece: a byte lost, doubled or moved shows, at a price that leaves the core to the app. The probe before
 * and after compares all of them.
 *
 * @param at of the piece's first byte in the stream.
 */
function takeBulk(piece: Buffer, at: number): void {
  const last = piece.length - 1;
  if (piece[0] !== block[at % block.length] || piece[last] !== block[(at + last) % block.length]) {
    wrong(`the stream differs near byte ${at}`);
  }
  units += piece.length / mebibyte;
}

function dialDownload(): void {
  const request = `GET ${download.path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
  let head = '';
  let at = 0;
  const takeHead = (piece: Buffer): number => {
    const before = head.length;
    head += piece.toString('latin1');
    const end = head.indexOf(headEnd);
    if (end === -1) return piece.length;
    if (!head.startsWith('HTTP/1.1 200 ')) wrong(`was answered: ${head.slice(0, end)}`);
    head = headEnd;
    return end + headEnd.length - before;
  };
  const begin = (socket: Socket): void => void socket.write(request);
  dial(256 * 1024, begin, (piece, socket) => {
    const from = head === headEnd ? 0 : takeHead(piece);
    if (from < piece.length) takeBulk(from === 0 ? piece : piece.subarray(from), at);
    at += piece.length - from;
    if (at > download.bytes) wrong('more bytes came than were asked for');
    if (closing) socket.destroy();
    else if (at === download.bytes) {
      head = '';
      at = 0;
      socket.write(request);
    }
  });
}

function dialBulk(): void {
  let left = 0;
  let at = 0;
  const order = (socket: Socket): void => {
    left = orderBytes;
    at = 0;
    const message = Buffer.alloc(orderLength);
    message.writeBigUInt64BE(BigInt(orderBytes));
    socket.write(message);
  };
  dial(256 * 1024, order, (piece, socket) => {
    takeBulk(piece, at);
    at += piece.length;
    left -= piece.length;
    if (left < 0) wrong('more bytes came than were ordered');
    if (closing) socket.destroy();
    else if (left === 0) order(socket);
  });
}

function finish(): void {
  const result: LoadResult = {
    units,
    seconds: (performance.now() - started) / 1000,
    p50Micros: latencyNanos.count === 0 ? null : latencyNanos.percentile(50) / 1000,
    p99Micros: latencyNanos.count === 0 ? null : latencyNanos.percentile(99) / 1000,
  };
  if (units === 0) wrong('none at all came');
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

const dialOne = { tcp: dialTcp, websocket: dialWebSocket, expect: dialExpect, bulk: dialBulk, download: dialDownload }[
  exchange
];
if (dialOne === undefined) throw new Error(`unknown exchange ${exchange}`);
for (let i = 0; i < Number(connections); i++) dialOne();
setTimeout(() => {
  closing = true;
}, Number(seconds) * 1000);
