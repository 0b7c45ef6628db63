import { readdirSync } from 'node:fs';
import t, { type Test } from 'tap';
import { fieldNames } from '../../../support/field-names.ts';
import { type Stage, stage } from '../../../support/lane-stage.ts';
import type { LaneOptions } from '../../../support/lanes.ts';
import type { AppSocket } from '../../../support/raw-app.ts';
import { headerValues, latin1, parseResponses, type RawClient } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * What leaves when a client asks to leave HTTP: exactly the fields that any other request would be forwarded with, whatever
 * the client's own head made of the libraries in between.
 */

t.setTimeout(540_000);

interface Protocol {
  readonly title: string;
  readonly line: (target: string) => string;
  readonly fields: readonly string[];
  /** What the proxy says to the app of its own. */
  readonly own: readonly string[];
  readonly agreement: string;
}

/** `option` as the library in between spells it. */
const upgrade = (protocol: string, option: string): Protocol => ({
  title: protocol,
  line: (target) => `GET ${target} HTTP/1.1`,
  fields: ['Connection: Upgrade', `Upgrade: ${protocol}`],
  own: [`connection: ${option}`, `upgrade: ${protocol}`],
  agreement: `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`,
});
const protocols: readonly Protocol[] = [
  upgrade('websocket', 'Upgrade'),
  upgrade('chat/1', 'upgrade'),
  {
    title: 'CONNECT',
    line: () => 'CONNECT a.example:80 HTTP/1.1',
    fields: [],
    own: ['connection: close'],
    agreement: 'HTTP/1.1 200 OK\r\n\r\n',
  },
];

/** The agreeing app, and the heads that it got. */
async function switchingStage(t: Test, protocol: Protocol, lane: Partial<LaneOptions> = {}): Promise<Stage & Heads> {
  const heads: string[] = [];
  const raw = (connection: AppSocket, chunk: Buffer): void => {
    const { socket } = connection;
    connection.pending = Buffer.concat([connection.pending, chunk]);
    const end = connection.pending.indexOf('\r\n\r\n');
    if (end === -1) return;
    heads.push(connection.pending.toString('latin1', 0, end));
    connection.pending = Buffer.alloc(0);
    socket.write(protocol.agreement);
  };
  return { ...(await stage(t, 'fast', { raw }, lane)), heads };
}
interface Heads {
  readonly heads: readonly string[];
}

function request(protocol: Protocol, fields: readonly string[], target = '/chat'): Buffer {
  const host = fields.some((field) => /^host:/i.test(field)) ? [] : ['Host: a.example:80'];
  return latin1(`${[protocol.line(target), ...host, ...protocol.fields, ...fields].join('\r\n')}\r\n\r\n`);
}

/** Field lines in a form in which equal sets of fields are equal. */
function fieldsOf(lines: readonly string[]): string[] {
  const lower = lines.map((line) => line.replace(/^[^:]*/, (name) => name.toLowerCase()));
  // undici leaves out the length of no content; nobody can tell.
  return lower.filter((line) => line !== 'content-length: 0').sort();
}

async function answered(client: RawClient): Promise<number> {
  await client.reaches(() => client.received.includes('\r\n\r\n') || client.ended, 10_000);
  return Number(/^HTTP\/1\.1 ([0-9]{3}) /.exec(client.received.toString('latin1'))?.[1] ?? 0);
}

const agreed = (protocol: Protocol): number => (protocol.title === 'CONNECT' ? 200 : 101);

/** Never forwarded, and no reason to refuse either. */
const dropped = new Set([
  'connection',
  'expect',
  'http2-settings',
  'keep-alive',
  'l5d-client-id',
  'proxy-connection',
  'trailer',
  'upgrade',
]);

/** A value that makes no fault of the field. */
function soundValue(name: string): string {
  switch (name.toLowerCase()) {
    case 'content-length':
      return '0';
    case 'expect':
      return '100-continue';
    case 'te':
      return 'trailers';
    default:
      return 'x-value';
  }
}

/** Of the connection's own fields one more is another test's matter. */
const names = fieldNames.filter((name) => !/^(connection|host|transfer-encoding|upgrade)$/i.test(name));

for (const protocol of protocols) {
  t.test(`${protocol.title}: each field that anybody treats specially, alone and all together`, async (t) => {
    const { heads, open, lane } = await switchingStage(t, protocol);
    const check = async (title: string, sent: readonly string[], nominated: readonly string[] = []): Promise<void> => {
      const before = heads.length;
      const client = await open();
      client.send(request(protocol, sent));
      t.equal(await answered(client), agreed(protocol), `${title}: the app's response`);
      client.destroy();
      const gone = new Set([...dropped, ...nominated]);
      const kept = sent.filter((line) => !gone.has(line.slice(0, line.indexOf(':')).toLowerCase()));
      t.equal(heads.length, before + 1);
      const [, ...got] = (heads.at(-1) ?? '').split('\r\n');
      t.same(fieldsOf(got), fieldsOf(['Host: a.example:80', ...kept, ...protocol.own]), title);
    };
    for (const name of names) await check(name, [`${name}: ${soundValue(name)}`]);
    await check(
      'all',
      names.map((name) => `${name}: ${soundValue(name)}`),
    );
    await check('repeated', ['X-A: 1', 'x-a: 2', 'Accept: a', 'accept: b']);
    await check('bytes beyond ASCII', ['X-A: \xe9\xff', 'x-b: .\xa0']);
    await check('Expect and Trailer beside a claim', [
      'Expect: 100-continue',
      'Trailer: x-digest',
      'l5d-client-id: root',
      'X-Ok: 1',
    ]);
    const nominating = [
      'Connection: x-secret, l5d-client-id, expect',
      'X-Secret: 1',
      'Expect: 100-continue',
      'X-Ok: 1',
    ];
    await check('nominated', nominating, ['x-secret']);
    await until('every connection to be over', () => lane.live.size === 0 && lane.counts.destinations === 0);
    t.equal(lane.counts.ended, lane.counts.started, 'every request is counted out');
  });

  t.test(`${protocol.title}: the route's header changes`, async (t) => {
    const headerChanges = {
      add: [['x-added', '1']],
      set: [
        ['x-set', '2'],
        ['expect', '100-continue'],
        ['trailer', 'x-digest'],
        ['upgrade', 'other'],
        ['connection', 'close'],
        ['l5d-client-id', 'root'],
      ],
      remove: ['x-removed', 'host'],
    } as const;
    const { heads, open } = await switchingStage(t, protocol, { headerChanges });
    for (const more of [[], ['Expect: 100-continue'], ['Trailer: x-digest']]) {
      const client = await open();
      client.send(request(protocol, ['X-Set: old', 'X-Removed: 1', 'X-Kept: 3', ...more]));
      t.equal(await answered(client), agreed(protocol));
      const [, ...got] = (heads.at(-1) ?? '').split('\r\n');
      const wanted = ['host: a.example:80', 'x-added: 1', 'x-set: 2', 'x-kept: 3', ...protocol.own];
      t.same(fieldsOf(got), fieldsOf(wanted), `beside ${more.join() || 'nothing odd'}`);
      client.destroy();
    }
  });

  t.test(`${protocol.title}: too many requests in flight`, async (t) => {
    const { heads, open, lane } = await switchingStage(t, protocol, { maxInFlight: 0 });
    const client = await open();
    client.send(request(protocol, []));
    t.equal(await answered(client), 503);
    t.same(heads, []);
    t.equal(lane.counts.started, 0, 'not counted in');
    t.same(lane.counts.httpErrors, ['loadshed']);
  });
}

t.test('targets go on as they came', async (t) => {
  const protocol = upgrade('websocket', 'Upgrade');
  const { heads, open } = await switchingStage(t, protocol);
  for (const target of ['//x', '//[', '/a//b/../c', '/a?b=c?d', '/?', '/%', '/\\x', '/a;b', '/@x:y', '/;//x']) {
    const client = await open();
    client.send(request(protocol, [], target));
    t.equal(await answered(client), 101, target);
    t.equal(heads.at(-1)?.split('\r\n')[0], `GET ${target} HTTP/1.1`);
    client.destroy();
  }
});

t.test('CONNECT that also names a protocol asks for none', async (t) => {
  const [, , connect] = protocols as [Protocol, Protocol, Protocol];
  const { heads, open } = await switchingStage(t, connect);
  const client = await open();
  client.send(request(connect, ['Connection: Upgrade', 'Upgrade: websocket']));
  t.equal(await answered(client), 200);
  t.notMatch(client.received.toString('latin1'), /upgrade/i);
  t.notMatch(heads.at(-1) ?? '', /upgrade/i);
});

t.test('a response that is no switch goes out like any other', async (t) => {
  const answers: readonly (readonly [title: string, bytes: string, status: number, body: string])[] = [
    [
      'with a length',
      'HTTP/1.1 403 No\r\nContent-Length: 2\r\nConnection: x-secret\r\nX-Secret: 1\r\n\r\nno',
      403,
      'no',
    ],
    ['chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n', 200, 'no'],
    ['without content', 'HTTP/1.1 204 No Content\r\n\r\n', 204, ''],
    ['not modified', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n', 304, ''],
    ['two cookies', 'HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n', 200, ''],
  ];
  for (const protocol of protocols.slice(0, 2)) {
    for (const [title, bytes, status, body] of answers) {
      const { open, lane } = await stage(t, 'fast', { answer: (_request, { socket }) => socket.write(bytes) });
      const client = await open();
      client.send(request(protocol, []));
      await client.reaches(() => client.received.includes('\r\n\r\n'), 10_000);
      client.halfClose();
      await until('the end of the connection', () => client.ended);
      const { responses, fault } = parseResponses(client.received, ['GET'], true);
      const what = `${protocol.title}, ${title}`;
      t.equal(fault, null, `${what}: sound`);
      t.match(responses, [{ status, body: Buffer.from(body) }], what);
      const [answer] = responses;
      if (answer === undefined) continue;
      t.same(headerValues(answer, 'connection'), ['close'], `${what}: the last one`);
      t.same(headerValues(answer, 'x-secret'), []);
      t.equal(headerValues(answer, 'set-cookie').length, title === 'two cookies' ? 2 : 0);
      await until('all to be over', () => lane.live.size === 0 && lane.counts.ended === lane.counts.started);
    }
  }
});

t.test('nothing is left behind by 500 of them, however they end', async (t) => {
  const descriptors = (): number => readdirSync('/proc/self/fd').length;
  for (const protocol of protocols) {
    const { open, lane } = await switchingStage(t, protocol);
    const before = descriptors();
    const odd = ['Expect: 100-continue', 'Trailer: x', 'l5d-client-id: root'];
    for (let i = 0; i < 500; i++) {
      const client = await open();
      client.send(request(protocol, odd.slice(i % 4)));
      await answered(client);
      if (i % 3 === 0) client.reset();
      else if (i % 3 === 1) client.halfClose();
      else client.destroy();
      if (i % 3 === 1) client.destroy();
    }
    await until(`${protocol.title}: the connections to be over`, () => lane.live.size === 0);
    await until(`${protocol.title}: those to the app, too`, () => lane.counts.destinations === 0);
    await until('the descriptors to be given back', () => descriptors() <= before + 2, {
      lastSeen: () => `${before} before, ${descriptors()} after`,
    });
    t.equal(lane.counts.ended, 500, `${protocol.title}: every request is counted out`);
  }
});
