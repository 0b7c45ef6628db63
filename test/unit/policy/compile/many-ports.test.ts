import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import type { Client } from '../../../../lib/client.ts';
import { createAuthorizer } from '../../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../../lib/policy/compile/compile.ts';
import type { CompiledPort, PolicyIndex } from '../../../../lib/policy/decide/policy-index.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import { parsePortSet, type Workload } from '../../../../lib/policy/workload.ts';
import { httpProbes, ip, plainFacts, server, sources, workload } from '../../../support/policy-fixtures.ts';

/* A port scan through the redirect asks for every port there is. */

const client: Client = { ip: ip('10.20.0.5'), tls: { kind: 'none', reason: 'no_tls_from_remote' } };

function indexOf(text: string, over: Partial<Workload> = {}): PolicyIndex {
  return compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, workload(over)).index;
}

const heavy = [
  ...['server', 'asks', 'routes', 'grants', 'tcpProbe', 'tlsProbes', 'nodeIps'],
  ...['noRoute', 'connectionDeny', 'connectionPermits'],
] as (keyof CompiledPort)[];

/** They are what their number is, and nothing else is theirs. */
function shares(t: Test, a: CompiledPort, b: CompiledPort): void {
  t.not(a, b);
  t.not(a.port, b.port);
  for (const part of heavy) t.equal(a[part], b[part], part);
}

t.test('ports of one kind have their policy in common', async (t) => {
  const index = indexOf(server(), {
    defaultPolicy: 'all-unauthenticated',
    opaquePorts: parsePortSet('3000-3100').ports,
    requireIdentityPorts: parsePortSet('3050-3200').ports,
    probes: new Map([
      [8080, httpProbes('/live')],
      [9000, httpProbes('/live')],
      [9001, httpProbes('/ready')],
    ]),
  });
  const kinds = [
    [1, 65_535],
    [3000, 3001],
    [3050, 3100],
    [3101, 3200],
  ] as const;
  for (const [a, b] of kinds) shares(t, index.port(a), index.port(b));
  const each = [1, 3000, 3050, 3101, 9000, 9001, 8080].map((port) => index.port(port));
  for (const part of ['server', 'grants', 'connectionDeny', 'connectionPermits'] as const) {
    t.equal(new Set(each.map((port) => port[part])).size, each.length, `${part}: a kind each`);
  }
  t.same(
    each.map(({ port, server: { name }, protocol }) => `${port} ${name} ${protocol}`),
    [
      ...['1 all-unauthenticated detect', '3000 all-unauthenticated opaque', '3050 all-authenticated opaque'],
      ...['3101 all-authenticated detect', '9000 all-unauthenticated detect', '9001 all-unauthenticated detect'],
      '8080 web detect',
    ],
  );
  for (const port of [1, 3000, 9000]) t.equal(index.port(port), index.port(port), 'equal to itself');
  t.not(indexOf('').port(1), indexOf('').port(1), 'another of each index');
});

t.test('so have those of which nobody knows the Server, and those that are none', async (t) => {
  const index = indexOf(server().replace('port: 8080', 'port: {}'));
  t.equal(index.port(1).server.name, 'web');
  shares(t, index.port(1), index.port(65_535));
  for (const none of [index, indexOf('', { defaultPolicy: 'all-unauthenticated' })]) {
    shares(t, none.port(0), none.port(65_536));
    t.equal(none.port(0).server.name, 'deny');
  }
});

t.test('before the first load', async (t) => {
  const authorizer = createAuthorizer({ nowMs: () => 0 });
  const [a, b] = [authorizer.port(1) as CompiledPort, authorizer.port(65_535) as CompiledPort];
  shares(t, a, b);
  t.equal(authorizer.port(1), a);
});

t.test('what all ports take', { skip: gcSkip() }, async (t) => {
  const ask = (index: PolicyIndex | null): number => {
    const authorizer = createAuthorizer({ nowMs: () => 0 });
    if (index !== null) authorizer.swap(index);
    const before = heapUsed();
    for (let port = 1; port <= 65_535; port++) {
      const policy = authorizer.port(port);
      authorizer.connection(policy, client);
      authorizer.request(policy, client, plainFacts);
    }
    const taken = heapUsed() - before;
    // It is used below the measurement, so that it is there until then.
    authorizer.swap(indexOf(''));
    return taken / 65_535;
  };
  // What the code itself takes is there from now on.
  ask(indexOf(''));
  const indexes = {
    'before the first load': null,
    deny: indexOf(server()),
    'all-unauthenticated': indexOf(server(), { defaultPolicy: 'all-unauthenticated' }),
    'cluster-authenticated': indexOf('', { defaultPolicy: 'cluster-authenticated' }),
  };
  for (const [name, index] of Object.entries(indexes)) {
    const bytes = ask(index);
    t.ok(bytes < 150, `${name}: ${bytes.toFixed(1)} bytes a port`);
  }
});

function heapUsed(): number {
  (globalThis as { gc?: () => void }).gc?.();
  return process.memoryUsage().heapUsed;
}

function gcSkip(): string | false {
  setFlagsFromString('--expose-gc');
  (globalThis as { gc?: unknown }).gc ??= runInNewContext('gc');
  return typeof (globalThis as { gc?: unknown }).gc === 'function' ? false : 'needs a garbage collector to call';
}
