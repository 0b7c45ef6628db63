import t from 'tap';
import { FloodLedger } from '../../../../../lib/proxy/http2/session/flood-ledger.ts';
import { until } from '../../../../support/until.ts';

/** How often it says yes, up to `most` times, and how many milliseconds that took. */
function allowed(ask: () => boolean, most: number): { readonly times: number; readonly tookMs: number } {
  const from = performance.now();
  let times = 0;
  while (times < most && ask()) times++;
  return { times, tookMs: performance.now() - from };
}

t.test('frames that do no work have a bound, at once and a second', async (t) => {
  const ledger = new FloodLedger(null);
  const { times, tookMs } = allowed(() => ledger.overhead(), 1_000_000);
  t.ok(times >= 10_000 && times <= 10_001 + tookMs, `${times} in ${tookMs} ms`);
});

t.test('what we send earns the peer the frames that give room back', async (t) => {
  for (const [bytes, earned] of [
    [1, 2],
    [255, 2],
    [256, 3],
    [16_384, 66],
  ] as const) {
    const ledger = new FloodLedger(null);
    allowed(() => ledger.overhead(), 1_000_000);
    // From here on the clock gives no more than a frame a millisecond, and less than one is left.
    const since = performance.now();
    allowed(() => ledger.overhead(), 1_000_000);
    ledger.earn(bytes);
    const { times } = allowed(() => ledger.overhead(), 1_000_000);
    const most = earned + 1 + performance.now() - since;
    t.ok(times >= earned && times <= most, `${bytes} bytes: ${times} of ${earned} to ${most}`);
  }
});

t.test('resets have a bound, where there is one, and are counted apart', async (t) => {
  const ledger = new FloodLedger(100);
  allowed(() => ledger.overhead(), 1_000_000);
  const { times, tookMs } = allowed(() => ledger.reset(), 1_000_000);
  t.ok(times >= 100 && times <= 101 + tookMs / 100, `${times} in ${tookMs} ms`);
  const patient = new FloodLedger(null);
  t.equal(allowed(() => patient.reset(), 100_000).times, 100_000, 'of an app, any number');
});

t.test('a ledger that was not used for long allows its burst, and no more', async (t) => {
  for (const used of [0, 1, 50, 99]) {
    const ledger = new FloodLedger(null);
    const began = performance.now();
    for (let i = 0; i < used; i++) t.ok(ledger.overhead());
    // Time to earn back all of them.
    await until('a later moment', () => performance.now() - began > 300);
    const { times, tookMs } = allowed(() => ledger.overhead(), 1_000_000);
    t.ok(times >= 10_000 && times <= 10_001 + tookMs, `${times} in ${tookMs} ms`);
  }
});

t.test('what is earned is never above the burst', async (t) => {
  const ledger = new FloodLedger(null);
  for (let i = 0; i < 5; i++) ledger.overhead();
  ledger.earn(2 ** 30);
  const { times, tookMs } = allowed(() => ledger.overhead(), 1_000_000);
  t.ok(times >= 10_000 && times <= 10_001 + tookMs, `${times} in ${tookMs} ms`);
});
