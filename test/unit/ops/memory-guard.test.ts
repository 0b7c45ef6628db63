import t from 'tap';
import type { MemoryState } from '../../../lib/memory-plan.ts';
import { MemoryGuard } from '../../../lib/ops/memory-guard.ts';

const MiB = 2 ** 20;

function stage(limitMiB: number) {
  const world = { nowMs: 0, used: 0, garbage: 0, unreadable: false };
  const shed: [MemoryState, number][] = [];
  let collections = 0;
  const guard = new MemoryGuard({
    limitBytes: limitMiB * MiB,
    nowMs: () => world.nowMs,
    usedBytes: () => (world.unreadable ? null : world.used * MiB),
    collect: () => {
      collections++;
      world.used -= world.garbage;
      world.garbage = 0;
    },
    shed: (state, bytes) => shed.push([state, Math.round(bytes / MiB)]),
  });
  /** The state after a look, and what was shed in it. */
  const look = (used: number, garbage = 0): { state: MemoryState; shed: [MemoryState, number][]; nextMs: number } => {
    Object.assign(world, { used, garbage });
    const nextMs = guard.look();
    return { state: guard.state, shed: shed.splice(0), nextMs };
  };
  return { world, look, collections: () => collections };
}

t.test('what is garbage is collected, and nobody goes for it', async (t) => {
  const { look, collections } = stage(256);
  t.match(look(100), { state: 'ample', shed: [] });
  t.equal(collections(), 0);
  t.match(look(240, 100), { state: 'ample', shed: [] });
  t.equal(collections(), 1);
});

t.test('what is not goes, in proportion, once, and the newest where it is nearly too late', async (t) => {
  const { look, world, collections } = stage(200);
  t.match(look(184), { state: 'tight', shed: [['tight', 14]] });
  world.nowMs += 25;
  t.match(look(184), { state: 'tight', shed: [['tight', 0]] }, 'what was let go of does not show before a collection');
  t.match(look(184.5), { shed: [['tight', 1]] }, 'what has come meanwhile does');
  t.match(look(192), { state: 'newest go', shed: [['newest go', 8]] });
  t.equal(collections(), 1, 'each is a pause for everybody');
  world.nowMs += 100;
  look(192);
  t.equal(collections(), 1);
  world.nowMs += 50;
  t.match(look(192), { state: 'newest go', shed: [['newest go', 22]] }, 'and the lesser evil here');
  t.equal(collections(), 2);
  world.nowMs += 1000;
  t.match(look(192, 20), { state: 'ample', shed: [['ample', 0]] });
  t.equal(collections(), 3);
});

t.test('what grows fast is met before there is too much', async (t) => {
  const { look, world, collections } = stage(200);
  look(100);
  world.nowMs += 25;
  t.match(look(160), { state: 'ample', shed: [] }, 'nobody goes for what may come');
  t.equal(collections(), 1, 'but it is collected');
});

t.test('the less there is left, the sooner it looks again', async (t) => {
  const { look } = stage(256);
  const waits = [20, 100, 200, 229, 250].map((used) => look(used).nextMs);
  t.same(
    waits,
    [...waits].sort((a, b) => b - a),
  );
  t.ok((waits[0] as number) <= 1000 && (waits.at(-1) as number) === 25, String(waits));
});

t.test('what nobody can tell is no reason to refuse anybody', async (t) => {
  const { look, world } = stage(256);
  world.unreadable = true;
  t.match(look(999), { state: 'ample', shed: [] });
});
