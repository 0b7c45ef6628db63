import t, { type Test } from 'tap';
import { type Fields, http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startWitness, type Witness } from '../../support/witness.ts';

/*
 * HTTP/2 carries names and values with lengths, HTTP/1 with line ends. What would end a line, a name or a message there
 * must not get across (GHSA-847f-9342-265h): the stream is reset (RFC 9113 8.2.1). `l5d-orig-proto`
 * is how a client has its request turned into HTTP/1; on the same way without it the bytes go into HTTP/2 again, and the
 * outcome must be the same.
 */
interface Row {
  readonly title: string;
  readonly fields: Fields;
  readonly outcome: 'reset' | '405';
}

const smuggled = ' HTTP/1.1\r\nHost: web\r\n\r\nGET /SMUGGLED';

/** Fields added to a sound request. */
const added: readonly Row[] = [
  { title: 'CR LF in a value', fields: [['x', 'a\r\nl5d-client-id: admin']], outcome: 'reset' },
  { title: 'LF in a value', fields: [['x', 'a\ny: b']], outcome: 'reset' },
  { title: 'CR in a value', fields: [['x', 'a\ry: b']], outcome: 'reset' },
  { title: 'NUL in a value', fields: [['x', 'a\0b']], outcome: 'reset' },
  { title: 'DEL in a value', fields: [['x', 'a\x7fb']], outcome: 'reset' },
  {
    title: 'a whole request in a value',
    fields: [['x', `a\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: web\r\n\r\n`]],
    outcome: 'reset',
  },
  { title: 'space before a value', fields: [['x', ' a']], outcome: 'reset' },
  { title: 'tab after a value', fields: [['x', 'a\t']], outcome: 'reset' },
  { title: 'CR LF in a name', fields: [['x\r\ny', 'a']], outcome: 'reset' },
  { title: 'NUL in a name', fields: [['x\0y', 'a']], outcome: 'reset' },
  { title: 'colon in a name', fields: [['x:y', 'a']], outcome: 'reset' },
  { title: 'colon at the end of a name', fields: [['l5d-client-id:', 'admin']], outcome: 'reset' },
  { title: 'space in a name', fields: [['x y', 'a']], outcome: 'reset' },
  { title: 'space after a name', fields: [['l5d-client-id ', 'admin']], outcome: 'reset' },
  { title: 'capitals in a name', fields: [['X-Y', 'a']], outcome: 'reset' },
  { title: 'bytes beyond ASCII in a name', fields: [['x\xe9', 'a']], outcome: 'reset' },
  { title: 'an empty name', fields: [['', 'a']], outcome: 'reset' },
  { title: 'Transfer-Encoding', fields: [['transfer-encoding', 'chunked']], outcome: 'reset' },
  { title: 'Connection', fields: [['connection', 'close']], outcome: 'reset' },
  { title: 'Upgrade', fields: [['upgrade', 'websocket']], outcome: 'reset' },
  { title: 'Keep-Alive', fields: [['keep-alive', 'timeout=5']], outcome: 'reset' },
  { title: 'TE other than trailers', fields: [['te', 'chunked']], outcome: 'reset' },
  { title: 'Content-Length that is none', fields: [['content-length', '+5']], outcome: 'reset' },
  {
    title: 'two Content-Lengths',
    fields: [
      ['content-length', '0'],
      ['content-length', '5'],
    ],
    outcome: 'reset',
  },
  { title: 'a length without a body', fields: [['content-length', '5']], outcome: 'reset' },
  { title: 'an unknown pseudo-header', fields: [[':x', 'a']], outcome: 'reset' },
  { title: 'a pseudo-header of responses', fields: [[':status', '200']], outcome: 'reset' },
  {
    title: 'a pseudo-header after a field',
    fields: [
      ['x', 'a'],
      [':path', '/other'],
    ],
    outcome: 'reset',
  },
  { title: 'extended CONNECT, which was not offered', fields: [[':protocol', 'websocket']], outcome: 'reset' },
];

const sound = requestFields('/');
const without = (name: string): Fields => sound.filter(([field]) => field !== name);

/** Whole header blocks. */
const blocks: readonly Row[] = [
  { title: 'a line end in :path', fields: requestFields(`/${smuggled}`), outcome: 'reset' },
  { title: 'a space in :path', fields: requestFields('/a b'), outcome: 'reset' },
  { title: 'NUL in :path', fields: requestFields('/a\0'), outcome: 'reset' },
  { title: 'an empty :path', fields: requestFields(''), outcome: 'reset' },
  { title: 'a line end in :method', fields: requestFields('/', [], `GET /${smuggled}`), outcome: 'reset' },
  { title: 'a space in :method', fields: requestFields('/', [], 'GET /x'), outcome: 'reset' },
  { title: 'an empty :method', fields: requestFields('/', [], ''), outcome: 'reset' },
  { title: 'a line end in :authority', fields: requestFields('/', [], 'GET', 'web\r\nx: y'), outcome: 'reset' },
  { title: 'a slash in :authority', fields: requestFields('/', [], 'GET', 'web/x'), outcome: 'reset' },
  {
    title: 'a line end in :scheme',
    fields: [...without(':scheme'), [':scheme', `http://x/${smuggled}`]],
    outcome: 'reset',
  },
  { title: 'no :path', fields: without(':path'), outcome: 'reset' },
  { title: 'no :method', fields: without(':method'), outcome: 'reset' },
  { title: 'no :scheme', fields: without(':scheme'), outcome: 'reset' },
  { title: 'two :path', fields: [...sound, [':path', '/other']], outcome: 'reset' },
  { title: 'two :method', fields: [...sound, [':method', 'POST']], outcome: 'reset' },
  // CVE-2026-73547: a CONNECT has no path that could be judged.
  {
    title: 'CONNECT',
    fields: [
      [':method', 'CONNECT'],
      [':authority', 'web:80'],
    ],
    outcome: '405',
  },
  { title: 'CONNECT with a path', fields: requestFields('/', [], 'CONNECT'), outcome: 'reset' },
];

t.setTimeout(900_000);

t.test('what must not get across', async (t) => {
  const port = await freePort();
  const app = await startWitness(t);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(t.testdir(), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
    },
  });
  await t.test('into HTTP/2', (t) => run(t, port, app, []));
  await t.test('into HTTP/1', (t) => run(t, port, app, [['l5d-orig-proto', 'HTTP/1.1']]));
  t.match(await sallyport.stop(), { code: 0 }, 'the proxy is well');
});

async function run(t: Test, port: number, app: Witness, marker: Fields): Promise<void> {
  t.equal(await http2Outcome(port, [...sound, ...marker]), '200');
  const before = app.requests.length;
  for (const { title, fields, outcome } of added) {
    t.equal(await http2Outcome(port, [...sound, ...marker, ...fields]), outcome, title);
  }
  for (const { title, fields, outcome } of blocks) {
    t.equal(await http2Outcome(port, [...fields, ...marker]), outcome, title);
  }
  t.same(app.requests.slice(before), [], 'nothing of the rest reached the app');
  const honest: Fields = [
    ['x', '\tinner \xff bytes'.trim()],
    ['te', 'trailers'],
    ['x', 'again'],
  ];
  t.equal(await http2Outcome(port, [...sound, ...marker, ...honest]), '200', 'an honest request');
  t.equal(app.requests.length, before + 1);
  t.same(
    app.requests.at(-1)?.headers.filter(([name]) => name.toLowerCase() === 'x'),
    [
      ['x', 'inner \xff bytes'],
      ['x', 'again'],
    ],
  );
  t.same(app.malformed, []);
}
