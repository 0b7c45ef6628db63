import { join } from 'node:path';
import t from 'tap';
import { route } from '../../support/attacked-routes.ts';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment } from '../../support/files.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { mapBounded, patience } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * On a port with request rules and a Server that everybody may use, opaque bytes would be let through; so HTTP that is
 * mistaken for opaque bytes goes round the rules (istio#15802, #17169, #17821; istio#26607: packet timing chose). There is
 * a route for /public alone: /admin is 404 as HTTP. Where there are request rules nothing but HTTP goes on; elsewhere
 * what no server takes for a request does.
 */
type Outcome = 'closed' | 'tunnel' | `${number}`;

interface Row {
  readonly title: string;
  readonly bytes: string;
  /** The client ends its side after the bytes. */
  readonly ends?: boolean;
  /** Only in one piece: of a piece the app could have sent back an echo, and nobody who speaks first serves HTTP. */
  readonly whole?: boolean;
  readonly ruled: Outcome;
  readonly plain: Outcome;
}

const request = 'GET /admin HTTP/1.1\r\nHost: web\r\n\r\n';
const half = request.slice(0, 12);

const rows: readonly Row[] = [
  { title: 'silence', bytes: '', ruled: 'closed', plain: 'closed' },
  { title: 'a request', bytes: request, ruled: '404', plain: '200' },
  { title: 'half a request line', bytes: half, ruled: 'closed', plain: 'closed' },
  { title: 'half a request line, and the end', bytes: half, ends: true, ruled: 'closed', plain: 'closed' },
  { title: 'a method', bytes: 'GET', ruled: 'closed', plain: 'tunnel' },
  { title: 'the beginning of the HTTP/2 preface', bytes: 'PRI', ruled: 'closed', plain: 'tunnel' },
  { title: 'blank lines', bytes: '\r\n'.repeat(40), ruled: 'closed', plain: 'tunnel' },
  { title: 'blank lines before a request', bytes: `\r\n\r\n${request}`, ruled: '404', plain: '200' },
  // Node's parser skips any number of them, but counts them as part of the head.
  {
    title: '8 KiB of blank lines before a request',
    bytes: `${'\r\n'.repeat(4_096)}${request}`,
    ruled: '404',
    plain: '200',
  },
  { title: 'a space before a request', bytes: ` ${request}`, ruled: '400', plain: '400' },
  { title: 'a tab before a request', bytes: `\t${request}`, ruled: '400', plain: '400' },
  { title: 'other blanks before a request', bytes: `\x0b\x0c${request}`, ruled: '400', plain: '400' },
  { title: 'tabs for spaces', bytes: request.replaceAll(' ', '\t'), ruled: '400', plain: '400' },
  { title: 'a lower-case version', bytes: request.replace('HTTP', 'http'), ruled: '400', plain: '400' },
  // Decided by policy like any; it is the app that knows no such method.
  { title: 'a method of 100 letters', bytes: request.replace('GET', 'A'.repeat(100)), ruled: '404', plain: '502' },
  { title: 'a method of 9 KiB', bytes: request.replace('GET', 'A'.repeat(9_000)), ruled: '404', plain: '502' },
  { title: 'a target of 9 KiB', bytes: request.replace('admin', 'a'.repeat(9_000)), ruled: '404', plain: '200' },
  {
    title: 'an unfinished target of 9 KiB',
    bytes: `GET /${'a'.repeat(9_000)}`,
    ends: true,
    ruled: 'closed',
    plain: 'closed',
  },
  { title: 'HTTP/0.9', bytes: 'GET /admin\r\n', ruled: '400', plain: '400' },
  { title: 'HTTP/0.9 with LF alone', bytes: 'GET  /admin\n', ruled: '400', plain: '400' },
  { title: 'junk before a request', bytes: `\x00\x01${request}`, whole: true, ruled: '400', plain: '400' },
  { title: 'another text protocol, unfinished', bytes: 'EHLO clie', ruled: 'closed', plain: 'tunnel' },
  {
    title: 'another text protocol, unfinished, and the end',
    bytes: 'ruok',
    ends: true,
    ruled: 'closed',
    plain: 'tunnel',
  },
  { title: 'a binary protocol', bytes: '\0\0\0\x08\x04\xd2\x16\x2f', ruled: 'closed', plain: 'tunnel' },
  { title: 'RTSP', bytes: 'GET http://x/admin RTSP/1.0\r\n\r\n', ruled: '400', plain: '400' },
  { title: 'a target without a slash', bytes: 'GET admin\r\n\r\n', ruled: '400', plain: '400' },
  { title: 'separators of Python', bytes: 'GET\x85/admin\x1cHTTP/1.1\r\n\r\n', ruled: '400', plain: '400' },
  { title: 'a parenthesis first', bytes: `(${request}`, whole: true, ruled: '400', plain: '400' },
  { title: 'a byte order mark first', bytes: `\xef\xbb\xbf${request}`, whole: true, ruled: '400', plain: '400' },
  { title: 'the PROXY protocol', bytes: `PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n${request}`, ruled: '400', plain: '400' },
  { title: 'another text protocol', bytes: 'EHLO client.example\r\n', ruled: 'closed', plain: 'tunnel' },
  // Part of a ClientHello may become one; without a whole one nothing is known, and nothing forwarded.
  { title: 'the first byte of TLS', bytes: '\x16', ruled: 'closed', plain: 'closed' },
  { title: 'the head of a TLS record', bytes: '\x16\x03\x01\x02\x00\x01\x00', ruled: 'closed', plain: 'closed' },
];

/** What a client sends byte by byte must be there by then. */
const detectTimeoutMs = Math.round(1_000 * patience());
const ownName = workloadName('web', 'shop');

t.setTimeout(900_000);

const folder = t.testdir();
const app = await startWitness(t);
const [ruled = 0, plain = 0, limited = 0] = await freePorts(3);
const limit = `---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: few, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: limited}
  total: {requestsPerSecond: 1000}
`;
const sallyport = await startSallyport(t, {
  env: {
    ...policyEnvironment(
      folder,
      openServer('ruled', ruled) +
        route('public', 'ruled', '/public') +
        openServer('plain', plain) +
        openServer('limited', limited) +
        limit,
    ),
    SALLYPORT_INBOUND_PORTS: [ruled, plain, limited].map((port) => `${port}=127.0.0.1:${app.port}`).join(),
    SALLYPORT_DETECT_TIMEOUT: `${detectTimeoutMs}ms`,
    ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
  },
});
const tls = meshClient(ownName, workloadCertificate('orders', 'shop'));

/** What became of the bytes. An app that is reached by a tunnel echoes them. */
async function outcome(port: number, row: Row, mesh: boolean, way: 'whole' | 'byte by byte'): Promise<string> {
  const bytes = latin1(row.bytes);
  const client = await RawClient.open({ port, ...(mesh ? { tls } : {}) });
  try {
    if (way === 'whole') client.send(bytes);
    else await client.sendByteByByte(bytes);
    if (row.ends === true) client.halfClose();
    const answered = (): RegExpExecArray | null => /^HTTP\/1\.1 (\d{3}) /.exec(client.received.toString('latin1'));
    const echoed = (): boolean => bytes.length > 0 && client.received.equals(bytes);
    await client.reaches(() => answered() !== null || echoed(), detectTimeoutMs + 5_000);
    if (echoed()) return 'tunnel';
    const status = answered()?.[1];
    if (status !== undefined) return status;
    return client.ended && client.receivedLength === 0 ? 'closed' : `open, after ${client.receivedLength} bytes`;
  } finally {
    client.destroy();
  }
}

for (const mesh of [false, true]) {
  for (const way of ['whole', 'byte by byte'] as const) {
    const clients = mesh ? 'inside mesh TLS' : 'without TLS';
    t.test(`${clients}, ${way}`, async (t) => {
      // Silence inside TLS means a protocol in which the server speaks first (Linkerd's timeout: opaque).
      const possible = rows.filter(({ bytes, title }) => !mesh || (bytes !== '' && !title.includes('TLS')));
      // Thousands of single bytes would take longer than the timeout; where they are cut is tried below.
      const tried = possible.filter(({ bytes, whole }) => way === 'whole' || (bytes.length < 1_000 && whole !== true));
      // Those that are not waited for first, and few at a time: each is to be quick.
      const isWaitedFor = ({ ruled, plain }: Row): boolean => ![ruled, plain].every((is) => /^\d/.test(is));
      const inOrder = [...tried].sort((a, b) => Number(isWaitedFor(a)) - Number(isWaitedFor(b)));
      const seen = await mapBounded(inOrder, 16, async (row) => {
        const [byRules, withoutRules, byLimit] = await Promise.all(
          [ruled, plain, limited].map((port) => outcome(port, row, mesh, way)),
        );
        return { row, byRules, withoutRules, byLimit };
      });
      for (const { row, byRules, withoutRules, byLimit } of seen) {
        t.equal(byRules, row.ruled, `with a route: ${row.title}`);
        t.equal(withoutRules, row.plain, `without request rules: ${row.title}`);
        // A rate limit is a request rule; its port has no route that would answer 404.
        t.equal(byLimit, row.ruled === '404' ? row.plain : row.ruled, `with a rate limit: ${row.title}`);
      }
    });
  }
}

t.test('one byte at a time, slower than the timeout', async (t) => {
  const started = Date.now();
  const client = await RawClient.open({ port: ruled });
  for (const byte of latin1(request.replace('/admin', '/slowly'))) {
    if (client.ended) break;
    client.send(Buffer.of(byte));
    // Each wait is for the end of the connection, which is what must come.
    await client.waits(() => client.ended, detectTimeoutMs / 8);
  }
  t.ok(client.ended, 'the deadline is for all of them together');
  t.ok(Date.now() - started < detectTimeoutMs + 1_000 * patience());
  t.equal(client.receivedLength, 0);
  client.destroy();
  t.equal(app.seen('/slowly', 'host'), undefined, 'nothing of it reached the app');
});

t.test('the proxy is well', async (t) => {
  t.same(
    app.malformed.filter((code) => code !== 'HPE_INVALID_METHOD'),
    [],
  );
  t.match(await sallyport.stop(), { code: 0 });
});
