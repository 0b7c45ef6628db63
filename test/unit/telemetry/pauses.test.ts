import { Registry } from 'prom-client';
import t from 'tap';
import { Families } from '../../../lib/telemetry/figures.ts';
import { pauseMetrics } from '../../../lib/telemetry/pause-metrics.ts';
import { parseExposition } from '../../support/metrics.ts';
import { until } from '../../support/until.ts';

const skip = Number(process.versions.node.split('.')[0]) < 26 && 'needs what Node 26 tells';

t.test('pauses of the event loop', { skip }, async (t) => {
  const registry = new Registry();
  pauseMetrics(new Families(registry));
  const name = 'sallyport_event_loop_pause_seconds';
  const read = async () => {
    const scraped = parseExposition(await registry.metrics());
    const upTo = (le: string): number => scraped.sum(`${name}_bucket`, { le });
    return { count: scraped.sum(`${name}_count`), sum: scraped.sum(`${name}_sum`), upTo };
  };
  t.equal((await read()).count, 0, 'nothing before the first look');

  const hold = (ms: number): void => {
    const until = performance.now() + ms;
    while (performance.now() < until);
  };
  await until(
    'pauses of 40 ms to be counted',
    async () => {
      hold(40);
      const { count, upTo } = await read();
      return count - upTo('0.032') >= 10;
    },
    { timeoutMs: 20_000 },
  );
  const after = await read();
  t.ok(after.sum > 10 * 0.032, `they took ${after.sum} s`);
  const bounds = ['0.001', '0.002', '0.004', '0.008', '0.016', '0.032', '0.064', '0.128', '0.256', '1', '+Inf'];
  t.same(
    bounds.map(after.upTo),
    bounds.map(after.upTo).sort((a, b) => a - b),
    'buckets are cumulative',
  );

  // The watch rests with the process, or it would keep a processor awake.
  let last = after.count;
  await until(
    'a process that sleeps to be left alone',
    async () => {
      const { count } = await read();
      const still = count === last;
      last = count;
      return still;
    },
    { timeoutMs: 30_000, everyMs: 1500 },
  );
  t.ok(last >= after.count, 'nothing is forgotten');
});
