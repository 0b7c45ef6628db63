import t, { type Test } from 'tap';
import { ConnectionWatch } from '../../../lib/proxy/connection-watch.ts';
import { BufferBudget } from '../../../lib/proxy/fairness/buffer-budget.ts';
import type { Occupant } from '../../../lib/proxy/http/request-pipeline.ts';
import type { Incoming } from '../../../lib/proxy/incoming.ts';
import type { PeerSession } from '../../../lib/proxy/tls/peer-session.ts';
import { ip } from '../../support/lanes.ts';
import { defaultLimits } from '../../support/limits.ts';
import { until } from '../../support/until.ts';

/** What a watch sees of a connection, all of which the test sets. */
interface Watched {
  readonly watch: ConnectionWatch;
  readonly budget: BufferBudget;
  standing: ReturnType<PeerSession['standing']>;
  isTunnel: boolean;
  /** What has been done to it, and said of it. */
  readonly log: string[];
}

/** @param isRaw it carries bytes without requests, some of which the app has not taken. */
function watched(t: Test, socket: object = {}, isRaw = false): Watched {
  const log: string[] = [];
  const limitReached = (limit: string): void => void log.push(limit);
  const budget = new BufferBudget(defaultLimits, { limitReached });
  t.teardown(() => budget.close());
  const self = { standing: 'sound', isTunnel: false } as { -readonly [K in keyof Watched]: Watched[K] };
  const occupant = {
    betweenRequests: false,
    awaitsContent: false,
    heldForApp: 0,
    get isTunnel() {
      return self.isTunnel;
    },
    retire: () => void log.push('retire'),
  };
  const stream = {
    socket: {
      bytesRead: 0,
      bytesWritten: 0,
      writableLength: 0,
      readableLength: 0,
      readableEnded: false,
      destroyed: false,
      ...socket,
    },
    destroy: () => void log.push('destroy'),
  };
  const carrying = {
    http: isRaw ? null : { occupant: occupant as unknown as Occupant },
    heldForApp: isRaw ? 3000 : 0,
    destroy: () => {},
  };
  const session = { standing: () => self.standing } as unknown as PeerSession;
  self.watch = new ConnectionWatch(
    { budget, limits: defaultLimits, limitReached, anchors: () => null },
    stream as unknown as Incoming,
    ip('192.0.2.1'),
    true,
    session,
    carrying as unknown as ConstructorParameters<typeof ConnectionWatch>[5],
  );
  return Object.assign(self, { budget, log });
}

t.test('whoever is trusted no more is cut, whatever has been found of his certificate before', async (t) => {
  const told = ['client_certificate', 'retire'];
  const rows: readonly (readonly [
    title: string,
    before: readonly Watched['standing'][],
    isTunnel: boolean,
    log: string[],
  ])[] = [
    ['the anchor goes', ['sound'], false, told],
    ['the certificate expires, then the anchor goes', ['sound', 'expired', 'expired'], false, [...told, ...told]],
    ['of a tunnel, too', ['sound', 'expired', 'expired'], true, ['client_certificate']],
  ];
  for (const [title, before, isTunnel, log] of rows) {
    const connection = watched(t);
    connection.isTunnel = isTunnel;
    const { watch } = connection;
    let nowMs = performance.now();
    const sweepAfter = (ms: number): void => {
      nowMs += ms;
      watch.sweep(nowMs);
    };
    for (const standing of before) {
      connection.standing = standing;
      sweepAfter(500);
    }
    // As long as anything may be under way of a client whose certificate has expired.
    sweepAfter(3_600_000);
    t.notOk(connection.log.includes('destroy'), `${title}: what is in flight goes on`);
    connection.standing = 'untrusted';
    sweepAfter(500);
    sweepAfter(9000);
    t.same(connection.log, log, `${title}: it has some time`);
    sweepAfter(2000);
    t.same(connection.log, [...log, 'destroy'], title);
  }
});

t.test('what waits for either side counts', async (t) => {
  const rows: readonly (readonly [title: string, socket: object, isRaw: boolean, held: number, spareable: string])[] = [
    ['nothing', {}, false, 0, 'busy'],
    ['a response', { writableLength: 5000 }, false, 5000, 'stalled'],
    ['what TLS says by itself', { _handle: { writeQueueSize: 4000 } }, false, 4000, 'stalled'],
    ['a response in TLS', { writableLength: 5000, _handle: { writeQueueSize: 5100 } }, false, 5100, 'stalled'],
    ['bytes for an app that does not take them', {}, true, 3000, 'busy'],
    ['bytes for both sides', { writableLength: 5000 }, true, 8000, 'stalled'],
  ];
  const all = rows.map(([title, socket, isRaw, held, spareable]) => ({
    title,
    held,
    spareable,
    ...watched(t, socket, isRaw),
  }));
  const startedAt = performance.now();
  for (const { title, held, watch, budget } of all) {
    watch.sweep(startedAt);
    t.equal(budget.bytes, held, title);
  }
  await until('longer than one that is only slow stands still', () => performance.now() - startedAt > 1100);
  for (const { title, spareable, watch } of all) t.equal(watch.spareable().kind, spareable, title);
});
