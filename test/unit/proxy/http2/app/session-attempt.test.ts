import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { onInternalFault } from '../../../../../lib/proxy/guard.ts';
import type { Admitted } from '../../../../../lib/proxy/http/admitted.ts';
import type { AppSession } from '../../../../../lib/proxy/http2/app/app-session.ts';
import { type Audience, SessionAttempt } from '../../../../../lib/proxy/http2/app/session-attempt.ts';
import type { Upstreams } from '../../../../../lib/proxy/upstream/upstreams.ts';
import { until } from '../../../../support/until.ts';

type Connect = Parameters<Upstreams['connect']>;

interface Tried {
  readonly attempt: SessionAttempt;
  readonly told: string[];
  /** What was asked of the one place that dials. */
  readonly asked: Connect[];
  connected(error: Error | null): void;
  read(text: string): boolean;
}

const everybody: Audience = { kind: 'everybody', admitted: {} as Admitted };

function tried(t: Test, connectTimeoutMs = 60_000, audience = everybody, isExtra = false): Tried {
  const told: string[] = [];
  const asked: Connect[] = [];
  const session = {
    intake: {
      receive: (bytes: Buffer) => {
        if (bytes.length === 0) throw new Error('a fault');
        told.push(`read ${bytes.length > 10 ? bytes.length : bytes}`);
      },
    },
    workAsContent: 1 << 20,
    nextTurn: () => told.push('its turn'),
    destroy: () => told.push('session ended'),
  } as unknown as AppSession;
  const upstreams = {
    connectTimeoutMs,
    connect: (...args: Connect) => {
      asked.push(args);
      return { cancel: () => told.push('cancelled') };
    },
  } as unknown as Upstreams;
  const owner = {
    endpoint: { host: '127.0.0.1', port: 1 },
    upstreams,
    sessionOf: (): AppSession => {
      told.push('session');
      return session;
    },
    attemptFailed: (error: Error) => told.push(error.message),
  };
  const attempt = new SessionAttempt(owner, audience, isExtra);
  attempt.start();
  t.teardown(() => attempt.settled());
  return {
    attempt,
    told,
    asked,
    connected: (error) => asked[0]?.[3](error, {} as Socket),
    read: (text) => {
      const onread = asked[0]?.[4];
      if (onread === undefined || typeof onread.buffer === 'function') throw new Error('no buffer for reads');
      const length = Buffer.from(onread.buffer.buffer).write(text);
      return onread.callback(length);
    },
  };
}

t.test('it dials by the permission of the request that wants it', async (t) => {
  for (const isExtra of [false, true]) {
    const admitted = {} as Admitted;
    const { asked } = tried(t, 60_000, { kind: 'client', owner: {}, admitted }, isExtra);
    t.equal(asked.length, 1);
    t.equal(asked[0]?.[0], admitted);
    t.same(asked[0]?.[1], { host: '127.0.0.1', port: 1 });
    t.equal(asked[0]?.[2], 'sessions');
    t.equal(asked[0]?.[5], isExtra);
  }
});

const rows: readonly (readonly [name: string, run: (tried: Tried) => void, told: readonly string[], has: boolean])[] = [
  ['no connection', ({ connected }) => connected(new Error('refused')), ['refused'], false],
  ['a connection', ({ connected }) => connected(null), ['session'], true],
  [
    "what is read is the session's",
    ({ connected, read }) => {
      connected(null);
      read('a');
      read('b');
    },
    ['session', 'read a', 'read b'],
    true,
  ],
  ['given up before', ({ attempt }) => attempt.cancel(), ['cancelled'], false],
  [
    "given up when there is a session, which is another's to end",
    ({ connected, attempt }) => {
      connected(null);
      attempt.cancel();
    },
    ['session'],
    true,
  ],
];

t.test('a connect has one end', async (t) => {
  for (const [name, run, told, has] of rows) {
    const one = tried(t);
    run(one);
    t.same(one.told, told, name);
    t.equal(one.attempt.session !== null, has, name);
  }
});

t.test('reads stop where there is no session', async (t) => {
  const one = tried(t);
  t.notOk(one.read('a'));
  one.connected(null);
  t.ok(one.read('b'));
  t.same(one.told, ['session', 'read b']);
});

t.test('reads that are full take turns, whatever they hold', async (t) => {
  const one = tried(t);
  one.connected(null);
  const full = 'x'.repeat(64 * 1024);
  one.read(full);
  // More than one turn has for it, where nobody else wants anything.
  for (const until = performance.now() + 5; performance.now() < until; );
  t.equal(one.read(full), false);
  t.equal(one.read('a'), true, 'there is no more to be read');
  t.same(one.told, ['session', 'read 65536', 'read 65536', 'read a']);
  await until('its turn', () => one.told.includes('its turn'));
});

t.test('a fault while the app is read ends its session', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const one = tried(t);
  one.connected(null);
  one.read('');
  t.same(one.told, ['session', 'session ended']);
  t.same(faults, ['a read of an HTTP/2 app']);
});

t.test('an app without SETTINGS is late, unless it has come to its end', async (t) => {
  const settled = tried(t, 20);
  settled.connected(null);
  settled.attempt.settled();
  const late = tried(t, 20);
  late.connected(null);
  await until('the late one', () => late.told.length > 1);
  t.match(late.told, ['session', /timed out|in time/, 'session ended']);
  t.same(settled.told, ['session']);
});
