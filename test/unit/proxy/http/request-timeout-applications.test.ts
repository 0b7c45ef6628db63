import t from 'tap';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import type { Application, ApplicationResponse } from '../../../../lib/proxy/http/application.ts';
import { headersFrame, requestFields } from '../../../support/http2-frames.ts';
import { openClient } from '../../../support/http2-peers.ts';
import { type Lane, startLane } from '../../../support/lanes.ts';
import { latin1, RawClient } from '../../../support/raw-http.ts';
import { turns, until } from '../../../support/until.ts';

/* SALLYPORT_REQUEST_TIMEOUT for an application inside this process: 504 once, whatever the application says behind it. */

const requestTimeoutMs = 500;
const late: ApplicationResponse = { status: 200, headers: [], body: 'late' };

interface Asked {
  readonly application: Application;
  readonly gone: () => boolean;
  settle(): void;
}

/** Says nothing until it is to, or until its client is gone. */
function silent(whenGone: 'rejects' | 'waits', then: 'resolves' | 'rejects'): Asked {
  let isGone = false;
  let settle = (): void => {};
  const application: Application = {
    handle: (request) =>
      new Promise((resolve, reject) => {
        settle = () => (then === 'resolves' ? resolve(late) : reject(new Error('too late')));
        request.onAborted(() => {
          isGone = true;
          if (whenGone === 'rejects') reject(new Error('the client is gone'));
        });
      }),
  };
  return { application, gone: () => isGone, settle: () => settle() };
}

const rows = [
  ['gives up with its client, as one that asks an app by HTTPS', 'rejects', 'rejects'],
  ['responds late', 'waits', 'resolves'],
  ['fails late', 'waits', 'rejects'],
] as const;

async function settled(t: Tap, lane: Lane, { gone, settle }: Asked): Promise<void> {
  await until('the application to be told', gone);
  settle();
  // What it says is heard in the microtasks behind this turn, and a fault of ours is thrown in the next.
  await turns(3);
  t.same(lane.counts.limits, ['request_timeout'], 'counted once');
  t.same(lane.counts.httpErrors, ['i/o'], 'one error');
  t.equal(lane.counts.ended, lane.counts.started, 'counted out');
}

type Tap = Parameters<typeof startLane>[0] & Pick<typeof t, 'same' | 'equal'>;

for (const [title, whenGone, then] of rows) {
  t.test(`HTTP/1: an application that ${title}`, async (t) => {
    const asked = silent(whenGone, then);
    const { application } = asked;
    const lane = await startLane(t, { engine: 'fast', app: 1, application, limits: { requestTimeoutMs } });
    const client = await RawClient.open({ port: lane.port });
    t.teardown(() => client.destroy());
    client.send(latin1('GET /ready HTTP/1.1\r\nHost: a\r\n\r\n'));
    await until('a response', () => client.received.includes('\r\n\r\n') || client.ended);
    await settled(t, lane, asked);
    await until('the end of the connection', () => client.ended);
    t.match(client.received.toString('latin1'), /^HTTP\/1\.1 504 (?!.*HTTP\/1\.1)/s);
  });

  t.test(`HTTP/2: an application that ${title}`, async (t) => {
    const asked = silent(whenGone, then);
    const { application } = asked;
    const lane = await startLane(t, {
      engine: 'fast',
      protocol: 'http2',
      app: 1,
      application,
      limits: { requestTimeoutMs },
    });
    const client = await openClient(t, lane.port, {});
    client.send(headersFrame(1, requestFields('/ready', [], 'GET'), true));
    await client.over(1);
    await settled(t, lane, asked);
    t.equal(client.outcome(1), '504');
  });
}

t.test('a response that cannot be written is a fault of ours, and ends its connection', async (t) => {
  const faults: unknown[] = [];
  t.teardown(onInternalFault(({ error, ended }) => void faults.push([(error as Error).name, ended])));
  const application: Application = {
    handle: async () => ({ status: 200, headers: [['no name', 'x']], body: '' }),
  };
  const lane = await startLane(t, { engine: 'fast', app: 1, application });
  const client = await RawClient.open({ port: lane.port });
  t.teardown(() => client.destroy());
  client.send(latin1('GET /ready HTTP/1.1\r\nHost: a\r\n\r\n'));
  await until('the end of the connection', () => client.ended);
  t.same(faults, [['TypeError', 'connection']]);
  await until('it to be counted out', () => lane.counts.started === 1 && lane.counts.ended === 1);
});

t.test('HTTP/1: the status of an application that answers has its phrase', async (t) => {
  const application = { handle: async () => ({ status: 503, headers: [], body: 'draining\n' }) };
  const lane = await startLane(t, { engine: 'fast', app: 1, application });
  const client = await RawClient.open({ port: lane.port });
  t.teardown(() => client.destroy());
  client.send(latin1('GET /ready HTTP/1.1\r\nHost: a\r\n\r\n'));
  await until('a response', () => client.received.includes('draining') || client.ended);
  t.match(client.received.toString('latin1'), /^HTTP\/1\.1 503 Service Unavailable\r\n/);
});
