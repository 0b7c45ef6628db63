import t from 'tap';
import type { HeaderChanges } from '../../../../lib/policy/decision.ts';
import {
  applyHeaderChanges,
  headerValue,
  headerValues,
  scanResponseHeaders,
  without,
} from '../../../../lib/proxy/http/headers.ts';
import { tokenChar } from '../../../../lib/proxy/token.ts';
import { isIdentityAlias, scanRequestHeaders } from '../../../../lib/request-fields.ts';

const flat = (...lines: readonly string[]): string[] =>
  lines.flatMap((line) => {
    const colon = line.indexOf(': ');
    return [line.slice(0, colon), line.slice(colon + 2)];
  });

t.test('request headers', async (t) => {
  const rows: readonly (readonly [name: string, given: string[], forward: string[]])[] = [
    ['nothing', [], []],
    ['end-to-end fields in their order and case', flat('B: 1', 'a: 2', 'B: 3'), flat('B: 1', 'a: 2', 'B: 3')],
    ['Host is given apart', flat('hOsT: a', 'X: 1'), flat('X: 1')],
    [
      'fields of the connection',
      flat(
        'Connection: close',
        'Keep-Alive: timeout=5',
        'Proxy-Connection: close',
        'Upgrade: x',
        'HTTP2-Settings: A',
        'X: 1',
      ),
      flat('X: 1'),
    ],
    ['fields that Connection names', flat('X-Secret: 1', 'Connection: x-secret, close', 'X: 1'), flat('X: 1')],
    ['fields that several Connections name', flat('Connection: a', 'A: 1', 'B: 2', 'Connection: ,b,'), []],
    [
      'framing and routing that Connection names',
      flat('Connection: host, content-length, te, trailer', 'Host: a', 'Content-Length: 5', 'Trailer: X'),
      flat('Content-Length: 5', 'Trailer: X'),
    ],
    [
      'an identity',
      flat('l5d-client-id: admin', 'L5D_CLIENT_ID: admin', 'l5d.client-id: admin', 'l5d-client-id2: kept'),
      flat('l5d-client-id2: kept'),
    ],
    ['a promise of an identity', flat('Trailer: l5d-client-id', 'X: 1'), flat('X: 1')],
    ['other promises beside one', flat('Trailer: X-A, L5D_Client_Id,X-B'), flat('Trailer: X-A,X-B')],
    ['promises', flat('Trailer: X-A , ,X-B'), flat('Trailer: X-A , ,X-B')],
    ['TE', flat('TE: gzip', 'TE: trailers, deflate'), []],
    ['TE for trailers', flat('TE: Trailers'), flat('TE: Trailers')],
    ['an expectation, answered here', flat('Expect: 100-continue'), []],
    ['chunked, which is the next connection’s to choose', flat('Transfer-Encoding: Chunked'), []],
    ['names of objects', flat('__proto__: 1', 'constructor: 2'), flat('__proto__: 1', 'constructor: 2')],
  ];
  for (const [name, given, forward] of rows) {
    const head = scanRequestHeaders(given);
    t.same(head.forward, forward, name);
    t.equal(head.fault, null, name);
  }
  t.match(scanRequestHeaders(flat('Host: a', 'Upgrade: x', 'upgrade: y', 'User-Agent: u', 'Content-Length: 7')), {
    host: 'a',
    upgrade: 'x, y',
    contentLength: '7',
  });
  t.match(scanRequestHeaders([]), { host: null, upgrade: null, contentLength: null });
});

t.test('request headers that are refused', async (t) => {
  const rows: readonly (readonly [name: string, given: string[], fault: RegExp])[] = [
    ['two Hosts', flat('Host: a', 'Host: a'), /more than one Host/],
    ['another coding', flat('Transfer-Encoding: gzip'), /transfer coding/],
    ['a list of codings', flat('Transfer-Encoding: gzip, chunked'), /transfer coding/],
    ['chunked twice', flat('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'), /transfer coding/],
    ['both lengths', flat('Transfer-Encoding: chunked', 'Content-Length: 5'), /both/],
    ['both lengths, the other way round', flat('Content-Length: 5', 'Transfer-Encoding: chunked'), /both/],
    ['a length that no number holds', flat('Content-Length: 9007199254740993'), /too large/],
    ['another expectation', flat('Expect: 200-ok'), /expectation/],
  ];
  for (const [name, given, fault] of rows) t.match(scanRequestHeaders(given).fault, fault, name);
  t.equal(scanRequestHeaders(flat('Content-Length: 9007199254740991')).fault, null, 'the longest length');
});

t.test('response headers', async (t) => {
  const rows: readonly (readonly [name: string, given: (string | Buffer)[], forward: string[]])[] = [
    [
      'end-to-end fields',
      flat('Set-Cookie: a', 'set-cookie: b', 'Trailer: X'),
      flat('Set-Cookie: a', 'set-cookie: b', 'Trailer: X'),
    ],
    [
      'fields of the connection',
      flat('Connection: close, x', 'X: 1', 'Keep-Alive: timeout=5', 'Transfer-Encoding: chunked', 'Y: 2'),
      flat('Y: 2'),
    ],
    ['bytes', [Buffer.from('X'), Buffer.from([0xe9])], ['X', 'é']],
    [
      'lengths that Connection names',
      flat('Connection: content-length', 'Content-Length: 5'),
      flat('Content-Length: 5'),
    ],
  ];
  for (const [name, given, forward] of rows) t.same(scanResponseHeaders(given), forward, name);
});

t.test('spellings of the identity header', async (t) => {
  // What CGI makes of a field's name; some servers keep `-` and `_` apart from the rest, and lighttpd does not.
  const cgi = (name: string): string => name.toUpperCase().replace(/[^A-Z0-9]/g, '_');
  const tokens = [...tokenChar.entries()].filter(([, member]) => member === 1).map(([at]) => String.fromCharCode(at));
  t.equal(tokens.length, 77);
  let aliases = 0;
  for (const a of tokens) {
    for (const b of tokens) {
      for (const name of [`l5d${a}client${b}id`, `${a}5d-client${b}id`, `l5d-clien${a}-i${b}`, `l${a}d${b}client-id`]) {
        const lower = name.toLowerCase();
        const folds = cgi(lower) === 'L5D_CLIENT_ID';
        if (folds) aliases++;
        if (isIdentityAlias(lower) !== folds) t.fail(name);
        const scanned = scanRequestHeaders([name, 'root', 'X', '1']);
        if (scanned.forward.length !== (folds ? 2 : 4)) t.fail(`${name} is scanned otherwise`);
      }
    }
  }
  t.ok(aliases > 15 * 15, `${aliases} spellings`);
  for (const name of ['l5d-client-i', 'l5d-client-idd', 'xl5d-client-id', 'l5dclientid', 'l5d-proxy-error', '']) {
    t.notOk(isIdentityAlias(name), name);
  }
});

t.test('header changes of a route', async (t) => {
  const changes = (change: Partial<HeaderChanges>): HeaderChanges => ({ add: [], set: [], remove: [], ...change });
  const given = flat('Host: a', 'X: 1', 'x: 2', 'Content-Length: 5', 'l5d-client-id: web');
  const rows: readonly (readonly [name: string, changes: Partial<HeaderChanges>, result: string[]])[] = [
    ['none', {}, given],
    ['add beside what is there', { add: [['x', '3']] }, [...given, 'x', '3']],
    [
      'set in place of all that is there',
      { set: [['x', '3']] },
      flat('Host: a', 'Content-Length: 5', 'l5d-client-id: web', 'x: 3'),
    ],
    ['set what is not there', { set: [['y', '3']] }, [...given, 'y', '3']],
    ['remove', { remove: ['x', 'z'] }, flat('Host: a', 'Content-Length: 5', 'l5d-client-id: web')],
    ['add, then set', { add: [['y', '1']], set: [['y', '2']] }, [...given, 'y', '2']],
    ['set, then remove', { set: [['y', '1']], remove: ['y'] }, given],
    ['set Host', { set: [['host', 'b']] }, flat('X: 1', 'x: 2', 'Content-Length: 5', 'l5d-client-id: web', 'host: b')],
    ['never remove Host', { remove: ['host'] }, given],
    [
      'never framing, connection or identity',
      {
        add: [
          ['l5d-client-id', 'admin'],
          ['transfer-encoding', 'chunked'],
          ['upgrade', 'x'],
        ],
        set: [
          ['content-length', '9'],
          ['connection', 'close'],
          ['te', 'x'],
          ['trailer', 'x'],
          ['l5d-client-id', 'admin'],
        ],
        remove: ['content-length', 'l5d-client-id', 'keep-alive'],
      },
      given,
    ],
  ];
  for (const [name, change, result] of rows) {
    const before = [...given];
    t.same(applyHeaderChanges(before, changes(change)), result, name);
    t.same(before, given, `${name}: what was given is not changed`);
  }
});

t.test('look-ups', async (t) => {
  const list = flat('A: 1', 'a: 2', 'B: 3');
  t.equal(headerValue(list, 'a'), '1');
  t.equal(headerValue(list, 'c'), null);
  t.same(headerValues(list, 'a'), ['1', '2']);
  t.same(headerValues(list, 'c'), []);
  t.same(without(list, 'a'), flat('B: 3'));
  t.equal(without(list, 'c'), list, 'untouched');
});

t.test('Connection is short, for each name in it costs time before anything is decided', async (t) => {
  const names = Array.from({ length: 20_000 }, (_, i) => i.toString(36)).join(',');
  const rows: readonly (readonly [given: string[], fault: string | null])[] = [
    [['Connection', 'x-a,'.repeat(256)], null],
    [['Connection', `${'x-a,'.repeat(256)},`], 'Connection too long'],
    [['Connection', names], 'Connection too long'],
    [['Connection', ','.repeat(60_000)], 'Connection too long'],
    [Array.from({ length: 998 }, (_, i) => ['Connection', `x-${i}`]).flat(), 'Connection too long'],
  ];
  for (const [given, fault] of rows) t.equal(scanRequestHeaders(given).fault, fault);
});
