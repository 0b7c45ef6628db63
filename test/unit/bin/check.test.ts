import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { runToEnd } from '../../support/children.ts';
import { checkout, runSallyport } from '../../support/sallyport.ts';

const server = (name: string, port: number | string, more = ''): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: ${name}, namespace: shop }
spec:
  podSelector: { matchLabels: { app: web } }
  port: ${port}
${more}`;
const policy = (target: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: p, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: ${target} }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: a }]
`;

const netpol = (spec: string): string => `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: np, namespace: shop }
spec:
${spec}`;
const pods = `---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: { name: web-0, namespace: shop, labels: { app: web } }
  status: { podIP: 10.1.0.1 }
- apiVersion: v1
  kind: Namespace
  metadata: { name: elsewhere }
`;

t.test('findings, with and without the facts of a pod', async (t) => {
  const pod = { SALLYPORT_POD_NAMESPACE: 'shop', SALLYPORT_POD_LABELS: 'app=web', SALLYPORT_POD_PORTS: 'http=8080' };
  const rows: [string, string, Record<string, string>, number, [code: string, line: number][]][] = [
    ['clean', server('web', 'http'), {}, 0, []],
    ['clean, for this pod', server('web', 'http'), pod, 0, []],
    ['an unknown field', server('web', 80, '  accesPolicy: deny\n'), {}, 0, [['unknown-field', 8]]],
    ['a refused document', server('web', 80, '  accessPolicy: maybe\n'), {}, 1, [['', 8]]],
    ['a dangling target', server('web', 80) + policy('wep'), {}, 0, [['dangling-target', 13]]],
    ['two Servers on one port, no pod given', server('a', 80) + server('b', 80), {}, 0, [['port-taken', 14]]],
    ['a quoted number as port', server('web', '"8080"'), {}, 0, [['port-name-unknown', 7]]],
    [
      'a selector that does not select the pod',
      server('web', 80),
      { ...pod, SALLYPORT_POD_LABELS: 'app=api' },
      0,
      [['selects-no-pod', 6]],
    ],
    ['a port name that the pod lacks', server('web', 'htpp'), pod, 0, [['port-name-unknown', 7]]],
    ['NetworkPolicy: clean', netpol('  ingress:\n    - from: [{ podSelector: {} }]\n') + pods, {}, 0, []],
    [
      'NetworkPolicy: a typo',
      netpol('  ingress:\n    - form: [{ podSelector: {} }]\n') + pods,
      {},
      1,
      [['unknown-field', 7]],
    ],
    ['NetworkPolicy: no peer', netpol('  ingress:\n    - from:\n        - {}\n'), {}, 1, [['peer', 8]]],
    [
      'NetworkPolicy: selects none of the pods that are listed',
      netpol('  podSelector: { matchLabels: { app: api } }\n') + pods,
      {},
      0,
      [['selects-no-known-pod', 6]],
    ],
    [
      'NetworkPolicy: for a pod that nothing tells of',
      netpol('  podSelector: { matchLabels: { app: api } }\n'),
      {},
      0,
      [],
    ],
    [
      'NetworkPolicy: peers by label, and no pod listed',
      netpol('  podSelector: {}\n  ingress:\n    - from: [{ podSelector: {} }]\n'),
      {},
      0,
      [['no-pods-known', 6]],
    ],
    [
      'NetworkPolicy: peers that nobody is',
      netpol('  ingress:\n    - from:\n        - namespaceSelector: { matchLabels: { a: b } }\n') + pods,
      {},
      0,
      [['peer-selects-nobody', 8]],
    ],
    [
      'NetworkPolicy: an exception outside its block',
      netpol(
        '  ingress:\n    - from:\n        - ipBlock:\n            cidr: 10.0.0.0/8\n            except: [11.0.0.0/8]\n',
      ),
      {},
      1,
      [['except', 10]],
    ],
    ['NetworkPolicy: a port name, no pod given', netpol('  ingress:\n    - ports: [{ port: htpp }]\n'), {}, 0, []],
    [
      'NetworkPolicy: a port name that the pod lacks',
      netpol('  ingress:\n    - ports: [{ port: htpp }]\n'),
      pod,
      0,
      [['port-name-unknown', 7]],
    ],
    ['NetworkPolicy: egress', netpol('  policyTypes: [Ingress, Egress]\n'), pod, 0, [['egress-not-enforced', 6]]],
    ['not YAML', `${server('web', 80)}\n  port: [`, {}, 1, [['', 0]]],
  ];
  for (const [name, text, env, code, expected] of rows) {
    const file = join(t.testdir({ 'p.yaml': text }), 'p.yaml');
    const run = await runSallyport(t, ['check', file, '--json'], env);
    const report = JSON.parse(run.stdout);
    t.equal(run.code, code, `${name}: exit status`);
    t.equal(report.ok, code === 0, `${name}: ok`);
    const found = report.problems.map((problem: { code: string; line: number }) => [problem.code, problem.line]);
    if (expected.some(([known]) => known === '')) t.not(found.length, 0, name);
    else t.same(found, expected, name);
    for (const problem of report.problems) {
      t.same(Object.keys(problem).sort(), [
        'code',
        'column',
        'file',
        'hint',
        'line',
        'message',
        'resource',
        'severity',
      ]);
      t.equal(problem.file, file);
      t.not(problem.hint, '', `${name}: ${problem.code} has a remedy`);
    }
  }
});

t.test('what the environment lacks, or says otherwise than the documents', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web', 8080) + policy('web') });
  const labels = { SALLYPORT_POD_LABELS: 'app=web' };
  const listeners = { SALLYPORT_INBOUND_PORTS: '8080=127.0.0.1:1,8081=127.0.0.1:2' };
  const shop = { SALLYPORT_POD_NAMESPACE: 'shop' };
  const rows: readonly (readonly [title: string, env: Record<string, string>, lines: readonly RegExp[]])[] = [
    ['nothing known', {}, []],
    ['a namespace', { ...labels, ...shop }, []],
    [
      'no namespace',
      labels,
      [
        /p\.yaml:2:1: warning: Server shop\/web: the pod is in namespace default \(not stated\).*SALLYPORT_POD_NAMESPACE=shop/s,
      ],
    ],
    [
      'another namespace',
      { ...labels, SALLYPORT_POD_NAMESPACE: 'store' },
      [/namespace shop is ignored: Server web, Auth/],
    ],
    [
      'a listener without Server',
      { ...labels, ...shop, ...listeners },
      [/port 8081.*deny holds there \[port-without-server\]/],
    ],
    ['a listener, and no pod known', { ...shop, ...listeners }, []],
    ['a probe that passes', { ...labels, ...shop, SALLYPORT_PROBES: '8080/healthz,grpc:8080' }, []],
    [
      'a probe that does not',
      { ...labels, ...shop, SALLYPORT_PROBES: '25/healthz', SALLYPORT_OPAQUE_PORTS: '25' },
      [/SALLYPORT_PROBES:1:1: warning: probe 25\/healthz is refused/],
    ],
  ];
  for (const [title, env, lines] of rows) {
    const { stdout, code } = await runSallyport(t, ['check', folder], env);
    t.equal(code, 0, title);
    for (const line of lines) t.match(stdout, line, title);
    t.match(stdout, `2 documents: 0 errors, ${lines.length} warning`, title);
  }
});

t.test('of files that cannot be read, no word of what holds on ports without a Server', async (t) => {
  const folder = t.testdir({ 'broken.yaml': 'kind: Server\n  spec: {}\n' });
  const env = {
    SALLYPORT_POD_LABELS: 'app=web',
    SALLYPORT_POD_NAMESPACE: 'shop',
    SALLYPORT_INBOUND_PORTS: '8081=127.0.0.1:2',
  };
  for (const path of ['broken.yaml', 'absent.yaml']) {
    const { stdout, code } = await runSallyport(t, ['check', join(folder, path)], env);
    t.equal(code, 1, path);
    t.match(stdout, /^0 documents: \d errors?, 0 warnings$/m, path);
  }
});

t.test('for people: file, line, column, document, code and hint; no colours in a pipe', async (t) => {
  const folder = t.testdir({ 'p.yaml': server('web', 80, '  accesPolicy: deny\n') });
  const run = await runSallyport(t, ['check', folder]);
  const [finding, hint, summary] = run.stdout.split('\n');
  t.equal(
    finding,
    `${join(folder, 'p.yaml')}:8:3: warning: Server shop/web: unknown field spec.accesPolicy [unknown-field]`,
  );
  t.match(hint, /^ {4}hint: .*accessPolicy/);
  t.equal(summary, '1 document: 0 errors, 1 warning');
  t.notMatch(run.stdout, '\u001b');
});

t.test('several paths are one set of documents', async (t) => {
  const folder = t.testdir({ a: { 's.yaml': server('web', 80) }, 'p.yaml': policy('web') });
  const whole = await runSallyport(t, ['check', join(folder, 'a'), join(folder, 'p.yaml'), '--json']);
  t.same(JSON.parse(whole.stdout), { ok: true, problems: [] });
  const part = await runSallyport(t, ['check', join(folder, 'p.yaml'), '--json']);
  t.match(JSON.parse(part.stdout).problems, [{ code: 'dangling-target' }]);
  const again = await runSallyport(t, ['check', folder, join(folder, 'p.yaml'), join(folder, 'a'), '--json']);
  t.same(JSON.parse(again.stdout).problems, [], 'a file named twice is one file');
  const fromEnvironment = await runSallyport(t, ['check'], { SALLYPORT_POLICY: join(folder, 'a') });
  t.equal(fromEnvironment.stdout, '1 document: 0 errors, 0 warnings\n');
});

t.test('usage', async (t) => {
  const rows: [string[], Record<string, string>, number, RegExp][] = [
    [['check'], {}, 64, /nothing to check.*SALLYPORT_POLICY/],
    [['check', '--jsn'], {}, 64, /unknown flag --jsn \(did you mean --json\?\)/],
    [['check', '--json=yes'], {}, 64, /--json takes no value/],
    [['check', 'p'], { SALLYPORT_POD_IPS: 'me' }, 64, /SALLYPORT_POD_IPS: "me" is not an IP address/],
    [
      ['check', 'p'],
      { SALLYPORT_POD_IPS: 'me', SALLYPORT_POD_PORTS: '8080' },
      64,
      /^(sallyport check: SALLYPORT_POD_\w+: .+\n){2}Try: sallyport check --help\n$/,
    ],
    [['chek'], {}, 64, /unknown command chek \(did you mean check\?\)/],
    [['--josn', 'check'], {}, 64, /--josn stands before any command/],
    [[], {}, 64, /Usage: sallyport/],
  ];
  for (const [args, env, code, message] of rows) {
    const run = await runSallyport(t, args, env);
    t.equal(run.code, code, args.join(' '));
    t.match(run.stderr, message);
    t.equal(run.stdout, '');
  }
  const absent = await runSallyport(t, ['check', '/absent/policy', '--json']);
  t.equal(absent.code, 1);
  t.match(JSON.parse(absent.stdout), { ok: false, problems: [{ code: 'unreadable', file: '/absent/policy' }] });
  for (const args of [
    ['--help'],
    ['help'],
    ['check', '--help'],
    ['explain', '-h'],
    ['certs', '--help'],
    ['run', '--help'],
  ]) {
    const run = await runSallyport(t, args);
    t.match(run, { code: 0, stdout: /^Usage:/, stderr: '' }, args.join(' '));
  }
  for (const args of [['--version'], ['check', '--version']]) {
    t.match(await runSallyport(t, args), { code: 0, stdout: /^sallyport \d+\.\d+\.\d+\n$/ });
  }
});

t.test('a reader that closes the pipe early is no error', async (t) => {
  const many = Array.from({ length: 3_000 }, (_, i) => server(`s${i}`, 80)).join('');
  const file = join(t.testdir({ 'p.yaml': many }), 'p.yaml');
  const script = 'bin/sallyport check "$1" | head -1';
  const run = await runToEnd(t, '/bin/sh', ['-c', script, 'sh', file], { cwd: checkout });
  t.match(run, { code: 0, stderr: '' });
  t.equal(run.stdout.split('\n').length, 2);
});

t.test('the environment is checked as run reads it', async (t) => {
  const file = join(t.testdir({ 'p.yaml': server('web', 8080) }), 'p.yaml');
  for (const command of [['check', file], ['run']]) {
    const run = await runSallyport(t, command, { SALLYPORT_INBOUND_PORTS: '8080=127.0.0.1:8080' });
    t.match(run, { code: 64, stdout: '' }, command.join(' '));
    t.match(
      run.stderr,
      /SALLYPORT_INBOUND_PORTS: 127\.0\.0\.1:8080, the app of port 8080, .+ \(let the app .+\) \[own-app\]/,
    );
  }
});

t.test('what is no policy is one line where there is much of it', async (t) => {
  const folder = t.testdir();
  const other = (kind: string, group = 'v1'): string =>
    `---\napiVersion: ${group}\nkind: ${kind}\nmetadata: {name: a}\n`;
  const many = join(folder, 'chart.yaml');
  const kinds = ['ConfigMap', 'Secret', 'ConfigMap', 'Role', 'ConfigMap'];
  await writeFile(many, kinds.map((kind) => other(kind)).join('') + other('Server', 'example.com/v1'));
  const text = await runSallyport(t, ['check', many], {});
  t.match(
    text.stdout,
    /^5 documents are no policy and are ignored \(3 ConfigMap, 1 Role, 1 Secret\) \[ignored-kind\]$/m,
  );
  t.match(text.stdout, /Server is in policy\.linkerd\.io/, 'one that may have been meant is told by itself');
  t.match(text.stdout, /^0 documents: 0 errors, 1 warning, 5 ignored$/m);
  const json = JSON.parse((await runSallyport(t, ['check', '--json', many], {})).stdout);
  t.equal(json.problems.length, 6, 'each by itself for programs');
  const one = join(folder, 'one.yaml');
  await writeFile(one, other('ConfigMap'));
  t.match(
    (await runSallyport(t, ['check', one], {})).stdout,
    /one\.yaml:3:1: warning: .*ConfigMap is no policy[\s\S]*1 warning\n/,
  );
});
