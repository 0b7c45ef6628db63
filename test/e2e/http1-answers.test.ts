import { connect as http2Connect } from 'node:http2';
import t, { type Test } from 'tap';
import { forAllCases } from '../support/cases.ts';
import { temporaryFolder } from '../support/files.ts';
import { type Http1Cases, readHttp1Cases, type UpstreamResponseCase } from '../support/http1-cases.ts';
import { startHttp1Proxy } from '../support/http1-setup.ts';
import { freePorts } from '../support/ports.ts';
import { headerValues, latin1, type ParsedResponse, parseResponses, RawClient } from '../support/raw-http.ts';
import { type ScriptedApp, startScriptedApp } from '../support/scripted-app.ts';
import { until, within } from '../support/until.ts';

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
      t.ok(seen.incomplete && seen.closed, 'the client can tell that the response was cut');
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
  await startHttp1Proxy(
    t,
    temporaryFolder(t),
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

/** One request on a connection of its own; waits for its final response or the end, then closes in order. */
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

await forAllCases(t, readHttp1Cases(), responseCases, { timeout: 840_000 });
