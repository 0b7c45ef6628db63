/**
 * What the conformance suite takes for a server: its reference server behind a Sallyport that ends TLS for it. Told on
 * standard input what to be, it says on standard output where it is, until SIGTERM. `node server.ts REFERENCESERVER`
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { testCertificate } from '../../support/certificates.ts';
import { tied } from '../../support/children.ts';
import { identityEnvironment } from '../../support/files.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { Stage } from '../stage.ts';
import { field, fieldsOf, firstMessage, without, writeMessage } from './messages.ts';

/** Fields of connectrpc.conformance.v1.ServerCompatRequest and ServerCompatResponse. */
const asked = { httpVersion: 2, useTls: 4, clientCertificate: 5, ownCertificate: 7 };
const told = { host: 1, port: 2, certificate: 3 };
const http1 = 1n;

const [program = ''] = process.argv.slice(2);
const stage = new Stage();
const runner = process.ppid;

async function end(): Promise<void> {
  await stage.clear();
  process.exit();
}
process.once('SIGTERM', end);
// A runner that was killed sends no signal.
setInterval(() => {
  if (process.ppid !== runner) void end();
}, 1_000);

const fields = fieldsOf(await firstMessage(process.stdin));
const value = (number: number): bigint | Buffer | null | undefined =>
  fields.findLast((one) => one.number === number)?.value;

// Only this server's first answer is read as bytes, hence no helper that reads text.
const server = spawn(...tied(program, []), { stdio: ['pipe', 'pipe', 'inherit'] });
stage.teardown(() => server.kill());
server.once('exit', () => void end());
writeMessage(server.stdin, without(fields, asked.useTls, asked.clientCertificate, asked.ownCertificate));
server.stdin.end();
const appPort = fieldsOf(await firstMessage(server.stdout)).find((one) => one.number === told.port)?.value;

const tls = value(asked.useTls) === 1n;
const certificate = testCertificate({ dnsNames: ['localhost'] });
const trusted = value(asked.clientCertificate);
const trustAnchorsPem = certificate.trustAnchorsPem + (Buffer.isBuffer(trusted) ? trusted.toString() : '');
const port = await freePort();
// Detected; but where the client leaves the choice to the server (ALPN), a Server's word makes it.
const declared = value(asked.httpVersion) === http1 ? 'HTTP/1' : 'HTTP/2';
await startSallyport(stage, {
  env: {
    ...policyEnvironment(stage.folder, openServer('web', port, tls ? declared : 'unknown')),
    ...(tls ? identityEnvironment(join(stage.folder, 'identity'), { ...certificate, trustAnchorsPem }) : {}),
    SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${appPort}`,
  },
});
const answer = [field(told.host, tls ? 'localhost' : '127.0.0.1'), field(told.port, port)];
if (tls) answer.push(field(told.certificate, certificate.trustAnchorsPem));
writeMessage(process.stdout, Buffer.concat(answer));
