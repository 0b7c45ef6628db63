import t from 'tap';
import { turn } from '../../../../lib/proxy/fairness/turn.ts';
import { holdStarts } from '../../../support/held-starts.ts';
import { get, runScenarios, stage } from '../../../support/lane-stage.ts';
import type { Lane } from '../../../support/lanes.ts';
import { latin1, oddLines, parseResponses, type RawClient, saysClose } from '../../../support/raw-http.ts';
import { turns, until } from '../../../support/until.ts';

function spin(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

await runScenarios(t, [
  {
    name: 'a drain tells who has pipelined requests that wait for the turns of others',
    run: async (t, engine) => {
      const count = 400;
      const { open, lane } = await stage(t, engine);
      const client = await open();
      client.send(latin1(get('/DENIED').toString().repeat(count)));
      await until('the first', () => lane.counts.decided > 0, { everyMs: 0 });
      // Each is more than a turn has time for.
      for (let others = 0; others < 100; others++) turn.later(() => spin(3));
      for (let before = -1; before < lane.counts.decided; ) {
        before = lane.counts.decided;
        await turns(10);
      }
      t.ok(lane.counts.decided < count, 'some wait');
      lane.http1.drain();
      lane.http1.closeIdle();
      await until('the end of the connection', () => client.ended);
      const { responses } = parseResponses(client.received, new Array(count).fill('GET'), true);
      t.same(responses.map(saysClose).indexOf(true), lane.counts.decided - 1);
    },
  },
]);

/** Sends a request on each, which has been handed over to the library lane, and waits for its start for many turns, or until it is let go. */
async function allWait(lane: Lane, clients: readonly RawClient[]): Promise<() => void> {
  const letGo = holdStarts();
  for (const client of clients) client.send(get('/DENIED', oddLines));
  await until('all to wait', () => lane.counts.handedOver === clients.length, { everyMs: 0 });
  return letGo;
}

t.test('a drain tells who has sent a request that waits for its start in the library lane', async (t) => {
  const { open, lane } = await stage(t, 'fast');
  const clients = await Promise.all(Array.from({ length: 20 }, open));
  const letGo = await allWait(lane, clients);
  letGo();
  const waiting = clients.length - lane.counts.decided;
  t.ok(waiting > 0, 'some wait');
  lane.http1.drain();
  lane.http1.closeIdle();
  let told = 0;
  for (const client of clients) {
    await until('the end of the connection', () => client.ended);
    const { responses } = parseResponses(client.received, ['GET'], true);
    t.same(
      responses.map(({ status }) => status),
      [403],
    );
    if (responses.some(saysClose)) told++;
  }
  t.equal(told, waiting);
});

t.test('a connection whose request waits for its start does not make room for another', async (t) => {
  const count = 10;
  const { open, lane } = await stage(t, 'fast', {}, { limits: { maxConnections: count } });
  const clients = await Promise.all(Array.from({ length: count }, open));
  const letGo = await allWait(lane, clients);
  await Promise.all(Array.from({ length: count }, open));
  await until('room to be wanted', () => lane.counts.limits.includes('max_connections'), { everyMs: 0 });
  t.ok(lane.counts.decided < count, 'some still wait');
  letGo();
  for (const client of clients) {
    const [response] = await client.responses(['GET']);
    t.equal(response?.status, 403);
  }
});
