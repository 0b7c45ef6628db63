import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { workloadCertificate } from './certificates.ts';
import { tied } from './children.ts';
import { faultsOf, type Http1Case, type Observation } from './http1-cases.ts';
import { growth, parseExposition } from './metrics.ts';
import { latin1, parseResponses, RawClient } from './raw-http.ts';
import { startRecorder } from './recorder-app.ts';
import { lenientParser, type RecordedRequest, strictParser } from './request-parsers.ts';
import { checkout } from './sallyport.ts';
import { startScriptedApp } from './scripted-app.ts';
import { until } from './until.ts';
import { startDriver } from './wire-driver.ts';

// The checks of the end-to-end tests must fail when they should: these rows show that they do.

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';

t.test('the response parser is strict', async (t) => {
  const rows: [string, string, string[], RegExp | null, number][] = [
    ['one', ok, ['GET'], null, 1],
    ['two, pipelined', ok + ok, ['GET', 'GET'], null, 2],
    ['interim first', `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok}`, ['GET'], null, 2],
    ['HEAD with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n', ['HEAD'], null, 1],
    ['a HEAD that got a body', 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON', ['HEAD'], /bare|incomplete/, 1],
    ['chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n', ['GET'], null, 1],
    ['bare LF', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n', ['GET'], /LF alone/, 0],
    ['bare CR', 'HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n', ['GET'], /CR, LF or NUL/, 0],
    [
      'two lengths',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nhello',
      ['GET'],
      /Content-Length/,
      0,
    ],
    [
      'length and chunked',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      ['GET'],
      /and Transfer-Encoding/,
      0,
    ],
    ['a 204 with a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n', ['GET'], /declares a body/, 0],
    ['garbage behind', `${ok}POISON\r\n`, ['GET'], /not a status line/, 1],
  ];
  for (const [name, bytes, methods, fault, count] of rows) {
    const stream = parseResponses(latin1(bytes), methods, false);
    t.equal(stream.responses.length, count, `${name}: ${count} responses`);
    if (fault === null) t.same([stream.fault, stream.incomplete], [null, false], name);
    else t.match(stream.fault ?? (stream.incomplete ? 'incomplete' : 'no fault'), fault, name);
  }
  const cut = parseResponses(latin1('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel'), ['GET'], true);
  t.ok(cut.incomplete, 'a cut chunk is incomplete even when the connection has ended');
});

t.test('the strict recorder refuses what the lenient one takes the wrong way', async (t) => {
  const rows: [string, string, string][] = [
    [
      'CL.TE',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
      '5\r\nh',
    ],
    ['bare LF', 'POST / HTTP/1.1\nHost: a\nContent-Length: 2\n\nhi', 'hi'],
    ['bare CR', 'POST / HTTP/1.1\r\nHost: a\rContent-Length: 2\r\n\r\nhi', 'hi'],
    ['Content-Length with a letter', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2x\r\n\r\nhi', 'hi'],
    ['0x chunk', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n', 'hi'],
    ['space before colon', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 2\r\n\r\nhi', 'hi'],
  ];
  for (const [name, bytes, body] of rows) {
    t.equal(strictParser(latin1(bytes)).kind, 'malformed', `${name}: strict`);
    const lenient = lenientParser(latin1(bytes));
    t.equal(lenient.kind === 'complete' && lenient.request.body.toString(), body, `${name}: lenient`);
  }
  const good = latin1(
    'POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;e=1\r\nhi\r\n0\r\nT: 1\r\n\r\nGET',
  );
  for (const [name, parse] of [
    ['strict', strictParser],
    ['lenient', lenientParser],
  ] as const) {
    const progress = parse(good);
    t.match(
      progress,
      { kind: 'complete', end: good.length - 3, request: { target: '/x', trailers: [['T', '1']] } },
      name,
    );
    t.equal(parse(good.subarray(0, -6)).kind, 'begun', `${name}: incomplete`);
  }
});

t.test('a recorder tells completed from aborted', async (t) => {
  const recorder = await startRecorder(t, 'strict');
  const mark = recorder.mark();
  const client = await RawClient.open({ port: recorder.port });
  await client.sendByteByByte(
    latin1('GET /a HTTP/1.1\r\nHost: a\r\n\r\nPOST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhi'),
  );
  await client.responses(['GET']);
  t.same(
    recorder.requestsSince(mark).map(({ target }) => target),
    ['/a'],
  );
  await t.rejects(recorder.settled(50), /completed or aborted/, 'a message under way is not settled');
  client.halfClose();
  client.destroy();
  await recorder.settled();
  t.equal(recorder.abortedSince(mark), 1);
});

const request = (target: string, headers: [string, string][] = [['Host', 'a.example']]): RecordedRequest => ({
  method: 'GET',
  target,
  version: 'HTTP/1.1',
  headers,
  body: Buffer.alloc(0),
  trailers: [],
});

t.test('an outcome that a case does not permit is named', async (t) => {
  const reject: Http1Case = {
    id: 'X1',
    title: '',
    bytes: 'GET / HTTP/1.1\r\nHost: a.example\r\n\r\n',
    expect: 'reject-400',
  };
  const forward: Http1Case = {
    ...reject,
    id: 'X2',
    expect: 'forward-one-request',
    upstream: { forbid_headers: ['x-secret'] },
  };
  const answer = (text: string): Observation['responses'] =>
    parseResponses(latin1(text), ['GET', 'GET'], true).responses;
  const refused: Observation = {
    responses: answer('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'),
    responseFault: null,
    closedByProxy: true,
    ended: true,
    stalled: false,
    completed: [],
    malformed: [],
    upstreamBytes: Buffer.alloc(0),
  };
  const served: Observation = { ...refused, responses: answer(ok), closedByProxy: false, completed: [request('/')] };
  const silent: Observation = { ...refused, responses: [] };
  const notHttp: Http1Case = { ...reject, bytes: 'GET / HTTP/2.0\r\nHost: a.example\r\n\r\n' };
  const rows: [string, Http1Case, Observation, boolean, RegExp | null][] = [
    ['refused as expected', reject, refused, false, null],
    ['served as expected', forward, served, false, null],
    ['served instead of refused', reject, served, false, /not reject-400/],
    ['refused, but also served', reject, { ...refused, completed: [request('/')] }, false, /reached the upstream/],
    ['refused, but kept open', reject, { ...refused, closedByProxy: false }, false, /did not close/],
    ['refused instead of served', forward, refused, false, /not forward-one-request/],
    ['served twice', forward, { ...served, completed: [request('/'), request('/')] }, false, /2 requests/],
    ['answered twice', forward, { ...served, responses: answer(ok + ok) }, false, /answers 200,200/],
    ['another target', forward, { ...served, completed: [request('/x')] }, false, /forwarded as GET \/x/],
    ['another Host', forward, { ...served, completed: [request('/', [['Host', 'b']])] }, false, /Host b/],
    ['smuggled', forward, { ...served, completed: [request('/SMUGGLED')] }, false, /received \/SMUGGLED/],
    [
      'a per-hop field',
      forward,
      {
        ...served,
        completed: [
          request('/', [
            ['Host', 'a.example'],
            ['X-Secret', '1'],
          ]),
        ],
      },
      false,
      /x-secret/,
    ],
    ['malformed upstream', forward, { ...served, malformed: ['x'] }, false, /malformed upstream/],
    ['hang', forward, { ...served, ended: false }, false, /never ended/],
    ['stall', forward, { ...served, stalled: true }, false, /gave up/],
    ['not HTTP, declared', notHttp, silent, false, /not reject-400/],
    ['not HTTP, detected', notHttp, silent, true, null],
    ['HTTP, detected', reject, silent, true, /not reject-400/],
    ['an unknown forbid', { ...forward, upstream: { forbid: 'the moon' } }, served, false, /no check is written/],
  ];
  for (const [name, http1Case, seen, detected, fault] of rows) {
    const faults = faultsOf(http1Case, seen, detected).join('; ');
    if (fault === null) t.equal(faults, '', name);
    else t.match(faults, fault, name);
  }
});

t.test('metrics', async (t) => {
  const before = parseExposition('# TYPE a counter\na_total{x="1",y="q\\"\\n"} 2\na_total{x="2"} 1 1700000000000\n');
  const after = parseExposition('a_total{x="1",y="q\\"\\n"} 5\na_total{x="2"} 1\nb_bucket{le="+Inf"} 3\n');
  t.equal(growth(before, after, 'a_total'), 3);
  t.equal(growth(before, after, 'a_total', { x: '2' }), 0);
  t.equal(growth(before, after, 'a_total', { y: 'q"\n' }), 3);
  t.equal(growth(before, after, 'b_bucket', { le: '+Inf' }), 3);
  t.throws(() => parseExposition('a b c\n'), /not a sample/);
  t.throws(() => parseExposition('a{x="1",x="2"} 1\n'), /label x twice/);
  t.throws(() => parseExposition('a{x="1} 1\n'));
});

t.test('the wire agent tells answers, echoes and endings apart', async (t) => {
  const driver = await startDriver(t);
  const certificate = workloadCertificate('web', 'shop');
  const port = await driver.startApp({ tls: { cert: certificate.certificatePem, key: certificate.keyPem } });
  const to = { host: '127.0.0.1', localAddress: '127.0.0.1', port, path: '/a?b', authority: 'web:80' };
  for (const proto of ['http/1.1', 'http/2'] as const) {
    const result = await driver.exchange({ ...to, proto, headers: [['x-a', '1']] }, proto);
    t.match(result, { kind: 'http', status: 200, bodiless: false }, proto);
    t.match(result.kind === 'http' && JSON.parse(result.body), { url: '/a?b', method: 'GET', headers: { 'x-a': '1' } });
    t.match(await driver.exchange({ ...to, proto }, proto), { status: 200 }, `${proto}: again on the same connection`);
  }
  t.match(await driver.exchange({ ...to, proto: 'grpc' }), {
    kind: 'http',
    status: 200,
    grpcStatus: '0',
    bodiless: false,
  });
  t.match(await driver.exchange({ ...to, proto: 'tcp', payload: 'hello\n' }), { kind: 'echo', text: 'hello\n' });
  const tls = { servername: 'db.example.com', ca: certificate.trustAnchorsPem };
  t.match(await driver.exchange({ ...to, tls, proto: 'tcp', payload: 'hello\n' }), { kind: 'echo' }, 'inside TLS');
  t.match(await driver.burst({ ...to, proto: 'http/1.1' }, 3), { statuses: [200, 200, 200] });
  t.same((await driver.counts())[port], { connections: 8, requests: 8 });
  const mute = await startScriptedApp(t, Buffer.alloc(0), true);
  const closing = { ...to, port: mute.port };
  t.match(
    await driver.exchange({ ...closing, proto: 'http/1.1' }),
    { kind: 'closed', text: '' },
    'closed without a byte',
  );
  await t.rejects(driver.exchange({ ...to, tls: { ...tls, ca: '' }, proto: 'tcp', payload: 'x' }), /certificate/);
});

/** Whether the process runs; one that ended and that nobody has asked about yet does not. */
function runs(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

t.test('no child outlives its test', { skip: process.platform === 'linux' ? false : 'needs /proc' }, async (t) => {
  const program = `
    import { startChild } from ${JSON.stringify(join(import.meta.dirname, 'children.ts'))};
    import { readFileSync } from 'node:fs';
    import { until } from ${JSON.stringify(join(import.meta.dirname, 'until.ts'))};
    const child = await startChild({ teardown() {} }, 'sleep', ['600']);
    // It is tied by a program that runs before it.
    await until('the child itself', () => readFileSync('/proc/' + child.pid + '/comm', 'utf8') === 'sleep\\n');
    console.log(child.pid);
    const ends = { returns: () => process.exit(0), throws: () => { throw new Error('an assertion, past every teardown'); } };
    ends[process.argv[1]]?.();
    setInterval(() => {}, 1000);`;
  for (const how of ['returns', 'throws', 'SIGTERM', 'SIGKILL'] as const) {
    const command = tied(process.execPath, ['--input-type=module', '-e', program, how]);
    const test = spawn(...command, { stdio: ['ignore', 'pipe', 'ignore'] });
    const exited = once(test, 'exit');
    const [line] = await once(test.stdout, 'data');
    const pid = Number(String(line));
    t.ok(pid > 0, `${how}: the child is there`);
    if (how === 'SIGTERM' || how === 'SIGKILL') test.kill(how);
    await exited;
    await until(`${how}: the end of the child`, () => !runs(pid));
  }

  const files = readdirSync(join(checkout, 'test'), { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => name.endsWith('.ts'))) {
    const source = readFileSync(join(checkout, 'test', file), 'utf8');
    t.notMatch(source, /\b(?:spawn|fork)\((?!\.\.\.)/, `${file} ties what it starts: spawn(...tied(…))`);
  }
});

t.test('test:shared runs every test that reads the shared cases', async (t) => {
  const sources = new Map(
    readdirSync(join(checkout, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => [join('test', name), readFileSync(join(checkout, 'test', name), 'utf8')]),
  );
  const reads = (file: string, seen = new Set<string>()): boolean => {
    const source = sources.get(file);
    if (source === undefined || seen.has(file)) return false;
    seen.add(file);
    if (/process\.env\.SALLYPORT_SHARED \?\?/.test(source)) return true;
    const imported = [...source.matchAll(/(?:from|import) '(\.[^']+)'/g)].map(([, path]) => path ?? '');
    return imported.some((path) => reads(join(file, '..', path), seen));
  };
  const { scripts } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const listed = (scripts['test:shared'] ?? '').split(' ').slice(1);
  const runs = (file: string): boolean => listed.some((each) => file === each || file.startsWith(`${each}/`));
  const reading = [...sources.keys()].filter(
    (file) => file.endsWith('.test.ts') && file !== 'test/support/harness.test.ts' && reads(file),
  );
  t.ok(reading.length > 5, `${reading.length} read them`);
  t.same(
    reading.filter((file) => !runs(file)),
    [],
  );
});
