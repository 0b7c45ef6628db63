import t from 'tap';
import { cpuShareMeter } from '../../lib/cpu-share.ts';
import { until } from '../support/until.ts';

t.test('the share of time for which a thread had a processor', async (t) => {
  const share = cpuShareMeter();
  const work = (): number => {
    const end = performance.now() + 50;
    while (performance.now() < end);
    return share();
  };
  t.ok(await until('work to be seen', () => work() > 0.2), 'while it works');
  share();
  t.ok(await until('sleep to be seen', () => share() < 0.2, { everyMs: 300 }), 'while it sleeps');
});
