import t from 'tap';
import type { ClientIdentity } from '../../../../lib/client.ts';
import { acceptedIdentity, IdentitySet, identityFault } from '../../../../lib/policy/identities.ts';
import { type Cidr, isMapped, type NetworkEntry, networkSet, parseCidr } from '../../../../lib/policy/networks.ts';
import { type Expression, selects } from '../../../../lib/policy/selectors.ts';
import { account, document, plainFacts as facts, ip, load, policy, server } from '../../../support/policy-fixtures.ts';
import fc from '../../../support/properties.ts';

function cidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (typeof parsed === 'string') throw new Error(parsed);
  return parsed;
}

t.test('CIDRs', async (t) => {
  const rows: readonly (readonly [text: string, inside: string, outside: string])[] = [
    ['10.0.0.0/8', '10.255.255.255', '11.0.0.0'],
    ['10.1.2.3/8', '10.0.0.0', '9.255.255.255'],
    ['10.1.2.3', '10.1.2.3', '10.1.2.4'],
    ['0.0.0.0/0', '255.255.255.255', '::1'],
    ['::/0', '2001:db8::1', '0.0.0.0'],
    ['fd00::/8', 'fdff:ffff::1', 'fe00::'],
    ['::ffff:0:0/95', '::fffe:1:2', '1.2.3.4'],
    ['::/0', '::1', '::ffff:10.1.2.9'],
    ['10.1.2.0/24', '::ffff:10.1.2.9', '::10.1.2.9'],
    ['10.1.2.0/24', '::ffff:0a01:0209', '::ffff:0b01:0209'],
    ['fe80::/10', 'fe80::1%eth0', 'fec0::1%eth0'],
  ];
  for (const [text, inside, outside] of rows) {
    const set = networkSet([{ network: cidr(text), except: [] }], []);
    t.equal(set.contains(ip(inside)), true, `${text} holds ${inside}`);
    t.equal(set.contains(ip(outside)), false, `${text} does not hold ${outside}`);
  }
  for (const text of [
    '',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/08',
    '10.0.0/8',
    '0x0a.0.0.0/8',
    '::/129',
    '1.2.3.4/-1',
    'a/8',
    '10.0.0.0/8/8',
  ]) {
    t.type(parseCidr(text), 'string', `"${text}" is refused`);
  }
});

t.test('an IPv4-mapped block is one of IPv6, which holds no client', async (t) => {
  for (const text of ['::ffff:10.1.2.0/120', '::ffff:0:0/96', '::ffff:10.1.2.9', '::ffff:a01:200/120']) {
    const block = cidr(text);
    const set = networkSet([{ network: block, except: [] }], []);
    for (const client of ['10.1.2.9', '::ffff:10.1.2.9', '::ffff:a01:209', '::1']) {
      t.equal(set.contains(ip(client)), false, `${text} does not hold ${client}`);
    }
    t.equal(isMapped(block), true, `${text} is told`);
    const others = networkSet([{ network: cidr('0.0.0.0/0'), except: [block] }], []);
    t.equal(others.contains(ip('10.1.2.9')), true, `${text} excepts nothing`);
  }
  for (const text of ['10.1.2.0/24', '::/0', '::ffff:0:0/95', '::1']) t.equal(isMapped(cidr(text)), false, text);
});

t.test('podClusterIp', async (t) => {
  const own = [ip('10.1.2.3'), ip('fd00::5')];
  const set = networkSet([{ network: 'podClusterIp', except: [] }], own);
  t.same(
    ['10.1.2.3', 'fd00::5', '10.1.2.4'].map((text) => set.contains(ip(text))),
    [true, true, false],
  );
  const without = networkSet([{ network: cidr('10.0.0.0/8'), except: ['podClusterIp'] }], own);
  t.same(
    ['10.1.2.3', '10.1.2.4'].map((text) => without.contains(ip(text))),
    [false, true],
  );
  t.equal(networkSet([{ network: 'podClusterIp', except: [] }], []).contains(ip('10.1.2.3')), false);
  t.equal(
    networkSet([{ network: cidr('10.0.0.0/8'), except: ['podClusterIp'] }], []).contains(ip('10.1.2.4')),
    false,
    'with the exception unknown nobody is let in',
  );
});

t.test('the union of each network minus its own exceptions, as a naive matcher has it', async () => {
  const v4 = fc
    .tuple(fc.nat(255), fc.nat(255), fc.integer({ min: 12, max: 32 }))
    .map(([a, b, p]) => `10.${a}.${b}.7/${p}`);
  const v6 = fc
    .tuple(fc.nat(0xffff), fc.nat(0xffff), fc.integer({ min: 100, max: 128 }))
    .map(([a, b, p]) => `fd00::${a.toString(16)}:${b.toString(16)}/${p}`);
  const block = fc.oneof(v4, v6).map(cidr);
  const entries = fc.array(fc.record({ network: block, except: fc.array(block, { maxLength: 3 }) }), { maxLength: 6 });
  const probe = (c: Cidr): bigint[] => [c.first, c.last, c.first - 1n, c.last + 1n];
  const text = (family: 4 | 6, value: bigint): string =>
    family === 4
      ? [24n, 16n, 8n, 0n].map((s) => (value >> s) & 255n).join('.')
      : Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16)).join(':');
  fc.assert(
    fc.property(entries, (list: NetworkEntry[]) => {
      const set = networkSet(list, []);
      const blocks = list.flatMap(({ network, except }) => [network, ...except]).filter((c) => typeof c !== 'string');
      for (const one of blocks) {
        for (const value of probe(one)) {
          const holds = (c: Cidr): boolean => c.family === one.family && c.first <= value && value <= c.last;
          const naive = list.some(
            ({ network, except }) => holds(network as Cidr) && !except.some((c) => holds(c as Cidr)),
          );
          if (set.contains(ip(text(one.family, value))) !== naive) return false;
        }
      }
      return true;
    }),
    { numRuns: 300 },
  );
});

t.test('identities', async (t) => {
  const dns = (name: string): ClientIdentity => ({ form: 'dns', name });
  const spiffe = (name: string): ClientIdentity => ({ form: 'spiffe', name });
  const rows: readonly (readonly [entries: readonly string[], identity: ClientIdentity | null, has: boolean])[] = [
    [['*'], dns('a.b'), true],
    [['*'], spiffe('spiffe://td/a'), false],
    [['*'], null, false],
    [['*'], dns(''), false],
    [[], dns('a.b'), false],
    [[''], dns(''), false],
    [['*.b.c'], dns('a.b.c'), true],
    [['*.b.c'], dns('x.a.b.c'), true],
    [['*.b.c'], dns('b.c'), false],
    [['*.b.c'], dns('.b.c'), false],
    [['*.b.c'], dns('a.xb.c'), false],
    [['*.b.c'], spiffe('spiffe://a.b.c'), false],
    [['spiffe://td/a'], spiffe('spiffe://td/a'), true],
    [['spiffe://td/a'], spiffe('spiffe://td/a/b'), false],
    [['a.b.c'], dns('A.b.c'), false],
    [['a.b.c', 'd'], dns('d'), true],
  ];
  for (const [entries, identity, has] of rows) {
    t.equal(
      new IdentitySet(entries.map(acceptedIdentity)).has(identity),
      has,
      `${entries} and ${identity?.name ?? 'nobody'}`,
    );
  }
  for (const good of ['*', '*.a.b', 'a', 'a-b.c', 'spiffe://td', 'spiffe://t.d/a/B_c']) {
    t.equal(identityFault(good), undefined, good);
  }
  for (const bad of [
    '',
    'A.b',
    '.a',
    'a.',
    'a..b',
    '*a',
    '**.a',
    'a.*',
    '*.',
    'http://td/x',
    'spiffe://',
    'spiffe://TD/x',
    'spiffe://td/',
    'spiffe://td//x',
    'spiffe://td/../x',
    'spiffe://td/./x',
    'spiffe://td:80/x',
    'spiffe://td/x?y',
    'spiffe://td/x#y',
    'a\nb',
  ]) {
    t.type(identityFault(bad), 'string', `"${bad}" is refused`);
  }
});

t.test('selectors', async (t) => {
  const labels = new Map([['app', 'web']]);
  const rows: readonly (readonly [Expression, boolean])[] = [
    [{ key: 'app', operator: 'In', values: ['web', 'x'] }, true],
    [{ key: 'app', operator: 'In', values: ['x'] }, false],
    [{ key: 'app', operator: 'In', values: [] }, false],
    [{ key: 'app', operator: 'In', values: null }, false],
    [{ key: 'app', operator: 'NotIn', values: ['x'] }, true],
    [{ key: 'app', operator: 'NotIn', values: ['web'] }, false],
    [{ key: 'none', operator: 'NotIn', values: ['x'] }, true],
    [{ key: 'none', operator: 'NotIn', values: null }, false],
    [{ key: 'app', operator: 'Exists', values: null }, true],
    [{ key: 'app', operator: 'Exists', values: [] }, false],
    [{ key: 'none', operator: 'DoesNotExist', values: null }, true],
    [{ key: 'app', operator: 'DoesNotExist', values: null }, false],
  ];
  for (const [expression, expected] of rows) {
    t.equal(selects({ matchLabels: [], matchExpressions: [expression] }, labels), expected, JSON.stringify(expression));
  }
  t.equal(selects({ matchLabels: [], matchExpressions: [] }, labels), true, 'an empty selector selects all');
  t.equal(selects({ matchLabels: [['toString', 'x']], matchExpressions: [] }, labels), false);
});

t.test('an anonymous client satisfies no identity rule', async (t) => {
  const any = `${server()}${document('MeshTLSAuthentication', 'm', '{identities: ["*"]}')}${policy('p', 'kind: Server, name: web', '{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}')}`;
  const { ask } = load(any);
  t.equal(ask({ identity: account('a') }).verdict, 'permit');
  for (const tls of ['none', 'anonymous'] as const) {
    const answer = ask({ tls });
    t.equal(answer.verdict, 'deny', tls);
    t.match(answer.candidates, [{ authz: { name: 'p' }, granted: false, failed: 'identity' }, {}]);
  }
});

t.test('TLS without an identity is enough where the policy says so, and only when it ends here', async (t) => {
  const { ask } = load(
    server() +
      document('ServerAuthorization', 's', '{server: {name: web}, client: {meshTLS: {unauthenticatedTLS: true}}}'),
  );
  for (const protocol of ['http1', 'tcp'] as const) {
    t.equal(ask({ protocol, tls: 'anonymous' }).verdict, 'permit');
    t.equal(ask({ protocol, identity: account('a') }).verdict, 'permit');
    t.equal(ask({ protocol, tls: 'none' }).verdict, 'deny');
    t.equal(ask({ protocol, tls: 'passthrough' }).verdict, 'deny');
    t.equal(ask({ protocol, tls: 'anonymous', ip: '203.0.113.9' }).verdict, 'deny', 'without networks: the cluster');
  }
});

t.test('the clause that failed is named', async (t) => {
  const { ask } = load(
    `${server()}${document('NetworkAuthentication', 'n', '{networks: [{cidr: 10.0.0.0/8, except: [10.20.0.0/16]}]}')}
${policy('by-network', 'kind: Server, name: web', '{group: policy.linkerd.io, kind: NetworkAuthentication, name: n}')}
${policy('dangling', 'kind: Server, name: web', '{group: policy.linkerd.io, kind: NetworkAuthentication, name: none}')}`,
  );
  const answer = ask({});
  t.equal(answer.httpStatus, 403);
  t.match(answer.candidates, [
    {
      authz: { name: 'by-network' },
      failed: 'network',
      detail: 'wanted 10.0.0.0/8 except 10.20.0.0/16, was 10.20.0.5',
    },
    { authz: { name: 'localhost' }, failed: 'network' },
    { authz: { name: 'dangling' }, failed: 'reference', detail: /shop\/none/ },
  ]);
});

t.test('a long list of grants answers as a short one', async (t) => {
  const many = Array.from({ length: 20 }, (_, i) =>
    policy(`p${i}`, 'kind: Server, name: web', `{kind: ServiceAccount, name: a${i}}`),
  ).join('');
  const { ask, authorizer } = load(server() + many);
  t.equal(ask({ identity: account('a19') }).authz?.name, 'p19');
  t.equal(ask({ identity: account('a20') }).verdict, 'deny');
  const client = { ip: ip('10.0.0.1'), tls: { kind: 'mesh', identity: { form: 'dns', name: account('a3') } } } as const;
  const port = authorizer.port(8080);
  const first = authorizer.request(port, client, facts);
  t.equal(first.kind, 'permit');
  t.equal(authorizer.request(port, client, facts), first, 'the same permit, allocated once');
});
