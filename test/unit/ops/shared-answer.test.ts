import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { sharedAnswer } from '../../../lib/ops/shared-answer.ts';

/** Holds the event loop. */
function busy(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

t.test('a client that asks without end is answered, and leaves most of the loop to others', async (t) => {
  let [made, heldMs, asked, answered] = [0, 0, 0, 0];
  const ask = sharedAnswer(() => {
    // Of the processor: while others have it, nobody is kept from the loop by this.
    const before = process.threadCpuUsage();
    busy(10);
    const { user, system } = process.threadCpuUsage(before);
    heldMs += (user + system) / 1000;
    return ++made;
  });
  const began = performance.now();
  const answers: Promise<unknown>[] = [];
  for (; performance.now() - began < 1000; asked++) {
    answers.push(ask().then(() => answered++));
    await turn();
  }
  const elapsed = performance.now() - began;
  await Promise.all(answers);
  t.equal(answered, asked);
  t.ok(made > 1, 'more than once');
  t.ok(heldMs < elapsed / 3, `${made} times, ${Math.round(heldMs)} of ${Math.round(elapsed)} ms`);
});

t.test('one that is made in several turns is made one at a time', async (t) => {
  let [made, atOnce, most] = [0, 0, 0];
  const ask = sharedAnswer(async () => {
    most = Math.max(most, ++atOnce);
    for (let i = 0; i < 20; i++) await turn();
    atOnce--;
    return ++made;
  });
  const answers: Promise<number>[] = [];
  for (let asked = 0; asked < 200; asked++) {
    answers.push(ask());
    await turn();
  }
  await Promise.all(answers);
  t.ok(made > 1, 'more than once');
  t.equal(most, 1, 'however many ask meanwhile');
});

t.test('an answer is never older than its question, failures included', async (t) => {
  let now = 0;
  const ask = sharedAnswer(() => {
    if (now === 3) throw new Error('no');
    return now;
  });
  for (now = 1; now < 6; now++) {
    const asked = now;
    if (now === 3) await t.rejects(ask());
    else t.equal(await ask(), asked);
  }
});
