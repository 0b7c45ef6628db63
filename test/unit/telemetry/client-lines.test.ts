import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { variables } from '../../../lib/config/variables.ts';
import { ipv6, parseIp } from '../../../lib/ip.ts';
import type { HandshakeFailure, Recorder, RequestFailure, UnknownClient } from '../../../lib/proxy/recorder.ts';
import type { ResourceRef } from '../../../lib/resource-ref.ts';
import { clientKey } from '../../../lib/telemetry/client-lines.ts';
import { boundedFields, clip } from '../../../lib/telemetry/line-bounds.ts';
import { type LineMessage, LineRules } from '../../../lib/telemetry/line-rules.ts';
import * as fx from './fixtures.ts';

// Every line that clients or the app can cause, caused by floods of them: how much is written, and that it is said what is not.

const { messages: lineMessages, most: defaultLines } = new LineRules();
const events = 5000;
/** Bytes of a minute's log, whatever comes. */
const mostBytes = 2_000_000;

interface Cause {
  readonly telemetry: fx.Fixture['telemetry'];
  readonly ip: string;
  /** Text of a client, as long as it likes. */
  readonly text: string;
  /** The document that decided. */
  readonly server: ResourceRef;
}

const own = { names: ['web.shop'], issuer: 'CN=root', notAfter: new Date(0), trusts: ['CN=root'], anchors: [] };

function unknown({ ip }: Cause): UnknownClient {
  const clientIp = parseIp(ip);
  if (clientIp === undefined) throw new Error(`no address: ${ip}`);
  return { clientIp, clientPort: 4711, targetIp: '10.1.0.9', targetPort: 8080 };
}

function decided(of: Cause, decision: Parameters<ReturnType<Recorder['connection']>['requestDecided']>[1]): void {
  const { text, server } = of;
  const candidates = Array.from({ length: 50 }, () => ({ authz: server, granted: false, detail: text }));
  const request = { method: text, path: `/${text}`, host: text, version: text };
  const log = fx.requestLog({ ...request, reasons: () => ({ reason: text, candidates }) });
  connection(of).requestDecided(fx.portPolicy({ server }), { ...decision, server } as typeof decision, log);
}

function connection({ telemetry, ip, text }: Cause) {
  return telemetry.recorder.connection(fx.facts({ ip, tls: { kind: 'passthrough', sni: text } }));
}

function failure({ text }: Cause): RequestFailure {
  const met = { app: '127.0.0.1:3000', errno: text };
  return { code: 'ERR_SALLYPORT_UNREACHABLE', label: 'i/o', detail: text, met };
}

/** In which every request is slow. */
const slowFixture = () => fx.fixture('json', 'info', undefined, 0);

const causes: Readonly<Record<LineMessage, (of: Cause) => void>> = {
  'Request denied': (of) => decided(of, fx.deny),
  'Request not routed': (of) => decided(of, fx.noRoute),
  'Request rate limited': (of) => decided(of, fx.limited),
  'Request invalid': (of) => decided(of, { ...fx.invalid(), detail: of.text }),
  'Request allowed': (of) => decided(of, fx.audited),
  'Request redirected': (of) => decided(of, { ...fx.redirect, audit: true }),
  'Request failed': (of) =>
    connection(of).httpError(
      fx.portPolicy({ server: of.server }),
      failure(of),
      fx.requestLog({ path: of.text, host: of.text }),
    ),
  'Response broken off': (of) =>
    connection(of).responseBroken(
      fx.portPolicy({ server: of.server }),
      failure(of),
      fx.requestLog({ path: of.text, host: of.text }),
    ),
  'Slow request': (of) => {
    const { text, server } = of;
    const request = { method: text, path: text, host: text, version: text, grpc: false };
    const started = connection(of).requestStarted(
      fx.portPolicy({ server }),
      { ...fx.permit, server } as typeof fx.permit,
      false,
      () => {},
      request,
    );
    started.responseHead(200);
    started.responseEnded(null, '');
  },
  'Connection denied': (of) =>
    connection(of).connectionDecided(fx.portPolicy(), { ...fx.tcpDeny, server: of.server }, () => ({
      reason: of.text,
      candidates: [],
    })),
  'Connection allowed': (of) => connection(of).connectionDecided(fx.portPolicy(), fx.tcpAudited),
  'Connection refused': (of) =>
    of.telemetry.recorder.networkRefused(
      fx.portPolicy(),
      { ...unknown(of), policies: [of.server], connection: 'new' },
      () => ({ reason: of.text, candidates: [] }),
    ),
  'Connection failed': (of) => connection(of).tcpError('i/o', { app: '127.0.0.1:3000', errno: of.text }),
  'Connection terminated due to policy change': (of) =>
    connection(of).connectionTerminated(fx.portPolicy({ server: of.server }), () => ({
      reason: of.text,
      candidates: [],
    })),
  'Request terminated due to policy change': (of) =>
    connection(of).requestTerminated(
      fx.portPolicy({ server: of.server }),
      { ...fx.deny, server: of.server } as typeof fx.deny,
      fx.requestLog({ path: of.text, host: of.text }),
    ),
  'Protocol not recognized': (of) =>
    of.telemetry.recorder.notRecognized(unknown(of), fx.portPolicy({ server: of.server }), 10),
  'Request malformed': (of) => connection(of).badRequest(fx.portPolicy({ server: of.server }), of.text),
  'TLS handshake failed': (of) => {
    const { text } = of;
    const certificate = () => ({
      ...{ subject: text, names: text, issuer: text, notBefore: text, notAfter: text },
      authority: { name: text, keyId: text },
    });
    const failed: HandshakeFailure = { reason: 'unknown_issuer', detail: text, certificate, own, clockMs: 0 };
    of.telemetry.recorder.handshakeFailed(unknown(of), text, failed);
  },
  'TLS not for our names': (of) => of.telemetry.recorder.helloNotForUs(unknown(of), of.text, ['web'], 'passed on'),
  'Not the HTTP that the Server declares': (of) =>
    of.telemetry.recorder.otherHttp(unknown(of), fx.portPolicy({ server: of.server }), 'http/1'),
  'Limit reached': (of) => of.telemetry.recorder.limitReached('max_connections', parseIp(of.ip) ?? null),
  'The candidate policy would decide otherwise': (of) =>
    of.telemetry.lines.tell(
      'The candidate policy would decide otherwise',
      { cause: '', client: of.server.name },
      () => ({ code: 'candidate-differs', example: { path: of.text, host: of.text } }),
    ),
  'Deciding by the candidate policy failed; the policy in force is not concerned': (of) =>
    of.telemetry.lines.tell(
      'Deciding by the candidate policy failed; the policy in force is not concerned',
      { cause: '', client: '' },
      () => ({ code: 'candidate-failed', error: of.text }),
    ),
  'The candidate policy takes too long, and is not asked about everything': (of) =>
    of.telemetry.lines.tell(
      'The candidate policy takes too long, and is not asked about everything',
      { cause: '', client: '' },
      () => ({ code: 'candidate-slow' }),
    ),
  'Internal error': (of) =>
    of.telemetry.recorder.internalFault({ where: 'a test', error: new Error(of.text), ended: 'connection' }),
};

/** Events that lines stand for, by message; what was left out is said in lines of their own. */
function told(lines: readonly string[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const line of lines) {
    const { msg, times = 1, omitted = 0, about = msg, lines: left, count } = JSON.parse(line);
    const name = msg === 'Internal errors not shown' ? 'Internal error' : about;
    sums.set(name, (sums.get(name) ?? 0) + (left ?? count ?? times + omitted));
  }
  return sums;
}

const bytesOf = (lines: readonly string[]): number => Buffer.byteLength(lines.join(''));

const web: ResourceRef = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
const address = (i: number): string => `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;

const texts: readonly [string, string][] = [
  ['of 64 KB', 'x'.repeat(65_536)],
  // Each takes six bytes of a line.
  ['of control bytes', '\x85'.repeat(65_536)],
  ['short', 'orders'],
];

const floods: readonly [string, (i: number) => Pick<Cause, 'ip' | 'server'>][] = [
  ['one client', () => ({ ip: '10.1.2.3', server: web })],
  ['as many clients as events', (i) => ({ ip: address(i), server: web })],
  ['as many documents as events', (i) => ({ ip: '10.1.2.3', server: { ...web, name: `web-${i}` } })],
  ['as many of both', (i) => ({ ip: address(i), server: { ...web, name: `web-${i}` } })],
];

t.same(Object.keys(causes).sort(), [...lineMessages].sort());
t.equal(variables.SALLYPORT_LOG_LINES.fallback, String(defaultLines));

for (const [flood, each] of floods) {
  t.test(`all messages, ${events} times each, by ${flood}`, async (t) => {
    for (const [what, text] of flood === 'one client' ? texts : texts.slice(1, 2)) {
      const { telemetry, lines } = slowFixture();
      for (let i = 0; i < events; i++) {
        for (const cause of Object.values(causes)) cause({ telemetry, text, ...each(i) });
        // So that each has its share of the minute.
        if (i === 100) t.ok(lines.length <= defaultLines * 2, 'the first hundred');
      }
      telemetry.lines.tellLeftOut();
      t.ok(lines.length <= 2 * defaultLines, `${lines.length} lines, texts ${what}`);
      t.ok(bytesOf(lines) < mostBytes / 2, `${bytesOf(lines)} bytes, of a minute that may begin within another`);
      t.ok(
        lines.every((line) => Buffer.byteLength(line) <= (line.includes('"Internal error"') ? 8000 : 4000)),
        'no line is longer than it may be',
      );
      const sum = [...told(lines).values()].reduce((sum, lines) => sum + lines, 0);
      t.equal(sum, events * lineMessages.length, 'what is told and what is said to be left out is all there was');
    }
  });
}

t.test('of each message alone: at once, and then a line now and again', async (t) => {
  for (const [message, cause] of Object.entries(causes)) {
    const { telemetry, lines, advance } = slowFixture();
    const of = { telemetry, text: 'orders', ip: '10.1.2.3', server: web };
    cause(of);
    t.equal(lines.length, 1, `${message}: the first at once`);
    for (let i = 0; i < events; i++) cause(of);
    t.ok(lines.length <= 20, `${message}: ${lines.length} lines of one client`);
    const before = lines.length;
    cause({ ...of, ip: '10.1.2.4', server: { ...web, name: 'other' } });
    const isOfNobody = /candidate policy (failed|takes)|Limit|Internal|not recognized/.test(message);
    t.equal(lines.length, isOfNobody ? before : before + 1, `${message}: another client and cause at once`);
    advance(message === 'Protocol not recognized' ? 3_600_000 : 60_000);
    cause(of);
    telemetry.lines.tellLeftOut();
    t.equal([...told(lines).values()][0], events + 3, `${message}: all are told of`);
  }
});

t.test('a flood of one refusal hides no other', async (t) => {
  const { telemetry, lines } = slowFixture();
  for (let i = 0; i < 20_000; i++) causes['Request denied']({ telemetry, text: 'x', ip: address(i), server: web });
  const after = lines.length;
  for (const name of ['a', 'b', 'c']) {
    causes['Request denied']({ telemetry, text: 'x', ip: '10.1.2.3', server: { ...web, name } });
  }
  causes['TLS handshake failed']({ telemetry, text: 'x', ip: '10.1.2.3', server: web });
  t.equal(lines.length, after + 4, 'each has its line at once');
  t.ok(after <= 50, `${after} lines of the flood`);
});

t.test('one client, however often it is refused, leaves others a line', async (t) => {
  const { telemetry, lines } = slowFixture();
  const deny = (ip: string): void => causes['Request denied']({ telemetry, text: 'x', ip, server: web });
  for (let i = 0; i < events; i++) deny('10.1.2.3');
  t.equal(lines.length, 20);
  for (let i = 0; i < 10; i++) deny(`10.1.3.${i}`);
  t.equal(lines.length, 30);
});

t.test('what is left out is told with whose it was', async (t) => {
  const { telemetry, lines } = slowFixture();
  const deny = (ip: string): void => causes['Request denied']({ telemetry, text: 'x', ip, server: web });
  for (let i = 0; i < 25; i++) deny('10.1.2.3');
  for (let i = 0; i < 23; i++) deny('10.1.2.4');
  telemetry.lines.tellLeftOut();
  const { time: _, ...last } = JSON.parse(lines.at(-1) ?? '');
  t.same(last, {
    level: 'info',
    msg: 'Log lines left out',
    about: 'Request denied',
    cause: 'policy.linkerd.io/server/web policy.linkerd.io/HTTPRoute/metrics',
    lines: 23,
    clients: [
      { ip: '10.1.2.4', port: 8080, lines: 18 },
      { ip: '10.1.2.3', port: 8080, lines: 5 },
    ],
  });
  const left = fx.find(await fx.scrape(telemetry), 'sallyport_log_lines_left_out_total');
  t.equal(left[0]?.value, 23, 'and counted');
  const before = lines.length;
  telemetry.lines.tellLeftOut();
  t.equal(lines.length, before, 'once');
});

t.test('who asks for another rate gets it', async (t) => {
  for (const [most, least] of [
    [1, 1],
    [20, 2],
    [100_000, events],
  ] as const) {
    const { telemetry, lines } = fx.fixture('json', 'info', most);
    for (let i = 0; i < events; i++) {
      causes['Request denied']({ telemetry, text: 'x', ip: '10.1.2.3', server: web });
    }
    t.ok(lines.length >= least && lines.length <= most, `${lines.length} of ${most}`);
  }
});

t.test('at debug each has a line, within its bound', async (t) => {
  const { telemetry, lines } = fx.fixture('json', 'debug');
  for (let i = 0; i < 500; i++) {
    causes['Request denied']({ telemetry, text: 'x'.repeat(9999), ip: '10.1.2.3', server: web });
  }
  telemetry.lines.tellLeftOut();
  t.equal(lines.length, 500);
  t.ok(lines.every((line) => Buffer.byteLength(line) <= 4000));
});

t.test('a client is an address, or a network of IPv6', async (t) => {
  const six = (last: number) => ipv6(0x20010db8, 0x00010002, last, last);
  t.equal(clientKey(six(1), 8080), clientKey(six(2), 8080));
  t.equal(clientKey(six(1), 8080), '2001:db8:1:2::/64 8080');
  t.not(clientKey(ipv6(0x20010db8, 0x00010003, 1, 1), 8080), clientKey(six(1), 8080));
});

t.test('a text that is cut says by how much', async (t) => {
  t.equal(clip('abc', 3), 'abc');
  t.equal(clip('abcdef', 3), 'abc…(+3 bytes)');
  t.equal(clip('ab\u{1f600}', 3), 'ab…(+4 bytes)', 'half a character is none');
  t.equal(clip(`${'\xe9'.repeat(4)}`, 2), '\xe9\xe9…(+2 bytes)', 'text of a client is a character a byte');
  const deep = { a: { b: { c: { d: { e: { f: { g: { h: 1 } } } } } } } };
  t.ok(JSON.stringify(boundedFields(deep)).length < 200);
  t.same(boundedFields({ list: Array.from({ length: 30 }, (_, i) => i) }).list_omitted, 10);
});

t.test('nothing else in these rooms writes lines', async (t) => {
  const root = resolve(import.meta.dirname, '../../../lib');
  const writes = /\blog(?:ger)?(?:\.logger)?(?:\.(?:info|warn|error|debug)|\[\w+\])\(/;
  const rooms = ['telemetry', 'proxy', 'app/candidate', 'policy'];
  const files = rooms.flatMap((room) =>
    readdirSync(join(root, room), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && writes.test(readFileSync(join(root, room, name), 'utf8')))
      .map((name) => `${room}/${name}`),
  );
  t.same(files.sort(), [
    // What files say, and no client.
    'app/candidate/candidate.ts',
    'telemetry/client-lines.ts',
    // Once a minute.
    'telemetry/decision-file.ts',
  ]);
});
