import t from 'tap';
import { closedServer, http1Request, lanes } from '../../support/attacked-routes.ts';
import {
  FrameClient,
  frame,
  type as frameType,
  headersFrame,
  outcomeText,
  requestFields,
} from '../../support/http2-frames.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { runSallyport, startSallyport } from '../../support/sallyport.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * A probe's path is open to everybody. What it opens is a plain GET: nothing that leaves HTTP, and nothing with content.
 */

t.setTimeout(900_000);

const webSocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAA'];

/** `asks`: whether the request is more than a probe, and then refused. */
const http1Rows: readonly (readonly [title: string, bytes: string, asks: boolean])[] = [
  ['plain', http1Request('/healthz'), false],
  ['with a length of none', http1Request('/healthz', ['Content-Length: 0']), false],
  ['with fields of its own', http1Request('/healthz', ['User-Agent: kube-probe/1.30', 'Accept: */*']), false],
  ['an upgrade that is never taken', http1Request('/healthz', ['Connection: Upgrade', 'Upgrade: h2c']), false],
  ['Upgrade that Connection does not name', http1Request('/healthz', ['Upgrade: websocket']), false],
  ['WebSocket', http1Request('/healthz', webSocket), true],
  ['another protocol', http1Request('/healthz', ['Connection: Upgrade', 'Upgrade: chat/1']), true],
  ['content', `${http1Request('/healthz', ['Content-Length: 5'])}hello`, true],
  ['chunks', `${http1Request('/healthz', ['Transfer-Encoding: chunked'])}5\r\nhello\r\n0\r\n\r\n`, true],
  ['no chunks', `${http1Request('/healthz', ['Transfer-Encoding: chunked'])}0\r\n\r\n`, true],
  ['content and an upgrade', `${http1Request('/healthz', [...webSocket, 'Content-Length: 5'])}hello`, true],
  ['HEAD', http1Request('/healthz', [], 'HEAD'), true],
  ['CONNECT', 'CONNECT web:80 HTTP/1.1\r\nHost: web:80\r\n\r\n', true],
];

const explained: readonly (readonly [headers: readonly string[], verdict: string])[] = [
  [[], 'permit'],
  [['Content-Length: 0'], 'permit'],
  [['Upgrade: h2c'], 'permit'],
  [['Upgrade: websocket'], 'deny'],
  [['Upgrade: websocket', 'Connection: keep-alive, Upgrade'], 'deny'],
  [['Upgrade: websocket', 'Connection: keep-alive'], 'permit'],
  [['Content-Length: 5'], 'deny'],
  [['Transfer-Encoding: chunked'], 'deny'],
];

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const app = await startWitness(t);
    const [port = 0] = await freePorts(1);
    const folder = t.testdir();
    const policy = policyEnvironment(folder, closedServer('web', port));
    const probes = { SALLYPORT_PROBES: `${port}/healthz` };
    await startSallyport(t, {
      env: { ...policy, ...probes, SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`, ...env },
    });
    for (const [title, bytes, asks] of http1Rows) {
      const before = app.requests.length;
      // 127.0.0.1 is let in by another authorization.
      t.equal(await outcome(port, bytes, bytes.startsWith('HEAD') ? 'HEAD' : 'GET'), asks ? '403' : '200', title);
      t.equal(app.requests.length, before + (asks ? 0 : 1), `${title}: the app`);
    }
    for (const more of [[], [['l5d-orig-proto', 'HTTP/1.1']]] as const) {
      const carrier = more.length === 0 ? 'HTTP/2' : 'HTTP/1 inside HTTP/2';
      for (const [title, content, asks] of [
        ['plain', null, false],
        ['content', 'hello', true],
        ['content that is empty', '', true],
      ] as const) {
        const client = await FrameClient.open({ port, localAddress: '127.0.0.9' });
        client.send(headersFrame(1, requestFields('/healthz', more), content === null));
        if (content !== null) client.send(frame(frameType.data, 1, 1, Buffer.from(content)));
        t.equal(outcomeText(await client.outcome(1)), asks ? '403' : '200', `${carrier}, ${title}`);
        client.destroy();
      }
    }
    // The same header block each time: what was decided on it is kept, for each way that it can end.
    const client = await FrameClient.open({ port, localAddress: '127.0.0.9' });
    for (const [i, content] of [null, 'hello', null, 'hello', null].entries()) {
      const stream = 2 * i + 1;
      client.send(headersFrame(stream, requestFields('/healthz'), content === null));
      if (content !== null) client.send(frame(frameType.data, 1, stream, Buffer.from(content)));
      t.equal(outcomeText(await client.outcome(stream)), content === null ? '200' : '403', `repeated, ${i}`);
    }
    client.destroy();
    if (name !== 'fast lane') return;
    for (const [headers, verdict] of explained) {
      const args = ['explain', '--json', '--port', String(port), '--client', '10.1.2.3', '--path', '/healthz'];
      const { stdout } = await runSallyport(t, [...args, ...headers.flatMap((header) => ['--header', header])], {
        ...policy,
        ...probes,
      });
      t.equal(JSON.parse(stdout).verdict, verdict, `explain, ${headers.join()}`);
    }
  });
}

async function outcome(port: number, bytes: string, method: string): Promise<string> {
  const client = await RawClient.open({ port, localAddress: '127.0.0.9' });
  try {
    client.send(latin1(bytes));
    const [response] = await client.responses([method]);
    return String(response?.status);
  } finally {
    client.destroy();
  }
}
