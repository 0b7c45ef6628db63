import { request } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { within } from '../test/support/until.ts';
import type { App } from './apps/apps.ts';
import { block, orderLength } from './apps/pattern.ts';
import { clientFrame, handshake, handshakeAnswered, serverFrame } from './apps/websocket.ts';
import { WrongAnswers } from './loads/load.ts';
import type { Way } from './peers/peer.ts';
import { answers, rule } from './rule.ts';
import type { Credentials } from './workbench.ts';

/** Whom to ask, and in which way; `port` is the proxy's own, or the app's. */
export interface Probe extends Way {
  readonly port: number;
  readonly app: App;
  readonly credentials: Credentials;
}

const timeoutMs = 5_000;

/** One exchange, compared to the last byte. @throws WrongAnswers */
export async function expectAllowed(probe: Probe): Promise<void> {
  const outcome = await ask(probe, { from: rule.allowedAddress, certificate: true });
  if (outcome !== 'right') throw new WrongAnswers(`an allowed client was answered: ${outcome}`);
}

/** That the rule is in force: from another network, and where identity counts without a certificate. @throws WrongAnswers */
export async function expectRefused(probe: Probe): Promise<void> {
  const strangers: Caller[] = [{ from: rule.forbiddenAddress, certificate: true }];
  if (probe.mutualTls) strangers.push({ from: rule.allowedAddress, certificate: false });
  for (const stranger of strangers) {
    if ((await ask(probe, stranger)) === 'right') {
      const who = stranger.certificate ? `a client at ${stranger.from}` : 'a client without a certificate';
      throw new WrongAnswers(`${who} was served, which the rule forbids`);
    }
  }
}

interface Caller {
  readonly from: string;
  readonly certificate: boolean;
}

/** 'right', or what came instead. */
async function ask(probe: Probe, caller: Caller): Promise<string> {
  let socket: Socket | undefined;
  try {
    socket = await within('a connection', timeoutMs, dial(probe, caller));
    return await within('an answer', timeoutMs, exchange(probe, socket));
  } catch (error) {
    return (error as Error).message;
  } finally {
    socket?.destroy();
  }
}

function dial({ port, mutualTls, credentials }: Probe, { from, certificate }: Caller): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const tcp = connectTcp({ host: '127.0.0.1', port, localAddress: from });
    tcp.on('error', reject);
    if (!mutualTls) {
      tcp.once('connect', () => resolve(tcp));
      return;
    }
    const tls = connectTls({
      socket: tcp,
      servername: credentials.serverName,
      ca: credentials.trustAnchors,
      ...(certificate ? { cert: credentials.clientCertificate, key: credentials.clientKey } : {}),
    });
    tls.on('error', reject);
    tls.once('secureConnect', () => resolve(tls));
  });
}

function exchange(probe: Probe, socket: Socket): Promise<string> {
  switch (probe.carriage) {
    case 'http1':
      return askHttp1(socket, probe);
    case 'websocket':
      return askWebSocket(socket, probe.port);
    case 'http2':
    case 'http2-to-http1':
      return askHttp2(socket, probe.carriage === 'http2-to-http1');
    case 'grpc':
      return askGrpc(socket);
    case 'tcp':
      return probe.app === 'bulk' ? askBulk(socket) : askEcho(socket);
  }
}

function askHttp1(socket: Socket, { mutualTls, credentials, port }: Probe): Promise<string> {
  return new Promise((resolve, reject) => {
    const host = hostOf(mutualTls, credentials, port);
    const asked = request({ createConnection: () => socket, path: '/', headers: { host } }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.once('error', reject);
      response.once('end', () =>
        resolve(response.statusCode === 200 && body === answers.http ? 'right' : `${response.statusCode} ${body}`),
      );
    });
    asked.once('error', reject).end();
  });
}

/** Caddy wants Host and SNI to agree. */
export function hostOf(mutualTls: boolean, credentials: Credentials, port: number): string {
  return mutualTls ? credentials.serverName : `127.0.0.1:${port}`;
}

/** What Linkerd's client proxy adds when it carries HTTP/1.1 in HTTP/2; Sallyport undoes it towards the app. */
export const originalProtocol = { name: 'l5d-orig-proto', value: 'HTTP/1.1' } as const;

function askHttp2(socket: Socket, downgrade: boolean): Promise<string> {
  const headers = downgrade ? { [originalProtocol.name]: originalProtocol.value } : {};
  return http2Exchange(socket, { ':path': '/', ...headers }, null, ({ status, body }) =>
    status === 200 && body.equals(Buffer.from(answers.http)) ? 'right' : `${status} ${body}`,
  );
}

function askGrpc(socket: Socket): Promise<string> {
  const headers = {
    ':method': 'POST',
    ':path': answers.grpcPath,
    'content-type': 'application/grpc',
    te: 'trailers',
  };
  return http2Exchange(socket, headers, answers.grpcRequest, ({ status, body, grpcStatus }) =>
    status === 200 && grpcStatus === '0' && body.equals(answers.grpcReply)
      ? 'right'
      : `${status}, grpc-status ${grpcStatus}, ${body.toString('hex')}`,
  );
}

interface Http2Answer {
  readonly status: number;
  readonly body: Buffer;
  readonly grpcStatus: string | undefined;
}

function http2Exchange(
  socket: Socket,
  headers: Readonly<Record<string, string>>,
  body: Buffer | null,
  judge: (answer: Http2Answer) => string,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2('http://127.0.0.1', { createConnection: () => socket });
    session.once('error', reject);
    const stream = session.request({ ...headers }, { endStream: body === null });
    let status = 0;
    let grpcStatus: string | undefined;
    const pieces: Buffer[] = [];
    stream.once('response', (received) => {
      status = Number(received[':status']);
      grpcStatus = received['grpc-status']?.toString();
    });
    stream.once('trailers', (received) => {
      grpcStatus = received['grpc-status']?.toString();
    });
    stream.on('data', (piece: Buffer) => pieces.push(piece));
    stream.once('error', reject);
    stream.once('end', () => resolve(judge({ status, body: Buffer.concat(pieces), grpcStatus })));
    if (body !== null) stream.end(body);
  });
}

async function askWebSocket(socket: Socket, port: number): Promise<string> {
  socket.write(handshake(port));
  const head = await receive(socket, (bytes) => handshakeAnswered(bytes.toString('latin1')) !== 'incomplete');
  if (handshakeAnswered(head.toString('latin1')) !== 'accepted') return head.toString('latin1').split('\r\n')[0] ?? '';
  const message = Buffer.from('hello through the socket');
  const expected = serverFrame(message);
  socket.write(clientFrame(message));
  const echoed = await receive(socket, (bytes) => bytes.length >= expected.length);
  return echoed.equals(expected) ? 'right' : echoed.toString('hex');
}

async function askEcho(socket: Socket): Promise<string> {
  const message = Buffer.from('hello through the tunnel');
  socket.write(message);
  const echoed = await receive(socket, (bytes) => bytes.length >= message.length);
  return echoed.equals(message) ? 'right' : echoed.toString('hex');
}

async function askBulk(socket: Socket): Promise<string> {
  const order = Buffer.alloc(orderLength);
  const expected = Buffer.concat([block, block, block, block.subarray(0, 12_345)]);
  order.writeBigUInt64BE(BigInt(expected.length));
  socket.write(order);
  const received = await receive(socket, (bytes) => bytes.length >= expected.length);
  return received.equals(expected) ? 'right' : `${received.length} bytes that differ`;
}

/** All bytes up to where `enough` holds. Rejects when the connection ends before. */
function receive(socket: Socket, enough: (bytes: Buffer) => boolean): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    const end = (): void => reject(new Error('the connection was closed'));
    const take = (piece: Buffer): void => {
      received = Buffer.concat([received, piece]);
      if (!enough(received)) return;
      socket.off('data', take).off('close', end);
      resolve(received);
    };
    socket.on('data', take).once('close', end).once('error', reject);
  });
}

/** The length of one whole answer, head and body, to the request that a load will send over and over. */
export async function answerBytes(port: number, asked: string): Promise<number> {
  const socket = connectTcp({ host: '127.0.0.1', port });
  try {
    socket.write(asked);
    const answer = await within('an answer', timeoutMs, receive(socket, isWholeAnswer));
    const text = answer.toString('latin1');
    if (!text.startsWith('HTTP/1.1 200 ') || !text.includes(answers.http.trimEnd())) throw new WrongAnswers(text);
    return answer.length;
  } finally {
    socket.destroy();
  }
}

function isWholeAnswer(bytes: Buffer): boolean {
  const text = bytes.toString('latin1');
  const head = text.indexOf('\r\n\r\n') + 4;
  if (head < 4) return false;
  const length = /^content-length: *(\d+)\r$/im.exec(text.slice(0, head))?.[1];
  return length === undefined ? text.endsWith('\r\n0\r\n\r\n') : text.length >= head + Number(length);
}
