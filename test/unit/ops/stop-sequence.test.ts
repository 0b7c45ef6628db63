import t from 'tap';
import { byThemselves } from '../../../lib/drained.ts';
import { StopSequence } from '../../../lib/ops/stop-sequence.ts';

interface Stage {
  readonly sequence: StopSequence;
  /** What was done and said, in order. */
  readonly seen: string[];
}

function stage(over: { graceMs?: number; drained?: boolean; release?: () => Promise<void> } = {}): Stage {
  const { graceMs = 10_000, drained = true, release = async () => {} } = over;
  const seen: string[] = [];
  const log = { info: (_fields: object, message: string) => void seen.push(message) };
  const warn = (fields: object, message: string) =>
    void seen.push(`${message}: ${'connections' in fields ? fields.connections : ''}`);
  const sequence = new StopSequence({
    graceMs,
    connections: () => 1,
    unready: () => void seen.push('unready'),
    async closeDoors() {
      seen.push('doors');
      await new Promise((resolve) => setImmediate(resolve));
      seen.push('nothing listens');
    },
    announce: () => void seen.push('announce'),
    empty: async (ms) => void seen.push(`lull ${ms}`),
    closeIdle: () => void seen.push('idle'),
    async drain(ms) {
      seen.push(`drain ${ms > 0 ? 'what is left' : 0}`);
      return drained ? byThemselves : { kind: 'cut' as const, connections: 3 };
    },
    async release() {
      seen.push('release');
      await release();
    },
    log: { ...log, warn },
  });
  return { sequence, seen };
}

t.test('in an order that loses no request', async (t) => {
  const { sequence, seen } = stage();
  t.same(seen, []);
  const first = sequence.stop();
  t.equal(sequence.stop(), first, 'a second stop joins the first');
  t.equal(first, sequence.stopped);
  t.equal(await first, true);
  t.same(seen, [
    'unready',
    'Draining',
    'doors',
    'announce',
    'nothing listens',
    'lull 1000',
    'idle',
    'drain what is left',
    'release',
    'Stopped',
  ]);
});

t.test('what is not over in time is cut, and said', async (t) => {
  const { sequence, seen } = stage({ graceMs: 0, drained: false });
  t.equal(await sequence.stop(), false);
  t.ok(seen.includes('lull 0') && seen.includes('drain 0'), 'no grace, no lull');
  t.match(seen.at(-3), /^Grace period over.*: 3$/, 'with how many');
});

t.test('a stop that fails is over, too', async (t) => {
  const { sequence } = stage({ release: () => Promise.reject(new Error('broken')) });
  await t.rejects(sequence.stop(), { message: 'broken' });
  await t.rejects(sequence.stopped, { message: 'broken' });
});
