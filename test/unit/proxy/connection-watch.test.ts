import t, { type Test } from 'tap';
import { ConnectionWatch } from '../../../lib/proxy/connection-watch.ts';
import { BufferBudget } from '../../../lib/proxy/fairness/buffer-budget.ts';
import type { Occupant } from '../../../lib/proxy/http/request-pipeline.ts';
import type { Incoming } from '../../../lib/proxy/incoming.ts';
import type { Limits } from '../../../lib/proxy/limits.ts';
import type { PeerSession } from '../../../lib/proxy/tls/peer-session.ts';
import { ip } from '../../support/lanes.ts';
import { defaultLimits } from '../../support/limits.ts';

/** What a watch sees of a connection, all of which the test sets. */
interface Watched {
  readonly watch: ConnectionWatch;
  readonly budget: BufferBudget;
  standing: ReturnType<PeerSession['standing']>;
  isTunnel: boolean;
  /** What has been done to it, and said of it. */
  readonly log: string[];
}

function watched(t: Test, socket: object = {}, limits: Partial<Limits> = {}): Watched {
  const log: string[] = [];
  const limitReached = (limit: string): void => void log.push(limit);
  const budget = new BufferBudget({ ...defaultLimits, ...limits }, { limitReached });
  t.teardown(() => budget.close());
  const self = { standing: 'sound', isTunnel: false } as { -readonly [K in keyof Watched]: Watched[K] };
  const occupant = {
    betweenRequests: false,
    awaitsContent: false,
    heldBytes: 0,
    get isTunnel() {
      return self.isTunnel;
    },
    retire: () => void log.push('retire'),
  };
  const stream = {
    socket: { bytesRead: 0, bytesWritten: 0, writableLength: 0, readableEnded: false, destroyed: false, ...socket },
    destroy: () => void log.push('destroy'),
  };
  const carrying = { http: { occupant: occupant as unknown as Occupant }, destroy: () => {} };
  const session = { standing: () => self.standing } as unknown as PeerSession;
  self.watch = new ConnectionWatch(
    { budget, limits: { ...defaultLimits, ...limits }, limitReached, anchors: () => null },
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
