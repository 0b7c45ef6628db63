import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { AppConnection } from '../../lib/proxy/http1/app-connection.ts';
import type { ResponseHead } from '../../lib/proxy/http1/plain-response.ts';
import { noLateHeads } from '../support/limits.ts';
import { parseResponses } from '../support/raw-http.ts';
import { admittedForNow } from '../support/waiting.ts';
import { search, timeLimitMs } from './budget.ts';
import { cut, cuts, response } from './mutations.ts';
import { readResponse } from './node-parser.ts';

/*
 * What the fast lane takes for an app's response, Node's strict client takes for the same: status, body, end. What is
 * relayed to the client is correct HTTP by the letter. How the bytes were cut into packets changes nothing.
 */

t.setTimeout(timeLimitMs);

interface Relayed {
  /** What the client would get, without the head fields that the connection adds. */
  readonly bytes: string;
  readonly status: number | null;
  readonly untilClose: boolean;
  readonly end: 'complete' | 'failed' | 'open';
  /** The connection went back to its pool. */
  readonly reused: boolean;
}

class FakeSocket extends EventEmitter {
  destroyed = false;
  writableLength = 0;
  destroy(): void {
    this.destroyed = true;
  }
  isPaused(): boolean {
    return false;
  }
}

/** Feeds an app connection with these packets, and then the app's end. */
function relay(method: string, packets: readonly Buffer[]): Relayed {
  const socket = new FakeSocket();
  let reused = false;
  const home = {
    release: () => {
      reused = true;
    },
    forget: () => {},
    // Its request is whole before the response begins.
    awaitsRest: () => t.fail('nothing is left of the request'),
    releaseWhenProven: () => t.fail('nothing waits to be written'),
  };
  const connection = new AppConnection(socket as unknown as Socket, home, noLateHeads);
  let bytes = '';
  let status: number | null = null;
  let untilClose = false;
  let end: Relayed['end'] = 'open';
  connection.begin(admittedForNow, method, 'unless the app says no', {
    requestComplete: true,
    destroy: () => {},
    onHead: (head: ResponseHead, body: Buffer) => {
      if (end !== 'open') throw new Error('a head after the end');
      if (head.status >= 200) {
        if (status !== null) throw new Error('two final heads');
        status = head.status;
        untilClose = head.framing.kind === 'until-close';
      } else if (head.status !== 103) {
        return;
      }
      bytes += `${head.forward}\r\n${body.toString('latin1')}`;
    },
    onBody: (body: Buffer) => {
      if (end !== 'open' || status === null) throw new Error('a body out of place');
      bytes += body.toString('latin1');
    },
    onEnd: () => {
      if (end !== 'open') throw new Error('a second end');
      end = 'complete';
    },
    onFailed: () => {
      if (end !== 'open') throw new Error('failed after the end');
      end = 'failed';
    },
  });
  for (const packet of packets) {
    if (socket.destroyed) break;
    // Lent, as a read buffer is: if it is kept, it holds other bytes later.
    const lent = Buffer.from(packet);
    connection.receive(lent, false);
    lent.fill(0x21);
  }
  if (!socket.destroyed) socket.emit('end');
  socket.emit('close');
  return { bytes, status, untilClose, end, reused };
}

/** Null when both readings agree, or the fast lane refuses; else how they differ. */
async function difference(method: string, text: string, at: readonly number[] | null): Promise<string | null> {
  const whole = relay(method, cut(text, []));
  const pieces = relay(method, cut(text, at));
  // How much of a broken answer is out when the fault is seen may depend on the packets, never what it is.
  const same =
    whole.end === pieces.end &&
    (whole.end === 'failed' || JSON.stringify({ ...whole, reused: 0 }) === JSON.stringify({ ...pieces, reused: 0 }));
  if (!same) return `depends on the packets: ${JSON.stringify(whole)} or ${JSON.stringify(pieces)}`;

  // The parser below knows no classes beyond 5xx.
  if ((whole.status ?? 0) > 599) return null;
  // A failed answer is a 502, or breaks off before its end: the client takes nothing for complete.
  const stream = parseResponses(
    Buffer.from(whole.bytes, 'latin1'),
    [method],
    whole.untilClose && whole.end === 'complete',
  );
  if (stream.fault !== null && whole.end === 'complete') return `relays what is no HTTP: ${stream.fault}`;
  const final = stream.responses.find(({ status }) => status >= 200);
  if (whole.end === 'failed') return final === undefined ? null : 'relays a whole response, and fails';
  if (final === undefined || stream.incomplete) return 'relays half a response as a whole one';

  const node = await readResponse(method, text);
  if (node.status !== whole.status) return `status ${whole.status}, Node ${node.status}, ${node.fault}`;
  if (!node.complete) return `complete, Node: ${node.fault}`;
  const body = node.body.toString('latin1');
  if (final.body.toString('latin1') !== body)
    return `body ${JSON.stringify(final.body.toString())}, Node ${JSON.stringify(body)}`;
  const trailers = final.trailers.flat().join('\n');
  if (trailers !== node.trailers.join('\n')) return `trailers ${trailers}, Node ${node.trailers}`;
  const drops = /^(?:connection|keep-alive|proxy-connection|upgrade|http2-settings|transfer-encoding|content-length)$/i;
  const named = new Set(
    node.raw.flatMap((name, i) =>
      i % 2 === 0 && /^connection$/i.test(name) ? (node.raw[i + 1] ?? '').toLowerCase().split(/[\t ]*,[\t ]*/) : [],
    ),
  );
  const kept = node.raw.flatMap((name, i) =>
    i % 2 === 0 && !drops.test(name) && !named.has(name.toLowerCase()) ? [`${name}: ${node.raw[i + 1]}`] : [],
  );
  const given = final.headers.filter(([name]) => !drops.test(name)).map(([name, value]) => `${name}: ${value}`);
  if (kept.join('\n') !== given.join('\n')) return `fields ${given}, Node ${kept}`;
  return null;
}

const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

/** Found by searching, or near to what was. */
const regressions: readonly (readonly [name: string, text: string])[] = [
  ['a chunk extension that is no extension', `${chunked}5; \r\nhello\r\n0\r\n\r\n`],
  ['an empty chunk extension', `${chunked}5;\r\nhello\r\n0\r\n\r\n`],
  ['a separator in a chunk extension', `${chunked}5;a(b\r\nhello\r\n0\r\n\r\n`],
  ['obs-text in a chunk extension', `${chunked}5;\xff\r\nhello\r\n0\r\n\r\n`],
  ['an open quote in a chunk extension', `${chunked}5;a="b\r\nhello\r\n0\r\n\r\n`],
  ['a quoted pair in a chunk extension', `${chunked}5;a="\\"b"\r\nhello\r\n0\r\n\r\n`],
  ['space before a chunk extension', `${chunked}5 ;a=b\r\nhello\r\n0\r\n\r\n`],
  ['a trailer without a colon', `${chunked}0\r\nX\r\n\r\n`],
  ['a trailer with a space in its name', `${chunked}0\r\nX y: z\r\n\r\n`],
  ['a trailer with a space before its colon', `${chunked}0\r\nX : z\r\n\r\n`],
  ['framing in a trailer', `${chunked}0\r\nContent-Length: 5\r\n\r\n`],
  ['another framing in a trailer', `${chunked}0\r\nTransfer-Encoding: chunked\r\n\r\n`],
  [
    'a length in an interim response',
    'HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  [
    'an interim response that ends its connection',
    'HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  [
    'an interim response that ends its connection, by the name for proxies',
    'HTTP/1.1 103 Early Hints\r\nProxy-Connection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  [
    'an interim response with a body',
    'HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  ['tab after chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n'],
  ['tab before chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n'],
  ['tab after a length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\t\r\n\r\nhello'],
  ['a 204 with a body', 'HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nPOISON'],
  ['a status of three digits and no reason', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n'],
];

t.test('cases once found', async (t) => {
  for (const [name, text] of regressions) {
    for (const at of [[], null])
      t.equal(await difference('GET', text, at), null, `${name}, ${at === null ? 'by bytes' : 'whole'}`);
  }
});

t.test('generated responses', async (t) => {
  const ends = { complete: 0, failed: 0, open: 0 };
  const found = await search(
    fc.asyncProperty(fc.constantFrom('GET', 'GET', 'HEAD', 'POST'), response, cuts, async (method, text, at) => {
      ends[relay(method, cut(text, [])).end]++;
      const seen = await difference(method, text, at);
      if (seen !== null) throw new Error(seen);
    }),
    1,
  );
  t.equal(found, null);
  t.ok(ends.complete > 100 && ends.failed > 100, JSON.stringify(ends));
});
