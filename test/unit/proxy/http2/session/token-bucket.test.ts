import t from 'tap';
import { TokenBucket } from '../../../../../lib/proxy/http2/session/token-bucket.ts';
import { until } from '../../../../support/until.ts';

t.test('a bucket that was not used for long has its burst, and no more', async (t) => {
  for (const used of [0, 1, 50, 99]) {
    const bucket = new TokenBucket(100, 1000);
    const began = performance.now();
    for (let i = 0; i < used; i++) t.ok(bucket.take());
    // Time for several bursts.
    await until('a later moment', () => performance.now() - began > 300);
    const from = performance.now();
    let taken = 0;
    while (bucket.take()) taken++;
    const most = 100 + performance.now() - from;
    t.ok(taken >= 100 && taken <= most + 1, `${taken} of at most ${most}`);
  }
});

t.test('what is earned is never above the burst', async (t) => {
  const bucket = new TokenBucket(10, 0);
  for (let i = 0; i < 5; i++) bucket.take();
  bucket.earn(1000);
  let taken = 0;
  while (bucket.take()) taken++;
  t.equal(taken, 10);
});
