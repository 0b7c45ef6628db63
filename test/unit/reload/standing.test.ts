import t from 'tap';
import { spanText } from '../../../lib/reload/clock.ts';
import { Standing } from '../../../lib/reload/standing.ts';
import { type SetClock, setClock } from '../../support/clock.ts';

const minute = 60_000;
const start = new Date('2026-11-22T05:00:00Z');

interface Line {
  readonly level: string;
  readonly minutes: number;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

interface Stage {
  readonly standing: Standing;
  readonly clock: SetClock;
  readonly lines: Line[];
  readonly changes: boolean[];
}

function stage(): Stage {
  const clock = setClock(start);
  const lines: Line[] = [];
  const changes: boolean[] = [];
  const line = (level: string) => (fields: object, message: string) => {
    const minutes = (clock.now().getTime() - start.getTime()) / minute;
    lines.push({ level, minutes, fields: { ...fields }, message });
  };
  const standing = new Standing({
    code: 'policy-stale',
    messages: { still: () => 'Still bad', again: 'Good again' },
    fields: () => ({ generation: 3 }),
    onChange: (stale) => changes.push(stale),
    log: { error: line('error'), info: line('info') },
    clock,
  });
  return { standing, clock, lines, changes };
}

t.test('it is said after a minute, then half as often each time, then every hour', async (t) => {
  const { standing, clock, lines, changes } = stage();
  standing.refused('the changed policy has 7 errors', ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
  t.same(lines, [], 'who found the fault has said so');
  clock.advance(5 * 60 * minute);
  t.same(
    lines.map(({ minutes }) => minutes),
    [1, 3, 7, 15, 31, 63, 123, 183, 243],
  );
  t.same(lines[0], {
    level: 'error',
    minutes: 1,
    message: 'Still bad',
    fields: {
      code: 'policy-stale',
      generation: 3,
      reason: 'the changed policy has 7 errors',
      faults: ['a', 'b', 'c', 'd', 'e'],
      seconds: 60,
      lasted: '60s',
    },
  });
  t.match(lines.at(-1)?.fields, { seconds: 243 * 60, lasted: '4h' });
  const state = { kind: 'stale', since: start, reason: 'the changed policy has 7 errors' };
  t.match(standing.state, state);
  standing.accepted();
  t.match(lines.at(-1), {
    level: 'info',
    message: 'Good again',
    fields: { generation: 3, seconds: 5 * 3600, lasted: '5h' },
  });
  t.same(standing.state, { kind: 'current' });
  t.same(changes, [true, false]);
  t.equal(clock.waiting, 0, 'and then nothing more');
});

t.test('another fault does not make it younger, nor its lines more frequent', async (t) => {
  const { standing, clock, lines, changes } = stage();
  standing.refused('first');
  for (let seconds = 0; seconds < 600; seconds += 10) {
    clock.advance(10_000);
    standing.refused(`fault after ${seconds}`);
  }
  t.same(
    lines.map(({ minutes }) => minutes),
    [1, 3, 7],
  );
  t.match(lines.at(-1)?.fields, { reason: /^fault after/, seconds: 7 * 60 });
  t.same(changes, [true]);
});

t.test('a load that does not end, and then is bad, is one time', async (t) => {
  const { standing, clock, lines, changes } = stage();
  standing.overdue('a writer');
  clock.advance(30_000);
  standing.refused('bad');
  standing.overdue(null);
  t.same([lines, changes], [[], [true]]);
  t.match(standing.state, { kind: 'stale', reason: 'bad', since: start });
  standing.accepted();
  t.match(lines, [{ level: 'info', fields: { seconds: 30, lasted: '30s' } }]);
  standing.accepted();
  t.equal(lines.length, 1, 'what is good stays so without a word');
});

t.test('after the stop nothing is said; a clock that goes back makes no negative time', async (t) => {
  const stopped = stage();
  stopped.standing.refused('bad');
  stopped.standing.stop();
  stopped.clock.advance(60 * minute);
  t.same(stopped.lines, []);
  const back = stage();
  back.standing.refused('bad');
  back.clock.set(new Date(start.getTime() - 3600_000));
  back.standing.accepted();
  t.match(back.lines[0]?.fields, { seconds: 0, lasted: '0s' });
});

t.test('spans', async (t) => {
  const rows: readonly (readonly [ms: number, text: string])[] = [
    [0, '0s'],
    [999, '0s'],
    [60_000, '60s'],
    [119_999, '119s'],
    [120_000, '2m'],
    [2 * 3_600_000, '2h'],
    [47 * 3_600_000, '47h'],
    [48 * 3_600_000, '2d'],
    [-5, '0s'],
  ];
  for (const [ms, text] of rows) t.equal(spanText(ms), text);
});
