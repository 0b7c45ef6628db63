import t from 'tap';
import { RestingMemory } from '../../../lib/ops/resting-memory.ts';

interface Look {
  readonly busy?: number;
  /** MiB, before the look; null where it cannot be asked for. */
  readonly resident: number | null;
  /** `in-part`: it has begun something that takes work. */
  readonly rests?: boolean | 'in-part';
}

const quiet = (resident: number | null, rests: Look['rests'] = false): Look => ({ resident, rests });
const busy = (resident: number): Look => ({ busy: 0.5, resident });
const repeated = (times: number, look: Look): Look[] => Array.from({ length: times }, () => look);

/** One look a second; a rest leaves 40 MiB. */
const rows: readonly { readonly name: string; readonly looks: readonly Look[] }[] = [
  { name: 'once after the start', looks: [quiet(90), quiet(90, true), ...repeated(30, quiet(42))] },
  { name: 'not before two quiet looks in a row', looks: [busy(90), quiet(90), busy(90), quiet(90), quiet(90, true)] },
  { name: 'not while nobody can tell', looks: [quiet(90), ...repeated(5, quiet(null)), quiet(90, true)] },
  {
    name: 'nor against what nobody could tell',
    looks: [quiet(90), quiet(90, true), ...repeated(9, quiet(null)), quiet(42), quiet(90, true)],
  },
  { name: 'never under load', looks: repeated(60, busy(500)) },
  {
    name: 'again after a load that made it grow',
    looks: [quiet(90), quiet(90, true), quiet(45), ...repeated(20, busy(130)), quiet(130), quiet(130, true)],
  },
  {
    name: 'not for a little',
    looks: [quiet(90), quiet(90, true), quiet(45), ...repeated(20, busy(60)), ...repeated(20, quiet(60))],
  },
  {
    name: 'not soon after the last',
    looks: [quiet(90), quiet(90, true), quiet(45), ...repeated(8, quiet(90)), quiet(90, true)],
  },
  {
    name: 'what comes back at once is in use',
    looks: [quiet(90), quiet(90, true), ...repeated(120, quiet(85))],
  },
  {
    name: 'again as soon as what a rest has begun is over',
    looks: [...[quiet(90), quiet(90, 'in-part'), busy(95), quiet(95), quiet(95, true)], ...repeated(30, quiet(42))],
  },
  {
    name: 'a minute later after work, for what that has left behind',
    looks: [quiet(90), quiet(90, true), quiet(85), busy(85), ...repeated(57, quiet(85)), quiet(85, true), quiet(45)],
  },
];

for (const { name, looks } of rows) {
  t.test(name, async (t) => {
    let second = 0;
    let rests = 0;
    const memory = new RestingMemory({
      nowMs: () => second * 1000,
      busy: () => looks[second]?.busy ?? 0,
      residentBytes: () => {
        const resident = looks[second]?.resident ?? null;
        return resident === null ? null : resident * 2 ** 20;
      },
      giveBack: () => {
        rests += 1;
        return looks[second]?.rests === 'in-part' ? 'in-part' : 'all';
      },
    });
    for (; second < looks.length; second++) {
      const before = rests;
      memory.look();
      t.equal(rests > before, (looks[second]?.rests ?? false) !== false, `second ${second}`);
    }
  });
}
