import { gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { type BadPlace, type ReadTally, readRecords } from '../../../lib/records/read.ts';
import type { DecisionRecord, Occurrence } from '../../../lib/records/record.ts';
import { clip } from '../../../lib/telemetry/line-bounds.ts';

/** The one reader of logs: what it takes, what it says of the rest, and that it holds nothing but what it must. */

interface Read {
  readonly records: (readonly [DecisionRecord, Occurrence])[];
  readonly bad: BadPlace[];
  readonly tally: ReadTally;
}

async function read(input: string | Buffer, chunk = 64 * 1024): Promise<Read> {
  const records: [DecisionRecord, Occurrence][] = [];
  const bad: BadPlace[] = [];
  async function* bytes(): AsyncGenerator<Uint8Array> {
    const all = Buffer.from(input as string);
    for (let i = 0; i < all.length; i += chunk) yield all.subarray(i, i + chunk);
  }
  const tally = await readRecords([{ name: 'log', bytes: bytes() }], {
    record: (record, occurrence) => void records.push([record, occurrence]),
    bad: (each) => void bad.push(each),
  });
  return { records, bad, tally };
}

const time = '2026-11-20T14:00:00.000Z';
const request = '"port":8080,"client":"10.1.2.3","protocol":"http1","method":"GET","path":"/a"';
const recorded = `{"decision":1,"time":"${time}",${request},"verdict":"permit"}`;
const web = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
const logged = (fields: object): string =>
  JSON.stringify({
    ...{ level: 'info', time, server: web, client: { ip: '10.1.2.3', port: 5, id: null }, tls: 'no_identity' },
    ...{ no_tls_reason: 'no_tls_from_remote', target: { ip: '10.0.0.1', port: 8080 }, ...fields },
  });
const denied = { method: 'GET', path: '/a', host: 'web', version: 'HTTP/1.1', msg: 'Request denied', reason: 'no' };

t.test('lines of every kind', async (t) => {
  const rows: readonly (readonly [line: string, record: object, occurrence?: object])[] = [
    [recorded, { form: 'record', question: { port: 8080, client: '10.1.2.3' }, decided: { verdict: 'permit' } }],
    [recorded, { omits: ['headers'] }, { count: 1, first: time, last: time, file: 'log', line: 1 }],
    [
      `{"decision":1,"time":"b","first":"a","count":7,${request},"omits":["query"],"verdict":"deny"}`,
      { omits: ['query', 'headers'] },
      { count: 7, first: 'a', last: 'b' },
    ],
    [
      '{"decision":1,"port":8080,"client":"::1","tls":"passthrough","protocol":"tcp","declared":"detect","verdict":"deny"}',
      { question: { protocol: 'tcp', declared: 'detect', tls: 'passthrough' }, omits: [] },
      { first: null },
    ],
    [
      logged(denied),
      {
        form: 'log',
        question: { port: 8080, client: '10.1.2.3', tls: 'none', protocol: 'http1', path: '/a', host: 'web' },
        omits: ['query', 'headers', 'carries'],
        decided: { verdict: 'deny', server: web, reason: 'no' },
      },
      { first: time },
    ],
    [
      logged({ ...denied, msg: 'Request terminated due to policy change', verdict: 'no-route' }),
      { question: { path: '/a' }, decided: { verdict: 'no-route', reason: 'no' } },
    ],
    [logged({ ...denied, path: '/\xc3\xa9' }), { question: { path: '/é' } }],
    [logged({ ...denied, path: '/\xe9' }), { question: { path: '/\udce9' } }],
    [logged({ ...denied, version: 'HTTP/2.0', protocol: 'grpc' }), { question: { protocol: 'grpc' } }],
    [logged({ msg: 'Connection denied' }), { question: { protocol: 'tcp' }, omits: [] }],
    [logged({ msg: 'Connection denied', port_protocol: 'tls' }), { question: { declared: 'tls' } }],
    [logged({ msg: 'Connection denied', no_tls_reason: 'port_skipped' }), { question: { declared: 'opaque' } }],
    [logged({ msg: 'Connection refused', policies: [] }), { question: { protocol: 'accept' } }],
    [logged({ ...denied, msg: 'Request allowed' }), { decided: { verdict: 'permit', audit: true } }],
    [
      `${time} DEBUG Request allowed server=policy.linkerd.io/server/web client.ip=10.1.2.3 tls=true target.port=8080 method=GET path="/a b" version=HTTP/1.1`,
      {
        form: 'log',
        question: { tls: 'anonymous', path: '/a b' },
        decided: { verdict: 'permit', audit: false, server: web },
      },
    ],
    [
      `{"client.addr":"10.1.2.3:5","client.id":"a.b","host":"web","method":"GET","uri":"/a?b","version":"HTTP/1.1","status":403,"timestamp":"${time}"}`,
      {
        form: 'access',
        question: { client: '10.1.2.3', identity: 'a.b', path: '/a?b' },
        omits: ['headers', 'carries'],
        decided: null,
      },
      { first: time },
    ],
    [
      '{"client.addr":"[::1]:5","client.id":"","port":8080,"tls":"none","host":"","method":"GET","uri":"/","version":"HTTP/1.0","status":200}',
      { question: { port: 8080, client: '::1', tls: 'none' }, omits: ['headers', 'carries'] },
    ],
    [
      `10.1.2.3:5 - - [${time}] "GET /a HTTP/1.1" 200`,
      { question: { client: '10.1.2.3' }, omits: ['tls', 'host', 'headers', 'carries'] },
      { first: time },
    ],
    [
      '{"port":"http","client":"10.1.2.3","headers":{"a":"b","c":["d"]}}',
      { form: 'question', question: { port: 'http', headers: { a: ['b'], c: ['d'] } }, omits: [], decided: null },
      { count: 1, first: null },
    ],
  ];
  for (const [line, record, occurrence = {}] of rows) {
    const { records, bad } = await read(`${line}\n`);
    t.same(bad, [], line);
    t.match(records[0]?.[0], record, line);
    t.match(records[0]?.[1], occurrence, line);
  }
});

t.test('what is no decision, and what is none of ours', async (t) => {
  const rows: readonly (readonly [line: string | Buffer, message: RegExp | null, remedy?: RegExp])[] = [
    [logged({ msg: 'Policy loaded' }), null],
    [logged({ ...denied, msg: 'Request failed' }), null],
    ['', null],
    ['  \r', null],
    ['hello', /^is neither JSON nor a line of the log$/, /logs of Sallyport/],
    ['{"a":1}', /^is JSON, but no line of Sallyport$/, /logs of Sallyport/],
    ['[1]', /^is not a JSON object$/],
    [recorded.slice(0, -20), /^is not JSON$/, /must be whole/],
    ['{"decision":2,"port":1}', /^"decision" is of version 2 of the record, and this Sallyport reads 1$/, /newer/],
    [recorded.replace('8080', '0'), /^"port" 0 is not a port$/],
    [recorded.replace('"port":8080,', ''), /^"port" is missing$/],
    [recorded.replace('"client":"10.1.2.3",', ''), /^"client" is missing$/],
    [recorded.replace('"protocol":"http1",', ''), /^"protocol" is missing$/],
    [recorded.replace('"path":"/a"', '"path":7'), /^"path" is not a string$/],
    [recorded.replace(',"path":"/a"', ''), /^"path" is missing$/],
    [recorded.replace(',"verdict":"permit"', ''), /^"verdict" is missing$/],
    [recorded.replace('permit', 'perhaps'), /^"verdict" "perhaps" is none of permit, /],
    [recorded.replace('"verdict"', '"omits":["colour"],"verdict"'), /^"omits" "colour" is not known$/],
    [recorded.replace('"verdict"', '"headers":{"a":1},"verdict"'), /^"headers" "a" is neither/],
    [recorded.replace('"verdict"', '"count":0,"verdict"'), /^"count" 0 is not a count$/],
    [recorded.replace('"verdict"', '"count":9007199254740991,"verdict"'), /^"count" 9007199254740991 is not a count$/],
    [recorded.replace('"verdict"', '"tls":"none","identity":"a","verdict"'), /^"identity" is given together with tls$/],
    [Buffer.from('{"port":8080,"client":"10.1.2.3","path":"/\xe9"}', 'latin1'), /^is not UTF-8$/],
    ['{"port":8080,\u0007"client":"10.1.2.3"}', /^holds bytes that no text has$/],
    [logged({ ...denied, path: 'a…' }), /^"path" was cut by the log$/, /SALLYPORT_DECISIONS/],
    [logged({ ...denied, path: clip('/aaaaa', 2) }), /^"path" was cut by the log$/, /SALLYPORT_DECISIONS/],
    ['a'.repeat(2 * 1024 * 1024), /^is longer than 1 MiB$/],
  ];
  for (const [line, message, remedy = /./] of rows) {
    const bytes = Buffer.concat([
      Buffer.from(`${recorded}\n`),
      Buffer.from(line as string),
      Buffer.from(`\n${recorded}\n`),
    ]);
    const { records, bad, tally } = await read(bytes, 100_000);
    const said = String(line).slice(0, 100);
    t.equal(records.length, 2, `the others are read: ${said}`);
    t.equal(tally.bad, message === null ? 0 : 1, said);
    if (message === null) continue;
    t.match(bad[0], { file: 'log', line: 2, message, remedy }, said);
  }
});

t.test('files that are odd as a whole', async (t) => {
  const many = `${recorded}\n`.repeat(1000);
  const packed = gzipSync(many);
  const torn = Buffer.from(packed);
  torn.fill(0x55, packed.length - 40, packed.length - 20);
  const rows: readonly (readonly [name: string, input: string | Buffer, decisions: number, bad: object | null])[] = [
    ['empty', '', 0, null],
    ['gzip', packed, 1000, null],
    ['two files of gzip in one', Buffer.concat([packed, packed]), 2000, null],
    ['BOM', `\ufeff${many}`, 1000, null],
    ['BOM in gzip', gzipSync(`\ufeff${many}`), 1000, null],
    ['CRLF', many.replaceAll('\n', '\r\n'), 1000, null],
    ['no newline at the end', many.slice(0, -1), 1000, null],
    ['half a line at the end', many.slice(0, -30), 999, { line: 1000, message: /; the file ends within the line$/ }],
    [
      'binary',
      Buffer.concat([Buffer.from(many.slice(0, 500)), Buffer.alloc(10)]),
      0,
      { line: 0, message: /^is binary/ },
    ],
    ['UTF-16', Buffer.from(many, 'utf16le'), 0, { line: 0, message: /^is binary/ }],
    [
      'zstd',
      zstdCompressSync(many),
      0,
      { line: 0, message: /^is compressed by zstd$/, remedy: /^Decompress it: zstd -dc/ },
    ],
  ];
  for (const [name, input, decisions, expected] of rows) {
    for (const chunk of [7, 4096, 1 << 20]) {
      const { tally, bad } = await read(input, chunk);
      t.equal(tally.decisions, decisions, `${name}, by ${chunk}`);
      if (expected === null) t.same(bad, [], name);
      else t.match(bad, [expected], name);
    }
  }
  const damaged: readonly (readonly [input: Buffer, what: string])[] = [
    [packed.subarray(0, -10), 'ends in the middle of its compressed text'],
    [packed.subarray(0, 5), 'ends in the middle of its compressed text'],
    [torn, 'is not sound as gzip'],
    [Buffer.concat([packed, Buffer.from('more')]), 'is not sound as gzip'],
  ];
  for (const [input, what] of damaged) {
    const { bad, records } = await read(input);
    const last = records.at(-1)?.[1].line ?? 0;
    const message = `${what}: nothing is read behind line ${last}`;
    t.match(bad, [{ line: 0, message }], 'what came before was read, and no more is said to be');
  }
});

t.test('lines of Windows are read as those of Unix, whatever they are', async (t) => {
  const lines = [
    recorded,
    logged(denied),
    `10.1.2.3:5 - - [${time}] "GET /a HTTP/1.1" 200`,
    `${time} INFO Request denied client.ip=10.1.2.3 target.port=8080 method=GET version=HTTP/1.1 path=/a`,
    '{"port":8080,"client":"10.1.2.3","path":"/\u2028"}',
  ];
  for (const line of lines) {
    const [unix, windows] = [await read(`${line}\n${line}\n`), await read(`${line}\r\n${line}\r\n`)];
    const said = JSON.stringify(line.slice(0, 25));
    t.equal(unix.records.length, 2, said);
    t.same(windows, unix, said);
  }
});

t.test('values of any type, depth and length in any field are one line of a report', async (t) => {
  const deep = [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`];
  const values = [...deep, `"${'x'.repeat(300_000)}"`, '1e999', '-1', '70000', '{}', '[]', '"\\u0000\\u202e"', 'null'];
  const fields =
    'decision port count lost client identity tls protocol method path host headers names carries declared omits salt status audit server route authz reason time first last verdict target target.port msg level version policies uri client.addr __proto__';
  const kinds = [
    recorded,
    '{"port":8080,"client":"10.1.2.3"}',
    logged(denied),
    '{"client.addr":"10.1.2.3:5","port":8080,"method":"GET","uri":"/","version":"HTTP/1.0","status":200}',
  ];
  for (const field of fields.split(' ')) {
    for (const value of values) {
      const lines = kinds.map((kind) => `${kind.slice(0, -1)},${JSON.stringify(field)}:${value}}`);
      const plain = `${time} INFO Request denied client.ip=10.1.2.3 target.port=8080 method=GET version=HTTP/1.1 path=/a ${field}=${value}`;
      const { records, bad, tally } = await read(`${[...lines, plain].join('\n')}\n`);
      const said = `${field} ${value.slice(0, 20)}`;
      if (tally.lost === 0) t.ok(records.length + bad.length + tally.others === 5, `${said}: each counts once`);
      const longest = Math.max(0, ...bad.map(({ message }) => message.length));
      t.ok(longest < 400, `${said}: ${longest} characters`);
      const ports = records.map(([{ question }]) => question.port);
      t.ok(
        ports.every((port) => port === undefined || typeof port === 'string' || (port >= 1 && port <= 65_535)),
        `${said}: ports ${JSON.stringify(ports)}`,
      );
    }
  }
});

t.test('equal lines come with one object, whatever their time', async (t) => {
  const later = recorded.replace('14:00:00.000', '15:00:00.000');
  const { records } = await read(`${recorded}\n${later}\n${logged(denied)}\n${logged({ ...denied, time: 'x' })}\n`);
  const objects = records.map(([record]) => record);
  t.equal(objects[0], objects[1]);
  t.equal(objects[2], objects[3]);
  t.match(records[1]?.[1], { first: '2026-11-20T15:00:00.000Z', line: 2 });
});

t.test('where hardly any line comes again, none is kept; where they do again, they are', async (t) => {
  const line = (i: number): string => recorded.replace('"/a"', `"/${i}"`);
  const once = Array.from({ length: 40_000 }, (_, i) => line(i));
  const again = Array.from({ length: 200_000 }, (_, i) => line(i % 10));
  const last = new Map<string, DecisionRecord>();
  const kept: boolean[] = [];
  let same = 0;
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield Buffer.from([line(0), line(0), ...once, ...again].join('\n'));
  }
  const tally = await readRecords([{ name: 'log', bytes: bytes() }], {
    record(record, { count, comesAgain }) {
      const path = record.question.path ?? '';
      if (last.get(path) === record) {
        same += count;
        if (!comesAgain) t.fail(`${path} is one that is kept`);
      }
      last.set(path, record);
      kept.push(comesAgain);
    },
    bad: ({ message }) => t.fail(message),
  });
  t.equal(tally.decisions, 240_002, 'all of them');
  t.equal(kept[1], true);
  t.equal(kept[39_000], false, 'behind so many that came once');
  t.equal(kept.at(-1), true);
  t.ok(same > 199_900, `${same} came as the object of before`);
});

t.test('what begins like a line of the record, with more than a time, is read whole', async (t) => {
  const odd = recorded.replace(`"time":"${time}"`, '"time":"a","count":9,"f":"123456"');
  t.equal(odd.length, recorded.length, 'in the place of a time');
  const rows: readonly (readonly [lines: string[], counts: number[]])[] = [
    [
      [odd, recorded, odd],
      [9, 1, 9],
    ],
    [
      [recorded, odd, recorded],
      [1, 9, 1],
    ],
  ];
  for (const [lines, counts] of rows) {
    const { records } = await read(lines.join('\n'));
    t.same(
      records.map(([, { count }]) => count),
      counts,
    );
  }
});

t.test('decisions whose records were dropped are counted', async (t) => {
  const { tally } = await read('{"decision":1,"time":"t","lost":5}\n{"decision":1,"lost":2}\n');
  t.match(tally, { lost: 7, decisions: 0, bad: 0 });
  const left = (about: string | undefined, lines: unknown) =>
    JSON.stringify({ level: 'info', time, msg: 'Log lines left out', about, cause: 'web', lines });
  const rows: readonly (readonly [line: string, decisions: number, lost: number])[] = [
    [left('Request denied', 5), 0, 5],
    [left('Connection denied', 7), 0, 7],
    [left(undefined, 3), 0, 3],
    [left('Request failed', 5), 0, 0],
    [left('TLS handshake failed', 5), 0, 0],
    [`${time} INFO Log lines left out about="Request denied" cause=x lines=5`, 0, 5],
    [logged({ ...denied, times: 4, omitted: 2 }), 1, 5],
    [logged({ ...denied, times: 'x', omitted: -2 }), 1, 0],
    [logged({ ...denied, msg: 'Request failed', times: 4 }), 0, 0],
  ];
  for (const [line, decisions, lost] of rows) {
    const { tally } = await read(`${line}\n`);
    t.match(tally, { decisions, lost, bad: 0 }, line);
  }
});
