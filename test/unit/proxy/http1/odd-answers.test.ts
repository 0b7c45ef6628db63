import { connect as http2Connect } from 'node:http2';
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { type Lane, startLane } from '../../../support/lanes.ts';
import { oddLines, parseResponses, RawClient } from '../../../support/raw-http.ts';
import { startSocketApp } from '../../../support/socket-app.ts';
import { until } from '../../../support/until.ts';

/*
 * What apps send that is odd, on a connection that they keep: no client waits for the rest of it, each gets the same by
 * whichever way it has asked, and what is refused has a rule in the log that names what was wrong.
 */

const ok = 'HTTP/1.1 200 OK\r\n';
const five = 'Content-Length: 5\r\n\r\nhello';
const inChunks = 'Transfer-Encoding: chunked\r\n';
const chunk = '5\r\nhello\r\n0\r\n\r\n';

/** A status; or 502 with what the log says of it; or a response that breaks off, and what it says of that. */
type Outcome = number | RegExp | { readonly cut: RegExp };

const twice = /Transfer-Encoding more than once/;
const lineFeed = /LF alone/;
const emptyLine = /an empty line before the status line/;
const notHttp = /no HTTP\/1: it begins with "/;
const aStatus = /a status line that is none, in its status: "/;
const other = /other than one chunked/;
const badChunk = { cut: /malformed chunk/ };

const rows: readonly (readonly [send: string, outcome: Outcome])[] = [
  [`${ok}${five}`, 200],
  [`HTTP/1.1 200\r\n${five}`, 200],
  [`HTTP/1.1 200 \r\n${five}`, 200],
  [`HTTP/1.0 200 OK\r\n${five}`, 200],
  [`HTTP/1.1 999 Odd\r\n${five}`, 999],
  [`HTTP/1.1 600 \xe9\r\n${five}`, 600],
  [`${ok}content-LENGTH:5\r\n\r\nhello`, 200],
  [`${ok}Content-Length: \t5 \t\r\n\r\nhello`, 200],
  [`${ok}Content-Length: 00005\r\n\r\nhello`, 200],
  [`${ok}X:\r\nX: \xff\xfe\r\n${five}`, 200],
  [`${ok}Connection: content-length, x\r\n${five}`, 200],
  [`${ok}${'X: 1\r\n'.repeat(60)}${five}`, 200],
  [`${ok}${inChunks}\r\n${chunk}`, 200],
  [`${ok}TRANSFER-encoding:   Chunked  \r\n\r\n${chunk}`, 200],
  [`${ok}${inChunks}\r\n0005;x="y"\r\nhello\r\n0\r\nX: 1\r\n\r\n`, 200],
  [`${ok}${inChunks}\r\n0\r\n\r\n`, 200],
  ['HTTP/1.1 204 No Content\r\n\r\n', 204],
  [`HTTP/1.1 204 No Content\r\n${five}`, 204],
  ['HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n', 304],
  [`HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199\r\n\r\n${ok}${five}`, 200],
  [`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 104 Upload\r\nX: 1\r\n\r\n${ok}${five}`, 200],
  // The end of its head, or of a line of it.
  ['HTTP/1.1 200 OK\nContent-Length: 2\n\nok', lineFeed],
  ['HTTP/1.1 200 OK\n\n', lineFeed],
  ['HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok', lineFeed],
  ['HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok', lineFeed],
  ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok', lineFeed],
  [`${ok}X: 1\rContent-Length: 5\r\n\r\nhello`, /a field with a control character: "X"/],
  [`HTTP/1.1 200 O\rK\r\n${five}`, /a status line that is none/],
  [`\r\n${ok}${five}`, emptyLine],
  [`\r\n\r\n${ok}${five}`, emptyLine],
  [`\n${ok}${five}`, emptyLine],
  // Its first line.
  [` ${ok}${five}`, notHttp],
  [`HTTP/1.1  200 OK\r\n${five}`, aStatus],
  [`HTTP/1.1\t200 OK\r\n${five}`, /a status line that is none, in its version/],
  [`HTTP/1.1 99 Low\r\n${five}`, aStatus],
  [`HTTP/1.1 099 Low\r\n${five}`, aStatus],
  [`HTTP/1.1 000 Low\r\n${five}`, aStatus],
  [`HTTP/1.1 20 OK\r\n${five}`, aStatus],
  [`HTTP/1.1 2000 OK\r\n${five}`, aStatus],
  [`HTTP/1.1 2x0 OK\r\n${five}`, aStatus],
  [`HTTP/1.1 OK\r\n${five}`, aStatus],
  [`HTTP/1.1 200 a\0b\r\n${five}`, /a status line that is none/],
  [`HTTP/1.2 200 OK\r\n${five}`, /a status line that is none, in its version/],
  [`HTTP/1.10 200 OK\r\n${five}`, /a status line that is none, in its version/],
  [`HTTP/2 200 OK\r\n${five}`, notHttp],
  [`HTTP/0.9 200 OK\r\n${five}`, notHttp],
  [`http/1.1 200 OK\r\n${five}`, notHttp],
  [`ICY 200 OK\r\n${five}`, notHttp],
  ['SSH-2.0-OpenSSH_9.2\r\n', notHttp],
  ['220 mail.example ESMTP\r\n', notHttp],
  ['\x15\x03\x01\x00\x02\x02\x46', notHttp],
  ['\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80', notHttp],
  ['<html>hello</html>', notHttp],
  ['X', notHttp],
  // Its fields.
  [`${ok}X: 1\r\n 2\r\n${five}`, /a folded field: "X"/],
  [`${ok} X: 1\r\n${five}`, /a folded field: ""/],
  [`${ok}X: 1\r\n\t2\r\n${five}`, /a folded field: "X"/],
  [`${ok}X\r\n${five}`, /a line without a colon: "X"/],
  [`${ok}: 1\r\n${five}`, /a field whose name is none: ""/],
  [`${ok}Content-Length : 5\r\n\r\nhello`, /a field whose name is none: "Content-Length "/],
  [`${ok}X(Y): 1\r\n${five}`, /a field whose name is none: "X\(Y\)"/],
  [`${ok}\xe9: 1\r\n${five}`, /a field whose name is none/],
  [`${ok}X: a\0b\r\n${five}`, /a field with a control character: "X"/],
  [`${ok}X: a\x7fb\r\n${five}`, /a field with a control character: "X"/],
  [`${ok}${'n'.repeat(1000)}\u001b[2J: 1\r\n${five}`, /^[\x20-\x7e…]{1,150}$/],
  [`${ok}X: ${'x'.repeat(300_000)}`, /too long/],
  // Where it ends.
  [`${ok}${inChunks}${inChunks}\r\n${chunk}`, twice],
  [`${ok}Transfer-Encoding: chunked, chunked\r\n\r\n${chunk}`, other],
  [`${ok}Transfer-Encoding: gzip\r\n\r\nhello`, other],
  [`${ok}Transfer-Encoding: gzip, chunked\r\n\r\n${chunk}`, other],
  [`${ok}Transfer-Encoding: identity\r\n${five}`, other],
  [`${ok}Transfer-Encoding:\r\n${five}`, other],
  [`${ok}Transfer-Encoding: \tchunked\r\n\r\n${chunk}`, other],
  [`HTTP/1.0 200 OK\r\n${inChunks}\r\n${chunk}`, /Transfer-Encoding in HTTP\/1\.0/],
  [`${ok}${inChunks}${five}`, /both Transfer-Encoding and Content-Length/],
  [`${ok}Content-Length: 5\r\n${inChunks}\r\n${chunk}`, /both Transfer-Encoding and Content-Length/],
  [`${ok}Content-Length: 5\r\n${five}`, /Content-Length more than once/],
  [`${ok}Content-Length: 6\r\n${five}`, /Content-Length more than once/],
  [`${ok}Content-Length: 5, 5\r\n\r\nhello`, /Content-Length that is no number/],
  [`${ok}Content-Length: -5\r\n\r\nhello`, /Content-Length that is no number/],
  [`${ok}Content-Length: +5\r\n\r\nhello`, /Content-Length that is no number/],
  [`${ok}Content-Length: 0x5\r\n\r\nhello`, /Content-Length that is no number/],
  [`${ok}Content-Length: 5.0\r\n\r\nhello`, /Content-Length that is no number/],
  [`${ok}Content-Length:\r\n\r\nhello`, /Content-Length that is no number/],
  [`${ok}Content-Length: 99999999999999999999\r\n\r\nhello`, /Content-Length that is no number, or too large/],
  // Interim ones, and what follows.
  [`HTTP/1.1 101 Switching Protocols\r\n\r\n${ok}${five}`, /a switch that nobody asked for/],
  [
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n',
    /a switch that nobody asked for/,
  ],
  [`HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n${ok}${five}`, /an interim response that ends its connection/],
  [`HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello${ok}${five}`, /an interim response/],
  [`HTTP/1.1 103 Early Hints\r\n\r\n`.repeat(101), /too many interim responses/],
  [`HTTP/1.1 103 Early Hints\r\n\r\n\r\n${ok}${five}`, emptyLine],
  // Its chunks.
  [`${ok}${inChunks}\r\nxyz\r\n`, badChunk],
  [`${ok}${inChunks}\r\n-5\r\nhello\r\n0\r\n\r\n`, badChunk],
  [`${ok}${inChunks}\r\n5\nhello\n0\n\n`, badChunk],
  [`${ok}${inChunks}\r\n5\r\nhelloo\r\n0\r\n\r\n`, badChunk],
  [`${ok}${inChunks}\r\nffffffffffffffffff\r\n`, badChunk],
  [`${ok}${inChunks}\r\n5 \x01\r\nhello\r\n0\r\n\r\n`, badChunk],
  [`${ok}${inChunks}\r\n0\r\nX\r\n\r\n`, badChunk],
];

async function startOddApp(t: Test): Promise<{ readonly port: number }> {
  const serve = (socket: Socket): void => {
    let pending = '';
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      pending += chunk.toString('latin1');
      const number = /^[A-Z]+ \/([0-9]+) /.exec(pending)?.[1];
      if (number === undefined || !pending.includes('\r\n\r\n')) return;
      pending = '';
      socket.write(rows[Number(number)]?.[0] ?? '', 'latin1');
    });
  };
  return startSocketApp(t, serve);
}

/** The status, or that it broke off. */
type Seen = number | 'cut';

async function askByHttp1(lane: Lane, number: number, more: string): Promise<Seen> {
  const client = await RawClient.open({ port: lane.port });
  try {
    client.send(Buffer.from(`GET /${number} HTTP/1.1\r\nHost: a\r\n${more}\r\n`));
    const final = (): number | undefined =>
      parseResponses(client.received, [], client.ended).responses.find(({ status }) => status >= 200)?.status;
    await until('a response, or the end', () => final() !== undefined || client.ended);
    return final() ?? 'cut';
  } finally {
    client.destroy();
  }
}

async function askByHttp2(lane: Lane, number: number): Promise<Seen> {
  const session = http2Connect(`http://127.0.0.1:${lane.port}`);
  session.on('error', () => {});
  const stream = session.request({ ':path': `/${number}`, 'l5d-orig-proto': 'HTTP/1.1' });
  let status = 0;
  stream.on('response', (fields) => {
    status = fields[':status'] ?? 0;
  });
  stream.on('error', () => {});
  stream.resume();
  await until('the end of the stream', () => stream.closed);
  session.destroy();
  return stream.rstCode === 0 ? status : 'cut';
}

const ways: readonly (readonly [
  name: string,
  lane: Parameters<typeof startLane>[1],
  ask: (lane: Lane, number: number) => Promise<Seen>,
])[] = [
  ['HTTP/1, fast', { engine: 'fast', app: 0 }, (lane, number) => askByHttp1(lane, number, '')],
  ['HTTP/1, the library lane', { engine: 'library', app: 0 }, (lane, number) => askByHttp1(lane, number, '')],
  [
    'HTTP/1, left to the library lane',
    { engine: 'fast', app: 0 },
    (lane, number) => askByHttp1(lane, number, oddLines),
  ],
  ['HTTP/2', { engine: 'fast', protocol: 'http2', app: 0 }, askByHttp2],
];

for (const [name, options, ask] of ways) {
  t.test(name, async (t) => {
    const { port } = await startOddApp(t);
    const lane = await startLane(t, { ...options, app: port });
    for (const [number, [send, outcome]] of rows.entries()) {
      const title = JSON.stringify(send.slice(0, 90));
      lane.counts.details.length = 0;
      const seen = await ask(lane, number);
      if (typeof outcome === 'number') {
        t.equal(seen, outcome, title);
        t.same(lane.counts.details, [], 'nothing to say');
        continue;
      }
      const rule = outcome instanceof RegExp ? outcome : outcome.cut;
      if (outcome instanceof RegExp) t.equal(seen, 502, title);
      else t.ok(seen === 'cut' || seen === 502, `${title}: ${seen}`);
      await until('what the log is told', () => lane.counts.details.length > 0);
      t.match(lane.counts.details, [rule], 'the rule, and the field');
    }
  });
}

t.test('a head that has begun, and does not end', async (t) => {
  for (const [name, options, ask] of ways) {
    const { port } = await startSocketApp(t, (socket) => {
      socket.on('error', () => {});
      socket.on('data', () => socket.write(`${ok}Content-Le`));
    });
    const lane = await startLane(t, { ...options, app: port, limits: { headerTimeoutMs: 200 } });
    t.equal(await ask(lane, 0), 502, name);
    t.match(lane.counts.details, [/a head that has not ended in 0\.2 s/], 'the rule');
    await until('no connection to the app', () => lane.counts.destinations === 0);
  }
});
