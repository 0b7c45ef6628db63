import { createServer } from 'node:https';
import net, { type AddressInfo } from 'node:net';
import t from 'tap';
import { parseIp } from '../../../../lib/ip.ts';
import type { HandshakeSocket, HandshakeTurn } from '../../../../lib/proxy/fairness/handshake-turns.ts';
import { type ApplicationRequest, notWanted } from '../../../../lib/proxy/http/application.ts';
import { tlsApplication } from '../../../../lib/proxy/http/tls-application.ts';
import type { Done, Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
import { workloadCertificate } from '../../../support/certificates.ts';
import { connectedPair } from '../../../support/lane-stage.ts';
import { within } from '../../../support/until.ts';
import { admittedForNow } from '../../../support/waiting.ts';

const clientIp = parseIp('10.1.2.3');

function requestFrom(onAborted: ApplicationRequest['onAborted']): ApplicationRequest {
  if (clientIp === undefined) throw new Error('no address');
  const own = { method: 'GET', path: '/healthz', query: '', host: 'web', fields: ['host', 'web'] };
  return {
    ...own,
    clientIp,
    header: () => [],
    onAborted,
    body: async () => Buffer.alloc(0),
    admitLate: () => admittedForNow,
  };
}

/** A connection whose handshake waits for its turn, for ever. */
async function waiting(t: Parameters<typeof connectedPair>[0]) {
  const { client, socket } = await connectedPair(t);
  const over: HandshakeSocket[] = [];
  const upstreams = {
    connect(_permission: unknown, _endpoint: unknown, _asker: unknown, done: Done) {
      done(null, socket);
      return { cancel() {} };
    },
  } as unknown as Upstreams;
  const turns = { add() {}, over: ({ socket }: HandshakeTurn) => void over.push(socket) };
  const application = tlsApplication(upstreams, { host: '127.0.0.1', port: 1 }, '10.1.2.3', turns);
  const ask = (onAborted: ApplicationRequest['onAborted']) =>
    application.handle(requestFrom(onAborted), admittedForNow);
  return { client, socket, over, ask };
}

t.test('an app that ends the connection before its handshake has had its turn', async (t) => {
  for (const end of ['reset', 'closed'] as const) {
    const { client, socket, over, ask } = await waiting(t);
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.resume();
    const response = ask(() => {});
    if (end === 'reset') client.socket.resetAndDestroy();
    else client.socket.end();
    await t.rejects(within(end, 5000, response), { code: 'ERR_SALLYPORT_UNREACHABLE' }, end);
    t.ok(over.length === 1 && over[0] === socket, `${end}: its turn is given up`);
  }
});

t.test('a client that goes away meanwhile', async (t) => {
  const { socket, ask } = await waiting(t);
  const listeners: (() => void)[] = [];
  const response = ask((listener) => listeners.push(listener));
  setImmediate(() => {
    for (const listener of listeners) listener();
  });
  await t.rejects(within('its end', 5000, response), { message: 'the client is gone' });
  t.ok(socket.destroyed);
});

t.test('a probe that policy refuses by the end of its handshake', async (t) => {
  const { certificatePem: cert, keyPem: key } = workloadCertificate('web', 'shop');
  let asked = 0;
  const app = createServer({ cert, key }, (_request, response) => {
    asked++;
    response.end('ok');
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  t.teardown(() => app.close());
  const { port } = app.address() as AddressInfo;
  const upstreams = {
    connect(_permission: unknown, _endpoint: unknown, _asker: unknown, done: Done) {
      const socket = net.connect(port, '127.0.0.1', () => done(null, socket));
      return { cancel() {} };
    },
  } as unknown as Upstreams;
  let secured = 0;
  const turns = { add: (_source: unknown, { begin }: HandshakeTurn) => begin(), over: () => void secured++ };
  const application = tlsApplication(upstreams, { host: '127.0.0.1', port }, '10.1.2.3', turns);
  const ask = (admitLate: ApplicationRequest['admitLate']) =>
    application.handle({ ...requestFrom(() => {}), admitLate }, admittedForNow);
  t.equal(
    (
      await within(
        'a response',
        5000,
        ask(() => admittedForNow),
      )
    ).status,
    200,
  );
  t.equal(asked, 1);
  const refused = ask(() => {
    t.ok(secured >= 2, 'it is asked when all that it waits for is there');
    throw notWanted;
  });
  await t.rejects(within('its end', 5000, refused), { message: notWanted.message });
  t.equal(asked, 1, 'the app gets none of it');
});
