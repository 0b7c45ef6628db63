import t from 'tap';
import { IdleClock } from '../../../../../lib/proxy/http2/session/idle-clock.ts';

t.test('a connection is idle from the first look that finds it so', async (t) => {
  const clock = new IdleClock();
  const looks: readonly (readonly [name: string, now: number, size: number, last: number, idle: number])[] = [
    ['new', 1000, 0, 0, 0],
    ['still new', 1500, 0, 0, 500],
    ['in use', 2000, 1, 1, 0],
    ['in use for long', 9000, 1, 1, 0],
    ['no more', 9500, 0, 1, 0],
    ['for a while', 9900, 0, 1, 400],
    ['used between two looks', 10_000, 0, 3, 0],
    ['and no more since', 10_700, 0, 3, 700],
    ['in use again by what came before', 10_800, 1, 3, 0],
    ['and not', 10_900, 0, 3, 0],
  ];
  for (const [name, now, size, last, idle] of looks) t.equal(clock.look(now, { size, last }), idle, name);
});
