import { METHODS } from 'node:http';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { bothOf } from '../support/cases.ts';
import { caseBytes, readHttp1Cases } from '../support/http1-cases.ts';
import { type Engine, engines, type Lane, startLane } from '../support/lanes.ts';
import { type RawApp, startRawApp } from '../support/raw-app.ts';
import { parseResponses, RawClient } from '../support/raw-http.ts';
import { lenientParser, type RecordedRequest, strictParser } from '../support/request-parsers.ts';
import { until } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';
import { inTurn, lastLook } from './looks.ts';
import { cut, cuts, mutate, mutation, soundRequest } from './mutations.ts';

/*
 * The same bytes, cut alike, to a proxy with the fast lane and to one without it: the same responses in the same order,
 * the same requests for the app, and both keep the connection or both end it. Each proxy has an app that reads
 * strictly, and one that reads as carelessly as servers do.
 */

t.setTimeout(timeLimitMs);

interface Variant {
  readonly engine: Engine;
  readonly reading: 'strict' | 'lenient';
  readonly lane: Lane;
  readonly app: RawApp;
  /** Requests that were decided; each look clears it. */
  readonly decided: string[];
}

interface Observation {
  readonly statuses: readonly number[];
  readonly fault: string | null;
  /** The proxy ended the connection while the client's side was open. */
  readonly ended: boolean;
  readonly requests: readonly string[];
}

/** The last request of each stream, with a response of its own: when that has come, there is no more to wait for. */
const sentinel = '/sentinel';

async function variants(t: Test): Promise<Variant[]> {
  const list: Variant[] = [];
  for (const reading of ['strict', 'lenient'] as const) {
    for (const engine of engines) {
      const app = await startRawApp(t, {
        parser: reading === 'strict' ? strictParser : lenientParser,
        // Without a body, a response to HEAD looks like any other.
        answer: ({ target }, { socket }) =>
          socket.write(`HTTP/1.1 ${target === sentinel ? 299 : 200} OK\r\nContent-Length: 0\r\n\r\n`),
        // `Expect` never gets here. This takes content for it, and so it says at times what nobody asked for.
        partial: ({ socket, pending }) => {
          if (/\r\nexpect:/i.test(pending.toString('latin1'))) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
        },
      });
      const decided: string[] = [];
      const onDecided = (request: string): void => void decided.push(request);
      list.push({ engine, reading, lane: await startLane(t, { engine, app: app.port, onDecided }), app, decided });
    }
  }
  return list;
}

/**
 * Names whose fields are the connection's, or which the lanes may spell differently: a body's length can be announced
 * in two ways, and undici adds Connection.
 */
const ofTheConnection = new Set(['connection', 'content-length', 'transfer-encoding']);

/** A request as the app saw it, in a form in which equal requests are equal texts. */
function seen(request: RecordedRequest): string {
  const headers = request.headers
    .map(([name, value]) => `${name.toLowerCase()}: ${value.trim()}`)
    .filter((line) => !ofTheConnection.has(line.slice(0, line.indexOf(':'))))
    .sort();
  const trailers = request.trailers.map(([name, value]) => `${name.toLowerCase()}: ${value}`).sort();
  return JSON.stringify([request.method, request.target, headers, request.body.toString('latin1'), trailers]);
}

/**
 * @param quietMs when nothing more has come for so long, nothing more is expected.
 */
async function observe(variant: Variant, packets: readonly Buffer[], quietMs: number): Promise<Observation> {
  const { lane, app } = variant;
  const before = app.requests.length;
  const client = await RawClient.open({ port: lane.port });
  try {
    for (const packet of packets) {
      client.send(packet);
      // A turn, so that packets do not become one.
      await new Promise((resolve) => setImmediate(resolve));
    }
    const answered = (): boolean => client.received.includes(' 299 ');
    for (;;) {
      const came = client.receivedLength + app.requests.length;
      if (await client.reaches(answered, quietMs)) break;
      // Nothing for a whole quiet time: an incomplete message, most likely.
      if (client.ended || client.receivedLength + app.requests.length === came) break;
    }
    const ended = client.ended;
    const stream = parseResponses(client.received, [], ended);
    client.halfClose();
    await client.ends(3000);
    const requests = app.requests.slice(before);
    const statuses = stream.responses.map(({ status }) => status).filter((status) => status >= 200);
    return {
      statuses,
      fault: stream.fault,
      ended,
      requests: requests.map(seen).sort(),
    };
  } finally {
    client.destroy();
  }
}

/** The look that is under way: a search that runs out of time leaves its last one behind. */
/** Null when the lanes cannot be told apart by this stream. */
function difference(list: readonly Variant[], text: string, at: readonly number[] | null): Promise<string | null> {
  return inTurn(() => compared(list, text, at));
}

/** A request, as it was decided, that Node's parser cannot carry: a method that it does not know. */
function isBeyondLibraries(decided: string): boolean {
  return !METHODS.includes(decided.slice(0, decided.indexOf(' ')));
}

async function compared(list: readonly Variant[], text: string, at: readonly number[] | null): Promise<string | null> {
  const packets = cut(`${text}GET ${sentinel} HTTP/1.1\r\nHost: a.example\r\n\r\n`, at);
  let said: string | null = null;
  // What was only slow is the same at the second, patient look.
  for (const quietMs of [40, 400]) {
    for (const { decided } of list) decided.length = 0;
    const observations = await Promise.all(list.map((variant) => observe(variant, packets, quietMs)));
    if (list.some(({ decided }) => decided.some(isBeyondLibraries))) return null;
    said = null;
    for (const { engine, reading, lane } of list) {
      const closed = await until('the proxy to close', () => lane.live.size === 0, {
        timeoutMs: 3000,
        everyMs: 1,
      }).catch(() => false);
      if (closed === false) said ??= `${engine}, ${reading}: the connection stays open`;
    }
    for (let i = 0; i < list.length; i += 2) {
      const [fast, library] = [observations[i] as Observation, observations[i + 1] as Observation];
      const { reading } = list[i] as Variant;
      said ??= compare(fast, library, reading);
      for (const request of [...fast.requests, ...library.requests]) {
        if (/^\["[^"]*","[^"]*DENIED/.test(request) && request.includes('"/DENIED')) said ??= `the app saw ${request}`;
      }
      for (const { app: each } of [list[i] as Variant, list[i + 1] as Variant]) {
        if (reading === 'strict' && each.malformed.length > 0) said ??= `malformed for the app: ${each.malformed}`;
        each.malformed.length = 0;
      }
    }
    if (said === null) return null;
  }
  return said;
}

function compare(fast: Observation, library: Observation, reading: string): string | null {
  const fault = fast.fault ?? library.fault;
  if (fault !== null) return `${reading}: the responses are no HTTP: ${fault}`;
  if (!sameAnswers(fast, library)) {
    return `${reading}: statuses: fast ${fast.statuses}, library ${library.statuses}, ended ${fast.ended}`;
  }
  for (const key of ['ended', 'requests'] as const) {
    const [a, b] = [JSON.stringify(fast[key]), JSON.stringify(library[key])];
    if (a !== b) return `${reading}: ${key}: fast ${a}, library ${b}`;
  }
  return null;
}

/**
 * The same, but for a last request with a fault in its body. If the fault is seen when the request is decided, it is a
 * 400 even where policy would refuse it; if it is seen later, the connection ends, with a 400 or without.
 */
function sameAnswers(fast: Observation, library: Observation): boolean {
  const [a, b] = [[...fast.statuses], [...library.statuses]];
  while (a.length > 0 && b.length > 0 && a[0] === b[0]) {
    a.shift();
    b.shift();
  }
  const tails = [a.join(), b.join()];
  const refusals = ['400', '403', '403,400'];
  if (tails.every((tail) => tail === '')) return true;
  return (
    fast.ended &&
    library.ended &&
    (tails.every((tail) => refusals.includes(tail)) || tails.every((tail) => tail === '' || tail === '400'))
  );
}

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
          const seen = await difference(list, mutate(requests.join(''), mutations), at);
          if (seen !== null) throw new Error(seen);
        },
      ),
      0.6,
      () => runs > 10,
    );
    t.equal(found, null);
    t.ok(runs > 10, `${runs} pipelines`);
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
