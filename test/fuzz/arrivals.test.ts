import { readdirSync } from 'node:fs';
import fc, { type Arbitrary } from 'fast-check';
import t from 'tap';
import { type Lane, startLane } from '../support/lanes.ts';
import { type AppSocket, startRawApp } from '../support/raw-app.ts';
import { parseResponses, RawClient } from '../support/raw-http.ts';
import { lenientParser } from '../support/request-parsers.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';
import { inTurn, lastLook, patiently } from './looks.ts';
import { cut, cuts, type Mutation, mutate, mutation, soundRequest } from './mutations.ts';

/*
 * A connection is no stream before somebody needs one. The same clients, apps and moments to a proxy that accepts it so and
 * to one in which it is a stream from the first: what arrives, and how it ends, is the same; and whatever a client does,
 * nothing of it stays.
 */

t.setTimeout(timeLimitMs);

/** How the app answers a request, in its target. */
const answers = {
  plain: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  empty: 'HTTP/1.1 204 No Content\r\n\r\n',
  large: `HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`,
  almost: `HTTP/1.1 200 OK\r\nContent-Length: 8100\r\n\r\n${'y'.repeat(8100)}`,
  chunked: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  early: 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  broken: 'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n',
  split: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n|hello',
  chunks: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe|llo\r\n0|\r\n\r\n',
  endless: 'HTTP/1.1 200 OK\r\n\r\nhello|!',
  ended: 'HTTP/1.1 200 OK\r\n\r\nhello|$',
  short: 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello|$',
  none: '$',
  reset: '!',
} as const;

async function answer(target: string, { socket }: AppSocket): Promise<void> {
  // Some targets have lost a letter on their way.
  const [, name = ''] = /answer=([a-z]+)/.exec(target) ?? [];
  const found = Object.entries(answers).find(([known]) => known === name)?.[1] ?? answers.plain;
  for (const part of found.split('|')) {
    if (part === '!') socket.resetAndDestroy();
    else if (part === '$') socket.end();
    else if (socket.writable) socket.write(part);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

interface Play {
  readonly requests: readonly string[];
  readonly mutations: readonly Mutation[];
  readonly cuts: readonly number[] | null;
  /** Turns between two packets. */
  readonly pause: number;
  readonly end: 'waits' | 'ends its side' | 'resets' | 'closes';
  /** After how many packets, and turns, it does so. */
  readonly endAt: number;
  readonly turns: number;
}

const request: Arbitrary<string> = fc
  .tuple(
    soundRequest,
    fc.constantFrom(...Object.keys(answers)),
    fc.constantFrom('', 'Connection: close\r\n', 'Connection: close\r\n'),
    fc.constantFrom(null, null, '1.0'),
  )
  .map(([text, name, close, old]) => {
    const made = text.replace(/ (\S*?)(\?\S*)? HTTP/, ` $1?answer=${name} HTTP`).replace('\r\n', `\r\n${close}`);
    return old === null ? made : made.replace('HTTP/1.1', 'HTTP/1.0');
  });

const play: Arbitrary<Play> = fc.record({
  requests: fc.oneof(
    { weight: 3, arbitrary: fc.array(request, { minLength: 1, maxLength: 1 }) },
    { weight: 1, arbitrary: fc.array(request, { minLength: 2, maxLength: 3 }) },
  ),
  mutations: fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(mutation, { maxLength: 1 }) },
  ),
  cuts: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: cuts }),
  pause: fc.constantFrom(0, 1, 5),
  end: fc.constantFrom('waits', 'waits', 'ends its side', 'resets', 'closes'),
  endAt: fc.nat(6),
  turns: fc.constantFrom(0, 0, 1, 3, 20),
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Seen {
  readonly responses: readonly string[];
  readonly fault: string | null;
  readonly incomplete: boolean;
  readonly end: string;
}

async function observe(
  lane: Lane,
  { requests, mutations, cuts, pause, end, endAt, turns }: Play,
  quietMs: number,
): Promise<Seen | null> {
  const client = await RawClient.open({ port: lane.port });
  try {
    const packets = cut(mutate(requests.join(''), mutations), cuts);
    for (const [at, packet] of packets.entries()) {
      client.send(packet);
      for (let i = 0; i < pause; i++) await turn();
      if (at < endAt && at < packets.length - 1) continue;
      for (let i = 0; i < turns; i++) await turn();
      if (end === 'resets') client.reset();
      if (end === 'closes') client.destroy();
      if (end === 'ends its side') client.halfClose();
      if (end !== 'waits') break;
    }
    if (end === 'resets' || end === 'closes') return null;
    for (let came = -1; came !== client.receivedLength && !client.ended; ) {
      came = client.receivedLength;
      await client.waits(() => client.ended, quietMs);
    }
    const { responses, fault, incomplete } = parseResponses(
      client.received,
      requests.map((text) => text.slice(0, text.indexOf(' '))),
      client.ended,
    );
    // A client that ends its side is told that its connection stays, or is asked for its content, where neither has been seen
    // by then: a matter of time.
    const timely = end === 'waits' ? ['date'] : ['date', 'connection', 'keep-alive'];
    const said = responses
      .filter(({ status }) => status !== 100)
      .map(({ status, headers, body }) =>
        JSON.stringify([
          status,
          headers.filter(([name]) => !timely.includes(name.toLowerCase())),
          body.toString('latin1'),
        ]),
      );
    return { responses: said, fault, incomplete, end: client.error?.code ?? (client.ended ? 'ended' : 'open') };
  } finally {
    client.destroy();
  }
}

const descriptors = (): number => readdirSync('/proc/self/fd').length;

t.test('clients of all manners', async (t) => {
  const app = await startRawApp(t, {
    parser: lenientParser,
    answer: ({ target }, socket) => void answer(target, socket),
  });
  const lanes: Lane[] = [];
  for (const arrivals of ['with bytes', 'as a stream'] as const)
    lanes.push(await startLane(t, { engine: 'fast', app: app.port, arrivals }));
  const before = descriptors();
  let runs = 0;
  const compared = (each: Play): Promise<string | null> =>
    patiently([30, 150, 600], async (quietMs) => {
      const [bare, stream] = await Promise.all(lanes.map((lane) => observe(lane, each, quietMs)));
      // Whoever says that a request is the last, and goes on, is reset as soon as that comes behind the end: when that is seen,
      // and whether the response has been read by then, is a matter of time.
      const goesOn = each.requests.length > 1 || each.mutations.length > 0;
      if (goesOn && [bare, stream].some((seen) => seen?.end === 'ECONNRESET')) return null;
      return JSON.stringify(bare) === JSON.stringify(stream)
        ? null
        : `${JSON.stringify(bare)?.slice(0, 900)}\nand as a stream\n${JSON.stringify(stream)?.slice(0, 900)}`;
    });
  const found = await search(
    fc.asyncProperty(play, (each) =>
      inTurn(async () => {
        runs++;
        const seen = await compared(each);
        if (seen !== null) throw new Error(seen);
      }),
    ),
    1,
    () => runs > 10,
  );
  t.equal(found, null);
  t.ok(runs > 10, `${runs} clients`);
  await lastLook();
  for (const { live, counts } of lanes) {
    await until('no connection to be open', () => live.size === 0, { lastSeen: () => `${live.size}` });
    await until('no request', () => counts.started === counts.ended);
    t.equal(counts.sources, 0);
    await until('no connection to the app that nobody uses', () => counts.destinations < 5);
  }
  const idle = lanes.reduce((sum, { counts }) => sum + 2 * counts.destinations, 0);
  await until('no descriptor', () => descriptors() <= before + idle + 2, {
    lastSeen: () => `${before} ${idle} ${descriptors()}`,
  });
});
