import t from 'tap';
import { turn } from '../../../../lib/proxy/fairness/turn.ts';
import { get, runScenarios, stage } from '../../../support/lane-stage.ts';
import { latin1, parseResponses, saysClose } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

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
        for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve));
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
