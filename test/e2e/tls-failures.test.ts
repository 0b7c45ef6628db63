import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t from 'tap';
import { createAuthority } from '../../certs/authority.ts';
import { type HandshakeReason, handshakeCodes } from '../../lib/proxy/recorder.ts';
import { type TestCertificate, testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { missing } from '../support/children.ts';
import { scrape } from '../support/metrics.ts';
import type { LogLine } from '../support/sallyport.ts';
import { type Call, own, ownName, type Served, stranger, tlsClients } from '../support/tls-clients.ts';
import { patience, until } from '../support/until.ts';

/* A handshake that comes to nothing says why: in the log once for each client and reason, in a metric each time. */

t.setTimeout(1_200_000);

const handshakeReasons = Object.keys(handshakeCodes) as HandshakeReason[];

const dayMs = 864e5;
const callerName = workloadName('orders', 'shop');
const needed = { skip: await missing(t, 'openssl', 'curl') };
const { serve, openssl, showing, curl, ca, otherCa } = await tlsClients(t);

/** A hello of openssl, without the rest of the handshake: what follows is up to the row. */
function hello(then: (socket: Socket) => void): Call {
  return async (from, port) => {
    const socket = connect({ host: '127.0.0.1', port, localAddress: from });
    // Also behind an error, which is how a reset is told.
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => {}).resume();
    await once(socket, 'connect');
    socket.write(Buffer.from(helloHex, 'hex'));
    // Our side of the handshake: from here on its bytes are awaited.
    await once(socket, 'data');
    then(socket);
    await closed;
  };
}

/** TLS 1.3 for `name` by an X25519 client: whole, so that the proxy answers it. */
const helloHex = await recordedHello();

async function recordedHello(): Promise<string> {
  const { createServer } = await import('node:net');
  const { connect: connectTls } = await import('node:tls');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const first = new Promise<Buffer>((resolve) =>
    server.once('connection', (socket) => socket.once('data', (bytes: Buffer) => resolve(bytes))),
  );
  const client = connectTls({ port, host: '127.0.0.1', servername: ownName, minVersion: 'TLSv1.3' });
  client.on('error', () => {});
  const bytes = await first;
  client.destroy();
  server.close();
  return bytes.toString('hex');
}

interface Row {
  readonly what: string;
  readonly call: Call;
  readonly reason: HandshakeReason;
  readonly detail: RegExp;
  /** Of the client's certificate, where it has shown one. */
  readonly certificate?: Readonly<Record<string, RegExp>>;
  readonly hint?: RegExp;
}

const namesake = testCertificate(
  { dnsNames: [callerName] },
  createAuthority({ commonName: 'Sallyport test authority', days: 1 }),
);
const expired = testCertificate({ dnsNames: [callerName], notBefore: new Date(Date.now() - 3 * dayMs), days: 1 });
const early = testCertificate({ dnsNames: [callerName], notBefore: new Date(Date.now() + dayMs), days: 2 });

const dayOf = ({ certificatePem }: TestCertificate, end: 'validFromDate' | 'validToDate'): string =>
  new X509Certificate(certificatePem)[end].toISOString().slice(0, 10);

const rows: readonly Row[] = [
  {
    what: 'a certificate of a foreign authority',
    call: showing(stranger),
    reason: 'unknown_issuer',
    detail: /none of our trust anchors/,
    certificate: { issuer: /^CN=Nobody you know$/, names: new RegExp(`^DNS:${callerName}$`), notAfter: /^20\d\d-/ },
  },
  {
    what: 'a certificate of an authority of the same name',
    call: showing(namesake),
    reason: 'unknown_issuer',
    detail: /none of our trust anchors/,
    certificate: { issuer: /^CN=Sallyport test authority$/ },
    hint: /has the name of an anchor of ours, but another key \(key [0-9a-f]{40}\).*SALLYPORT_IDENTITY_TRUST_ANCHORS/,
  },
  {
    what: 'signed by itself',
    call: showing(
      testCertificate({ commonName: 'Root\nlevel="error"' }, createAuthority({ commonName: 'b', days: 1 })),
    ),
    reason: 'unknown_issuer',
    detail: /none of our trust anchors/,
    certificate: { subject: /^CN=Root/ },
  },
  {
    what: 'an expired one',
    call: showing(expired),
    reason: 'client_expired',
    detail: /has expired/,
    certificate: { notAfter: new RegExp(`^${dayOf(expired, 'validToDate')}`) },
  },
  {
    what: 'one that is not valid yet',
    call: showing(early),
    reason: 'client_not_yet_valid',
    detail: /not valid yet/,
    certificate: { notBefore: new RegExp(`^${dayOf(early, 'validFromDate')}`) },
  },
  {
    what: "a server's",
    call: showing(testCertificate({ dnsNames: [callerName], usages: ['serverAuth'] })),
    reason: 'client_invalid',
    detail: /INVALID_PURPOSE/,
    certificate: { issuer: /Sallyport test authority/ },
  },
  {
    what: 'more names than are read',
    call: showing(
      testCertificate({ dnsNames: Array.from({ length: 800 }, (_, i) => `orders-${i}.shop.a.long.example`) }),
    ),
    reason: 'client_too_costly',
    detail: /bytes, 24576 at most/,
  },
  {
    what: 'curl, which trusts another authority',
    call: curl('--cacert', otherCa, `https://${ownName}/`),
    reason: 'client_distrusts_us',
    detail: /alert 48 \(unknown ca\)/,
  },
  {
    what: 'openssl, which expects another name',
    call: openssl('-CAfile', ca, '-verify_return_error', '-verify_hostname', 'elsewhere'),
    reason: 'client_distrusts_us',
    detail: /alert 42 \(bad certificate\)/,
  },
  { what: 'TLS 1.2', call: openssl('-tls1_2'), reason: 'no_shared_version', detail: /TLS 1.3/ },
  {
    what: 'curl with TLS 1.2',
    call: curl('--tls-max', '1.2', '--cacert', ca, `https://${ownName}/`),
    reason: 'no_shared_version',
    detail: /TLS 1.3/,
  },
  {
    what: 'another cipher suite',
    call: openssl('-ciphersuites', 'TLS_AES_128_CCM_SHA256'),
    reason: 'no_shared_cipher',
    detail: /cipher suites/,
  },
  { what: 'another group', call: openssl('-groups', 'P-521'), reason: 'no_shared_group', detail: /key exchanges/ },
  {
    what: 'another signature',
    call: openssl('-sigalgs', 'RSA+SHA256'),
    reason: 'no_shared_signature',
    detail: /signature/,
  },
  {
    what: 'garbage after the hello',
    call: hello((socket) => socket.write('GET / HTTP/1.1\r\n\r\n')),
    reason: 'malformed',
    detail: /ERR_SSL_/,
  },
  {
    what: 'an alert of another kind',
    // user_canceled (RFC 8446 section 6.1), fatal and in the clear, which Node's OpenSSL still reads.
    call: hello((socket) => socket.write(Buffer.of(0x15, 3, 3, 0, 2, 2, 80))),
    reason: 'client_alert',
    detail: /alert 80/,
  },
  {
    what: 'a client that goes away',
    call: hello((socket) => socket.resetAndDestroy()),
    reason: 'closed',
    detail: /closed the connection/,
  },
  { what: 'a client that stands still', call: hello(() => {}), reason: 'timeout', detail: /too long/ },
];

function failures({ sallyport }: Served, from: string): LogLine[] {
  return sallyport
    .logs()
    .filter(({ msg, client }) => msg === 'TLS handshake failed' && (client as { ip: string }).ip === from);
}

async function lineFrom(stage: Served, from: string): Promise<LogLine> {
  const lastSeen = (): string => JSON.stringify(stage.sallyport.logs().slice(-3));
  await until('the line', () => failures(stage, from).length > 0, { timeoutMs: 20_000, lastSeen });
  const [line, ...more] = failures(stage, from);
  t.same(more, [], 'one line');
  return line as LogLine;
}

t.test('each reason is told, and counted', needed, async (t) => {
  const stage = await serve(t, own);
  const before = await scrape(stage.sallyport.adminPort);
  for (const reason of handshakeReasons) {
    t.equal(before.sum('sallyport_tls_failures_total', { reason }), 0, `${reason} is there from the start`);
    t.equal(before.find('sallyport_tls_failures_total', { reason }).length, 1);
  }
  const counted = new Map<HandshakeReason, number>();
  await Promise.all(
    rows.map(async ({ what, call, reason, detail, certificate, hint }, index) => {
      const from = `127.0.1.${index + 1}`;
      await call(from, stage.port);
      const line = await lineFrom(stage, from);
      t.match(line, { level: 'info', reason, code: handshakeCodes[reason], detail, sni: ownName }, what);
      t.match(line.own, {
        names: [ownName],
        issuer: 'CN=Sallyport test authority',
        trusts: ['CN=Sallyport test authority'],
      });
      t.ok(Math.abs(Date.parse(String(line.clock)) - Date.now()) < 60_000, `${what}: our clock`);
      t.notOk('tls' in line, `${what}: nobody knows who it is`);
      t.notOk('id' in (line.client as object));
      if (certificate === undefined) t.notOk('certificate' in line, `${what}: no certificate of it`);
      else t.match(line.certificate, certificate, what);
      if (hint !== undefined) {
        t.match(line.hint, hint, what);
        const { authority } = line.certificate as { authority: { name: string; keyId: string } };
        const [anchor] = (line.own as { anchors: { keyId: string; sha256: string }[] }).anchors;
        t.equal(authority.name, 'CN=Sallyport test authority');
        t.match(anchor, { keyId: /^[0-9a-f]{40}$/, sha256: /^[0-9a-f]{64}$/ });
        t.match(authority.keyId, /^[0-9a-f]{40}$/);
        t.not(authority.keyId, anchor?.keyId, 'their keys tell them apart');
      }
      counted.set(reason, (counted.get(reason) ?? 0) + 1);
    }),
  );
  const after = await scrape(stage.sallyport.adminPort);
  for (const reason of handshakeReasons) {
    t.equal(after.sum('sallyport_tls_failures_total', { reason }), counted.get(reason) ?? 0, reason);
  }
  t.equal(after.sum('inbound_tcp_errors_total', { error: 'i/o' }), rows.length, "as Linkerd's errors, too");
  t.notOk(after.find('tcp_open_total', { tls: 'true' }).length, 'and not as clients with TLS');
  await stage.sallyport.stop();
  t.notOk(
    stage.sallyport.logs().some(({ msg }) => msg === 'Connection failed' || msg === 'Internal error'),
    'nothing else is said of it',
  );
});

t.test('who fails a hundred times makes one line', needed, async (t) => {
  const stage = await serve(t, own);
  const call = hello((socket) => socket.resetAndDestroy());
  for (let wave = 0; wave < 10; wave++) {
    await Promise.all(Array.from({ length: 10 }, () => call('127.0.0.7', stage.port)));
  }
  const count = async (): Promise<number> =>
    (await scrape(stage.sallyport.adminPort)).sum('sallyport_tls_failures_total', { reason: 'closed' });
  await until('all to be counted', async () => (await count()) === 100);
  // Lines wait for others a moment; at the end all have left.
  await stage.sallyport.stop();
  t.equal(failures(stage, '127.0.0.7').length, 1);
});

t.test('our own certificate has expired', needed, async (t) => {
  // It must outlive the start of the proxy.
  const seconds = Math.ceil(4 * patience());
  const short = testCertificate({
    dnsNames: [ownName],
    notBefore: new Date(Date.now() - 3600e3),
    days: (3600 + seconds) / 86400,
  });
  const stage = await serve(t, short);
  const call = curl('--cacert', ca, `https://${ownName}/`);
  await call('127.0.0.8', stage.port);
  t.same(failures(stage, '127.0.0.8'), [], 'it works at first');
  await until(
    'a failure',
    async () => {
      await call('127.0.0.8', stage.port);
      return failures(stage, '127.0.0.8').length > 0;
    },
    { timeoutMs: 2_000 * seconds },
  );
  const line = await lineFrom(stage, '127.0.0.8');
  t.match(line, { reason: 'own_expired', detail: /our own certificate has expired.*alert 45 \(certificate expired\)/ });
  t.ok(String((line.own as { notAfter: string }).notAfter) < String(line.clock), 'both times are there');
});

t.test('a good certificate, and none, still do', needed, async (t) => {
  const stage = await serve(t, own);
  await showing(workloadCertificate('orders', 'shop'))('127.0.0.9', stage.port);
  const { stdout } = (await curl(
    '--cacert',
    ca,
    '-o',
    '/dev/null',
    '-w',
    '%{http_code}',
    `https://${ownName}/`,
  )('127.0.0.9', stage.port)) as { stdout: string };
  t.equal(stdout, '200');
  await stage.sallyport.stop();
  t.same(failures(stage, '127.0.0.9'), []);
});
