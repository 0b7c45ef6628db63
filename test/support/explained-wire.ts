import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { parseCommandLine } from '../../bin/arguments.ts';
import { main as explainCommand } from '../../bin/explain.ts';
import type { ExplainJson } from '../../lib/policy/explain.ts';
import { spiffeCertificate, testCertificate } from './certificates.ts';
import { identities, type RandomRequest } from './random-worlds.ts';
import type { Exchange, ExchangeResult } from './wire-exchange.ts';

/*
 * Questions of `random-worlds.ts` on the wire, for a proxy before the sniffing app: who asks shows the certificates of here.
 */

const ownName = 'web.shop.serviceaccount.identity.linkerd.cluster.local';
const appName = 'app.test';
/** The proxy's. */
export const own = testCertificate({ dnsNames: [ownName] });
export const appTls = testCertificate({ dnsNames: [appName] });
const certificates = new Map([
  [identities.dns as string, testCertificate({ dnsNames: [identities.dns] })],
  [identities.other as string, testCertificate({ dnsNames: [identities.other] })],
  [identities.spiffe as string, spiffeCertificate(identities.spiffe)],
]);
/** Through the command itself: what it reads of the files and of each line is part of what is compared. */
export async function explained(
  facts: Readonly<Record<string, string>>,
  requests: readonly RandomRequest[],
): Promise<readonly ExplainJson[]> {
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  stdin.end(
    requests
      .map(({ tls, ...request }) =>
        JSON.stringify({ ...request, ...(typeof tls === 'string' ? { tls } : { identity: tls.identity }) }),
      )
      .join('\n'),
  );
  const io = { stdin, stdout, stderr: new PassThrough().resume(), env: facts };
  const reading = stdout.setEncoding('utf8').toArray();
  await explainCommand(
    parseCommandLine('explain', ['--requests', '-']),
    io as unknown as Parameters<typeof explainCommand>[1],
  );
  stdout.end();
  const lines = (await reading).join('').trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as ExplainJson);
}

const protocols = { http1: 'http/1.1', http2: 'http/2', grpc: 'grpc', tcp: 'tcp', connect: 'tcp' } as const;
/** No request, and longer than any answer. */
const noRequest = `\x01\x02\x03${' no request'.repeat(20)}`;
/** What any HTTP/2 client says first, and frames of SETTINGS (RFC 9113 section 3.4). */
const preface = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${'\0\0\0\x04\0\0\0\0\0'.repeat(30)}`;
/** How the reason ends where a connection is refused, or fails, by how far it was read. */
export const otherProtocol = 'bytes of another protocol are never let in';

/** What ends in a tunnel is the echo's. A port that is declared HTTP/1 waits for an empty line. */
export function exchangeOf(request: RandomRequest, { tcp, reason }: ExplainJson): Exchange {
  const { port, client, tls, protocol, method, path, host, headers } = request;
  // In TLS that ends here for probes HTTP/2 is agreed on.
  const agreed = tcp === null && (protocol === 'http2' || protocol === 'grpc') ? { alpn: ['h2'] } : {};
  const other = { servername: appName, ca: own.trustAnchorsPem, anybody: true, ...agreed };
  const secured = tls === 'passthrough' ? other : { servername: ownName, ca: own.trustAnchorsPem };
  const shown = typeof tls === 'string' ? undefined : certificates.get(tls.identity);
  const certificate = shown === undefined ? {} : { cert: shown.certificatePem, key: shown.keyPem };
  // Of a session that ends before its first request, node:http2 does not always tell the request.
  const silent = tcp === 'close' && (protocol === 'http2' || protocol === 'grpc') && tls !== 'passthrough';
  const bytes = reason.endsWith(otherProtocol) ? `${noRequest}\r\n\r\n` : noRequest;
  return {
    host: '127.0.0.1',
    port,
    localAddress: client,
    ...(tls === 'none' ? {} : { tls: { ...secured, ...certificate } }),
    proto: (tls === 'passthrough' && tcp !== null) || tcp === 'forward' || silent ? 'tcp' : protocols[protocol],
    method,
    path,
    authority: host,
    headers: Object.entries(headers),
    payload: silent ? preface : bytes,
  };
}

/** As a TCP probe: nothing is sent, in TLS neither. */
export function connectAndEnd({ port, client }: RandomRequest): Promise<ExchangeResult> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, localAddress: client }, () => socket.end());
    socket.once('error', reject);
    socket.once('close', () => resolve({ kind: 'closed', text: '' }));
    socket.resume();
  });
}
