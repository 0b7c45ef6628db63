import { connect as http2Connect } from 'node:http2';
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { type Engine, engines, type LaneOptions, startLane } from '../../../support/lanes.ts';
import { meshed } from '../../../support/mesh.ts';
import { oddLines, parseResponses, RawClient } from '../../../support/raw-http.ts';
import { startSocketApp } from '../../../support/socket-app.ts';
import { until } from '../../../support/until.ts';

/*
 * A response is complete at its client where it was complete at the app, and nowhere else: each way in which an app can cut
 * one, by each way that a response can take, to clients of each version, with and without TLS.
 */

type Cut = 'end' | 'reset';
/** What makes it whole. */
type End = 'itself' | 'its end' | 'nothing';

/** What the app sends behind its head, how its connection ends, and whether that was all of its response. */
interface Answer {
  readonly title: string;
  readonly send: string;
  readonly then: Cut;
  readonly isWhole: boolean;
  readonly by: End;
}

const ok = 'HTTP/1.1 200 OK\r\n';
const old = 'HTTP/1.0 200 OK\r\n';
const length = 'Content-Length: 10\r\n\r\n';
const chunked = 'Transfer-Encoding: chunked\r\n\r\n';
const whole = '0123456789';
const half = '01234';

const bodies: readonly (readonly [title: string, text: string, by: End])[] = [
  ['a length, all of it', `${ok}${length}${whole}`, 'itself'],
  ['a length, half of it', `${ok}${length}${half}`, 'nothing'],
  ['a length, nothing of it', `${ok}${length}`, 'nothing'],
  ['HTTP/1.0, a length, half of it', `${old}${length}${half}`, 'nothing'],
  ['chunks, all of them', `${ok}${chunked}a\r\n${whole}\r\n0\r\n\r\n`, 'itself'],
  ['chunks and trailers', `${ok}${chunked}a\r\n${whole}\r\n0\r\nX: 1\r\n\r\n`, 'itself'],
  ['half a chunk', `${ok}${chunked}a\r\n${half}`, 'nothing'],
  ['a chunk without its line end', `${ok}${chunked}a\r\n${whole}`, 'nothing'],
  ['chunks without the last', `${ok}${chunked}a\r\n${whole}\r\n`, 'nothing'],
  ['half of the last chunk', `${ok}${chunked}a\r\n${whole}\r\n0\r\n`, 'nothing'],
  ['half of the trailers', `${ok}${chunked}a\r\n${whole}\r\n0\r\nX: 1`, 'nothing'],
  ['no length', `${ok}\r\n${half}`, 'its end'],
  ['no length, Connection: close', `${ok}Connection: close\r\n\r\n${half}`, 'its end'],
  ['no length, HTTP/1.0', `${old}\r\n${half}`, 'its end'],
  ['no length, nothing of it', `${ok}\r\n`, 'its end'],
  ['half a head', `${ok}Content-Le`, 'nothing'],
  ['an interim response alone', 'HTTP/1.1 103 Early Hints\r\n\r\n', 'nothing'],
  ['nothing', '', 'nothing'],
];

const answers: readonly Answer[] = bodies.flatMap(([title, send, by]) =>
  (['end', 'reset'] as const).map((then) => ({
    title: `${title}, then ${then}`,
    send,
    then,
    by,
    isWhole: by === 'itself' || (by === 'its end' && then === 'end'),
  })),
);

/** What the client asks by, each in a lane of its own where it can be. */
const requests: Readonly<Record<string, string>> = {
  'a plain one': 'GET /N HTTP/1.1\r\nHost: a\r\n\r\n',
  'a plain one, to be the last': 'GET /N HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  'an odd one': `GET /N HTTP/1.1\r\nHost: a\r\n${oddLines}\r\n`,
  'one with content': `POST /N HTTP/1.1\r\nHost: a\r\n${oddLines}Content-Length: 2\r\n\r\nhi`,
  'HTTP/1.0': 'GET /N HTTP/1.0\r\nHost: a\r\n\r\n',
  'HTTP/1.0, kept': 'GET /N HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n',
  'HTTP/1.0, an odd one': 'GET /N HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n',
  'OPTIONS *': `OPTIONS * HTTP/1.1\r\nHost: a\r\nX-Number: N\r\n${oddLines}\r\n`,
  'a WebSocket that is declined': 'GET /N HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'another protocol that is declined': 'GET /N HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n',
};

/** An app that gives the answer whose number the request has. A reset waits until the proxy has read what came before. */
async function startCutApp(t: Test): Promise<{ readonly port: number }> {
  const serve = (socket: Socket): void => {
    let pending = '';
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      pending += chunk.toString('latin1');
      const number = /(?:^[A-Z]+ \/|X-Number: )([0-9]+)/i.exec(pending);
      if (number === null || !pending.includes('\r\n\r\n')) return;
      if (pending.startsWith('POST') && !pending.endsWith('hi')) return;
      pending = '';
      const { send, then } = answers[Number(number[1])] as Answer;
      const end = (): void => void (then === 'end' ? socket.end() : socket.resetAndDestroy());
      if (send === '') end();
      else socket.write(send, 'latin1', () => setTimeout(end, 5));
    });
  };
  return startSocketApp(t, serve);
}

/** Asks for each answer. One that ends by itself leaves its connection to the next request, which the app's end would meet. */
async function eachAnswer(
  counts: { readonly destinations: number },
  look: (number: number) => Promise<Seen>,
): Promise<string[]> {
  const wrong: string[] = [];
  const one = async ({ title, isWhole }: Answer, number: number): Promise<void> => {
    const seen = await look(number);
    if ((seen === 'whole') !== isWhole) wrong.push(`${title}: ${seen}`);
  };
  await Promise.all(answers.map((answer, number) => (answer.by === 'itself' ? null : one(answer, number))));
  for (const [number, answer] of answers.entries()) {
    if (answer.by !== 'itself') continue;
    await one(answer, number);
    await until('the end of its connection to the app', () => counts.destinations === 0);
  }
  return wrong.sort();
}

/** What the client made of it. */
type Seen = 'whole' | 'cut' | 'refused';

async function ask(
  lane: { readonly port: number },
  text: string,
  tls: LaneOptions['tls'] | undefined,
  client: object,
): Promise<Seen> {
  const peer = await RawClient.open({ port: lane.port, ...(tls === undefined ? {} : { tls: client }) });
  try {
    peer.send(Buffer.from(text, 'latin1'));
    const parsed = (): ReturnType<typeof parseResponses> =>
      parseResponses(peer.received, [], peer.ended && peer.error === null);
    const final = (): { readonly status: number } | undefined => parsed().responses.find(({ status }) => status >= 200);
    await until('a response, or the end', () => final() !== undefined || peer.ended);
    const response = final();
    if (response === undefined) return 'cut';
    return response.status === 200 ? 'whole' : 'refused';
  } finally {
    peer.destroy();
  }
}

const { termination, client: credentials } = meshed('http/1.1');

for (const engine of engines) {
  for (const link of ['plain', 'TLS'] as const) {
    t.test(`HTTP/1 clients, ${engine} lane, ${link}`, async (t) => {
      const app = await startCutApp(t);
      const tls = link === 'TLS' ? termination : undefined;
      const lane = await startLane(t, { engine, app: app.port, ...(tls === undefined ? {} : { tls }) });
      for (const [name, request] of Object.entries(requests)) {
        const wrong = await eachAnswer(lane.counts, (number) =>
          ask(lane, request.replace(/\bN\b/, String(number)), tls, credentials),
        );
        t.same(wrong, [], `${name}: complete where it was at the app`);
      }
    });
  }
}

async function askByHttp2(port: number, number: number): Promise<Seen> {
  // One each: a 502 is the last of its connection.
  const session = http2Connect(`http://127.0.0.1:${port}`);
  session.on('error', () => {});
  const stream = session.request({ ':path': `/${number}`, 'l5d-orig-proto': 'HTTP/1.1' });
  let status = 0;
  let failed = false;
  stream.on('response', (fields) => {
    status = fields[':status'] ?? 0;
  });
  stream.on('error', () => {
    failed = true;
  });
  stream.resume();
  await until('the end of the stream', () => stream.closed);
  session.destroy();
  if (status !== 200) return status === 0 ? 'cut' : 'refused';
  return failed || stream.rstCode !== 0 ? 'cut' : 'whole';
}

for (const http2Engine of engines satisfies readonly Engine[]) {
  t.test(`HTTP/2 clients, an HTTP/1 app, ${http2Engine}`, async (t) => {
    const app = await startCutApp(t);
    const lane = await startLane(t, { engine: 'fast', http2Engine, protocol: 'http2', app: app.port });
    t.same(await eachAnswer(lane.counts, (number) => askByHttp2(lane.port, number)), []);
  });
}
