import t, { type Test } from 'tap';
import { forAllCases } from '../support/cases.ts';
import { temporaryFolder } from '../support/files.ts';
import {
  answersPossible,
  caseBytes,
  faultsOf,
  type Http1Case,
  type Observation,
  readHttp1Cases,
} from '../support/http1-cases.ts';
import { protocols, startHttp1Proxy } from '../support/http1-setup.ts';
import { freePorts } from '../support/ports.ts';
import { latin1, type ParsedResponse, parseResponses, RawClient } from '../support/raw-http.ts';
import { type RecorderApp, startRecorder } from '../support/recorder-app.ts';
import { mapBounded } from '../support/until.ts';

/** Runs at one time; each has listeners and recorders of its own, so that no run can be taken for another. */
const lanes = 4;
const readings = ['strict', 'lenient'] as const;
const ways = ['whole', 'byte by byte'] as const;

interface Variant {
  readonly protocol: (typeof protocols)[number];
  readonly reading: (typeof readings)[number];
  readonly port: number;
  readonly recorder: RecorderApp;
}

async function requestCases(t: Test, cases: readonly Http1Case[]): Promise<void> {
  const variants: Variant[][] = [];
  for (let lane = 0; lane < lanes; lane++) {
    const row: Variant[] = [];
    for (const protocol of protocols) {
      for (const reading of readings) {
        const [port = 0] = await freePorts(1);
        row.push({ protocol, reading, port, recorder: await startRecorder(t, reading) });
      }
    }
    variants.push(row);
  }
  const all = variants.flat();
  const sallyport = await startHttp1Proxy(
    t,
    temporaryFolder(t),
    all.map(({ port, protocol, recorder }) => ({ port, protocol, app: recorder.port })),
  );
  const results = await mapBounded(cases, lanes, (http1Case, lane) =>
    runCase(http1Case, variants[lane] as readonly Variant[]),
  );
  for (const [index, faults] of results.entries()) {
    const { id, title } = cases[index] as Http1Case;
    t.same(faults, [], `${id} ${title}`);
  }
  // A reused upstream connection that had carried a cut message would show here, whichever case it served later.
  for (const { recorder, protocol, reading } of all) {
    const targets = recorder.connections.flatMap(({ requests }) => requests.map(({ target }) => target));
    t.same(
      targets.filter((target) => /SMUGGLED|DENIED/.test(target)),
      [],
      `${protocol}, ${reading} app: nothing smuggled, nothing denied in all runs`,
    );
    if (reading === 'strict') {
      t.same(
        recorder.connections.map(({ malformed }) => malformed).filter((why) => why !== null),
        [],
        `${protocol}: every byte sent to the app was strict HTTP/1`,
      );
    }
  }
  t.equal((await sallyport.stop()).code, 0, 'the proxy survived all of it and stopped cleanly');
}

/** Every way of one case, in every variant; the faults of each, and of ways that differ from each other. */
async function runCase(http1Case: Http1Case, variants: readonly Variant[]): Promise<string[]> {
  const faults: string[] = [];
  for (const variant of variants) {
    const looks = new Map<string, string>();
    for (const way of ways) {
      const name = `${variant.protocol}, ${variant.reading} app, ${way}`;
      const seen = await observe(http1Case, variant, way);
      const found = faultsOf(http1Case, seen, variant.protocol === 'unknown');
      faults.push(...found.map((fault) => `${name}: ${fault}`));
      looks.set(way, `${seen.responses.map(({ status }) => status)} and ${seen.completed.length} upstream`);
    }
    if (new Set(looks.values()).size !== 1) {
      faults.push(`${variant.protocol}, ${variant.reading} app: ${JSON.stringify(Object.fromEntries(looks))}`);
    }
  }
  return faults;
}

async function observe(http1Case: Http1Case, variant: Variant, way: (typeof ways)[number]): Promise<Observation> {
  const bytes = caseBytes(http1Case);
  // A refused client that is still writing can lose the response to its own failing write before it reads; the proxy has
  // no part in that, so such a run is repeated.
  for (let attempt = 1; ; attempt++) {
    const seen = await observeOnce(http1Case, bytes, variant, way);
    if (seen !== 'answer lost' || attempt === 5) {
      if (seen !== 'answer lost') return seen;
      throw new Error(`${http1Case.id}: the response was lost ${attempt} times`);
    }
  }
}

async function observeOnce(
  http1Case: Http1Case,
  bytes: Buffer,
  { port, recorder }: Variant,
  way: (typeof ways)[number],
): Promise<Observation | 'answer lost'> {
  const mark = recorder.mark();
  const client = await RawClient.open({ port });
  const methods = http1Case.bytes.match(/[A-Z]+(?= \/?\S* HTTP)/g) ?? [];
  const parsed = (): { responses: readonly ParsedResponse[]; fault: string | null; incomplete: boolean } =>
    parseResponses(client.received, methods, client.ended);
  const finals = (): number => parsed().responses.filter(({ status }) => status >= 200).length;
  try {
    if (way === 'whole') client.send(bytes);
    else await client.sendByteByByte(bytes);
    let stalled = false;
    let closedByProxy: boolean;
    if (http1Case.then === 'client half-closes or resets') {
      closedByProxy = client.ended;
      // The upstream must have seen the beginning, or else there is nothing to abort.
      await client.reaches(() => recorder.bytesSince(mark).length > 0, 500);
      client.halfClose();
    } else {
      if (http1Case.then === 'send hello after 100, or after 1 s') {
        await client.waits(() => parsed().responses.length > 0, 1_000);
        client.send(latin1('hello'));
      } else if (http1Case.then !== undefined) {
        throw new Error(`no client is written for then: ${http1Case.then}`);
      }
      const wanted = answersPossible(http1Case);
      await client.reaches(() => finals() >= wanted, 3_000);
      stalled = !client.ended && finals() < wanted;
      // One 4xx may be all that comes before the end; the end may be a moment later than the response.
      if (!stalled && parsed().responses.some(({ status }) => status !== 200 && status !== 403 && status >= 200)) {
        await client.ends(3_000);
      }
      closedByProxy = client.ended;
      client.halfClose();
    }
    const ended = await client.ends(5_000);
    if (client.error?.syscall === 'write' && client.receivedLength === 0) return 'answer lost';
    await recorder.settled();
    const stream = parsed();
    return {
      responses: stream.responses,
      responseFault: stream.fault ?? (stream.incomplete ? 'it ends inside a message' : null),
      closedByProxy,
      ended,
      stalled,
      completed: recorder.requestsSince(mark),
      malformed: recorder.malformedSince(mark),
      upstreamBytes: recorder.bytesSince(mark),
    };
  } finally {
    client.destroy();
  }
}

t.setTimeout(900_000);
await forAllCases(t, readHttp1Cases(), (t, { cases }) => requestCases(t, cases), { timeout: 720_000 });
