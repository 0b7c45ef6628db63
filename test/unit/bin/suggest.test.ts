import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { workloadName } from '../../support/certificates.ts';
import {
  bytes,
  checkout,
  type Given,
  line,
  log,
  many,
  podFlags as pod,
  probe,
  web,
} from '../../support/decision-lines.ts';
import { temporaryFolder } from '../../support/files.ts';
import { runSallyport } from '../../support/sallyport.ts';

/** A policy from a log: what is in it, what is not, and what is said of that. */

const folder = temporaryFolder(t);

interface Row {
  readonly title: string;
  readonly lines: readonly Given[];
  readonly flags?: readonly string[];
  readonly has: readonly RegExp[];
  readonly hasNot?: readonly RegExp[];
  readonly status?: number;
  readonly says?: RegExp;
}

const rows: readonly Row[] = [
  {
    title: 'a path with escapes is written as it came, and replays',
    lines: [{ identity: checkout, path: '/caf%C3%A9' }],
    has: [/value: "?\/caf%C3%A9"? /],
    hasNot: [/not allowed/i],
  },
  {
    title: 'a path that servers read as another is not written, and the reason is',
    lines: [
      { identity: checkout, path: '/a;b/c' },
      { identity: checkout, path: '/orders' },
    ],
    has: [/value: \/orders /, /GET \/a;b\/c \(once\): servers may read its path as another/],
    hasNot: [/value: "?\/a;b/],
    status: 1,
    says: /GET \/a;b\/c is not allowed: servers may read its path as another/,
  },
  {
    title: 'one value in a path stands for itself',
    lines: [{ identity: checkout, path: '/orders/8231' }],
    has: [/value: \/orders\/8231 \}, method: GET/, /kind: ServiceAccount, name: checkout \}/, /port: http$/m],
    hasNot: [/RegularExpression/, /NetworkAuthentication/],
  },
  {
    title: 'two of one class stand for the class',
    lines: [
      { identity: checkout, path: '/orders/8231' },
      { identity: checkout, path: '/orders/8232?full=1' },
    ],
    has: [/value: "\/orders\/\[0-9\]\+"/, /GET \/orders\/\{number\}: 2 values of a number/],
  },
  {
    title: 'a rule that would let in what was refused is not applied',
    lines: [
      ...many(3, (i) => ({ identity: checkout, path: `/orders/${i}` })),
      { identity: checkout, path: '/orders/99', verdict: 'deny', status: 403, authz: null },
    ],
    has: [/value: \/orders\/0 /, /value: \/orders\/2 /],
    hasNot: [/RegularExpression/, /\/orders\/99/],
  },
  {
    title: 'names of no class, fifteen of them',
    lines: many(15, (i) => ({ identity: checkout, path: `/f/${'abcdefghijklmno'[i]}.js` })),
    has: [/value: \/f\/a\.js /],
    hasNot: [/RegularExpression/],
  },
  {
    title: 'and sixteen',
    lines: many(16, (i) => ({ identity: checkout, path: `/f/${'abcdefghijklmnop'[i]}.js` })),
    has: [/RegularExpression, value: "\/f\/\[0-9A-Za-z_~.@:=\+,-\]\+"/, /16 names in one place/],
  },
  {
    title: 'and sixteen, each as it was seen',
    lines: many(16, (i) => ({ identity: checkout, path: `/f/${'abcdefghijklmnop'[i]}.js` })),
    flags: ['--exact'],
    has: [/value: \/f\/p\.js /],
    hasNot: [/RegularExpression/],
  },
  {
    title: 'identities of several kinds',
    lines: [{ identity: checkout }, { identity: web }, { identity: 'spiffe://root.test/ns/x/sa/y' }],
    has: [/MeshTLSAuthentication/, /- "spiffe:\/\/root\.test\/ns\/x\/sa\/y"/, new RegExp(`- ${web}`)],
  },
  {
    title: 'a ServiceAccount of another namespace',
    lines: [{ identity: web }],
    has: [/kind: ServiceAccount, name: web, namespace: front \}/, /By front\/web \(1\)/],
  },
  {
    title: 'addresses only where there is no identity',
    lines: [{ client: '10.9.0.1' }, { client: '10.9.0.2' }, { client: 'fd00::1' }],
    has: [/cidr: "10\.9\.0\.1\/32"/, /cidr: "10\.9\.0\.2\/32"/, /cidr: "fd00::1\/128"/],
  },
  {
    title: 'four addresses of one network',
    lines: many(4, (i) => ({ client: `10.9.0.${8 + i}` })),
    has: [/cidr: "10\.9\.0\.8\/30"/, /Holds 4 addresses/],
  },
  {
    title: "the pod's own address",
    lines: [{ client: '10.244.1.10' }],
    flags: ['--pod-ip', '10.244.1.10'],
    has: [/- podClusterIp/],
  },
  {
    title: 'calls of gRPC',
    lines: [{ protocol: 'grpc', method: 'POST', path: '/shop.Cart/Add', identity: checkout, port: 9000 }],
    has: [/proxyProtocol: gRPC/, /kind: GRPCRoute/, /service: shop\.Cart, method: Add/, /port: 9000$/m],
  },
  {
    title: 'bytes beside requests',
    lines: [
      { identity: checkout, path: '/a' },
      { ...bytes, client: '10.9.0.1' },
    ],
    has: [
      /each client\n# may do all|each client may\n# do all|Bytes have no routes/,
      /kind: Server, name: orders-http \}/,
    ],
    hasNot: [/HTTPRoute/],
  },
  {
    title: 'an opaque port stays one',
    lines: [{ ...bytes, declared: 'opaque', port: 6379 }],
    has: [/proxyProtocol: opaque/],
  },
  {
    title: 'probes are left to their own route',
    lines: [
      { path: '/healthz', authz: probe, client: '10.0.0.1' },
      { path: '/a', identity: checkout },
    ],
    has: [/value: \/a /, /name: orders-http-healthz,/, /cidr: "0\.0\.0\.0\/0"/, /By probes/],
    hasNot: [/10\.0\.0\.1/],
  },
  {
    title: 'probes of a port on which bytes came are no reason to open it to everybody',
    lines: [
      { path: '/healthz', authz: probe, client: '10.0.0.1' },
      { ...bytes, client: '10.9.0.1' },
    ],
    has: [/cidr: "10\.9\.0\.1\/32"/],
    hasNot: [/0\.0\.0\.0\/0/, /10\.0\.0\.1/],
  },
  {
    title: 'the same path by two host names, of which one was refused',
    lines: [
      { identity: checkout, path: '/a', host: 'in.shop' },
      { identity: checkout, path: '/a', host: 'out.shop', verdict: 'deny', status: 403, authz: null },
    ],
    has: [/hostnames: \[in\.shop\]/],
  },
  {
    title: 'one client from two places, of which one was refused',
    lines: [
      { identity: checkout, path: '/a', client: '10.1.0.1' },
      { identity: checkout, path: '/a', client: '10.2.0.1', verdict: 'deny', status: 403, authz: null },
    ],
    has: [/cidr: "10\.1\.0\.1\/32"/, /kind: ServiceAccount, name: checkout/],
    hasNot: [/10\.2\.0\.1/],
  },
  {
    title: 'what was refused is left out, unless it is asked for',
    lines: [{ identity: checkout, path: '/a', verdict: 'deny', status: 403, authz: null }],
    has: [/from 0 decisions/],
    hasNot: [/kind: Server/],
    says: /nothing that was allowed/,
  },
  {
    title: 'and in, when it is',
    lines: [{ identity: checkout, path: '/a', verdict: 'deny', status: 403, authz: null }],
    flags: ['--refused'],
    has: [/value: \/a /],
  },
  {
    title: 'a method that no route can name',
    lines: [{ method: 'PROPFIND', path: '/dav' }],
    has: [/Not allowed: PROPFIND \/dav \(once\)/],
    status: 1,
    says: /PROPFIND \/dav is not allowed/,
  },
  {
    title: 'a path that would break out of its comment, and its line',
    lines: [{ identity: checkout, path: '/a\n---\nkind: Evil' }],
    has: [/Not allowed/],
    hasNot: [/^kind: Evil/m, /^---\nkind: Evil/m],
    status: 1,
    says: /is not allowed/,
  },
  {
    title: 'names that YAML would read as something else',
    lines: [
      { identity: 'true', path: '/a' },
      { identity: 'null.test', path: '/{x}' },
    ],
    has: [/- "true"/, /value: "\/\{x\}"/],
  },
  {
    title: 'names that kubectl, which reads YAML 1.1, would read as something else',
    lines: [
      { identity: workloadName('no', 'shop'), path: '/a' },
      { identity: workloadName('y', 'shop'), path: '/b' },
    ],
    has: [/name: "no"/, /name: "y"/],
  },
  {
    title: 'an identity that no certificate gives is no grant to everybody',
    lines: [{ path: '/a' }, ...['*', '*.test', '', 'a b'].map((identity) => ({ identity, path: '/a' }))],
    has: [/Not allowed: 4 decisions/],
    hasNot: [/MeshTLSAuthentication/],
    status: 1,
    says: /4 decisions are left out/,
  },
  {
    title: 'one that the log does not say enough of',
    lines: [{ path: '/a' }, { identity: '*', path: '/a' }],
    has: [/Not allowed: 1 decision,/],
    status: 1,
    says: /: 1 decision is left out: /,
  },
  {
    title: 'what is no character, which a strict reader of YAML refuses even in a comment',
    lines: [{ identity: checkout, path: '/a\ufffe\u{1ffff}' }],
    has: [/Not allowed: GET \/a\\ufffe\\ud83f\\udfff/],
    status: 1,
    says: /is not allowed/,
  },
  {
    title: 'a host that no route can have, where hosts tell, spoils nothing for the others',
    lines: [
      ...['good.test', '*.test', 'under_score', '[::1]:80', 'a..b'].map((host) => ({ host, path: '/a' })),
      { path: '/a', host: 'bad.test', verdict: 'deny', status: 403, authz: null },
    ],
    has: [/hostnames: \[good\.test\]/],
    hasNot: [/hostnames: \["/],
    status: 1,
    says: /its host is no name that a route can have/,
  },
  {
    title: 'a header that no route can ask for, where headers tell',
    lines: [
      ...[['a'], [''], ['é'], ['a\nb'], ['a', 'b'], ['x'.repeat(5000)]].map((key) => ({
        headers: { key },
        path: '/a',
      })),
      { path: '/a', headers: { key: ['z'] }, verdict: 'deny', status: 403, authz: null },
    ],
    has: [/headers: \[\{ name: key, value: a \}\]/],
    status: 1,
    says: /no route can ask for what is in its header key/,
  },
  {
    title: 'a path that is spelt like a form of paths is none of them',
    lines: [
      ...many(3, (i) => ({ identity: checkout, path: `/orders/${i}` })),
      { identity: web, path: '/orders/{number}' },
    ],
    has: [/value: "\/orders\/\[0-9\]\+"/, /value: "\/orders\/\{number\}"/, /By front\/web \(1\)\./],
    hasNot: [/namespace: front \}[\s\S]*namespace: front \}/],
  },
  {
    title: 'more paths than are kept apart, of which hosts tell what was refused',
    lines: [
      ...many(80, (i) => ({ path: `/orders/${i}`, host: 'in.test' })),
      { path: '/orders/7', host: 'out.test', verdict: 'deny', status: 403, authz: null },
    ],
    has: [/Not allowed: GET \/orders\/\{number\}, beyond 64 of them \(16 times\)/],
    status: 1,
    says: /too many of them to tell each from what was refused/,
  },
];

for (const { title, lines, flags = [], has, hasNot = [], status = 0, says } of rows) {
  t.test(title, async (t) => {
    const file = log(folder, lines);
    const { stdout, stderr, code } = await runSallyport(t, ['suggest', file, ...pod, ...flags]);
    t.equal(code, status, stderr);
    for (const pattern of has) t.match(stdout, pattern);
    for (const pattern of hasNot) t.notMatch(stdout, pattern);
    if (says === undefined) t.equal(stderr, '');
    else t.match(stderr, says);
    const policy = join(folder, 'policy.yaml');
    writeFileSync(policy, stdout);
    const checked = await runSallyport(t, ['check', policy, '--json'], { SALLYPORT_POD_NAMESPACE: 'shop' });
    t.match(JSON.parse(checked.stdout), { ok: true, problems: [] }, 'check has nothing to say of it');
    if (status !== 0 || says !== undefined || flags.includes('--refused')) return;
    const facts = [...pod, ...flags.filter((flag) => flag !== '--exact'), '--probe', '8080/healthz'];
    const replayed = await runSallyport(t, ['replay', file, '--policy', policy, ...facts]);
    t.match(replayed.stdout, / read: /, 'it can be replayed');
    t.notMatch(replayed.stdout, /allowed → refused/, 'and its own log is allowed by it');
  });
}

t.test('lines that cannot be read', async (t) => {
  const file = join(folder, 'other.log');
  const allowed = line({ identity: checkout, path: '/a' });
  for (const [text, status] of [
    ['hello\nworld\n', 64],
    [`${allowed}\nhello\n`, 1],
    [`${allowed}\n{"decision":1,"time":"2026-11-20T14:00:00.000Z","lost":3}\n`, 1],
  ] as const) {
    writeFileSync(file, text);
    const { code, stderr } = await runSallyport(t, ['suggest', file, ...pod]);
    t.equal(code, status, text);
    t.match(stderr, /is neither JSON nor a line of the log|3 decisions are not in the log/);
  }
});

t.test('what is wrong', async (t) => {
  const file = log(folder, [{ identity: checkout }]);
  const broken = join(folder, 'broken.yaml');
  writeFileSync(broken, 'kind: [');
  const given: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /no log/],
    [[join(folder, 'none')], /cannot be read/],
    [[file, '--in-place'], /--in-place has no file/],
    [[file, '--merge', broken], /broken\.yaml:\d/],
    [[file, '--merge', join(folder, 'none')], /none/],
  ];
  for (const [args, says] of given) {
    const { code, stdout, stderr } = await runSallyport(t, ['suggest', ...args, ...pod]);
    t.match({ code, stdout }, { code: 64, stdout: '' }, args.join(' '));
    t.match(stderr, says);
  }
});

t.test('for programs', async (t) => {
  const { stdout } = await runSallyport(t, ['suggest', log(folder, [{ identity: checkout }]), ...pod, '--json']);
  t.match(JSON.parse(stdout), { policy: /kind: Server/, evidence: { count: 1 }, notAllowed: [], allowedAgain: [] });
});
