/** `sallyport test` as people and CI systems use it: files, faults, statuses, forms of output. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { missing, runToEnd, startChild } from '../../support/children.ts';
import { temporaryFolder } from '../../support/files.ts';
import { bareEnvironment, sallyportCommand } from '../../support/sallyport.ts';

// It starts a program for each row.
t.setTimeout(900_000);

const documents = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: { matchLabels: { app: web } }, port: http }
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches: [{ path: { value: /orders }, method: GET }]
    - matches: [{ path: { value: /orders }, method: POST }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: checkout, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: orders }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: checkout }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: nobody, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: web }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: nobody }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: { name: limit, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: web }
  total: { requestsPerSecond: 3 }
`;
const head = `pod: { namespace: shop, labels: { app: web }, ports: { http: 8080 } }
policy: policy
defaults: { port: http, client: 10.1.2.3, path: /orders }
cases:
`;
const good = `${head}  - { serviceAccount: shop/checkout, expect: permit }
  - { from: everyone, expect: { status: 403, failing: { checkout: identity } } }
`;
const bad = `${head}  - name: everybody reads
    from: everyone
    expect: permit
`;

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}
interface Stage {
  readonly folder: string;
  test(
    args: readonly string[],
    options?: { readonly input?: string; readonly env?: Record<string, string> },
  ): Promise<Ended>;
}

function stage(t: Test, files: Readonly<Record<string, string | Buffer>>): Stage {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'policy'));
  for (const [name, text] of Object.entries({ 'policy/web.yaml': documents, ...files }))
    writeFileSync(join(folder, name), text);
  return { folder, test: (args, options) => run(t, folder, ['test', ...args], options) };
}

async function run(
  t: Test,
  cwd: string,
  args: readonly string[],
  { input = '', env = {} }: { readonly input?: string; readonly env?: Record<string, string> } = {},
): Promise<Ended> {
  const child = await startChild(t, sallyportCommand, args, { cwd, env: bareEnvironment(env), stdin: 'pipe' });
  child.process.stdin?.end(input);
  const { code } = await child.exited;
  return { code, stdout: child.stdout(), stderr: child.stderr() };
}

t.test('statuses, and what is printed for people', async (t) => {
  const { test, folder } = stage(t, { 'good.yaml': good, 'bad.yaml': bad });
  const passed = await test(['good.yaml']);
  t.same([passed.code, passed.stderr], [0, '']);
  t.equal(
    passed.stdout,
    `7 cases in 1 file: 7 passed, 0 failed
exercised: 1 of 2 authorizations, 1 of 1 routes, 1 of 2 rules
  (--coverage lists the others)
`,
  );
  const failed = await test(['good.yaml', 'bad.yaml', join(folder, 'good.yaml')]);
  t.equal(failed.code, 1);
  t.ok(
    failed.stdout.startsWith(`bad.yaml:5:5: failed: everybody reads
  asked     GET /orders to port 8080 from 10.255.255.254 (everyone: without TLS,
            inside the cluster)
  expected  permit
  got       deny
  reason    no authorization of policy.linkerd.io/server/web for
            policy.linkerd.io/HTTPRoute/orders covers 10.255.255.254 (without
            TLS)
  - policy.linkerd.io/authorizationpolicy/checkout identity: wanted
      checkout.shop.serviceaccount.identity.linkerd.cluster.local, was without
      TLS
`),
    failed.stdout,
  );
  t.equal(failed.stdout.match(/^ {2}also {6}GET/gm)?.length, 2, 'what fails alike is told by its question alone');
  t.match(failed.stdout, /^ {2}and 3 more$/m, 'and the rest is counted');
  t.match(failed.stdout, /^20 cases in 3 files: 14 passed, 6 failed$/m);
  for (const line of failed.stdout.split('\n')) t.ok(line.length <= 80, line);
  t.notMatch(failed.stdout, '\u001b', 'no colours where nobody looks');
});

t.test('coverage: what is missing, and how much is asked for', async (t) => {
  const { test } = stage(t, { 'good.yaml': good });
  const listed = await test(['good.yaml', '--coverage']);
  const missing = listed.stdout.split('exercised')[1];
  t.equal(
    missing,
    `: 1 of 2 authorizations, 1 of 1 routes, 1 of 2 rules
  - policy/web.yaml:22: policy.linkerd.io/authorizationpolicy/nobody admitted no
    case; it refused 7
  - policy/web.yaml:6: policy.linkerd.io/HTTPRoute/orders rules[1]: no case
    belongs to it
`,
  );
  for (const [percent, code] of [
    ['0', 0],
    ['50', 0],
    ['51', 1],
    ['100', 1],
  ] as const) {
    const run = await test(['good.yaml', '--require-coverage', percent]);
    t.equal(run.code, code, percent);
    if (code === 1)
      t.match(run.stderr, /50 % of authorizations and rules, and \d+ % are required .*\[coverage-missed\]\n$/);
  }
  for (const wrong of ['101', '-1', 'all', ''])
    t.equal((await test(['good.yaml', `--require-coverage=${wrong}`])).code, 64);
});

t.test('a port that no Server has is answered by a default, which is told', async (t) => {
  const { test } = stage(t, { 'ports.yaml': `${head}  - { port: [8081, 9, http], expect: refused }\n` });
  const { code, stdout } = await test(['ports.yaml']);
  t.equal(code, 0);
  t.match(stdout, /^no Server of the pod has port 9, 8081: a default answered there$/m);
  t.same(JSON.parse((await test(['ports.yaml', '--json'])).stdout).portsWithoutServer, [9, 8081]);
});

t.test('forms for programs', async (t) => {
  const { test, folder } = stage(t, { 'good.yaml': good, 'bad.yaml': bad });
  const json = JSON.parse((await test(['good.yaml', 'bad.yaml', '--json'])).stdout);
  t.match(json, { ok: false, passed: 7, failed: 6, files: 2, coverage: { percent: 50 } });
  t.equal(json.cases.length, 13);
  t.match(
    (await test(['bad.yaml', '--tap'])).stdout,
    /^TAP version 14\nnot ok 1 - everybody reads: GET [\s\S]*\n1\.\.6\n$/,
  );
  const both = await test(['bad.yaml', '--tap', '--junit', 'out.xml']);
  t.match(both.stdout, /^TAP/, 'the report goes to its file, the rest to standard output');
  const toStdout = await test(['bad.yaml', '--junit', '-']);
  t.equal(readFileSync(join(folder, 'out.xml'), 'utf8'), toStdout.stdout);
  t.match(toStdout.stdout, /tests="6" failures="6"/);
  const lost = await test(['good.yaml', '--junit', 'no/out.xml']);
  t.equal(lost.code, 1, 'a report that is not written is no success');
  t.match(lost.stderr, /^sallyport test: no\/out\.xml cannot be written: .*\[report-lost\]\n$/);
  for (const flags of [
    ['--json', '--tap'],
    ['--json', '--junit', '-'],
  ]) {
    t.match(await test(['good.yaml', ...flags]), {
      code: 64,
      stdout: '',
      stderr: /exclude each other .*\[flags-conflict\]/,
    });
  }
});

t.test('a rate limit is spent by a burst alone', async (t) => {
  const burst = (repeat: number, expect: string): string =>
    `  - { serviceAccount: checkout, repeat: ${repeat}, expect: ${expect} }\n`;
  const text = `${head}${burst(1, 'permit').repeat(9)}${burst(3, 'permit')}${burst(4, 'rate-limited')}${burst(9, '429')}`;
  const { test } = stage(t, { 'limit.yaml': text });
  t.match(await test(['limit.yaml']), { code: 0, stdout: /^12 cases in 1 file: 12 passed/ });
});

t.test('another policy in place of the one that the test names, and standard input', async (t) => {
  const { test } = stage(t, {
    'good.yaml': good,
    'open.yaml': documents.replace('name: checkout }]', 'name: elsewhere }]'),
  });
  t.equal((await test(['good.yaml', '--policy', 'policy'])).code, 0);
  t.match(await test(['good.yaml', '--policy', 'open.yaml']), { code: 1, stdout: /6 passed, 1 failed/ });
  t.equal((await test(['good.yaml', '--policy', '-'], { input: documents })).code, 0);
  t.equal((await test(['-'], { input: good })).code, 0, 'paths are then those of the working folder');
  t.match(await test(['-'], { input: bad }), { code: 1, stdout: /^stdin:5:5: failed/ });
  t.match(await test(['-', '--policy', '-']), { code: 64, stderr: /\[flags-conflict\]/ });
  t.match(await test([]), { code: 64, stderr: /no test file \(.+\) \[missing-argument\]/ });
});

t.test('it depends on nothing but its files', async (t) => {
  const { test } = stage(t, { 'good.yaml': good });
  const env = {
    SALLYPORT_POD_NAMESPACE: 'other',
    SALLYPORT_POD_LABELS: 'a=b',
    SALLYPORT_TRUST_DOMAIN: 'x.y',
    SALLYPORT_PROBES: 'no',
  };
  t.match(await test(['good.yaml'], { env }), { code: 0, stderr: '' });
});

t.test('a Pod manifest beside the test', async (t) => {
  const pod = `apiVersion: v1
kind: Pod
metadata: { name: web-0, namespace: shop, labels: { app: web } }
spec: { containers: [{ name: web, ports: [{ name: http, containerPort: 8080 }] }] }
`;
  const text = good.replace(/^pod: .*$/m, 'pod: { manifest: pod.yaml }');
  const { test } = stage(t, { 'good.yaml': text, 'pod.yaml': pod, 'half.yaml': text.replace('pod.yaml', 'gone.yaml') });
  t.equal((await test(['good.yaml'])).code, 0);
  t.match(await test(['half.yaml']), {
    code: 64,
    stderr:
      /^half\.yaml:1:8: error: pod\.manifest: gone\.yaml cannot be read: no such file or folder .*\[setting-unreadable\]\n/,
  });
});

t.test('a broken file is refused whole, before anything is asked', async (t) => {
  const whole = `${head}  - { serviceAccount: checkout, expect: permit }\n`;
  const rows: readonly (readonly [name: string, content: string | Buffer, said: RegExp])[] = [
    ['half a file', whole.slice(0, -12), /^x\.yaml:\d+:\d+: error: .*\[yaml-syntax\]/],
    ['tabs', whole.replace('  - {', '\t- {'), /\[yaml-syntax\]/],
    ['an alias of nothing', whole.replace('checkout', '*nobody'), /\[yaml-syntax\]/],
    ['a key twice', whole.replace('policy: policy', 'policy: policy\npolicy: b'), /^x\.yaml:3:1: .*\[duplicate-key\]/],
    ['empty', '', /^x\.yaml:1:1: error: the file holds no test \[test-empty\]/],
    ['comments', '# nothing\n---\n', /\[test-empty\]/],
    ['no UTF-8', Buffer.from([0x63, 0xff, 0xfe]), /cannot be read: is not UTF-8 text .*\[test-unreadable\]/],
    ['too large', `#${' '.repeat(5 * 1024 * 1024)}`, /cannot be read: is too large .*\[test-unreadable\]/],
    ['too deep', `cases: ${'['.repeat(300)}`, /\[(too-deep|yaml-syntax)\]/],
    ['another kind', documents, /^x\.yaml:2:1: error: kind is Server: this is no policy test/],
    ['a list', '- a', /the document is a list/],
    ['no policy', whole.replace('policy: policy\n', ''), /the document has no policy \[test-missing\]/],
    ['a policy that is gone', whole.replace('policy: policy', 'policy: gone'), /^gone:1:1: error: .*\[unreadable\]/],
    [
      'a case without port',
      whole.replace('port: http, ', ''),
      /^x\.yaml:5:5: error: port is missing \[test-question\]/,
    ],
    [
      'an unknown port',
      whole.replace('port: http', 'port: other'),
      /^x\.yaml:3:13: error: port "other" is no port of the pod; name it in pod\.ports: \{ other: N \} \[test-question\]/,
    ],
    ['no client', whole.replace('client: 10.1.2.3, ', ''), /client is missing/],
    [
      'a client that is none',
      whole.replace('10.1.2.3', '10.1.2'),
      /^x\.yaml:3:25: error: client "10\.1\.2" is not an IP address/,
    ],
    ['a network', whole.replace('10.1.2.3', '10.1.0.0/16'), /10\.1\.0\.0\/16 is a network/],
    ['an identity and TLS', whole.replace('expect', 'tls: none, expect'), /serviceAccount is given together with tls/],
    [
      'an account and an identity',
      whole.replace('expect', 'identity: a.b, expect'),
      /serviceAccount is given together with identity/,
    ],
    ['an account that is none', whole.replace('checkout', 'a/b/c'), /no certificate gives the identity/],
    ['a namespace that is none', whole.replace('checkout', 'a.b/c'), /"a\.b\/c" is not NAMESPACE\/NAME/],
    [
      'a wildcard',
      whole.replace('serviceAccount: checkout', "identity: '*.shop'"),
      /no certificate gives the identity "\*\.shop"/,
    ],
    ['a bad label', whole.replace('app: web', 'app: "a b"'), /^x\.yaml:1:\d+: error: pod\.labels: .*\[bad-label\]/],
    ['a bad probe', whole.replace('labels:', "probes: ['8080 x'], labels:"), /pod\.probes: .*\[bad-probe\]/],
    [
      'too many questions',
      whole.replace('expect', `path: [${'/,'.repeat(400)}/], method: [${'A,'.repeat(400)}B], expect`),
      /more than 100000 questions.*\[test-too-large\]/,
    ],
  ];
  for (const [name, content, said] of rows) {
    const { test } = stage(t, { 'x.yaml': content, 'good.yaml': good });
    const run = await test(['good.yaml', 'x.yaml']);
    t.equal(run.code, 64, name);
    t.equal(run.stdout, '', `${name}: nothing was asked`);
    t.match(run.stderr.slice(0, 2_000), said, name);
  }
  const { test, folder } = stage(t, {
    'policy/bad.yaml': documents.replace('podSelector:', 'podSelctor:'),
    'good.yaml': good,
  });
  t.match(await test(['good.yaml', '--policy', 'policy/bad.yaml']), {
    code: 64,
    stdout: '',
    stderr: / error: Server shop\/web: /,
  });
  t.match(await test(['gone.yaml']), { code: 64, stderr: /^gone\.yaml:1:1: error: cannot be read: no such file/ });
  t.match(await test(['policy']), { code: 64, stderr: /^policy:1:1: error: cannot be read: is a folder/ });
  symlinkSync('loop', join(folder, 'loop'));
  t.match(await test(['loop']), { code: 64, stderr: /\[test-unreadable\]/ });
});

t.test('a remedy names fields of the test, not variables, which no test reads', async (t) => {
  const cases = 'policy: policy\ncases: [{ port: 8080, client: 10.1.2.3, expect: refused }]\n';
  const pod = 'namespace: shop, labels: { app: web }';
  const rows: readonly (readonly [pod: string, said: RegExp])[] = [
    ['labels: { app: web }', /\[other-namespace\]\n {4}hint: Set pod\.namespace: shop if the pod is there/],
    [pod, /hint: Give the port its name, pod\.ports: \{ http: NUMBER \}, or/],
    [
      `${pod}, ports: { http: 8080 }, probes: ['8080/healthz']`,
      /\[probe-refused\]\n {4}hint: .* or set pod\.probesWithRoutes: true\./,
    ],
    [
      `${pod}, ports: { http: 8080 }, opaquePorts: [5432], probes: ['grpc:5432']`,
      /^x\.yaml:1:\d+: warning: probe grpc:5432 is refused: .*\n {4}hint: Attach a route/m,
    ],
  ];
  for (const [fields, said] of rows) {
    const { test } = stage(t, { 'x.yaml': `pod: { ${fields} }\n${cases}` });
    const { stderr } = await test(['x.yaml']);
    t.match(stderr, said, fields);
    t.notMatch(stderr, 'SALLYPORT_', fields);
  }
});

t.test('files as they come: BOM, CRLF, several documents', async (t) => {
  const rows: readonly (readonly [name: string, text: string, cases: number])[] = [
    ['BOM', `\ufeff${good}`, 7],
    ['CRLF', good.replaceAll('\n', '\r\n'), 7],
    ['two documents, and an end', `---\n${good}---\n${good}---\n`, 14],
    [
      'JSON',
      JSON.stringify({
        pod: { namespace: 'shop' },
        policy: 'policy',
        cases: [{ port: 1, client: '10.1.2.3', expect: 'deny' }],
      }),
      1,
    ],
  ];
  for (const [name, text, cases] of rows) {
    const { test } = stage(t, { 'x.yaml': text });
    const run = await test(['x.yaml']);
    t.match(run.stdout, new RegExp(`^${cases} cases? in 1 file: ${cases} passed`), `${name}: ${run.stderr}`);
  }
});

t.test('a test among the policy it is about', async (t) => {
  const marked = `apiVersion: sallyport.dev/v1alpha1\nkind: PolicyTest\n${good.replace('policy: policy', 'policy: .')}`;
  const { test, folder } = stage(t, { 'policy/web.test.yaml': marked });
  t.match(await test(['policy/web.test.yaml']), { code: 0, stderr: '' });
  const check = (): Promise<Ended> => run(t, folder, ['check', 'policy']);
  t.match(await check(), { code: 0, stdout: '5 documents: 0 errors, 0 warnings\n' });
  writeFileSync(join(folder, 'policy/web.test.yaml'), good);
  const { code, stdout } = await check();
  t.equal(code, 1, 'without apiVersion and kind it could be anything');
  t.match(
    stdout,
    /hint: A policy test in a folder of policy needs apiVersion: sallyport\.dev\/v1alpha1 and kind: PolicyTest\./,
  );
});

const noScript = await missing(t, 'script');
t.test('colours are for a terminal, and the width is its own', { skip: noScript }, async (t) => {
  const { folder } = stage(t, { 'bad.yaml': bad });
  const shell = `stty cols 60 rows 50; ${sallyportCommand} test bad.yaml`;
  const options = { cwd: folder, env: bareEnvironment({ TERM: 'xterm' }) };
  const { stdout: narrow } = await runToEnd(t, 'script', ['-qec', shell, '/dev/null'], options);
  t.match(narrow, '\u001b[31mfailed\u001b[39m');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours take no column
  const plain = narrow.replace(/\u001b\[\d+m/g, '').replaceAll('\r', '');
  for (const line of plain.split('\n')) t.ok(line.length <= 60 || !line.trim().includes(' '), line);
});
