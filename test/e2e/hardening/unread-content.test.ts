import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { closedServer, http1Outcome, http1Request, lanes, openRoute, route } from '../../support/attacked-routes.ts';
import type { Teardown } from '../../support/children.ts';
import { serverKinds, startServer, unavailable } from '../../support/http-servers.ts';
import {
  dataFrame,
  type Fields,
  FrameClient,
  headersFrame,
  outcomeText,
  requestFields,
} from '../../support/http2-frames.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startSocketApp } from '../../support/socket-app.ts';
import { until } from '../../support/until.ts';

/*
 * Not every app takes a message as it is framed: many leave content unread where the method does not call for any, some
 * send content in answer to HEAD, some look for a length under a name that only resembles it. Neither may become another
 * request, or somebody else's answer.
 */

t.setTimeout(900_000);

const forged = http1Request('/secret', ['l5d-client-id: admin']);

/** How the content is sent, and by which way. */
const ways: readonly (readonly [title: string, ask: (port: Ports, method: string) => Promise<string>])[] = [
  [
    'by its length',
    ({ http1 }, method) =>
      http1Outcome(http1, http1Request('/public', [`Content-Length: ${forged.length}`], method) + forged, method),
  ],
  [
    'in chunks',
    ({ http1 }, method) =>
      http1Outcome(
        http1,
        `${http1Request('/public', ['Transfer-Encoding: chunked'], method)}${forged.length.toString(16)}\r\n${forged}\r\n0\r\n\r\n`,
        method,
      ),
  ],
  ['inside HTTP/2', ({ http2 }, method) => carried(http2, method, [['content-length', String(forged.length)]])],
];

interface Ports {
  readonly http1: number;
  readonly http2: number;
}

/** HTTP/1 inside HTTP/2, as a meshed client carries it. */
async function carried(port: number, method: string, more: Fields = [], content = forged): Promise<string> {
  const client = await FrameClient.open({ port });
  try {
    const fields = requestFields('/public', [['l5d-orig-proto', 'HTTP/1.1'], ...more], method);
    if (content === '') client.send(headersFrame(1, fields));
    else client.send(headersFrame(1, fields, false), dataFrame(1, content, true));
    return outcomeText(await client.outcome(1));
  } finally {
    client.destroy();
  }
}

interface Careless {
  readonly port: number;
  /** Request lines that it has answered. */
  readonly lines: string[];
  readonly sockets: ReadonlySet<Socket>;
}

/** An app that reads heads alone, as a handler that leaves content unread does, and closes when it is asked to. */
async function startCareless(t: Teardown): Promise<Careless> {
  const lines: string[] = [];
  const { port, sockets } = await startSocketApp(t, (socket) => {
    let unread = '';
    let over = false;
    socket.on('data', (chunk: Buffer) => {
      unread += chunk.toString('latin1');
      for (let end = unread.indexOf('\r\n\r\n'); end !== -1 && !over; end = unread.indexOf('\r\n\r\n')) {
        const head = unread.slice(0, end);
        unread = unread.slice(end + 4);
        lines.push(head.slice(0, head.indexOf('\r\n')));
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        over = /\r\nconnection: *close/i.test(head);
        if (over) socket.end();
      }
    });
  });
  return { port, lines, sockets };
}

async function startProxy(t: Test, app: number, env: Readonly<Record<string, string>>): Promise<Ports> {
  const [http1 = 0, http2 = 0] = await freePorts(2);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(
        t.testdir(),
        closedServer('web', http1, 'HTTP/1') +
          route('public', 'web', '/public') +
          openRoute('public') +
          route('secret', 'web', '/secret') +
          openServer('meshed', http2, 'HTTP/2'),
      ),
      SALLYPORT_INBOUND_PORTS: `${http1}=127.0.0.1:${app},${http2}=127.0.0.1:${app}`,
      ...env,
    },
  });
  t.teardown(() => sallyport.stop());
  return { http1, http2 };
}

for (const { name, env } of lanes) {
  t.test(`content that the app leaves unread, ${name}`, async (t) => {
    const app = await startCareless(t);
    const ports = await startProxy(t, app.port, env);
    for (const [title, ask] of ways) {
      for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'REPORT']) {
        app.lines.length = 0;
        const what = `${method} with content ${title}`;
        t.equal(await ask(ports, method), '200', what);
        await until('the connection to the app to be over', () => app.sockets.size === 0 || app.lines.length > 1);
        t.same(app.lines, [`${method} /public HTTP/1.1`], `${what} is one request`);
      }
    }
  });

  const python = serverKinds.find(({ name }) => name === 'http.server');
  t.test(`the same before Python's http.server, ${name}`, async (t) => {
    if (python === undefined) throw new Error('there is no http.server any more');
    const reason = await unavailable(t, python);
    if (reason !== null) {
      t.pass(python.name, { skip: reason });
      return;
    }
    const { port } = await startServer(t, python);
    const answers: string[] = [];
    const tap = createServer((socket) => relay(socket, port, answers));
    t.teardown(() => new Promise((resolve) => tap.close(resolve)));
    await new Promise<void>((resolve) => tap.listen(0, '127.0.0.1', resolve));
    const ports = await startProxy(t, (tap.address() as AddressInfo).port, env);
    for (const [title, ask] of ways) {
      answers.length = 0;
      t.equal(await ask(ports, 'GET'), '200', title);
      const ended = (): boolean => answers.at(-1) === 'end';
      await until('the app to end the connection', () => ended() || answers.join('').includes('admin'));
      t.notMatch(answers.join(''), /admin/, `${title}: nobody is taken for admin`);
    }
  });

  t.test(`content in answer to HEAD is nobody's answer, ${name}`, async (t) => {
    let held: Socket | null = null;
    const app = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (chunk: Buffer) => {
        if (chunk.toString('latin1').startsWith('HEAD ')) {
          held = socket;
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n');
        } else {
          // A client that sends content after HEAD may be late with it.
          held?.write('HTTP/1.1 299 Poison\r\nContent-Length: 0\r\n\r\n');
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        }
      });
    });
    t.teardown(() => new Promise((resolve) => app.close(resolve)));
    await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
    const { http1, http2 } = await startProxy(t, (app.address() as AddressInfo).port, env);
    for (const ask of [
      () => http1Outcome(http1, http1Request('/public', [], 'HEAD'), 'HEAD'),
      () => carried(http2, 'HEAD', [], ''),
    ]) {
      t.equal(await ask(), '200');
      t.equal(await http1Outcome(http1, http1Request('/public')), '200', 'the next client, HTTP/1');
      t.equal(await ask(), '200');
      t.equal(await carried(http2, 'GET', [], ''), '200', 'the next client, inside HTTP/2');
    }
  });

  t.test(`framing under another name, ${name}`, async (t) => {
    const app = await startCareless(t);
    const { http1, http2 } = await startProxy(t, app.port, env);
    for (const separator of "_.|'~!*#^$%&+`") {
      for (const [first, last, value] of [
        ['Content', 'Length', '0'],
        ['transfer', 'encoding', 'chunked'],
      ]) {
        const field = `${first}${separator}${last}`;
        t.equal(await http1Outcome(http1, http1Request('/public', [`${field}: ${value}`])), '400', field);
        const lower: Fields = [[field.toLowerCase(), value as string]];
        t.match(await carried(http2, 'GET', lower, ''), /PROTOCOL_ERROR|reset/i, `${field}, HTTP/2`);
      }
    }
    t.same(app.lines, [], 'the app saw none of them');
  });
}

/** Carries a connection on, and writes down what the app says. */
function relay(socket: Socket, port: number, answers: string[]): void {
  const onward = connect(port, '127.0.0.1');
  socket.on('error', () => onward.destroy());
  onward.on('error', () => socket.destroy());
  onward.on('data', (chunk: Buffer) => answers.push(chunk.toString('latin1')));
  onward.on('end', () => answers.push('end'));
  socket.pipe(onward);
  onward.pipe(socket);
}
