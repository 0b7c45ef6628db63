import t from 'tap';
import type { AccessRecord } from '../../../lib/proxy/recorder.ts';
import { createAccessLog } from '../../../lib/telemetry/access-log.ts';
import { facts, mesh } from './fixtures.ts';

const record: AccessRecord = {
  host: 'web:7000',
  method: 'GET',
  uri: 'http://web:7000/',
  version: 'HTTP/2.0',
  status: 200,
  userAgent: 'curl/8',
  traceId: 'abc',
  requestBytes: '12',
  responseBytes: '34',
  totalMs: 1.5,
  processingMs: 0.25,
};
const answeredAt = Date.parse('2026-11-20T14:00:00.000Z') + 1.75;

function line(format: 'apache' | 'json', over: Partial<AccessRecord> = {}, from = facts()): string {
  const lines: string[] = [];
  const log = createAccessLog({ format, destination: { write: (text) => lines.push(text) }, now: () => answeredAt });
  log(from, { ...record, ...over });
  const [only, ...more] = lines;
  if (only === undefined || more.length > 0) throw new Error(`one line a request, not ${lines.length}`);
  return only;
}

t.test('apache', async (t) => {
  const time = '[2026-11-20T14:00:00.000250000Z]';
  const rows: [string, string, string][] = [
    [
      'with identity',
      line('apache', {}, facts({ tls: mesh('web.ns') })),
      `10.1.2.3:51160 web.ns - ${time} "GET http://web:7000/ HTTP/2.0" 200\n`,
    ],
    ['without', line('apache', { status: 403 }), `10.1.2.3:51160 - - ${time} "GET http://web:7000/ HTTP/2.0" 403\n`],
    ['IPv6', line('apache', {}, facts({ ip: '::1' })), `[::1]:51160 - - ${time} "GET http://web:7000/ HTTP/2.0" 200\n`],
    [
      'hostile',
      line('apache', { uri: '/a" 200\n\u2028\u061c\u200b\x9b\ud800', method: 'G\r' }),
      `10.1.2.3:51160 - - ${time} "G\\r /a\\" 200\\n\\u2028\\u061c\\u200b\\u009b\\ud800 HTTP/2.0" 200\n`,
    ],
  ];
  for (const [what, got, want] of rows) t.equal(got, want, what);
});

t.test('json has Linkerd’s fields, in order, and what deciding again takes', async (t) => {
  const fields = {
    'client.addr': '10.1.2.3:51160',
    'client.id': 'web.ns',
    host: 'web:7000',
    method: 'GET',
    port: 8080,
    processing_ns: '250000',
    request_bytes: '12',
    response_bytes: '34',
    status: 200,
    timestamp: '2026-11-20T14:00:00.000250000Z',
    tls: 'identity',
    total_ns: '1500000',
    trace_id: 'abc',
    uri: 'http://web:7000/',
    user_agent: 'curl/8',
    version: 'HTTP/2.0',
  };
  t.equal(line('json', {}, facts({ tls: mesh('web.ns') })), `${JSON.stringify(fields)}\n`);
  const bare = JSON.parse(line('json', { requestBytes: '', responseBytes: '', traceId: '', userAgent: '' }));
  t.notOk('response_bytes' in bare, 'absent where the response declares no length');
  t.match(bare, { 'client.id': '', request_bytes: '', trace_id: '', user_agent: '' });
});

t.test('json keeps hostile text inside one line', async (t) => {
  const text = '\r\n\u2028"\\\x7f\ud800';
  const got = line('json', { uri: text, userAgent: text, host: text, traceId: text, method: text, requestBytes: text });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not occur
  t.notMatch(got.slice(0, -1), /[\u0000-\u001f\u007f\u2028]/);
  t.match(JSON.parse(got), {
    uri: text,
    user_agent: text,
    host: text,
    trace_id: text,
    method: text,
    request_bytes: text,
  });
});

t.test('long texts are cut', async (t) => {
  const got = JSON.parse(line('json', { uri: 'u'.repeat(99_999), userAgent: 'a'.repeat(99_999) }));
  t.equal(got.uri, `${'u'.repeat(8192)}…(+91807 bytes)`);
  t.equal(got.user_agent, `${'a'.repeat(1024)}…(+98975 bytes)`);
});
