import { connect as http2Connect } from 'node:http2';
import { connect } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import * as grpc from '@grpc/grpc-js';

/*
 * What a kubelet asks, and what somebody else in its place might, as a program for another network namespace: a list of
 * questions, as its argument says, and what came of each on stdout.
 */

interface Target {
  readonly host: string;
  readonly port: number;
}
/** A unary call by grpc-js; `message` in hexadecimal. */
type GrpcQuestion = Target & { readonly kind: 'grpc'; readonly path: string; readonly message: string };
/** The same by node:http2, from an address. */
type CallQuestion = Target & { readonly kind: 'call'; readonly path: string; readonly from: string };
/** Bytes as they are, in TLS where that is wanted; the end where there are none. */
type BytesQuestion = Target & {
  readonly kind: 'bytes';
  readonly from: string;
  readonly text: string;
  readonly tls?: { readonly servername?: string };
  /** So many answers are waited for, or the end. Default 1. */
  readonly answers?: number;
};
export type ProbeQuestion = GrpcQuestion | CallQuestion | BytesQuestion;

const patienceMs = 30_000;

function askGrpc({ host, port, path, message }: GrpcQuestion): Promise<string> {
  const client = new grpc.Client(`${host}:${port}`, grpc.credentials.createInsecure());
  const raw = (value: Buffer): Buffer => value;
  const options = { deadline: Date.now() + patienceMs };
  const { promise, resolve } = Promise.withResolvers<string>();
  client.makeUnaryRequest(path, raw, raw, Buffer.from(message, 'hex'), new grpc.Metadata(), options, (error, reply) => {
    resolve(error === null ? `ok ${reply?.toString('hex')}` : `error ${error.code}`);
    client.close();
  });
  return promise;
}

function askCall({ host, port, path, from }: CallQuestion): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const createConnection = () => connect({ host, port, localAddress: from });
  const session = http2Connect(`http://${host}:${port}`, { createConnection });
  session.on('error', (error) => resolve(`error ${error.message}`));
  const head = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session.request(head);
  stream.on('response', (headers) => {
    resolve(`status ${headers['grpc-status'] ?? 'none'}`);
    session.destroy();
  });
  stream.on('error', () => {});
  stream.end(Buffer.from([0, 0, 0, 0, 0]));
  return promise;
}

function askBytes({ host, port, from, text, tls, answers = 1 }: BytesQuestion): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = connect({ host, port, localAddress: from, allowHalfOpen: true });
  const stream = tls === undefined ? socket : tlsConnect({ socket, rejectUnauthorized: false, ...tls });
  let received = '';
  stream.setEncoding('latin1');
  stream.on('data', (chunk: string) => {
    received += chunk;
    if (received.split('\r\n\r\n').length > answers) stream.destroy();
  });
  stream.on('error', () => {});
  stream.once(tls === undefined ? 'connect' : 'secureConnect', () => {
    if (text === '') stream.end();
    else stream.write(text, 'latin1');
  });
  stream.once('end', () => stream.end());
  const late = setTimeout(() => stream.destroy(), patienceMs);
  stream.once('close', () => {
    clearTimeout(late);
    resolve(received === '' ? 'closed' : received);
  });
  return promise;
}

const questions = JSON.parse(process.argv[2] ?? '[]') as readonly ProbeQuestion[];
const outcomes: string[] = [];
for (const question of questions) {
  if (question.kind === 'grpc') outcomes.push(await askGrpc(question));
  else outcomes.push(await (question.kind === 'call' ? askCall(question) : askBytes(question)));
}
process.stdout.write(JSON.stringify(outcomes));
