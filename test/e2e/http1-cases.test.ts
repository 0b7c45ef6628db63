import { writeFileSync } from 'node:fs';
import { connect as http2Connect } from 'node:http2';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import {
  answersPossible,
  caseBytes,
  faultsOf,
  type Http1Case,
  type Http1Cases,
  type Observation,
  readHttp1Cases,
  type UpstreamResponseCase,
} from '../support/http1-cases.ts';
import { freePorts } from '../support/ports.ts';
import { headerValues, latin1, type ParsedResponse, parseResponses, RawClient } from '../support/raw-http.ts';
import { type RecorderApp, startRecorder } from '../support/recorder-app.ts';
import { type Sallyport, startSallyport } from '../support/sallyport.ts';
import { type ScriptedApp, startScriptedApp } from '../support/scripted-app.ts';
import { mapBounded, until, within } from '../support/until.ts';

/** Runs at one time; each has listeners and recorders of its own, so that no run can be taken for another. */
const lanes = 4;
const protocols = ['HTTP/1', 'unknown'] as const;
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
  const sallyport = await startProxy(
    t,
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
  // A refused client that is still writing can lose the answer to its own failing write before it reads; the proxy has
  // no part in that, so such a run is repeated.
  for (let attempt = 1; ; attempt++) {
    const seen = await observeOnce(http1Case, bytes, variant, way);
    if (seen !== 'answer lost' || attempt === 5) {
      if (seen !== 'answer lost') return seen;
      throw new Error(`${http1Case.id}: the answer was lost ${attempt} times`);
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
        await client.reaches(() => parsed().responses.length > 0, 1_000);
        client.send(latin1('hello'));
      } else if (http1Case.then !== undefined) {
        throw new Error(`no client is written for then: ${http1Case.then}`);
      }
      const wanted = answersPossible(http1Case);
      await client.reaches(() => finals() >= wanted, 3_000);
      stalled = !client.ended && finals() < wanted;
      // One 4xx may be all that comes before the end; the end may be a moment later than the answer.
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

interface Door {
  readonly port: number;
  readonly protocol: (typeof protocols)[number];
  readonly app: number;
}

/** The setup of the cases' conventions, once per door: /DENIED without authorization, / open. */
async function startProxy(t: Test, doors: readonly Door[]): Promise<Sallyport> {
  const server = (door: Door): string => `{group: policy.linkerd.io, kind: Server, name: web-${door.port}}`;
  const route = (name: string, path: string): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop}
spec:
  parentRefs: [${doors.map(server).join(', ')}]
  rules: [{matches: [{path: {type: PathPrefix, value: ${path}}}]}]
`;
  const documents = [
    ...doors.map(
      ({ port, protocol }) => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web-${port}, namespace: shop}
spec: {podSelector: {}, port: ${port}, proxyProtocol: ${protocol}}
`,
    ),
    route('denied', '/DENIED'),
    route('open', '/'),
    `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: open, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: open}
  requiredAuthenticationRefs: []
`,
  ];
  const policy = join(t.testdir(), 'policy.yaml');
  writeFileSync(policy, documents.join(''));
  return startSallyport(t, {
    env: {
      SALLYPORT_POLICY: policy,
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_INBOUND_PORTS: doors.map(({ port, app }) => `${port}=127.0.0.1:${app}`).join(','),
      // The clients call from 127.0.0.1, to which the implicit authorization would open /DENIED.
      SALLYPORT_AUTHORIZE_LOCALHOST: 'false',
      SALLYPORT_LOG: 'warn',
    },
  });
}

interface ResponseRow {
  readonly id: string;
  readonly title: string;
  readonly bytes: string;
  readonly method?: string;
  /** The app ends its connection after the bytes. */
  readonly endsAfter?: boolean;
  check(t: Test, seen: ResponseSeen): void;
}

interface ResponseSeen {
  readonly first: ParsedResponse | undefined;
  /** What the first client received is whole and correct HTTP. */
  readonly fault: string | null;
  readonly incomplete: boolean;
  readonly closed: boolean;
  /** A second client's answer to the same request, over whatever connection the proxy chose. */
  readonly second: ParsedResponse | undefined;
  readonly text: string;
  readonly app: ScriptedApp;
}

const discarded = (t: Test, { app, text }: ResponseSeen): void => {
  t.notMatch(text, /POISON/, 'surplus bytes reach no client');
  t.equal(app.connections.length, 2, 'the second request travels on a fresh connection');
  t.ok(
    app.connections.every(({ requests }) => requests === 1),
    'no connection served two requests',
  );
};

const responseChecks: Readonly<Record<string, Omit<ResponseRow, 'id' | 'title' | 'bytes'>>> = {
  U01: {
    check(t, seen) {
      t.match(seen, { first: { status: 200 }, second: { status: 200 } });
      t.same([seen.first?.body.toString(), seen.second?.body.toString()], ['ok', 'ok']);
      discarded(t, seen);
    },
  },
  U02: {
    check(t, seen) {
      if (seen.first?.status === 502) return;
      t.match(seen, { first: { status: 200 }, fault: null });
      t.equal(seen.first?.body.toString(), 'hello');
      t.same(headerValues(seen.first as ParsedResponse, 'content-length'), []);
      t.equal(seen.app.connections.length, 2, 'the connection is not used again');
    },
  },
  U03: {
    check(t, seen) {
      t.match(seen, { first: { status: 502 }, second: { status: 502 } });
      t.equal(seen.app.connections.length, 2, 'the connection is not used again');
    },
  },
  U04: {
    check(t, seen) {
      t.match(seen, { first: { status: 204 }, second: { status: 204 }, fault: null });
      discarded(t, seen);
    },
  },
  U05: {
    check(t, seen) {
      t.match(seen, { first: { status: 200 }, second: { status: 200 }, fault: null });
      t.equal(seen.first?.body.toString(), 'ok');
    },
  },
  U06: {
    check(t, seen) {
      t.match(seen, { first: { status: 502 }, second: { status: 502 } });
      t.notMatch(seen.text, /101 Switching/);
      t.ok(
        seen.app.connections.every(({ requests }) => requests === 1),
        'no connection served two requests',
      );
    },
  },
  U07: {
    endsAfter: true,
    check(t, seen) {
      if (seen.first?.status === 502) return;
      t.ok(seen.incomplete && seen.closed, 'the client can tell that the answer was cut');
      t.notMatch(seen.text, /\r\n0\r\n/, 'no last chunk');
    },
  },
};

/** The cases' own wording speaks of HEAD too, but gives bytes for 204 only. */
const headRow: ResponseRow = {
  id: 'U04',
  title: 'body on HEAD',
  bytes: 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON',
  method: 'HEAD',
  check(t, seen) {
    t.match(seen, { first: { status: 200 }, second: { status: 200 }, fault: null });
    discarded(t, seen);
  },
};

async function responseCases(t: Test, { upstream_response_cases: cases }: Http1Cases): Promise<void> {
  const rows = cases.map((row: UpstreamResponseCase): ResponseRow => {
    const check = responseChecks[row.id];
    if (check === undefined) throw new Error(`no check is written for ${row.id}`);
    return { ...row, ...check };
  });
  rows.push(headRow);
  const ports = await freePorts(rows.length);
  const apps: ScriptedApp[] = [];
  for (const row of rows) apps.push(await startScriptedApp(t, latin1(row.bytes), row.endsAfter === true));
  await startProxy(
    t,
    apps.map((app, i) => ({ port: ports[i] as number, protocol: 'unknown', app: app.port })),
  );
  for (const [i, row] of rows.entries()) {
    const port = ports[i] as number;
    const app = apps[i] as ScriptedApp;
    await t.test(`${row.id} ${row.title}`, async (t) => {
      const [one, two] = [await ask(port, row.method ?? 'GET'), await ask(port, row.method ?? 'GET')];
      row.check(t, {
        first: one.final,
        fault: one.fault,
        incomplete: one.incomplete,
        closed: one.closed,
        second: two.final,
        text: one.text + two.text,
        app,
      });
    });
    if (row.id === 'U07') {
      await t.test('U07 towards an HTTP/2 client', async (t) => t.not(await h2ResetCode(t, port), 0, 'RST_STREAM'));
    }
  }
}

interface Asked {
  readonly final: ParsedResponse | undefined;
  readonly fault: string | null;
  readonly incomplete: boolean;
  readonly closed: boolean;
  readonly text: string;
}

/** One request on a connection of its own; waits for its final answer or the end, then closes in order. */
async function ask(port: number, method: string): Promise<Asked> {
  const client = await RawClient.open({ port });
  try {
    client.send(latin1(`${method} /ok HTTP/1.1\r\nHost: a.example\r\n\r\n`));
    const parsed = (): ReturnType<typeof parseResponses> => parseResponses(client.received, [method], client.ended);
    await client.reaches(() => parsed().responses.some(({ status }) => status >= 200), 5_000);
    const closed = client.ended;
    client.halfClose();
    await client.ends(5_000);
    const stream = parsed();
    return {
      final: stream.responses.find(({ status }) => status >= 200),
      fault: stream.fault,
      incomplete: stream.incomplete,
      closed,
      text: client.received.toString('latin1'),
    };
  } finally {
    client.destroy();
  }
}

/** A meshed client's HTTP/1 request carried over h2 (`l5d-orig-proto`): how its stream ended. */
async function h2ResetCode(t: Test, port: number): Promise<number> {
  const session = http2Connect(`http://127.0.0.1:${port}`);
  t.teardown(() => session.destroy());
  session.on('error', () => {});
  const stream = session.request({ ':path': '/ok', 'l5d-orig-proto': 'HTTP/1.1' });
  stream.on('error', () => {});
  stream.resume();
  await within('the stream to close', 5_000, new Promise((resolve) => stream.once('close', resolve)));
  await until('the session to settle', () => stream.closed);
  return stream.rstCode ?? 0;
}

const shared = readHttp1Cases();
if (!shared.found) {
  t.plan(0, shared.reason);
} else {
  t.setTimeout(280_000);
  await t.test('HTTP/1 cases', { timeout: 240_000 }, (t) => requestCases(t, shared.cases.cases));
  await t.test('hostile answers of an app', { timeout: 60_000 }, (t) => responseCases(t, shared.cases));
}
