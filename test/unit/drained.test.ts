import t from 'tap';
import { byThemselves, type Drained, drainedTogether } from '../../lib/drained.ts';

t.test('how the connections of several threads have ended', async (t) => {
  const cut = (connections: number): Drained => ({ kind: 'cut', connections });
  const rows: readonly [all: readonly (Drained | null)[], together: Drained][] = [
    [[], byThemselves],
    [[byThemselves, byThemselves], byThemselves],
    [[byThemselves, cut(2)], cut(2)],
    [[cut(3), byThemselves, cut(2)], cut(5)],
    [[byThemselves, null], cut(0)],
    [[null, cut(2)], cut(2)],
  ];
  for (const [all, together] of rows) t.same(drainedTogether(all), together, JSON.stringify(all));
});
