import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { checkout, log, podFlags as pod, probe, web } from '../../support/decision-lines.ts';
import { temporaryFolder } from '../../support/files.ts';
import { runSallyport } from '../../support/sallyport.ts';

/** What a log adds to a policy that exists, and what it does not. */

const folder = temporaryFolder(t);

t.test('beside a policy that exists', async (t) => {
  const policy = join(folder, 'own.yaml');
  const own = `# Mine.
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: http }
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules: [{ matches: [{ path: { value: /orders } }] }]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: orders, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: HTTPRoute, name: orders }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: checkout }]
`;
  writeFileSync(policy, own);
  const file = log(folder, [
    { identity: checkout, path: '/orders/1' },
    { identity: web, path: '/orders/1' },
    { identity: web, path: '/carts' },
    { identity: web, path: '/x', port: 9000 },
  ]);
  const printed = await runSallyport(t, ['suggest', file, ...pod, '--merge', policy]);
  t.equal(printed.code, 0, printed.stderr);
  t.ok(printed.stdout.startsWith(`${own}---\n`), 'nothing of it is touched');
  const added = printed.stdout.slice(own.length);
  t.match(
    added,
    /targetRef: \{ group: policy\.linkerd\.io, kind: HTTPRoute, name: orders \}/,
    'a client for its route',
  );
  t.match(added, /parentRefs: \[\{ group: policy\.linkerd\.io, kind: Server, name: web \}\]/, 'a route for its Server');
  t.match(added, /metadata: \{ name: orders-9000, namespace: shop \}/, 'a Server for another port');
  t.notMatch(added, /checkout/, 'what it allows is not written again');
  t.equal(readFileSync(policy, 'utf8'), own);

  const inPlace = await runSallyport(t, ['suggest', file, ...pod, '--merge', policy, '--in-place']);
  t.match(inPlace, { code: 0, stdout: '' });
  t.equal(readFileSync(policy, 'utf8'), printed.stdout);
  const again = await runSallyport(t, ['suggest', file, ...pod, '--merge', policy]);
  t.equal(again.stdout, printed.stdout, 'and then nothing is missing');
});

t.test('a probe opens nothing of a policy that exists to everybody', async (t) => {
  const policy = join(folder, 'probed.yaml');
  const server = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: http }
`;
  const route = `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: all, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
`;
  const file = log(folder, [{ path: '/healthz', authz: probe, client: '10.0.0.1' }]);
  const rows = [
    ['a Server without routes, which lets it in by itself', server, 0, /^$/],
    [
      'a route for all requests',
      server + route,
      1,
      /GET \/healthz is not allowed: it is a probe, and its route is for/,
    ],
  ] as const;
  for (const [title, text, status, says] of rows) {
    writeFileSync(policy, text);
    const { code, stdout, stderr } = await runSallyport(t, ['suggest', file, ...pod, '--merge', policy]);
    t.match({ code, stdout }, { code: status, stdout: text }, title);
    t.match(stderr, says, title);
  }
});
