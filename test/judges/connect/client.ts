/**
 * What the conformance suite takes for a client: its reference client, which calls a Sallyport in place of the server
 * that it is told of. `node client.ts REFERENCECLIENT PORTS`, PORTS as JSON: see `Ports`.
 */
import { spawn } from 'node:child_process';
import { tied } from '../../support/children.ts';
import { field, fieldsOf, messagesFrom, writeMessage } from './messages.ts';

/** Ports of Sallyport, for each way to call one and the same server. */
export interface Ports {
  readonly http1: number;
  readonly http2: number;
  readonly grpc: number;
  readonly tls: number;
}

/** Fields of connectrpc.conformance.v1.ClientCompatRequest. */
const asked = { httpVersion: 2, protocol: 3, port: 7, serverCertificate: 8 };
const http1 = 1n;
const grpc = 2n;

const [program = '', ports = ''] = process.argv.slice(2);
const { http1: first, http2: second, grpc: calls, tls } = JSON.parse(ports) as Ports;

const client = spawn(...tied(program, ['-p', '16']), { stdio: ['pipe', 'inherit', 'inherit'] });
process.once('SIGTERM', () => client.kill());
client.once('exit', (code) => process.exit(code ?? 1));
for await (const message of messagesFrom(process.stdin)) {
  const fields = fieldsOf(message);
  const value = (number: number): bigint | Buffer | null | undefined =>
    fields.findLast((one) => one.number === number)?.value;
  let port = value(asked.protocol) === grpc ? calls : second;
  if (value(asked.httpVersion) === http1) port = first;
  if (value(asked.serverCertificate) !== undefined) port = tls;
  writeMessage(client.stdin, Buffer.concat([message, field(asked.port, port)]));
}
client.stdin.end();
