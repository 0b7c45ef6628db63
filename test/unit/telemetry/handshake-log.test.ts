import t from 'tap';
import { parseIp } from '../../../lib/ip.ts';
import type { HandshakeFailure, ShownCertificate, UnknownClient } from '../../../lib/proxy/recorder.ts';
import { find, fixture, portPolicy, scrape } from './fixtures.ts';

const own = {
  names: ['web.shop'],
  issuer: 'CN=root',
  notAfter: new Date('2026-11-23T00:00:00Z'),
  trusts: ['CN=root', 'CN=older root'],
  anchors: [{ subject: 'CN=root', keyId: 'aa', sha256: 'bb' }],
};

function failure(over: Partial<HandshakeFailure> = {}): HandshakeFailure {
  const clockMs = Date.parse('2026-11-22T05:00:00Z');
  return { reason: 'unknown_issuer', detail: 'nobody we know', certificate: null, own, clockMs, ...over };
}

function from(text: string): UnknownClient {
  const clientIp = parseIp(text);
  if (clientIp === undefined) throw new Error(`no address: ${text}`);
  return { clientIp, clientPort: 4711, targetIp: '10.1.0.9', targetPort: 8080 };
}

type Line = Record<string, unknown>;
const parsed = (lines: readonly string[]): Line[] => lines.map((line) => JSON.parse(line));

t.test('a line has all that is known, and nothing that is not', async (t) => {
  const { telemetry, lines } = fixture();
  const shown: ShownCertificate = {
    subject: `CN=a\n{"level":"error"}${'x'.repeat(1000)}`,
    names: `DNS:${'y'.repeat(1000)}`,
    issuer: 'CN=\u202estranger',
    authority: { name: 'CN=root', keyId: 'cc' },
    notBefore: 'no date',
    notAfter: '2026-11-21T00:00:00.000Z',
  };
  telemetry.recorder.handshakeFailed(from('10.1.2.3'), 'web.shop', failure({ certificate: () => shown }));
  t.equal(lines.length, 1);
  t.equal(lines[0]?.trimEnd().split('\n').length, 1, 'one line');
  t.notMatch(lines[0], /\u202e/, 'escaped');
  const [line = {}] = parsed(lines);
  const { time, certificate, ...rest } = line;
  t.type(time, 'string');
  t.same(rest, {
    level: 'info',
    msg: 'TLS handshake failed',
    reason: 'unknown_issuer',
    code: 'ERR_SALLYPORT_TLS_UNKNOWN_ISSUER',
    detail: 'nobody we know',
    own: { ...own, anchors: [{ keyId: 'aa', sha256: 'bb' }], notAfter: own.notAfter.toISOString() },
    hint: "Its root has the name of an anchor of ours, but another key (key cc): another installation, or a root made anew; add that root's certificate to SALLYPORT_IDENTITY_TRUST_ANCHORS, or have the client's certificate issued under ours.",
    clock: '2026-11-22T05:00:00.000Z',
    client: { ip: '10.1.2.3', port: 4711 },
    target: { ip: '10.1.0.9', port: 8080 },
    sni: 'web.shop',
    cut: ['certificate.subject', 'certificate.names'],
  });
  const { subject, names } = certificate as Record<string, string>;
  t.ok(String(subject).length < 300 && String(names).length < 300, 'cut to a length');
  t.match(certificate, { notBefore: 'no date', notAfter: '2026-11-21T00:00:00.000Z' });
});

t.test('a certificate is read only for a line that is written', async (t) => {
  const certificate = (): never => {
    throw new Error('nobody asked');
  };
  const silent = fixture('json', 'warn');
  silent.telemetry.recorder.handshakeFailed(from('10.1.2.3'), 'web.shop', failure({ certificate }));
  t.same(silent.lines, []);
  const { telemetry } = fixture();
  telemetry.recorder.handshakeFailed(from('10.1.2.3'), 'web.shop', failure());
  telemetry.recorder.handshakeFailed(from('10.1.2.3'), 'web.shop', failure({ certificate }));
});

t.test('a line a minute for each client and reason, sixty for all', async (t) => {
  const { telemetry, lines, advance } = fixture();
  const fail = (ip: string, over?: Partial<HandshakeFailure>): void =>
    telemetry.recorder.handshakeFailed(from(ip), 'web.shop', failure(over));
  for (let i = 0; i < 1000; i++) fail('10.0.0.1');
  fail('10.0.0.2');
  fail('10.0.0.1', { reason: 'timeout' });
  t.same(
    parsed(lines).map(({ reason, client }) => [reason, (client as { ip: string }).ip]),
    [
      ['unknown_issuer', '10.0.0.1'],
      ['unknown_issuer', '10.0.0.2'],
      ['timeout', '10.0.0.1'],
    ],
  );
  advance(60_000);
  fail('10.0.0.1');
  t.match(parsed(lines).at(-1), { times: 1000 }, 'with how many there were since');
  for (let i = 0; i < 65_536; i++) fail(`10.9.${i >> 8}.${i & 255}`);
  t.equal(lines.length, 3 + 60, 'however many addresses there are');
  advance(60_000);
  fail('10.0.0.1');
  t.match(parsed(lines).at(-1), { omitted: 65_536 - 59 });
  const counted = find(await scrape(telemetry), 'sallyport_tls_failures_total', { reason: 'unknown_issuer' });
  t.equal(counted[0]?.value, 1000 + 1 + 1 + 65_536 + 1, 'all are counted');
});

t.test('names that one client makes up cost no other its line', async (t) => {
  const { telemetry, lines, advance } = fixture();
  const call = (ip: string, name: string): void =>
    telemetry.recorder.helloNotForUs(from(ip), name, ['web.shop'], 'passed through');
  for (let i = 0; i < 100_000; i++) call('10.0.0.1', `${i}.example`);
  call('10.0.0.2', 'elsewhere.shop');
  t.match(parsed(lines), [{ sni: '0.example' }, { sni: 'elsewhere.shop' }]);
  for (let i = 0; i < 65_536; i++) call(`10.9.${i >> 8}.${i & 255}`, 'elsewhere.shop');
  t.equal(lines.length, 60);
  telemetry.recorder.handshakeFailed(from('10.0.0.3'), 'web.shop', failure());
  t.match(parsed(lines).at(-1), { msg: 'TLS handshake failed' }, 'lines of the other kind have room of their own');
  advance(60_000);
  call('10.0.0.1', 'last.example');
  t.match(parsed(lines).at(-1), { sni: 'last.example', times: 100_000 });
});

t.test('the other HTTP: a line a minute for each client, port and protocol', async (t) => {
  const { telemetry, lines, advance } = fixture();
  const tell = (ip: string, spoken: 'http/1' | 'http/2'): void =>
    telemetry.recorder.otherHttp(from(ip), portPolicy({ protocol: 'grpc' }), spoken);
  for (let i = 0; i < 1000; i++) tell('10.0.0.1', 'http/1');
  tell('10.0.0.2', 'http/1');
  tell('10.0.0.2', 'http/2');
  t.equal(lines.length, 3);
  t.match(parsed(lines)[0], {
    level: 'info',
    msg: 'Not the HTTP that the Server declares',
    code: 'other-http',
    protocol: 'grpc',
    spoken: 'http/1',
    hint: /proxyProtocol/,
    client: { ip: '10.0.0.1', port: 4711 },
    target: { ip: '10.1.0.9', port: 8080 },
  });
  advance(60_000);
  tell('10.0.0.1', 'http/1');
  t.match(parsed(lines)[3], { times: 1000 });
});

t.test('a protocol that nobody can tell: a line an hour for each port, whoever waits there', async (t) => {
  const { telemetry, lines, advance } = fixture();
  const tell = (ip: string): void =>
    telemetry.recorder.notRecognized(from(ip), portPolicy({ protocol: 'detect' }), 10.004);
  for (let i = 0; i < 1000; i++) tell(`10.0.0.${i % 200}`);
  t.equal(lines.length, 1);
  t.match(parsed(lines)[0], {
    level: 'info',
    msg: 'Protocol not recognized',
    code: 'not-recognized',
    waited: '10s',
    hint: /proxyProtocol.*opaque ports/,
    client: { ip: '10.0.0.0', port: 4711 },
    target: { ip: '10.1.0.9', port: 8080 },
  });
  advance(3_600_000);
  tell('10.0.0.1');
  t.match(parsed(lines)[1], { times: 1000 });
});
