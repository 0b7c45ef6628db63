/**
 * `paced-load-main.ts PORT RATE SECONDS CONNECTIONS HOST FILE`: HTTP/1.1 in an open loop. Requests fall due at an even rate,
 * whatever became of those before; each goes out on the connection that has been idle longest, or waits for one. Latency
 * counts from when it was due. Writes to the file two columns of doubles, each as long as there were requests: when they
 * were due, in milliseconds since the epoch, and microseconds until the whole answer was there.
 *
 * With a rate of 0 each connection asks again as soon as it is answered, and what is printed is the rate that came of it.
 */
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { answerBytes } from '../probes.ts';
import { answers } from '../rule.ts';
import { wrongAnswersExit } from './own-load.ts';

const [port = 0, rate = 0, seconds = 0, connections = 0] = process.argv.slice(2, 6).map(Number);
const [host = '', file = ''] = process.argv.slice(6);

const get = `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
const request = Buffer.from(get);
const statusLine = Buffer.from('HTTP/1.1 200 ');
const body = Buffer.from(answers.http);
const answerLength = await answerBytes(port, get);

/** In an open loop. */
const total = Math.round(rate * seconds);
const columns = new Float64Array(2 * total);
const dueMs = columns.subarray(0, total);
const tookMicros = columns.subarray(total);
let sent = 0;
let answered = 0;
let isOver = false;

interface Connection {
  readonly socket: Socket;
  readonly answer: Buffer;
  received: number;
  /** The request it is busy with. */
  current: number;
}
const idle: Connection[] = [];

function wrong(what: string): never {
  process.stderr.write(`${what}\n`);
  process.exit(wrongAnswersExit);
}

function dial(): Promise<void> {
  const buffer = Buffer.allocUnsafe(4096);
  return new Promise((resolve) => {
    const socket = connect({
      host: '127.0.0.1',
      port,
      onread: {
        buffer,
        callback(length) {
          take(connection, buffer.subarray(0, length));
          return true;
        },
      },
    });
    const connection = { socket, answer: Buffer.alloc(answerLength), received: 0, current: -1 };
    socket.setNoDelay(true);
    socket.once('error', (error) => wrong(`a connection failed: ${error.message}`));
    socket.once('close', () => wrong('a connection was closed'));
    socket.once('connect', () => {
      idle.push(connection);
      resolve();
    });
  });
}

function take(connection: Connection, piece: Buffer): void {
  const { answer, received, current } = connection;
  if (current === -1 || received + piece.length > answerLength) wrong(`unasked for: ${piece.toString('latin1')}`);
  piece.copy(answer, received);
  connection.received += piece.length;
  if (connection.received === answerLength) {
    const right =
      answer.compare(statusLine, 0, statusLine.length, 0, statusLine.length) === 0 &&
      answer.compare(body, 0, body.length, answerLength - body.length) === 0;
    if (!right) wrong(`request ${current} was answered: ${answer.toString('latin1')}`);
    connection.received = 0;
    answered += 1;
    if (rate === 0) {
      if (!isOver) connection.socket.write(request);
      return;
    }
    tookMicros[current] = (performance.now() - (dueMs[current] as number)) * 1000;
    connection.current = -1;
    idle.push(connection);
    if (answered === total) finish();
  }
  // Between two ticks of the clock, which has milliseconds only, the answers tell the time.
  if (rate > 0) sendDue();
}

function sendDue(): void {
  const due = Math.min(total, Math.floor(((performance.now() - startedMs) * rate) / 1000));
  while (sent < due) {
    const connection = idle.shift();
    if (connection === undefined) return;
    connection.current = sent;
    dueMs[sent] = startedMs + (sent * 1000) / rate;
    sent += 1;
    connection.socket.write(request);
  }
}

function finish(): never {
  for (let i = 0; i < total; i++) dueMs[i] = (dueMs[i] as number) + performance.timeOrigin;
  writeFileSync(file, columns);
  process.exit(0);
}

function saturate(): void {
  for (const connection of idle) {
    connection.current = 0;
    connection.socket.write(request);
  }
  setTimeout(() => {
    isOver = true;
    process.stdout.write(`${(answered * 1000) / (performance.now() - startedMs)}\n`, () => process.exit(0));
  }, seconds * 1000);
}

await Promise.all(Array.from({ length: connections }, dial));
const startedMs = performance.now();
if (rate === 0) saturate();
else setInterval(sendDue, 1);
