import t, { type Test } from 'tap';
import { byThemselves } from '../../../../lib/drained.ts';
import { type LiveConnection, LiveConnections } from '../../../../lib/proxy/fairness/live-connections.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import type { Limits } from '../../../../lib/proxy/limits.ts';
import { ip } from '../../../support/lanes.ts';
import { defaultLimits } from '../../../support/limits.ts';

function started(t: Test, limits: Partial<Limits> = {}, reached: string[] = []): LiveConnections {
  const live = new LiveConnections({ ...defaultLimits, ...limits }, { limitReached: (limit) => reached.push(limit) });
  t.teardown(() => live.close());
  return live;
}

/** A connection that notes what is asked of it, and leaves when told to if it is obliging. */
function connection(live: LiveConnections, leaves: 'at once' | 'when destroyed'): LiveConnection & { log: string[] } {
  const self = {
    rosterPlace: -1,
    line: null,
    earlier: null,
    later: null,
    source: null,
    weight: 0,
    isStranger: true,
    isInternal: false,
    ip: ip('127.0.0.1'),
    log: [] as string[],
    spareable: () => ({ kind: 'busy' }) as const,
    sweep: () => {},
    recheck: () => {
      self.log.push('recheck');
      return 'done' as const;
    },
    announceDrain: () => {
      self.log.push('announce');
    },
    drain: () => {
      self.log.push('drain');
      if (leaves === 'at once') live.remove(self);
    },
    destroy: () => {
      self.log.push('destroy');
      live.remove(self);
    },
  };
  return self;
}

t.test('a drain asks, waits, and then cuts', async (t) => {
  const live = started(t);
  const [quick, slow] = [connection(live, 'at once'), connection(live, 'when destroyed')];
  live.admit(quick);
  live.admit(slow);
  live.recheckAll();
  live.announceDrain();
  t.notOk(live.draining, 'announced, and still serving');
  const late = connection(live, 'at once');
  live.admit(late);
  t.same(late.log, ['announce'], 'who comes after the announcement hears it');
  const drained = live.drain(20);
  t.ok(live.draining);
  const latest = connection(live, 'at once');
  live.admit(latest);
  t.same(latest.log, ['announce', 'drain'], 'who comes into the drain is drained');
  t.same(await drained, { kind: 'cut', connections: 1 }, 'not all ended by themselves');
  t.same(quick.log, ['recheck', 'announce', 'drain']);
  t.same(slow.log, ['recheck', 'announce', 'drain', 'destroy']);
  t.equal(live.size, 0);
});

t.test('a drain ends with the last connection', async (t) => {
  const live = started(t);
  t.same(await live.drain(60_000), byThemselves, 'nothing is open');
  const slow = connection(live, 'when destroyed');
  live.admit(slow);
  const drained = live.drain(60_000);
  live.remove(slow);
  t.same(await drained, byThemselves);
  t.same(slow.log.includes('destroy'), false);
});

t.test('waiting until nothing is open', async (t) => {
  const live = started(t);
  const [one, other] = [connection(live, 'at once'), connection(live, 'at once')];
  live.admit(one);
  live.admit(other);
  t.equal(await live.empty(10), false, 'the time is over');
  const empty = Promise.all([live.empty(60_000), live.empty(60_000)]);
  live.remove(one);
  live.remove(one);
  t.equal(live.size, 1, 'removed once');
  live.remove(other);
  t.same(await empty, [true, true], 'everyone who waits is told');
});

t.test('one that throws is ended, and the others have their turn', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  for (const [asked, ask] of [
    ['rechecking', (live: LiveConnections) => live.recheckAll()],
    ['announcing the drain', (live: LiveConnections) => live.announceDrain()],
    ['draining', (live: LiveConnections) => void live.drain(60_000)],
  ] as const) {
    const live = started(t);
    const all = [0, 1, 2].map(() => connection(live, 'when destroyed'));
    const broken = all[1] as LiveConnection;
    for (const each of all) live.admit(each);
    broken.recheck =
      broken.announceDrain =
      broken.drain =
        () => {
          throw new Error('boom');
        };
    ask(live);
    t.equal(live.size, 2, asked);
    for (const each of all) t.equal(each.log.length, 1, `${asked}: the others heard, the broken one was ended`);
    t.equal(faults.at(-1), asked);
    for (const each of all) each.destroy();
  }
});
