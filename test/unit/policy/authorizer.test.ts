import t from 'tap';
import type { Client } from '../../../lib/client.ts';
import { createAuthorizer } from '../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import type { RateLimit } from '../../../lib/policy/decide/policy-index.ts';
import { RateLimiter } from '../../../lib/policy/decide/rate-limit.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import {
  account,
  document,
  plainFacts as facts,
  ip,
  load,
  policy,
  server,
  sources,
  workload,
} from '../../support/policy-fixtures.ts';

const localhost: Client = { ip: ip('127.0.0.1'), tls: { kind: 'none', reason: 'no_tls_from_remote' } };
const meshed: Client = { ip: ip('10.0.0.1'), tls: { kind: 'mesh', identity: { form: 'dns', name: account('a') } } };

function indexOf(text: string) {
  return compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, workload()).index;
}

t.test('before the first load nothing is authorized anywhere', async (t) => {
  const authorizer = createAuthorizer({ nowMs: () => 0 });
  t.equal(authorizer.generation, 0);
  for (const port of [80, 4191, 8080]) {
    const policy = authorizer.port(port);
    t.match(policy, { port, protocol: 'detect', server: { group: '', kind: 'default', name: 'deny' } });
    t.equal(authorizer.port(port), policy);
    for (const client of [localhost, meshed]) {
      t.equal(authorizer.connection(policy, client).kind, 'deny');
      t.equal(authorizer.request(policy, client, { ...facts, path: '/live' }).kind, 'deny');
    }
  }
});

t.test('a swap holds at once, for ports that were asked for before it too', async (t) => {
  const authorizer = createAuthorizer({ nowMs: () => 0 });
  const held = authorizer.port(8080);
  let changes = 0;
  const stop = authorizer.onChange(() => {
    changes++;
  });
  authorizer.swap(indexOf(server('accessPolicy: all-unauthenticated')));
  t.equal(authorizer.request(held, meshed, facts).kind, 'permit');
  t.equal(authorizer.connection(held, meshed).kind, 'permit');
  authorizer.swap(indexOf(server('proxyProtocol: opaque, accessPolicy: all-unauthenticated')));
  t.equal(authorizer.request(held, meshed, facts).kind, 'no-route', 'the port became opaque under the connection');
  t.match(authorizer.requestReasons(held, meshed, facts, authorizer.request(held, meshed, facts)), {
    reason: /opaque/,
  });
  authorizer.swap(indexOf(server('proxyProtocol: HTTP/1, accessPolicy: all-unauthenticated')));
  t.equal(authorizer.connection(held, meshed).kind, 'deny', 'bytes are never let in where HTTP is spoken');
  authorizer.swap(indexOf(server()));
  t.equal(authorizer.request(held, meshed, facts).kind, 'deny');
  t.same([authorizer.generation, changes], [4, 4]);
  stop();
  authorizer.swap(indexOf(''));
  t.equal(changes, 4);
});

function limited(spec: string): string {
  return (
    server('accessPolicy: all-unauthenticated') +
    document(
      'HTTPLocalRateLimitPolicy',
      'rl',
      `{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, ${spec}}`,
    )
  );
}

/** How many of so many requests at one instant pass. */
function burst(
  { ask }: ReturnType<typeof load>,
  count: number,
  query: Parameters<ReturnType<typeof load>['ask']>[0] = {},
): number {
  return Array.from({ length: count }, () => ask(query)).filter(({ verdict }) => verdict === 'permit').length;
}

t.test('rate limits, on a clock of our own', async (t) => {
  for (const rate of [1, 2, 3, 7, 100, 333]) {
    const loaded = load(limited(`total: {requestsPerSecond: ${rate}}`));
    t.equal(burst(loaded, rate + 5), rate, `a burst of ${rate}`);
    loaded.clock.nowMs += 1000 / rate + 0.001;
    t.equal(burst(loaded, 5), 1, 'one more after its interval');
    loaded.clock.nowMs += 3_600_000;
    t.equal(burst(loaded, rate + 5), rate, 'full again, and no fuller');
  }
  t.equal(burst(load(limited('total: {requestsPerSecond: 0}')), 50), 50, 'zero is no limit, and refused');

  const identities = load(limited('total: {requestsPerSecond: 70}, identity: {requestsPerSecond: 5}'));
  t.equal(burst(identities, 8, { identity: account('a') }), 5);
  t.equal(burst(identities, 8, { identity: account('b') }), 5, 'each identity has its own');
  t.equal(burst(identities, 3), 3);
  t.equal(burst(identities, 8, { tls: 'anonymous', ip: '10.9.9.9' }), 2, 'all without one share one');
  t.match(identities.ask({}), {
    verdict: 'rate-limited',
    httpStatus: 429,
    grpcStatus: 8,
    authz: { name: 'all-unauthenticated' },
  });

  const drained = load(limited('total: {requestsPerSecond: 10}, identity: {requestsPerSecond: 5}'));
  t.equal(burst(drained, 10), 5);
  t.equal(burst(drained, 5, { identity: account('a') }), 0, 'what the total gave is not given back');

  const overrides = load(
    limited(
      'identity: {requestsPerSecond: 1}, overrides: [{requestsPerSecond: 3, clientRefs: [{kind: ServiceAccount, name: a}, {kind: ServiceAccount, name: b}]}]',
    ),
  );
  t.equal(burst(overrides, 2, { identity: account('a') }), 2);
  t.equal(burst(overrides, 9, { identity: account('b') }), 1, 'clients of one entry share its bucket');
  t.equal(burst(overrides, 9, { identity: account('a', 'other') }), 1, 'another namespace is another account');
  const a = 'clientRefs: [{kind: ServiceAccount, name: a}]';
  for (const [rates, count] of [
    [[5, 2], 2],
    [[2, 5], 5],
    // Refused, and the other limit might have refused something.
    [[3, 0], 0],
  ] as const) {
    const entries = rates.map((rate) => `{requestsPerSecond: ${rate}, ${a}}`).join();
    const twice = load(limited(`overrides: [${entries}]`));
    t.equal(burst(twice, 9, { identity: account('a') }), count, `named twice, ${rates.join(' and ')}: the last limit`);
  }
});

t.test('only what is permitted spends, and reasons spend nothing', async (t) => {
  const loaded = load(
    server() +
      policy('p', 'kind: Server, name: web', '{kind: ServiceAccount, name: a}') +
      document(
        'HTTPLocalRateLimitPolicy',
        'rl',
        '{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 2}}',
      ),
  );
  t.equal(burst(loaded, 50), 0);
  const { authorizer } = loaded;
  const port = authorizer.port(8080);
  const decision = authorizer.request(port, meshed, facts);
  for (let i = 0; i < 10; i++) authorizer.requestReasons(port, meshed, facts, decision);
  t.equal(burst(loaded, 50, { identity: account('a') }), 1);
  t.match(authorizer.request(port, meshed, facts), {
    kind: 'rate-limited',
    limit: { kind: 'HTTPLocalRateLimitPolicy', name: 'rl' },
    scope: 'total',
  });
});

t.test('buckets survive a swap while the numbers stay, and only then', async (t) => {
  const loaded = load(limited('total: {requestsPerSecond: 3}'));
  t.equal(burst(loaded, 9), 3);
  loaded.authorizer.swap(
    indexOf(`${limited('total: {requestsPerSecond: 3}')}${policy('p', 'kind: Server, name: web')}`),
  );
  t.equal(burst(loaded, 9), 0);
  loaded.authorizer.swap(indexOf(limited('total: {requestsPerSecond: 4}')));
  t.equal(burst(loaded, 9), 4);
});

t.test('a clock that steps back locks nobody out for longer than a second', async (t) => {
  const loaded = load(limited('total: {requestsPerSecond: 2}'));
  t.equal(burst(loaded, 9), 2);
  loaded.clock.nowMs -= 500_000;
  t.equal(burst(loaded, 9), 0);
  loaded.clock.nowMs += 1001;
  t.equal(burst(loaded, 9), 2);
});

t.test('identities cannot fill memory', async (t) => {
  let nowMs = 0;
  const limiter = new RateLimiter(() => nowMs);
  const limit: RateLimit = {
    ref: { group: '', kind: '', name: 'l' },
    key: 'l',
    total: null,
    identity: 1,
    overrides: new Map(),
  };
  for (let i = 0; i < 100_000; i++) {
    nowMs += 1;
    limiter.take(limit, `id-${i}`);
  }
  t.ok(limiter.identities <= 3000, `${limiter.identities} buckets after 100,000 identities, each full after a second`);

  let frozenMs = 0;
  const frozen = new RateLimiter(() => frozenMs);
  let passed = 0;
  for (let i = 0; i < 70_000; i++) if (frozen.take(limit, `id-${i}`) === null) passed++;
  t.equal(frozen.identities, 65_536);
  t.equal(passed, 65_537, 'those beyond the bound share one bucket');

  // The flood is over; a second later every bucket is full, and who comes has one of its own at once.
  frozenMs += 1000;
  for (let i = 0; i < 1000; i++) {
    t.equal(frozen.take(limit, `late-${i}`), null, `identity ${i} after the flood`);
    if (i % 100 === 0) t.equal(frozen.take(limit, `late-${i}`), 'per-identity', 'and no more than its own');
  }
  for (let i = 0; i < 40_000; i++) {
    frozenMs += 1;
    frozen.take(limit, `trickle-${i}`);
  }
  t.ok(frozen.identities <= 3000, `${frozen.identities} buckets in the end`);
});
