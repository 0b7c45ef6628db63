import { chmodSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { replaceFile } from '../../../bin/replace-file.ts';
import { workloadName } from '../../support/certificates.ts';
import { temporaryFolder } from '../../support/files.ts';
import { runSallyport } from '../../support/sallyport.ts';

/** What is added to a policy that exists says how wide it is, and the file stays what it was but for that. */

const folder = temporaryFolder(t);
const pod = ['--namespace', 'shop', '--pod-label', 'app=orders', '--pod-port', 'http=8080'];
const allowed = {
  ...{ decision: 1, time: '2026-11-20T14:00:00.000Z', port: 8080, client: '10.1.2.3', protocol: 'http1' },
  ...{ method: 'GET', host: 'orders', verdict: 'permit' },
};

t.test('what is wider beside a policy that exists is said', async (t) => {
  const policy = join(folder, 'wide.yaml');
  const server = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: http }
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: admin, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: web }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: admin }]
`;
  const routed = `${server}---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules: [{ matches: [{ path: { value: /orders } }] }]
`;
  const file = join(folder, 'log.jsonl');
  const asked = [
    { identity: workloadName('checkout', 'shop'), path: '/orders/1' },
    { identity: workloadName('web', 'front'), path: '/carts' },
  ];
  writeFileSync(file, asked.map((fields) => JSON.stringify({ ...allowed, ...fields })).join('\n'));
  for (const [own, says] of [
    [server, /Wider than what was seen: for all of Server web\. Seen: GET \/orders\/\{number\}, GET \/carts\./],
    [routed, /Wider than what was seen: for all of HTTPRoute orders\. Seen: GET \/orders\/\{number\}\./],
    [routed, /who is authorized for all of Server web may use this route, too/],
  ] as const) {
    writeFileSync(policy, own);
    const { stdout, stderr, code } = await runSallyport(t, ['suggest', file, ...pod, '--merge', policy]);
    t.equal(code, 0, stderr);
    t.match(stdout, says);
    t.notMatch(stdout, /What was not seen is refused/);
  }
});

t.test('a file that is replaced keeps its mode and its links, and what others have written', async (t) => {
  const own = `# Mine.\n`;
  const real = join(folder, 'real.yaml');
  const link = join(folder, 'link.yaml');
  writeFileSync(real, own);
  chmodSync(real, 0o666);
  symlinkSync('real.yaml', link);
  const before = process.umask(0o077);
  t.teardown(() => process.umask(before));
  replaceFile(link, own, `${own}added\n`);
  t.equal(readFileSync(real, 'utf8'), `${own}added\n`);
  t.equal(statSync(real).mode & 0o777, 0o666);
  t.ok(lstatSync(link).isSymbolicLink());
  t.throws(() => replaceFile(link, own, 'mine'), /was changed while the log was read/);
  t.equal(readFileSync(real, 'utf8'), `${own}added\n`, 'what somebody else has written is still there');
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('.')),
    [],
    'and nothing is left beside it',
  );
});
