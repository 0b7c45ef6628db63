import fc from 'fast-check';
import t from 'tap';
import { bothOf } from '../support/cases.ts';
import { caseBytes, readHttp1Cases } from '../support/http1-cases.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';
import { lastLook } from './looks.ts';
import { cuts, mutate, mutation, soundRequest } from './mutations.ts';
import { difference, type Variant, variants } from './two-lanes.ts';

/*
 * The same bytes, cut alike, to a proxy with the fast lane and to one without it: the same responses in the same order,
 * the same requests for the app, and both keep the connection or both end it.
 */

t.setTimeout(timeLimitMs);

const request = (line: string, ...fields: string[]): string =>
  `${[line, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`;

/** Found by searching, or near to what was. */
const regressions: readonly (readonly [name: string, text: string])[] = [
  ['a body of a refused request', `${request('POST /DENIED HTTP/1.1', 'Content-Length: 5')}hello`],
  [
    'a plain request, then another kind, then a plain one',
    `${request('GET / HTTP/1.1')}${request('POST /2 HTTP/1.1', 'Transfer-Encoding: chunked')}3\r\nabc\r\n0\r\n\r\n${request('GET /3 HTTP/1.1')}`,
  ],
  ['a plain request, then what is none', `${request('GET / HTTP/1.1')}garbage\r\n\r\n`],
  [
    'a fault in the body of a request that waits for its turn',
    `${request('PUT / HTTP/1.1', 'Content-Length: 0')}${request('HEAD /2 HTTP/1.1', 'Transfer-Encoding: chunked')}\r\n0\r\n\r\n`,
  ],
  [
    'bytes that wait in two places when the library lane takes over',
    `${request('GET / HTTP/1.1')}${request('GET /2 HTTP/1.1', 'Transfer-Encoding: chunked')}23\r\nGET /SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n\r\n0\r\n\r\n${request('GET /3 HTTP/1.1', 'Content-Length: 35')}GET /SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n`,
  ],
  [
    'no Host, and another request behind',
    `${request('GET / HTTP/1.1')}GET /2 HTTP/1.1\r\nost: a\r\n\r\n${request('GET /3 HTTP/1.1')}`,
  ],
  [
    'a body that looks like fields, and garbage behind it',
    'GET / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 35\r\n\r\nExpect: 100-continue\r\nGET /SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n',
  ],
  ['a length near 2^64', `${request('POST / HTTP/1.1', 'Content-Length: 18446744073709551614')}hello`],
  [
    'an end in the middle of the pipeline',
    `${request('GET / HTTP/1.1', 'Connection: close')}${request('GET /2 HTTP/1.1')}`,
  ],
];

/** Connections that each fast lane has left to the library lane. */
function handedOver(list: readonly Variant[]): number[] {
  return list.filter(({ engine }) => engine === 'fast').map(({ lane }) => lane.counts.handedOver);
}

t.test('streams of requests', async (t) => {
  const list = await variants(t);

  await t.test('cases once found', async (t) => {
    for (const [name, text] of regressions) {
      for (const at of [[], null, [1, 199, 1034, 35], [75, 116, 240, 264]]) {
        t.equal(await difference(list, text, at), null, `${name}, cut ${JSON.stringify(at)}`);
      }
    }
  });

  await t.test('generated pipelines', async (t) => {
    let runs = 0;
    let plain = 0;
    const found = await search(
      fc.asyncProperty(
        fc.array(soundRequest, { minLength: 1, maxLength: 3 }),
        fc.oneof(
          { weight: 1, arbitrary: fc.constant([]) },
          { weight: 3, arbitrary: fc.array(mutation, { maxLength: 3 }) },
        ),
        cuts,
        async (requests, mutations, at) => {
          runs++;
          const text = requests.join('');
          const before = handedOver(list).join();
          const seen = await difference(list, mutate(text, mutations), at);
          if (seen !== null) throw new Error(seen);
          if (mutations.length > 0) return;
          plain++;
          if (handedOver(list).join() !== before) throw new Error('sound requests, left to the library lane');
        },
      ),
      0.6,
      () => runs > 10 && plain > 2,
    );
    t.equal(found, null);
    t.ok(runs > 10, `${runs} pipelines`);
    t.ok(plain > 2, `${plain} of them on the fast lane alone`);
  });

  await t.test('mutated cases', async (t) => {
    const cases = bothOf(readHttp1Cases())
      .flatMap(({ cases }) => cases)
      .map((row) => caseBytes(row).toString('latin1'))
      .filter((text) => text.length < 2000);
    let runs = 0;
    const found = await search(
      fc.asyncProperty(
        fc.constantFrom(...cases),
        fc.array(mutation, { maxLength: 3 }),
        cuts,
        async (text, mutations, at) => {
          runs++;
          const seen = await difference(list, mutate(text, mutations), at);
          if (seen !== null) throw new Error(seen);
        },
      ),
      0.4,
      () => runs > 10,
    );
    t.equal(found, null);
    t.ok(runs > 10, `${runs} streams`);
  });

  await lastLook();
  for (const { engine, reading, lane } of list) {
    await until('no connection to be open', () => lane.live.size === 0);
    t.equal(lane.counts.started, lane.counts.ended, `${engine}, ${reading}: every request is counted out`);
  }
});
