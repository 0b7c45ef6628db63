import t from 'tap';
import { parseIp } from '../../../../lib/ip.ts';
import type { HandshakeSocket, HandshakeTurn } from '../../../../lib/proxy/fairness/handshake-turns.ts';
import type { ApplicationRequest } from '../../../../lib/proxy/http/application.ts';
import { tlsApplication } from '../../../../lib/proxy/http/tls-application.ts';
import type { Done, Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
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
