import { createHmac } from 'node:crypto';
import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip, gzipSync } from 'node:zlib';
import t from 'tap';
import { workloadName } from '../../support/certificates.ts';
import { temporaryFolder } from '../../support/files.ts';
import { runSallyport } from '../../support/sallyport.ts';

/** Decisions of a log against a policy: what it says, for people and for programs, and how it ends. */

const documents = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: 8080 }
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules: [{ matches: [{ path: { value: /orders } }, { path: { value: /canary }, headers: [{ name: x-canary, value: a }] }, { path: { value: /pattern }, headers: [{ name: x-pattern, type: RegularExpression, value: a+ }] }, { path: { value: /built }, headers: [{ name: constructor, value: a }] }] }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: checkout, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: orders }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: checkout }]
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: bytes, namespace: shop }
spec: { podSelector: {}, port: 9000, accessPolicy: all-unauthenticated }
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: cut, namespace: shop }
spec: { podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/8 } }] }] }
`;
const checkout = workloadName('checkout', 'shop');
const web = { group: 'policy.linkerd.io', kind: 'server', name: 'web' };
const orders = { group: 'policy.linkerd.io', kind: 'HTTPRoute', name: 'orders' };
const authz = { group: 'policy.linkerd.io', kind: 'authorizationpolicy', name: 'checkout' };

const line = (fields: object): string =>
  JSON.stringify({
    ...{ decision: 1, time: '2026-11-20T14:00:00.000Z', port: 8080, client: '10.1.2.3', protocol: 'http1' },
    ...{ method: 'GET', path: '/orders/1', host: 'web', headers: {}, server: web, route: orders },
    ...fields,
  });
const hashed = (value: string, verdict: string, path = '/canary'): string => {
  const hash = createHmac('sha256', 'salt').update(value).digest('hex').slice(0, 32);
  return line({ path, salt: 'salt', headers: { 'x-canary': [hash], 'x-pattern': [hash] }, verdict });
};
const bytes = { protocol: 'tcp', port: 9000, method: undefined, path: undefined, route: undefined, server: undefined };

t.test('what becomes of a line', async (t) => {
  interface Row {
    readonly line: string;
    /** The change, or the field of the sums that counts it. */
    readonly expected: string;
    readonly failed?: string;
    readonly lacks?: RegExp;
  }
  const rows: readonly Row[] = [
    { line: line({ verdict: 'deny' }), expected: 'same' },
    { line: line({ identity: checkout, verdict: 'permit', authz }), expected: 'same' },
    { line: line({ identity: checkout, verdict: 'deny' }), expected: 'allowed' },
    { line: line({ verdict: 'permit' }), expected: 'refused', failed: 'checkout identity, localhost network' },
    { line: line({ verdict: 'no-route', route: undefined }), expected: 'otherwise' },
    { line: line({ identity: checkout, verdict: 'permit', authz: { ...authz, name: 'old' } }), expected: 'moved' },
    { line: line({ identity: checkout, verdict: 'permit', authz, audit: true }), expected: 'moved' },
    { line: line({ identity: checkout, verdict: 'rate-limited', authz }), expected: 'overLimit' },
    { line: line({ verdict: 'permit', client: '192.168.1.1' }), expected: 'refused' },
    { line: line({ verdict: 'permit', path: '/orders/%2e%2e/x' }), expected: 'refused' },
    { line: line({ protocol: 'accept', client: '192.168.1.1', verdict: 'deny' }), expected: 'same' },
    { line: line({ protocol: 'accept', verdict: 'deny' }), expected: 'unknown', lacks: /what would have come/ },
    { line: line({ path: '/canary', verdict: 'deny' }), expected: 'unknown', lacks: /the header x-canary/ },
    { line: line({ path: '/canary', headers: { 'x-canary': [] }, verdict: 'no-route' }), expected: 'same' },
    { line: line({ path: '/canary', headers: { 'x-canary': ['a'] }, verdict: 'deny' }), expected: 'same' },
    {
      line: line({ path: '/b', headers: { 'x-canary': [] }, names: ['x_canary'], verdict: 'invalid' }),
      expected: 'same',
    },
    { line: hashed('a', 'deny'), expected: 'same' },
    { line: hashed('b', 'no-route'), expected: 'same' },
    { line: hashed('b', 'deny'), expected: 'otherwise' },
    { line: hashed('b', 'deny', '/pattern'), expected: 'unknown', lacks: /the header x-pattern but as a hash/ },
    { line: line({ path: undefined, omits: ['path'], verdict: 'deny' }), expected: 'unknown', lacks: /the path/ },
    { line: line({ omits: ['query'], verdict: 'deny' }), expected: 'same' },
    { line: line({ ...bytes, verdict: 'permit', declared: 'detect' }), expected: 'same' },
    { line: line({ ...bytes, verdict: 'deny', declared: 'detect' }), expected: 'allowed' },
    {
      line: line({ ...bytes, verdict: 'permit', declared: 'opaque' }),
      expected: 'unknown',
      lacks: /what it begins with/,
    },
    { line: line({ ...bytes, verdict: 'permit' }), expected: 'unknown', lacks: /what it begins with/ },
    { line: '{"port":8080,"client":"10.1.2.3"}', expected: 'notDecided' },
    // What every object has is no header field.
    { line: line({ path: '/built', verdict: 'permit' }), expected: 'unknown', lacks: /the header constructor/ },
    { line: '{"decision":1,"lost":3}', expected: 'lost' },
    { line: '{"level":"info","msg":"Draining"}', expected: 'others' },
    { line: 'hello', expected: 'bad' },
  ];
  const file = join(temporaryFolder(t), 'policy.yaml');
  writeFileSync(file, documents);
  const log = join(temporaryFolder(t), 'log');
  for (const row of rows) {
    writeFileSync(log, `${row.line}\n`);
    const run = await runSallyport(t, ['replay', log, '--policy', file, '--namespace', 'shop', '--json']);
    const said = JSON.parse(run.stdout);
    const [difference] = said.differences;
    const found = difference?.change ?? null;
    if (row.expected in said) {
      const counted = row.expected === 'unknown' ? said.unknown[0]?.count : said[row.expected];
      t.ok(counted > 0, `${row.expected}: ${row.line}: ${run.stdout}`);
      t.equal(found, null);
      if (row.lacks !== undefined) t.match(said.unknown[0].lacks, row.lacks);
    } else t.equal(found, row.expected, row.line);
    if (row.failed !== undefined) t.equal(difference.failed, row.failed);
    const differs = ['allowed', 'refused', 'otherwise'].includes(row.expected);
    t.equal(run.code, differs ? 1 : row.expected === 'bad' ? 64 : 0, row.line);
  }
});

t.test('long lines, of which none comes again, take no memory', async (t) => {
  const file = join(temporaryFolder(t), 'policy.yaml');
  writeFileSync(file, documents);
  const log = join(temporaryFolder(t), 'log.gz');
  const zip = createGzip({ level: 1 });
  const paths = Array.from({ length: 400 }, (_, i) => `/${i}${'x'.repeat(900_000)}`);
  const lines = Readable.from(paths.map((path) => `${line({ path, verdict: 'permit' })}\n`));
  await pipeline(lines, zip, createWriteStream(log));
  const heap = { NODE_OPTIONS: '--max-old-space-size=300' };
  const { code, stdout } = await runSallyport(t, ['replay', log, '--policy', file, '--json'], heap);
  t.match({ code, decisions: JSON.parse(stdout).decisions }, { code: 1, decisions: 400 });
  const suggested = await runSallyport(t, ['suggest', log, '--pod-label', 'app=web'], heap);
  t.equal(suggested.code, 1);
  t.match(suggested.stderr, /its path is longer than an HTTPRoute may name/);
});

t.test('no example is told twice, however long ago its line came', async (t) => {
  const file = join(temporaryFolder(t), 'policy.yaml');
  writeFileSync(file, documents);
  const log = join(temporaryFolder(t), 'log');
  const others = Array.from({ length: 6000 }, (_, i) => line({ path: `/orders/${i}`, verdict: 'deny' }));
  const [twice, second] = ['/orders/a', '/orders/b'].map((path) => line({ path, verdict: 'permit' }));
  writeFileSync(log, [...others, twice, twice, second, twice].join('\n'));
  const { stdout } = await runSallyport(t, ['replay', log, '--policy', file, '--namespace', 'shop', '--json']);
  const { differences } = JSON.parse(stdout);
  t.match(differences, [{ count: 4, examples: [{ line: 6001 }, { line: 6003 }] }], stdout);
});

t.test('for people: worst first, with counts, clients and a command that shows why', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'policy.yaml');
  writeFileSync(file, documents);
  const log = join(folder, 'log.gz');
  const lines = [
    line({ verdict: 'permit' }),
    line({ verdict: 'permit', client: '10.1.2.4', count: 3, time: '2026-11-20T14:00:02.000Z' }),
    line({ verdict: 'deny', identity: checkout, path: "/orders/it's" }),
    line({ verdict: 'deny', path: '/\u001b[2J' }),
  ];
  writeFileSync(log, gzipSync(lines.join('\n')));
  const run = await runSallyport(t, ['replay', log, '--policy', file, '--namespace', 'shop']);
  const expected = `refused → allowed: 1 decision
  port 8080: deny policy.linkerd.io/server/web, policy.linkerd.io/HTTPRoute/orders
    → permit policy.linkerd.io/authorizationpolicy/checkout, policy.linkerd.io/HTTPRoute/orders, policy.linkerd.io/server/web
    1 decision by ${checkout} (1)
    2026-11-20T14:00:00.000Z
    sallyport explain --policy ${file} --namespace shop --port 8080 --client 10.1.2.3 --identity ${checkout} --path '/orders/it'\\''s' --host web
      policy.linkerd.io/authorizationpolicy/checkout covers 10.1.2.3 (${checkout})

allowed → refused: 4 decisions
  port 8080: permit policy.linkerd.io/server/web, policy.linkerd.io/HTTPRoute/orders`;
  t.ok(run.stdout.startsWith(expected.split('\n').slice(0, -1).join('\n')), run.stdout);
  t.match(
    run.stdout,
    /4 decisions by 10\.1\.2\.4 \(3\), 10\.1\.2\.3 \(1\)\n {4}2026-11-20T14:00:00\.000Z to 2026-11-20T14:00:02\.000Z\n/,
  );
  t.match(run.stdout, /answered otherwise: 1 decision\n/);
  t.match(run.stdout, /6 decisions read: 0 the same, 6 different\n$/);
  t.notMatch(run.stdout, '\u001b', 'what a client has sent moves no cursor');
  t.equal(run.code, 1);
});

t.test('one of a kind is one', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'policy.yaml');
  writeFileSync(file, documents);
  const one = ['{"level":"info","msg":"Draining"}', 'hello'];
  // One more than are named.
  const clients = Array.from({ length: 4 }, (_, i) => line({ verdict: 'permit', client: `10.1.2.${i}` }));
  for (const [times, said] of [
    [1, /and 1 other\n.*\n {2}1 line could not be read\n {2}1 line is about something else\n$/s],
    [2, /and 2 others\n.*\n {2}2 lines could not be read\n {2}2 lines are about something else\n$/s],
  ] as const) {
    const log = join(folder, `log-${times}`);
    const more = line({ verdict: 'permit', client: '10.1.2.200' });
    writeFileSync(log, [...clients, ...(times === 2 ? [more] : []), ...one, ...(times === 2 ? one : [])].join('\n'));
    const { stdout } = await runSallyport(t, ['replay', log, '--policy', file, '--namespace', 'shop']);
    t.match(stdout, said, stdout);
  }
});

t.test('against another policy', async (t) => {
  const folder = temporaryFolder(t);
  const [older, newer] = [join(folder, 'old.yaml'), join(folder, 'new.yaml')];
  writeFileSync(older, documents);
  writeFileSync(newer, documents.replace('name: checkout }]', 'name: other }]'));
  const log = join(folder, 'requests');
  writeFileSync(log, `{"port":8080,"client":"10.1.2.3","path":"/orders","identity":"${checkout}"}\n`);
  const args = ['replay', log, '--namespace', 'shop', '--json', '--policy'];
  const rows: readonly (readonly [args: readonly string[], change: string | undefined])[] = [
    [[newer, '--against', older], 'refused'],
    [[older, '--against', newer], 'allowed'],
    [[older, '--against', older], undefined],
  ];
  for (const [more, change] of rows) {
    const run = await runSallyport(t, [...args, ...more]);
    t.equal(JSON.parse(run.stdout).differences[0]?.change, change);
    t.equal(run.code, change === undefined ? 0 : 1);
  }
});

t.test('wrong usage', async (t) => {
  const file = join(temporaryFolder(t), 'policy.yaml');
  writeFileSync(file, documents);
  const rows: readonly (readonly [args: readonly string[], stderr: RegExp])[] = [
    [
      ['--policy', file],
      /no log \(name a file, - for standard input, or a running proxy by --from URL\) \[missing-argument\]/,
    ],
    [['/absent.jsonl', '--policy', file], /\/absent\.jsonl cannot be read: no such file or folder/],
    [['-'], /no policy/],
    [['-', '--policy', '-'], /standard input is for the log/],
    [['-', '-', '--policy', file], /standard input is named twice/],
    [['-', '--policy', '/absent.yaml'], /absent\.yaml/],
  ];
  for (const [args, stderr] of rows) {
    const run = await runSallyport(t, ['replay', ...args]);
    t.match(run.stderr, stderr, args.join(' '));
    t.equal(run.code, 64);
  }
});

t.test('explain reads the lines that replay reads, and answers them alike', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string, content: string | Buffer): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const policy = at('policy.yaml', documents);
  const explained = async (file: string): Promise<readonly Record<string, unknown>[]> => {
    const { stdout } = await runSallyport(t, [
      'explain',
      '--namespace',
      'shop',
      '--policy',
      policy,
      '--requests',
      file,
    ]);
    return stdout.split('\n').flatMap((each) => (each === '' ? [] : [JSON.parse(each)]));
  };
  const lines = [
    hashed('a', 'deny'),
    hashed('b', 'no-route'),
    hashed('a', 'deny', '/pattern'),
    line({ path: '/canary', headers: { 'x-canary': ['a'] }, verdict: 'deny' }),
    line({ path: '/canary', headers: {}, names: ['x_canary'], verdict: 'invalid' }),
  ];
  const answers = await explained(at('log', lines.map((each) => `${each}\r\n`).join('')));
  t.match(answers, [
    { verdict: 'deny', notes: undefined },
    { verdict: 'no-route', notes: undefined },
    {
      notes: [
        { code: 'line-lacks', message: /does not hold the header x-pattern but as a hash: this answer is a guess/ },
      ],
    },
    { verdict: 'deny', notes: undefined },
    { verdict: 'invalid', notes: undefined },
  ]);
  const replayed = await runSallyport(t, [
    ...['replay', join(folder, 'log'), '--policy', policy, '--namespace', 'shop', '--json'],
  ]);
  t.match(JSON.parse(replayed.stdout), { same: 4, different: 0, unknown: [{ count: 1 }] }, 'as they were recorded');

  const asked = '{"port":8080,"client":"10.1.2.3","path":"/orders\u2028"}\n';
  const bad = { code: 'bad-line' };
  const files: readonly (readonly [name: string, content: string | Buffer, said: readonly object[]])[] = [
    ['gzip', gzipSync(asked.repeat(2)), [{ verdict: 'no-route' }, { verdict: 'no-route' }]],
    [
      'half a gzip',
      gzipSync(asked).subarray(0, -9),
      [{ verdict: 'no-route' }, { ...bad, error: /gzip: ends in the middle of its compressed text/ }],
    ],
    ['BOM', `\ufeff${asked}`, [{ verdict: 'no-route' }]],
    ['UTF-16', Buffer.from(asked, 'utf16le'), [{ ...bad, error: /: is binary, and no log$/ }]],
    ['not UTF-8', Buffer.from('{"port":8080,"client":"10.1.2.3","path":"/\xff"}\n', 'latin1'), [bad]],
    [
      'long',
      `${'a'.repeat(3_000_000)}\n${asked}`,
      [{ error: 'line 1: is longer than 1 MiB' }, { verdict: 'no-route' }],
    ],
  ];
  for (const [name, content, said] of files) {
    const found = await explained(at(name, content));
    t.equal(found.length, said.length, name);
    t.match(found, said, name);
  }
});

t.test('what is harmless, however much of it there is, does not hide what is worse', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const moved = Array.from({ length: 10_001 }, (_, i) =>
    line({ identity: checkout, verdict: 'permit', authz, server: { ...web, name: `n${i}` } }),
  );
  const log = at('log', [...moved, line({ identity: checkout, verdict: 'deny' })].join('\n'));
  const flags = ['--policy', at('policy.yaml', documents), '--namespace', 'shop', '--json'];
  const { code, stdout } = await runSallyport(t, ['replay', log, ...flags]);
  const { differences, uncounted } = JSON.parse(stdout);
  t.match({ code, uncounted }, { code: 1, uncounted: 1 });
  t.match(differences[0], { change: 'allowed', count: 1 });
});
