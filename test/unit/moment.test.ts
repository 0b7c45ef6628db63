import t from 'tap';
import { beginMoment, endMoment, now } from '../../lib/moment.ts';
import { until } from '../support/until.ts';

t.test('the clock stands still for one event, and for no longer', async (t) => {
  const passes = async (): Promise<void> => {
    const from = performance.now();
    await until('time to pass', () => performance.now() > from + 1);
  };
  const before = now();
  await passes();
  t.ok(now() > before, 'outside it runs');
  beginMoment();
  const first = now();
  while (performance.now() < first + 1);
  t.equal(now(), first, 'one reading for all');
  beginMoment();
  t.ok(now() > first, 'the next event reads anew');
  endMoment();
  const after = now();
  await passes();
  t.ok(now() > after);
});
