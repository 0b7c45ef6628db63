import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { startChild } from '../../support/children.ts';
import { bareEnvironment, runSallyport, sallyportCommand } from '../../support/sallyport.ts';

const documents = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web }
spec:
  podSelector: { matchLabels: { app: web } }
  port: http
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: metrics }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches: [{ path: { value: /metrics }, method: GET, headers: [{ name: x-team, value: blue }] }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: prometheus }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: metrics }
  requiredAuthenticationRefs:
    - { group: policy.linkerd.io, kind: MeshTLSAuthentication, name: prometheus }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: { name: prometheus }
spec: { identities: [prometheus.monitoring.example] }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: { name: limit }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: web }
  total: { requestsPerSecond: 3 }
`;
const pod = ['--pod-label', 'app=web', '--pod-port', 'http=8080'];
const granted = ['--identity', 'prometheus.monitoring.example', '--path', '/metrics?a=1', '--header', 'X-Team: blue'];

function policyFile(t: Test): string {
  return join(t.testdir({ 'policy.yaml': documents, 'broken.yaml': 'a: [' }), 'policy.yaml');
}

t.test('one decision', async (t) => {
  const file = policyFile(t);
  const request = ['explain', '--policy', file, '--port', '8080', '--client', '10.1.2.3', ...pod, '--json'];
  const rows: [string, string[], number, object][] = [
    [
      'permit',
      granted,
      0,
      {
        verdict: 'permit',
        httpStatus: null,
        grpcStatus: null,
        tcp: null,
        audit: false,
        server: { group: 'policy.linkerd.io', kind: 'server', name: 'web' },
        route: { group: 'policy.linkerd.io', kind: 'HTTPRoute', name: 'metrics' },
        authz: { group: 'policy.linkerd.io', kind: 'authorizationpolicy', name: 'prometheus' },
      },
    ],
    [
      'deny, with the clause that failed',
      ['--path', '/metrics', '--header', 'x-team: blue', '--tls', 'anonymous'],
      1,
      {
        verdict: 'deny',
        httpStatus: 403,
        tcp: null,
        authz: null,
        candidates: [
          { authz: { name: 'prometheus' }, granted: false, failed: 'identity' },
          { authz: { name: 'localhost' } },
        ],
      },
    ],
    ['no route', ['--path', '/'], 1, { verdict: 'no-route', httpStatus: 404, route: null, authz: null }],
    ['raw TCP', ['--protocol', 'tcp'], 1, { verdict: 'deny', tcp: 'close', httpStatus: null, route: null }],
    ['another default policy', ['--port=9', '--default-policy', 'audit'], 0, { verdict: 'permit', audit: true }],
    ['an opaque port', ['--port=9', '--default-policy', 'audit', '--opaque-ports', '9'], 0, { tcp: 'forward' }],
    [
      'a probe',
      ['--port=9', '--probe', '9/up', '--path', '/up'],
      0,
      { route: { group: '', kind: 'default', name: 'probe' } },
    ],
    ['documents without a namespace are of this one', ['--namespace', 'a', ...granted], 0, { server: { name: 'web' } }],
  ];
  for (const [name, args, code, expected] of rows) {
    const own = args.some((arg) => arg.startsWith('--port=')) ? request.filter((_, i) => i !== 3 && i !== 4) : request;
    const run = await runSallyport(t, [...own, ...args]);
    t.equal(run.code, code, `${name}: exit status`);
    t.match(JSON.parse(run.stdout), expected, name);
    t.equal(run.stdout.split('\n').length, 2, 'one line');
  }
});

t.test('for people: the verdict first, then what decided, then each candidate', async (t) => {
  const run = await runSallyport(t, [
    ...['explain', '--policy', policyFile(t), '--port', '8080', '--client', '10.1.2.3', ...pod],
    ...['--path', '/metrics', '--header', 'x-team: blue'],
  ]);
  const lines = run.stdout.split('\n');
  t.equal(lines[0], 'deny');
  t.match(lines[1], /^ {2}server +policy\.linkerd\.io\/server\/web$/);
  t.match(run.stdout, /answer +HTTP 403/);
  t.match(run.stdout, /- policy\.linkerd\.io\/authorizationpolicy\/prometheus identity: wanted .*, was /);
  t.notMatch(run.stdout, '\u001b');
});

t.test("the pod's facts from the environment, and flags that win over them", async (t) => {
  const file = policyFile(t);
  const env = { SALLYPORT_POLICY: file, SALLYPORT_POD_LABELS: 'app=web', SALLYPORT_POD_PORTS: 'http=8080' };
  const args = ['explain', '--port', '8080', '--client', '10.1.2.3', '--json', ...granted];
  t.match(JSON.parse((await runSallyport(t, args, env)).stdout), { server: { name: 'web' } });
  const other = await runSallyport(t, [...args, '--pod-label', 'app=api'], env);
  t.match(JSON.parse(other.stdout), { server: { name: 'deny' } });
});

t.test('many requests: one answer a line, in order, at one instant', async (t) => {
  const file = policyFile(t);
  const asked = {
    port: 8080,
    client: '10.1.2.3',
    identity: 'prometheus.monitoring.example',
    path: '/metrics',
    headers: { 'X-Team': ['red', 'blue'] },
  };
  const lines = [
    ...Array(5).fill(JSON.stringify(asked)),
    '',
    '{"port": 8080,',
    '[]',
    JSON.stringify({ ...asked, client: 'me' }),
    JSON.stringify({ ...asked, port: 70_000 }),
    JSON.stringify({ ...asked, tls: 'none' }),
    JSON.stringify({ ...asked, headers: { a: 1 } }),
    JSON.stringify({ port: 8080, client: '10.1.2.3', path: '/', methd: 'PUT' }),
  ];
  const requests = join(dirname(file), 'requests.jsonl');
  writeFileSync(requests, lines.join('\n'));
  const args = ['explain', '--policy', file, ...pod, '--json', '--requests'];
  const run = await runSallyport(t, [...args, requests]);
  t.equal(run.code, 64, 'some could not be read');
  const answers = run.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.same(
    answers.map(({ verdict, error }) => verdict ?? error),
    [
      ...['permit', 'permit', 'permit', 'rate-limited', 'rate-limited'],
      'line 7: is not JSON',
      'line 8: is not a JSON object',
      'line 9: "client" "me" is not an IP address',
      'line 10: "port" 70000 is not a port',
      'line 11: "identity" is given together with tls; an identity already means mesh TLS',
      'line 12: "headers" "a" is neither a string nor a list of strings',
      'no-route',
    ],
  );
  t.match(run.stderr, '"methd" is not read; did you mean "method"?');

  const child = await startChild(t, sallyportCommand, [...args, '-'], { env: bareEnvironment({}), stdin: 'pipe' });
  child.process.stdin?.end(`${JSON.stringify(asked)}\n`);
  t.equal((await child.exited).code, 0, 'all were answered');
  t.match(JSON.parse(child.stdout()), { verdict: 'permit' });
});

t.test('usage', async (t) => {
  const file = policyFile(t);
  const base = ['explain', '--policy', file];
  const rows: [string[], RegExp][] = [
    [['explain', '--port', '1', '--client', '::1'], /no policy \(write --policy PATH, or set SALLYPORT_POLICY\)/],
    [base, /--port: is missing/],
    [[...base, '--port', '80'], /--client: is missing/],
    [[...base, '--port', '80', '--client', 'me'], /--client: "me" is not an IP address/],
    [
      [...base, '--port', '80', '--client', '::1', '--protocol', 'http3'],
      /--protocol: "http3" is none of http1, http2/,
    ],
    [[...base, '--port', '80', '--client', '::1', '--header', 'x'], /--header "x" has no name/],
    [[...base, '--port', '80', '--port', '81'], /--port is given twice/],
    [[...base, '--port', '--json'], /--port needs a value/],
    [[...base, '--clinet', '::1'], /unknown flag --clinet \(did you mean --client\?\)/],
    [[...base, '--port', '80', '--client', '::1', '--default-policy', 'open'], /--default-policy: "open" is not known/],
    [[...base, '--requests', '-', '--client', '::1'], /--client and --requests exclude each other/],
    [[...base, '--requests', '/absent.jsonl'], /--requests: \/absent\.jsonl cannot be read: no such file or folder/],
    [['explain', '--policy', '/absent', '--port', '80', '--client', '::1'], /\/absent:1:1: error: cannot be read/],
    [
      [...base, '--policy', join(dirname(file), 'broken.yaml'), '--port', '80', '--client', '::1'],
      /error: .*\[yaml-syntax\]/,
    ],
  ];
  for (const [args, message] of rows) {
    const run = await runSallyport(t, args);
    t.equal(run.code, 64, args.slice(1).join(' '));
    t.match(run.stderr, message);
    t.equal(run.stdout, '');
  }
});

t.test('a Server of another namespace, and an identity that is nearly right, are named', async (t) => {
  const elsewhere = documents.replaceAll(/name: (web|metrics|prometheus|limit) }/g, 'name: $1, namespace: shop }');
  const policyFile = join(t.testdir({ 'p.yaml': elsewhere }), 'p.yaml');
  const ask = async (...args: string[]) => {
    const all = ['explain', '--policy', policyFile, '--port', '8080', '--client', '10.1.2.3', '--pod-label', 'app=web'];
    return runSallyport(t, [...all, '--pod-port', 'http=8080', ...args]);
  };
  const forgotten = await ask();
  t.match(forgotten.stdout, /server +\/default\/deny/);
  t.match(
    forgotten.stdout,
    /Server shop\/web is ignored, for the pod is in namespace default \(set SALLYPORT_POD_NAMESPACE/,
  );
  t.match(forgotten.stderr, '[other-namespace]');
  t.notMatch((await ask('--namespace', 'shop')).stdout, 'is ignored');
  t.notMatch((await ask('--port', '9999')).stdout, 'is ignored');
  const accounts = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web }
spec: { podSelector: {}, port: 8080 }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: p }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: web }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: chekout }]
`;
  const file = join(t.testdir({ 'q.yaml': accounts }), 'q.yaml');
  const from = async (account: string): Promise<string> => {
    const identity = `${account}.default.serviceaccount.identity.linkerd.cluster.local`;
    const args = ['explain', '--policy', file, '--port', '8080', '--client', '10.1.2.3', '--identity', identity];
    return (await runSallyport(t, args)).stdout;
  };
  t.match(await from('checkout'), /is "chekout\.default" or "checkout\.default" misspelt\?/);
  t.notMatch(await from('billing'), 'misspelt');
  const two = `${accounts.replace('kind: ServiceAccount, name: chekout', 'group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m')}---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: { name: m }
spec: { identityRefs: [{ kind: ServiceAccount, name: web }, { kind: ServiceAccount, name: chekout }] }
`;
  writeFileSync(file, two);
  t.match(await from('checkout'), /is "chekout\.default" or "checkout\.default" misspelt\?/, 'one of several');
});
