import { METHODS } from 'node:http';
import type { ConnectionOptions } from 'node:tls';
import type { Test } from 'tap';
import { type Engine, type Lane, startLane } from '../support/lanes.ts';
import { meshed } from '../support/mesh.ts';
import { type RawApp, startRawApp } from '../support/raw-app.ts';
import { latin1, parseResponses, RawClient } from '../support/raw-http.ts';
import { lenientParser, type RecordedRequest, strictParser } from '../support/request-parsers.ts';
import { until } from '../support/until.ts';
import { inTurn } from './looks.ts';
import { cut } from './mutations.ts';

/*
 * The same bytes, cut alike, to a proxy with the fast lane, on new connections and on used ones, and to one without it. Each
 * has an app that reads strictly, and one that reads as carelessly as servers do.
 */

export interface Variant {
  readonly engine: Engine;
  readonly reading: 'strict' | 'lenient';
  /** Requests on each connection before those that are looked at: behind the first, the fast lane reads otherwise. */
  readonly earlier: number;
  /** How clients connect; undefined: without TLS. */
  readonly tls: ConnectionOptions | undefined;
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

/** Of each reading, in this order. */
const kinds: readonly (readonly [Engine, earlier: number, link: 'plain' | 'TLS'])[] = [
  ['fast', 0, 'plain'],
  ['fast', 2, 'plain'],
  ['fast', 2, 'TLS'],
  ['library', 0, 'plain'],
];

export async function variants(t: Test): Promise<Variant[]> {
  const list: Variant[] = [];
  // A client without a name of its own, of which the app is told nothing.
  const { termination, client } = meshed('http/1.1');
  const { cert: _, key: __, ...anonymous } = client;
  for (const reading of ['strict', 'lenient'] as const) {
    for (const [engine, earlier, link] of kinds) {
      const tls = link === 'TLS' ? anonymous : undefined;
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
      // Always in one way: what not every look at the same bytes sees, counts as slow.
      const arrivals = earlier === 0 ? 'with bytes' : 'as a stream';
      const lane = await startLane(t, { engine, app: app.port, onDecided, tls: termination, arrivals });
      list.push({ engine, reading, earlier, tls, lane, app, decided });
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
    // Node's client, which sends this for the library lane, announces no trailers where there are no chunks.
    .filter((line) => request.target !== '*' || !line.startsWith('trailer:'))
    .sort();
  const trailers = request.trailers.map(([name, value]) => `${name.toLowerCase()}: ${value}`).sort();
  return JSON.stringify([request.method, request.target, headers, request.body.toString('latin1'), trailers]);
}

/**
 * @param quietMs when nothing more has come for so long, nothing more is expected.
 */
async function observe(variant: Variant, packets: readonly Buffer[], quietMs: number): Promise<Observation> {
  const { lane, app, tls } = variant;
  const client = await RawClient.open({ port: lane.port, ...(tls === undefined ? {} : { tls }) });
  try {
    for (let i = 1; i <= variant.earlier; i++) {
      client.send(latin1('GET /earlier HTTP/1.1\r\nHost: a.example\r\n\r\n'));
      await client.responses(Array.from({ length: i }, () => 'GET'));
    }
    const [before, received] = [app.requests.length, client.receivedLength];
    variant.decided.length = 0;
    for (const packet of packets) {
      client.send(packet);
      // A turn, so that packets do not become one.
      await new Promise((resolve) => setImmediate(resolve));
    }
    const answered = (): boolean => client.received.includes(' 299 ');
    for (;;) {
      const came = client.receivedLength + app.requests.length;
      if (await client.waits(answered, quietMs)) break;
      // Nothing for a whole quiet time: an incomplete message, most likely.
      if (client.ended || client.receivedLength + app.requests.length === came) break;
    }
    const ended = client.ended;
    const stream = parseResponses(client.received.subarray(received), [], ended);
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

/** Null when the lanes cannot be told apart by this stream. */
export function difference(
  list: readonly Variant[],
  text: string,
  at: readonly number[] | null,
): Promise<string | null> {
  return inTurn(() => compared(list, text, at));
}

/** A request, as it was decided, that Node's parser cannot carry: a method that it does not know, a target beyond ASCII. */
function isBeyondLibraries(decided: string): boolean {
  return /[\x80-\xff]/.test(decided) || !METHODS.includes(decided.slice(0, decided.indexOf(' ')));
}

/** A field of the connection behind chunks, where none may be (RFC 9110 6.5.1): the fast lane refuses those. */
const connectionTrailer =
  /\r\n0+(?:;[^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*(?:connection|proxy-connection|keep-alive|upgrade|http2-settings):/i;

async function compared(list: readonly Variant[], text: string, at: readonly number[] | null): Promise<string | null> {
  if (connectionTrailer.test(text)) return null;
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
    for (const [i, { engine, reading, earlier, tls, app }] of list.entries()) {
      const observed = observations[i] as Observation;
      const library = list.findIndex((other) => other.engine === 'library' && other.reading === reading);
      const behind = earlier === 0 ? reading : `${reading}, behind ${earlier} requests`;
      const where = tls === undefined ? behind : `${behind}, inside TLS`;
      if (engine === 'fast') said ??= compare(observed, observations[library] as Observation, where);
      for (const request of observed.requests) {
        if (/^\["[^"]*","[^"]*DENIED/.test(request) && request.includes('"/DENIED')) said ??= `the app saw ${request}`;
      }
      if (reading === 'strict' && app.malformed.length > 0) said ??= `malformed for the app: ${app.malformed}`;
      app.malformed.length = 0;
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
