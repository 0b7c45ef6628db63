import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, type TLSSocket, connect as tlsConnect } from 'node:tls';
import t from 'tap';
import { createAuthority } from '../../../certs/authority.ts';
import { closedServer, http1Outcome, http1Request } from '../../support/attacked-routes.ts';
import {
  strangerCertificate,
  type TestCertificate,
  testCertificate,
  workloadCertificate,
  workloadName,
} from '../../support/certificates.ts';
import { identityEnvironment, replaceFile } from '../../support/files.ts';
import { scrape } from '../../support/metrics.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { patience, until } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * Who calls is what the certificate of this very connection says, verified against the anchors of now; a handshake that
 * goes wrong in any way ends its own connection and nothing else.
 */
const ownName = workloadName('web', 'shop');
const callerName = workloadName('orders', 'shop');

t.setTimeout(900_000);

const folder = t.testdir();
const identity = join(folder, 'identity');
const app = await startWitness(t);
const [mesh = 0, open = 0, http2 = 0, grpc = 0] = await freePorts(4);
const meshOnly = `${closedServer('mesh', mesh)}---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: anybody, namespace: shop}
spec: {identities: ['*']}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: mesh, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: mesh}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: anybody}]
`;
const own = testCertificate({ dnsNames: [ownName] });
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(
      folder,
      meshOnly + openServer('open', open) + openServer('http2', http2, 'HTTP/2') + openServer('grpc', grpc, 'gRPC'),
    ),
    SALLYPORT_INBOUND_PORTS: [mesh, open, http2, grpc].map((port) => `${port}=127.0.0.1:${app.port}`).join(),
    SALLYPORT_DETECT_TIMEOUT: '2s',
    ...identityEnvironment(identity, own),
  },
});
const caller = workloadCertificate('orders', 'shop');

function options(certificate: TestCertificate | null, more: ConnectionOptions = {}): ConnectionOptions {
  const { certificatePem: cert = undefined, keyPem: key = undefined } = certificate ?? {};
  return {
    servername: ownName,
    ca: own.trustAnchorsPem,
    checkServerIdentity: () => undefined,
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
    ...more,
  };
}

/** One request inside TLS: its status, or `ended`. */
async function ask(port: number, tls: ConnectionOptions): Promise<string> {
  let client: RawClient;
  try {
    client = await RawClient.open({ port, tls });
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'ECONNRESET' || code.startsWith('ERR_SSL')) return 'ended';
    throw error;
  }
  try {
    client.send(latin1(http1Request('/')));
    const answered = await client.responses(['GET']).catch((error: unknown) => {
      if (client.ended) return [];
      throw error;
    });
    return String(answered[0]?.status ?? 'ended');
  } finally {
    client.destroy();
  }
}

t.test('whose certificate counts', async (t) => {
  const otherAuthority = createAuthority({ commonName: 'Another', days: 1 });
  const rows: readonly (readonly [title: string, certificate: TestCertificate | null, outcome: string])[] = [
    ['a workload', caller, '200'],
    ['nobody (CVE-2020-16844: no identity is not an empty one)', null, '403'],
    ['a name that we trust, signed by a stranger', strangerCertificate(callerName), 'ended'],
    ['the same, with our own name', testCertificate({ dnsNames: [ownName] }, otherAuthority), 'ended'],
    [
      'expired',
      testCertificate({ dnsNames: [callerName], notBefore: new Date(Date.now() - 3 * 864e5), days: -1 }),
      'ended',
    ],
    ['two SPIFFE names (CVE-2022-40716)', testCertificate({ spiffeIds: ['spiffe://a/b', 'spiffe://a/c'] }), '403'],
  ];
  for (const [title, certificate, outcome] of rows) {
    t.equal(await ask(mesh, options(certificate)), outcome, title);
    if (outcome === 'ended') t.equal(await ask(open, options(certificate)), 'ended', `${title}: on an open port, too`);
  }
  t.equal(await ask(open, options(null)), '200', 'nobody may use an open port');
  t.equal(await ask(mesh, options(caller, { maxVersion: 'TLSv1.2' })), 'ended', 'TLS 1.2');
});

t.test('resumption yields no identity (CVE-2025-23419, CVE-2025-68121, nodejs/node#64677)', async (t) => {
  const tickets: Buffer[] = [];
  const first = await RawClient.open({ port: mesh, tls: options(caller) });
  (first.socket as TLSSocket).on('session', (session) => tickets.push(session));
  first.send(latin1(http1Request('/')));
  await first.responses(['GET']);
  const session = tickets[0] ?? (first.socket as TLSSocket).getSession();
  first.destroy();
  const offer = session === undefined ? {} : { session };
  t.ok(session, 'there is a session to offer');
  t.equal(await ask(mesh, options(null, offer)), '403', 'an old session without its certificate is nobody');
  const again = await RawClient.open({ port: mesh, tls: options(caller, offer) });
  t.notOk((again.socket as TLSSocket).isSessionReused(), 'nor is it resumed with the certificate');
  again.destroy();
});

t.test('ALPN', async (t) => {
  const chosen = async (port: number, offered: readonly string[]): Promise<string | false | null> => {
    const more = offered.length === 0 ? {} : { ALPNProtocols: [...offered] };
    const client = await RawClient.open({ port, tls: options(caller, more) });
    const { alpnProtocol } = client.socket as TLSSocket;
    client.destroy();
    return alpnProtocol;
  };
  for (const [offered, onDetect, onHttp2] of [
    [['h2', 'http/1.1'], 'http/1.1', 'h2'],
    [['http/1.1', 'h2'], 'http/1.1', 'h2'],
    [['h2'], 'h2', 'h2'],
    [['http/1.1'], 'http/1.1', 'http/1.1'],
    [['transport.l5d.io/v1'], false, false],
    [['acme-tls/1', 'unknown'], false, false],
    [['unknown', 'h2'], 'h2', 'h2'],
    [[], false, false],
  ] as const) {
    t.equal(await chosen(open, offered), onDetect, `${offered} on a Server of unknown protocol`);
    t.equal(await chosen(http2, offered), onHttp2, `${offered} on an HTTP/2 Server`);
    t.equal(await chosen(grpc, offered), onHttp2, `${offered} on a gRPC Server`);
  }
});

/** The bytes of a real ClientHello for our name. */
function clientHello(): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _encoding, done) => {
        resolve(chunk);
        done();
      },
    });
    const socket = tlsConnect({ ...options(caller), socket: wire });
    socket.on('error', () => {});
  });
}

/** The same handshake message in records of `size` bytes (RFC 8446 5.1 allows that). */
function fragmented(hello: Buffer, size: number): Buffer {
  const message = hello.subarray(5);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size);
    records.push(Buffer.from([0x16, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(records);
}

t.test('ClientHellos of every shape', async (t) => {
  const hello = await clientHello();
  const serverHello = (client: RawClient): boolean => client.received[0] === 0x16 && client.received[5] === 2;

  const slow = await RawClient.open({ port: mesh });
  await slow.sendByteByByte(hello);
  t.ok(await slow.reaches(() => serverHello(slow), 5_000), 'byte by byte: answered');
  slow.destroy();

  const inRecords = await RawClient.open({ port: mesh });
  inRecords.send(fragmented(hello, 100));
  t.ok(await inRecords.reaches(() => serverHello(inRecords), 5_000), 'in records of 100 bytes: answered');
  inRecords.destroy();

  const noise = (length: number, seed: number): Buffer =>
    Buffer.from(Array.from({ length }, (_, i) => ((i + 1) * (seed * 2 + 1) * 2_654_435_761) >>> 24));
  const grown = Buffer.from(hello);
  grown.writeUIntBE(0xffffff, 6, 3);
  const broken: readonly (readonly [string, Buffer])[] = [
    ['garbage after the record head', Buffer.concat([Buffer.from([0x16, 3, 1, 0, 200]), noise(200, 1)])],
    ['a length of 16 MiB', grown],
    ['an empty record', Buffer.from([0x16, 3, 1, 0, 0])],
    ['10,000 empty records', Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.from([0x16, 3, 1, 0, 0])))],
    ['a server name of 60 KiB', Buffer.concat([hello.subarray(0, 5), noise(60_000, 2)])],
    ['a ClientHello cut in half', hello.subarray(0, hello.length >> 1)],
    ['a ClientHello and garbage', Buffer.concat([hello, noise(5_000, 3)])],
    ['an alert', Buffer.from([0x15, 3, 3, 0, 2, 2, 40])],
    ...Array.from({ length: 40 }, (_, i): readonly [string, Buffer] => {
      const flipped = Buffer.from(hello);
      const at = 5 + ((i * 37) % (hello.length - 5));
      flipped.writeUInt8((flipped.readUInt8(at) ^ (1 << (i % 8))) & 255, at);
      return [`one bit of byte ${at} flipped`, flipped];
    }),
  ];
  await Promise.all(
    broken.map(async ([title, bytes]) => {
      const client = await RawClient.open({ port: mesh });
      client.send(bytes);
      // Some are sound handshakes still; nobody completes one, so the proxy's deadline ends it.
      const ended = await client.ends(15_000);
      t.ok(ended, `${title}: ended`);
      t.notMatch(client.received.toString('latin1'), /HTTP\/1\.1 200/, title);
      client.destroy();
    }),
  );
  t.equal(await ask(mesh, options(caller)), '200', 'the next handshake succeeds');
});

t.test('clients that vanish, at every stage', async (t) => {
  const hello = await clientHello();
  const stages: readonly (readonly [string, Buffer])[] = [
    ['after connecting', Buffer.alloc(0)],
    ['inside the record head', hello.subarray(0, 3)],
    ['inside the ClientHello', hello.subarray(0, 60)],
    ['after the ClientHello', hello],
    ['after a request', latin1(http1Request('/'))],
    ['inside a request', latin1('POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 10\r\n\r\nabc')],
    ['inside an HTTP/2 preface', latin1('PRI * HTTP/2.0\r\n\r\n')],
    ['inside opaque bytes', latin1('\0\0')],
  ];
  for (const [title, bytes] of stages) {
    for (const leave of ['reset', 'half-close', 'destroy'] as const) {
      const ended = await Promise.all(
        Array.from({ length: 5 }, async () => {
          const client = await RawClient.open({ port: open });
          if (bytes.length > 0) client.send(bytes);
          if (leave === 'reset') client.reset();
          else if (leave === 'half-close') client.halfClose();
          // A client that only ends its side sees how the proxy ends its own: at once, or by the handshake's deadline.
          const over = leave !== 'half-close' || (await client.ends(15_000));
          client.destroy();
          return over;
        }),
      );
      t.notOk(ended.includes(false), `${title}, ${leave}: over`);
    }
    t.equal(await ask(mesh, options(caller)), '200', `${title}: others are served`);
  }
  for (const server of ['open', 'mesh']) {
    await until(`no connection of ${server} to be left`, async () => {
      const gauge = (await scrape(sallyport.adminPort)).sum('tcp_open_connections', { peer: 'src', srv_name: server });
      return gauge === 0;
    });
  }
});

t.test('1,000 half-open handshakes keep nobody out', async (t) => {
  const hello = await clientHello();
  const waiting: RawClient[] = [];
  for (let i = 0; i < 1_000; i++) {
    const client = await RawClient.open({ port: mesh });
    client.send(i % 2 === 0 ? hello : hello.subarray(0, 100));
    waiting.push(client);
  }
  const started = performance.now();
  t.equal(await ask(mesh, options(caller)), '200', 'a workload is served');
  t.equal(await http1Outcome(open, http1Request('/')), '200', 'and so is plain text');
  t.ok(performance.now() - started < 1_700 * patience(), `in ${Math.round(performance.now() - started)} ms`);
  const ended = await Promise.all(waiting.map((client) => client.ends(20_000)));
  t.notOk(ended.includes(false), 'each is ended by its deadline');
  for (const client of waiting) client.destroy();
});

t.test('rotated anchors end what the old ones began', async (t) => {
  const next = createAuthority({ commonName: 'The next root', days: 10 });
  const nextOwn = testCertificate({ dnsNames: [ownName] }, next);
  const nextCaller = testCertificate({ dnsNames: [callerName] }, next);
  t.equal(await ask(mesh, options(nextCaller)), 'ended', 'not trusted yet');
  const old = await RawClient.open({ port: mesh, tls: options(caller) });
  const session = (old.socket as TLSSocket).getSession();
  replaceFile(join(identity, 'own.key'), nextOwn.keyPem);
  replaceFile(join(identity, 'own.crt'), nextOwn.certificatePem);
  replaceFile(join(identity, 'anchors.crt'), nextOwn.trustAnchorsPem);
  const trusting = (certificate: TestCertificate, more: ConnectionOptions = {}): ConnectionOptions =>
    options(certificate, { ...more, ca: nextOwn.trustAnchorsPem });
  await until('the new anchors', async () => (await ask(mesh, trusting(nextCaller)).catch(() => '')) === '200');
  t.equal(await ask(mesh, trusting(caller)), 'ended', 'the old certificate does not verify any more');
  const offer = session === undefined ? {} : { session };
  t.equal(await ask(mesh, trusting(caller, offer)), 'ended', 'nor with the session of before');
  old.destroy();
});

t.test('the proxy is well', async (t) => {
  t.equal(sallyport.child.process.exitCode, null);
  t.match(await sallyport.stop(), { code: 0 });
});
