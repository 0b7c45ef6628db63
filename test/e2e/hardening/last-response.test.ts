import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as tlsConnect } from 'node:tls';
import t from 'tap';
import { closedServer, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import { meshClient, testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { identityEnvironment } from '../../support/files.ts';
import { dataFrame, frame, preface, settingsFrame, type } from '../../support/http2-frames.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1 } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { until, within } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * A response after which the connection ends must reach a client that is still sending (RFC 9112 9.6): a connection that
 * is closed with bytes unread is reset, the client's next write fails, and it never reads why. Here no client reads before
 * it has sent all it has.
 */

t.setTimeout(900_000);

/** Clients of each row at a time. */
const crowd = Number(process.env.CROWD ?? 4);
/** Pieces that follow the beginning, and milliseconds between them. */
const pieces = 40;
const everyMs = 5;

interface Row {
  readonly title: string;
  readonly port: 'ruled' | 'plain' | 'declared' | 'gone';
  readonly begins: string;
  /** What is sent again and again after that. */
  readonly goesOn: string;
  readonly status: string;
}

const content = 'x'.repeat(16 * 1024);
const chunk = `${content.length.toString(16)}\r\n${content}\r\n`;
const announced = `Content-Length: ${pieces * content.length + 1}`;
const next = http1Request('/public');
const rows: readonly Row[] = [
  {
    title: 'what some server would take for a request',
    port: 'plain',
    begins: 'GET\t/admin\tHTTP/1.1\r\n',
    goesOn: 'Host: web\r\n',
    status: '400',
  },
  { title: 'HTTP/0.9, undeclared', port: 'plain', begins: 'GET /admin\r\n', goesOn: 'Host: web\r\n', status: '400' },
  {
    title: 'RTSP, undeclared',
    port: 'plain',
    begins: 'GET http://x/admin RTSP/1.0\r\n\r\n',
    goesOn: 'Host: web\r\n',
    status: '400',
  },
  {
    title: 'a blank first, undeclared',
    port: 'plain',
    begins: ' GET /admin HTTP/1.1\r\n\r\n',
    goesOn: 'Host: web\r\n',
    status: '400',
  },
  { title: 'no HTTP version', port: 'declared', begins: 'GET /admin\r\n', goesOn: 'Host: web\r\n', status: '400' },
  {
    title: 'a request after which the client was to end',
    port: 'ruled',
    begins: http1Request('/secret', ['Connection: close', announced], 'POST'),
    goesOn: content,
    status: '403',
  },
  {
    title: 'readings of a path that disagree',
    port: 'ruled',
    begins: http1Request('/public/..%2fsecret'),
    goesOn: next,
    status: '400',
  },
  {
    title: 'the same with content',
    port: 'ruled',
    begins: http1Request('/public/..%2fsecret', [announced], 'POST'),
    goesOn: content,
    status: '400',
  },
  {
    title: 'much content',
    port: 'ruled',
    begins: http1Request('/secret', [announced], 'POST'),
    goesOn: content,
    status: '403',
  },
  {
    title: 'much content in chunks',
    port: 'ruled',
    begins: http1Request('/secret', ['Transfer-Encoding: chunked'], 'POST'),
    goesOn: chunk,
    status: '403',
  },
  {
    title: 'content that no 100 was waited for',
    port: 'ruled',
    begins: http1Request('/secret', ['Expect: 100-continue', announced], 'POST'),
    goesOn: content,
    status: '403',
  },
  {
    title: 'a field that is none',
    port: 'ruled',
    begins: 'GET /public HTTP/1.1\r\nHost: web\r\nno field\r\n\r\n',
    goesOn: next,
    status: '400',
  },
  {
    title: 'two hosts',
    port: 'ruled',
    begins: 'POST /public HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1000000\r\n\r\n',
    goesOn: content,
    status: '400',
  },
  {
    title: 'a head that is too large',
    port: 'ruled',
    begins: `GET /public HTTP/1.1\r\nHost: web\r\nlong: ${'a'.repeat(128 * 1024)}`,
    goesOn: 'a'.repeat(100),
    status: '431',
  },
  {
    title: 'a chunk that is none',
    port: 'ruled',
    begins: `${http1Request('/public', ['Transfer-Encoding: chunked'], 'POST')}no size\r\n`,
    goesOn: chunk,
    status: '400',
  },
  {
    title: 'an upgrade',
    port: 'ruled',
    begins: http1Request('/secret', ['Connection: Upgrade', 'Upgrade: websocket']),
    goesOn: content,
    status: '403',
  },
  {
    title: 'CONNECT',
    port: 'ruled',
    begins: 'CONNECT web:80 HTTP/1.1\r\nHost: web:80\r\n\r\n',
    goesOn: content,
    status: '404',
  },
  {
    title: 'an app that is not there',
    port: 'gone',
    begins: http1Request('/public', [announced], 'POST'),
    goesOn: content,
    status: '502',
  },
  {
    title: 'an app that is not there, content in chunks',
    port: 'gone',
    begins: http1Request('/public', ['Transfer-Encoding: chunked'], 'POST'),
    goesOn: chunk,
    status: '502',
  },
  { title: 'pipelined to an app that is not there', port: 'gone', begins: next, goesOn: next, status: '502' },
  {
    title: 'HTTP/2 that breaks the rules',
    port: 'plain',
    begins: Buffer.concat([preface, settingsFrame([]), dataFrame(0, 'content of no stream')]).toString('latin1'),
    goesOn: frame(type.ping, 0, 0, Buffer.alloc(8)).toString('latin1'),
    status: 'GOAWAY',
  },
];

/** What was answered, if that has come whole: the status of HTTP/1, or the end that HTTP/2 announces. */
function answered(received: string): string | undefined {
  const bytes = latin1(received);
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === type.goaway) return 'GOAWAY';
  }
  return /^HTTP\/1\.1 (\d{3}) .*\r\n\r\n/s.exec(received)?.[1];
}

const ownName = workloadName('web', 'shop');
const tls = meshClient(ownName, workloadCertificate('orders', 'shop'));

function open(port: number, mesh: boolean): Promise<Socket> {
  const address = { port, host: '127.0.0.1', allowHalfOpen: true };
  const socket = mesh ? tlsConnect({ ...address, ...tls }) : connect(address);
  socket.pause();
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once(mesh ? 'secureConnect' : 'connect', () => resolve(socket.off('error', reject)));
  });
}

/** What a client sees that reads only when it has sent everything: the first status, or what has failed. */
async function seen(port: number, row: Row, mesh: boolean): Promise<string> {
  const socket = await within('a connection', 20_000, open(port, mesh));
  try {
    let failed: NodeJS.ErrnoException | null = null;
    let isOver = false;
    let received = '';
    socket.on('error', (error) => {
      failed = error;
    });
    socket.on('close', () => {
      isOver = true;
    });
    socket.write(latin1(row.begins));
    for (let sent = 0; sent < pieces && failed === null; sent++) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      socket.write(latin1(row.goesOn));
    }
    socket.on('data', (bytes: Buffer) => {
      received += bytes.toString('latin1');
    });
    socket.resume();
    const status = (): string | undefined => answered(received);
    await until('a response or the end', () => status() !== undefined || isOver, { lastSeen: () => received });
    return status() ?? `no response: ${failed ?? 'closed'}`;
  } finally {
    socket.destroy();
  }
}

for (const lane of lanes) {
  t.test(lane.name, async (t) => {
    const folder = t.testdir();
    const app = await startWitness(t);
    const [ruled, plain, declared, gone, nobody] = (await freePorts(5)) as [number, number, number, number, number];
    const ports = { ruled, plain, declared, gone };
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(
          folder,
          closedServer('ruled', ruled) +
            route('public', 'ruled', '/public') +
            openRoute('public') +
            route('secret', 'ruled', '/secret') +
            openServer('plain', plain) +
            openServer('declared', declared, 'HTTP/1') +
            openServer('gone', gone),
        ),
        SALLYPORT_INBOUND_PORTS: [
          ...[ruled, plain, declared].map((port) => `${port}=127.0.0.1:${app.port}`),
          `${gone}=127.0.0.1:${nobody}`,
        ].join(),
        ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
        ...lane.env,
      },
    });
    for (const row of rows) {
      for (const mesh of [false, true]) {
        const clients = Array.from({ length: crowd }, () => seen(ports[row.port], row, mesh));
        const title = `${row.title}, ${mesh ? 'inside TLS' : 'without TLS'}`;
        t.same([...new Set(await Promise.all(clients))], [row.status], title);
      }
    }
    t.match(await sallyport.stop(), { code: 0 });
  });
}

t.test('nobody is read away for ever', async (t) => {
  const folder = t.testdir();
  const [ruled = 0] = await freePorts(1);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, closedServer('ruled', ruled)),
      SALLYPORT_INBOUND_PORTS: `${ruled}=127.0.0.1:1`,
    },
  });
  const refused = 'GET /public HTTP/1.1\r\nHost: web\r\nno field\r\n\r\n';
  for (const [title, piece] of [
    ['a client that is silent and does not end', Buffer.alloc(0)],
    ['one that sends a little now and then', Buffer.from('x')],
    ['one that sends as much as it can', Buffer.alloc(1024 * 1024)],
  ] as const) {
    const socket = await open(ruled, false);
    let isOver = false;
    socket.on('error', () => {});
    socket.on('close', () => {
      isOver = true;
    });
    socket.write(refused);
    socket.resume();
    const from = performance.now();
    await until(title, () => {
      if (piece.length > 0 && !socket.writableNeedDrain) socket.write(piece);
      // Of its own side it says nothing: only a write tells it that the other is gone.
      if (piece.length === 0 && performance.now() - from > 1_500) socket.write('x');
      return isOver;
    });
    t.pass(`${title}: after ${Math.round(performance.now() - from)} ms`);
  }
  t.match(await sallyport.stop(), { code: 0 });
});
