import t, { type Test } from 'tap';
import { connectionCosts } from '../../../../lib/memory-plan.ts';
import {
  type LiveConnection,
  LiveConnections,
  type Spareable,
} from '../../../../lib/proxy/fairness/live-connections.ts';
import type { LimitName, Limits } from '../../../../lib/proxy/limits.ts';
import { ip } from '../../../support/lanes.ts';
import { defaultLimits } from '../../../support/limits.ts';
import { until } from '../../../support/until.ts';

interface Made extends LiveConnection {
  readonly name: string;
  state: Spareable;
  ended: boolean;
  sweeps: number;
}

function stage(t: Test, limits: Partial<Limits>) {
  const reached: LimitName[] = [];
  const live = new LiveConnections({ ...defaultLimits, ...limits }, { limitReached: (limit) => reached.push(limit) });
  t.teardown(() => live.close());
  const make = (name: string, from = '10.0.0.1'): Made => {
    const made: Made = {
      name,
      state: { kind: 'busy' },
      ended: false,
      sweeps: 0,
      rosterPlace: -1,
      line: null,
      earlier: null,
      later: null,
      source: null,
      weight: 0,
      isStranger: true,
      isInternal: false,
      ip: ip(from),
      spareable: () => made.state,
      sweep: () => {
        made.sweeps++;
      },
      recheck: () => 'done',
      announceDrain: () => {},
      drain: () => {},
      destroy: () => {
        made.ended = true;
      },
    };
    return made;
  };
  /** Lets one in that has said what it is, unless it is `new`. */
  const enter = (name: string, state: Spareable | 'new', from?: string): Made => {
    const made = make(name, from);
    t.ok(live.admit(made), `${name} is let in`);
    if (state !== 'new') {
      made.state = state;
      live.settled(made);
    }
    return made;
  };
  return { live, reached, make, enter };
}

const busy: Spareable = { kind: 'busy' };
const idle = (sinceMs: number): Spareable => ({ kind: 'idle', sinceMs });

t.test('who makes room: first those that said nothing, then the idle, then the stalled, never the busy', async (t) => {
  const { live, reached, make, enter } = stage(t, { maxConnections: 6 });
  const all = {
    busy: enter('busy', busy),
    stalled: enter('stalled', { kind: 'stalled', sinceMs: 1 }),
    known: enter('idle, of an identity', { kind: 'idle, of an identity', sinceMs: 2 }),
    late: enter('idle for a short time', idle(20)),
    early: enter('idle for long', idle(10)),
    silent: enter('silent', 'new'),
  };
  t.same(reached, []);
  for (const victim of [all.silent, all.early, all.late, all.known, all.stalled]) {
    enter(`instead of ${victim.name}`, busy);
    t.ok(victim.ended, `${victim.name} has gone`);
    t.equal(live.size, 6);
  }
  t.notOk(live.admit(make('one too many')), 'where all are busy the newest is refused');
  t.notOk(all.busy.ended);
  t.equal(live.size, 6);
  t.same(new Set(reached), new Set(['max_connections']));
  t.equal(reached.length, 6, 'each time');
});

t.test('one source has a limit of its own, and pays for it alone', async (t) => {
  const { reached, make, live, enter } = stage(t, { maxConnectionsPerClient: 2 });
  const silent = enter('another silent', 'new', '10.0.0.9');
  const other = enter('of another', idle(0), '10.0.0.2');
  enter('first', busy);
  const second = enter('second', idle(5));
  enter('third', busy);
  t.ok(second.ended, 'its own idle one goes, though others have been idle for longer');
  t.notOk(live.admit(make('fourth')));
  t.notOk(other.ended);
  t.notOk(silent.ended);
  t.same(reached, ['max_connections_per_client', 'max_connections_per_client']);
  enter('of another', busy, '10.0.0.2');
});

t.test('a source is an IPv4 address, however it is written, or an IPv6 /64', async (t) => {
  const { live, make } = stage(t, { maxConnectionsPerClient: 1 });
  const rows: readonly (readonly [first: string, second: string, same: boolean])[] = [
    ['192.0.2.1', '::ffff:192.0.2.1', true],
    ['192.0.2.1', '192.0.2.2', false],
    ['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', true],
    ['2001:db8:0:1::1', '2001:db8:0:2::1', false],
    ['2001:db8:0:1::1', '2001:db8:1:1::1', false],
  ];
  for (const [first, second, same] of rows) {
    const one = make('one', first);
    const other = make('other', second);
    t.ok(live.admit(one));
    live.settled(one);
    t.equal(live.admit(other), !same, `${first} and ${second}`);
    live.remove(one);
    live.remove(other);
  }
});

t.test('detection and handshakes', async (t) => {
  const { live, reached, make, enter } = stage(t, { maxDetecting: 2, maxHandshakes: 2 });
  const [a] = [enter('a', 'new'), enter('b', 'new')];
  enter('c', 'new');
  t.ok(a.ended, 'the oldest silent one goes');
  t.same(reached, ['max_detecting']);

  const now = performance.now();
  const [stuck, fresh] = [make('stuck'), make('fresh')];
  for (const [each, since] of [
    [stuck, now - 5000],
    [fresh, now],
  ] as const) {
    each.state = idle(since);
    t.ok(live.admit(each) && live.handshake(each));
  }
  const next = make('next');
  t.ok(live.admit(next) && live.handshake(next));
  t.ok(stuck.ended, 'a handshake that is stuck goes');
  const over = make('over');
  t.ok(live.admit(over));
  t.notOk(live.handshake(over), 'one that has just begun does not: the newest is refused');
  t.notOk(fresh.ended);
  t.equal(reached.filter((limit) => limit === 'max_handshakes').length, 2);
});

t.test('without descriptors one that can be done without goes', async (t) => {
  const { live, reached, enter } = stage(t, {});
  const one = enter('one', idle(1));
  enter('two', busy);
  live.outOfDescriptors();
  t.ok(one.ended);
  live.outOfDescriptors();
  t.same(reached, ['descriptors', 'descriptors']);
  t.equal(live.size, 1);
});

t.test('each is looked at now and then, however many come and go', async (t) => {
  const { live, enter, make } = stage(t, {});
  const all = Array.from({ length: 57 }, (_, i) => enter(`${i}`, busy));
  await until('each to have been looked at three times', () => {
    const passing = make('passing');
    live.admit(passing);
    live.remove(passing);
    return all.every(({ sweeps }) => sweeps >= 3);
  });
});

t.test(
  'by what connections take: idle strangers make room, and where all are busy the newest is refused',
  async (t) => {
    const { plain, tls, handshake } = connectionCosts;
    const maxConnectionBytes = handshake + 4 * plain;
    const { live, reached, make, enter } = stage(t, { maxConnectionBytes });
    const idlers = [1, 2, 3, 4].map((since) => enter(`idle ${since}`, idle(since)));
    const client = make('a TLS client');
    t.ok(live.admit(client));
    t.equal(live.bytes, 5 * plain, 'plain until it says otherwise');
    t.ok(live.handshake(client));
    t.same(
      idlers.map(({ ended }) => ended),
      [false, false, false, false],
      'there was room',
    );
    t.ok(live.admit(make('one more')));
    t.equal(idlers[0]?.ended, true, 'the oldest makes room');
    t.same([...new Set(reached)], ['max_connection_bytes']);
    live.secured(client, 'known');
    live.settled(client, tls);
    t.equal(live.bytes, tls + 4 * plain);
    for (const each of [...idlers, client]) each.state = busy;
    const second = make('another TLS client');
    t.ok(live.admit(second));
    t.notOk(live.handshake(second), 'where there is no room for a handshake');
    live.remove(second);
    live.remove(client);
    t.ok(live.bytes <= maxConnectionBytes);
  },
);

t.test('where memory runs out: one comes for one that goes, then nobody, and the newest stranger goes', async (t) => {
  const { live, reached, make, enter } = stage(t, {});
  const sparable = enter('idle', idle(1));
  const old = enter('busy', busy);
  live.memory('tight', 0);
  t.notOk(sparable.ended, 'nobody goes for nothing');
  const newest = enter('for the idle one', busy);
  t.ok(sparable.ended);
  t.notOk(live.admit(make('when all are busy')));
  live.memory('tight', 1);
  t.notOk(old.ended, 'nobody busy goes yet');
  live.memory('newest go', 1);
  t.ok(newest.ended);
  t.notOk(old.ended);
  const admin = { ...make('for the admin server'), isInternal: true };
  t.ok(live.admit(admin), 'which is always reached');
  live.memory('ample', 0);
  t.ok(live.admit(make('afterwards')));
  t.same([...new Set(reached)], ['memory']);
});
