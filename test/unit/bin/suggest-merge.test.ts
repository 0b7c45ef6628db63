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

const web = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: http }
`;
const route = (name: string, rule: string): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: ${name}, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules: [${rule}]
`;
const forAccount = (name: string, account: string, target: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: ${name}, namespace: shop }
spec:
  targetRef: { ${target} }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: ${account} }]
`;
const ofRoute = (name: string): string => `group: policy.linkerd.io, kind: HTTPRoute, name: ${name}`;
const identity = workloadName('checkout', 'shop');
const users = Array.from({ length: 20 }, (_, i) => ({ identity, path: `/u/user-${String.fromCharCode(97 + i)}` }));
const everyServer =
  /^# Wider than what was seen: who is authorized for every Server of the namespace may use this one, too\.$/m;
const anyUser = /value: "\/u\/\[/;

interface MergeRow {
  readonly title: string;
  readonly policy: string;
  readonly asked: readonly object[];
  readonly says?: RegExp;
  readonly saysNot?: RegExp;
  /** What is not allowed by it. */
  readonly refused?: RegExp;
}

const merges: readonly MergeRow[] = [
  {
    title: 'a new Server, beside an authorization for the namespace',
    policy: web + forAccount('all', 'admin', 'kind: Namespace, name: shop'),
    asked: [{ identity, path: '/x', port: 9090 }],
    says: everyServer,
  },
  {
    title: 'a new Server, beside one for Servers of other labels',
    policy: `${web}---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: { name: some, namespace: shop }
spec: { server: { selector: { matchLabels: { tier: one } } }, client: { unauthenticated: true } }
`,
    asked: [{ identity, path: '/x', port: 9090 }],
    says: /kind: Server$/m,
    saysNot: everyServer,
  },
  {
    title: 'a new Server does not take the name of one that there is not',
    policy: web + forAccount('late', 'admin', 'group: policy.linkerd.io, kind: Server, name: orders-9090'),
    asked: [{ identity, path: '/x', port: 9090 }],
    says: /metadata: \{ name: orders-9090-2, /,
    saysNot: everyServer,
  },
  {
    title: 'who is redirected is authorized already',
    policy:
      web +
      route('old', '{ filters: [{ type: RequestRedirect, requestRedirect: { hostname: new.test } }] }') +
      forAccount('p', 'checkout', ofRoute('old')),
    asked: [{ identity, path: '/old' }],
    refused: /^warning: GET \/old is not allowed: /,
  },
  {
    title: 'a path that is decided differently as it is read opens nothing',
    policy:
      web +
      route('a', '{ matches: [{ path: { value: /a } }] }') +
      route('b', '{ matches: [{ path: { value: /b } }] }') +
      forAccount('p', 'checkout', ofRoute('a')),
    asked: [{ identity, path: '/a/../b' }],
    refused: /^warning: GET \/a\/\.\.\/b is not allowed: servers read its path in more ways/,
  },
  {
    title: 'what a NetworkPolicy closes is opened by nothing',
    policy: `${web}---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: closed, namespace: shop }
spec: { podSelector: {}, policyTypes: [Ingress], ingress: [] }
`,
    asked: [{ identity, path: '/a' }],
    refused: /^warning: GET \/a is not allowed: .* shuts it out/,
  },
  ...(
    [
      ['an exact path', '{ type: Exact, value: /u/admin }', false],
      ['a prefix', '{ value: /u/admin }', false],
      ['an expression', '{ type: RegularExpression, value: "/u/(admin|root)" }', false],
      ['another path', '{ type: Exact, value: /v/admin }', true],
      ['a longer path', '{ value: /u/admin/keys }', true],
      ['an expression of other paths', '{ type: RegularExpression, value: "/v/.*" }', true],
    ] as const
  ).map(([what, path, isWide]): MergeRow => {
    const policy =
      web + route('admins', `{ matches: [{ path: ${path} }] }`) + forAccount('p', 'admin', ofRoute('admins'));
    const title = `${what} of a route is ${isWide ? 'out of the way' : 'not taken from it'}`;
    return { title, policy, asked: users, ...(isWide ? { says: anyUser } : { says: /user-a/, saysNot: anyUser }) };
  }),
  {
    title: 'the path of a route for another method is out of the way',
    policy: web + route('admins', '{ matches: [{ path: { type: Exact, value: /u/admin }, method: DELETE }] }'),
    asked: users,
    says: anyUser,
  },
];

t.test('what is added opens no more than it says, and takes nothing from others', async (t) => {
  const [policy, log] = [join(folder, 'merged.yaml'), join(folder, 'merged.jsonl')];
  for (const { title, policy: own, asked, says, saysNot, refused } of merges) {
    writeFileSync(policy, own);
    writeFileSync(log, asked.map((fields) => JSON.stringify({ ...allowed, ...fields })).join('\n'));
    const { stdout, stderr, code } = await runSallyport(t, ['suggest', log, ...pod, '--merge', policy]);
    t.ok(stdout.startsWith(own), `${title}: nothing else is touched`);
    const added = stdout.slice(own.length);
    if (refused === undefined) t.equal(stderr, '', title);
    else t.same([added, refused.test(stderr)], ['', true], `${title}: ${stderr}`);
    t.equal(code, refused === undefined ? 0 : 1, title);
    if (says !== undefined) t.match(added, says, title);
    if (saysNot !== undefined) t.notMatch(added, saysNot, title);
  }
});

t.test('every byte of the file stays', async (t) => {
  const [policy, log] = [join(folder, 'bytes.yaml'), join(folder, 'bytes.jsonl')];
  writeFileSync(log, JSON.stringify({ ...allowed, identity, path: '/x', port: 9090 }));
  const json = JSON.stringify({
    ...{ apiVersion: 'policy.linkerd.io/v1beta3', kind: 'Server', metadata: { name: 'web', namespace: 'shop' } },
    spec: { podSelector: {}, port: 8080 },
  });
  const texts = [
    ['no end of the last line', web.trimEnd()],
    ['line ends of Windows', web.replaceAll('\n', '\r\n')],
    ['a byte order mark', `\ufeff${web}`],
    ['an end of the document', `%YAML 1.2\n---\n${web}...\n`],
    ['comments and blanks behind it', `${web}  \n\n  # mine, as it is\t\n\n`],
    ['an empty document behind it', `${web}---\n`],
    ['JSON', json],
    ['nothing', ''],
    ['a comment', '# mine'],
  ] as const;
  for (const [title, own] of texts) {
    writeFileSync(policy, own);
    const { stderr, code } = await runSallyport(t, ['suggest', log, ...pod, '--merge', policy, '--in-place']);
    t.equal(code, 0, `${title}: ${stderr}`);
    const bytes = readFileSync(policy);
    t.same(bytes.subarray(0, Buffer.byteLength(own)), Buffer.from(own), title);
    t.match(bytes.subarray(Buffer.byteLength(own)).toString(), /^\n?---\n# Suggested by /, title);
    const { stdout } = await runSallyport(t, ['check', policy, '--json']);
    t.ok(JSON.parse(stdout).ok, `${title}: and it is a policy: ${stdout}`);
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
