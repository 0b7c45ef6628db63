import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { runSallyport } from '../../support/sallyport.ts';

/** What `check` prints of its review: what it could not examine, what stands in no document, and what documents allow. */

const server = `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: { matchLabels: { app: web } }, port: 8080 }
`;
const route = (matches: readonly string[], allow = ''): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata:
  name: orders
  namespace: shop${allow === '' ? '' : `\n  annotations: { sallyport.dev/allow: ${JSON.stringify(allow)} }`}
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
${matches.map((match) => `    - matches: [${match}]`).join('\n')}
`;
const prefix = '{ path: { type: PathPrefix, value: /orders } }';
/** What tells whether it holds must remember each of the last fourteen characters. */
const large = '{ path: { type: RegularExpression, value: "/.*[ab].{14}x" } }';
const twice = [prefix, prefix];
const twiceLarge = [large, `${large.slice(0, -2)}, method: GET }`];

interface Row {
  readonly title: string;
  readonly policy: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Of the findings. */
  readonly says?: readonly RegExp[];
  readonly allowed?: readonly string[];
  readonly stderr?: RegExp;
}

const unexamined =
  /^warning: whether any request finds them was not examined of 2 rules of routes \(set SALLYPORT_POD_LABELS .*\) \[unexamined-rules\]\n$/;
const audit = (where: string): RegExp =>
  new RegExp(`^${where}:1:1: warning: the default inbound policy audit lets everyone in .* \\[audit-left-on\\]$`);

const rows: readonly Row[] = [
  { title: 'nothing to say', policy: server + route([prefix]) },
  {
    title: 'a rule that no request finds',
    policy: server + route(twice),
    says: [/^.*p\.yaml:16:7: warning: HTTPRoute shop\/orders: no request finds rule 2: .* \[rule-never-found\]$/],
  },
  { title: 'rules that are too much to examine', policy: server + route(twiceLarge), stderr: unexamined },
  {
    title: 'what was not examined may be there: that it is allowed is not called unused',
    policy: server + route(twiceLarge, 'rule-never-found: a spare one'),
    stderr: unexamined,
  },
  {
    title: 'audit by default, of a variable',
    policy: server,
    env: { SALLYPORT_DEFAULT_INBOUND_POLICY: 'audit' },
    says: [audit('SALLYPORT_DEFAULT_INBOUND_POLICY')],
  },
  {
    title: 'audit by default, of a manifest',
    policy: server,
    env: { SALLYPORT_POD_MANIFEST: 'pod.yaml', SALLYPORT_POD_NAMESPACE: 'shop' },
    says: [audit('SALLYPORT_POD_MANIFEST')],
  },
  { title: 'another default', policy: server, env: { SALLYPORT_DEFAULT_INBOUND_POLICY: 'cluster-authenticated' } },
  {
    title: 'what a document allows is counted, and not printed',
    policy: server + route(twice, 'rule-never-found: kept for its name in metrics'),
    allowed: ['rule-never-found'],
  },
  {
    title: 'what another document allows is printed',
    policy:
      server.replace('namespace: shop }', 'namespace: shop, annotations: { sallyport.dev/allow: rule-never-found } }') +
      route(twice),
    says: [/allows rule-never-found, and there is no such warning \[allow-unused\]$/, /\[rule-never-found\]$/],
  },
  {
    title: 'what a document of the same name and another group allows is printed',
    policy:
      server +
      route(twice, 'rule-never-found: a spare one') +
      route([`{ path: { value: /b } }`, `{ path: { value: /b } }`]).replace(
        'policy.linkerd.io/v1beta3',
        'gateway.networking.k8s.io/v1',
      ),
    says: [
      /allows rule-never-found, and there is no such warning \[allow-unused\]$/,
      /\[rule-never-found\]$/,
      /\[rule-never-found\]$/,
    ],
  },
  {
    title: 'an authorization applies to pods that one Server selects and another one does not, for what they lack',
    policy: `${server.replace('{ matchLabels: { app: web } }', '{}')}---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: blind, namespace: shop }
spec:
  podSelector: { matchExpressions: [{ key: app, operator: NotIn, values: [web] }] }
  port: 8080
  proxyProtocol: opaque
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: orders-only, namespace: shop }
spec:
  targetRef: { kind: Namespace, name: shop }
  requiredAuthenticationRefs: [{ kind: ServiceAccount, name: orders }]
`,
    says: [/Server web has no effect on it \[port-taken\]$/],
  },
];

const folder = t.testdir({
  'pod.yaml': `apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: shop
  labels: { app: web }
  annotations: { config.linkerd.io/default-inbound-policy: audit }
spec: { containers: [{ name: app, ports: [{ containerPort: 8080 }] }] }
`,
});
const file = join(folder, 'p.yaml');
const counted = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

for (const { title, policy, env = {}, says = [], allowed = [], stderr = /^$/ } of rows) {
  t.test(title, async (t) => {
    writeFileSync(file, policy);
    const { SALLYPORT_POD_MANIFEST: manifest, ...rest } = env;
    const here = manifest === undefined ? rest : { ...rest, SALLYPORT_POD_MANIFEST: join(folder, manifest) };
    const people = await runSallyport(t, ['check', file], here);
    t.equal(people.code, 0);
    t.match(people.stderr, stderr);
    const lines = people.stdout
      .trimEnd()
      .split('\n')
      .filter((line) => !line.startsWith('    hint: '));
    const summary = lines.pop() ?? '';
    const documents = counted(policy.split('---\n').length - 1, 'document');
    const more = allowed.length === 0 ? '' : `, ${allowed.length} allowed`;
    t.equal(summary, `${documents}: 0 errors, ${counted(says.length, 'warning')}${more}`);
    t.equal(lines.length, says.length, lines.join('\n'));
    for (const [i, wanted] of says.entries()) t.match(lines[i], wanted);

    const programs = await runSallyport(t, ['check', file, '--json'], here);
    const { ok, problems, allowed: told } = JSON.parse(programs.stdout);
    t.match({ code: programs.code, ok, problems: problems.length }, { code: 0, ok: true, problems: says.length });
    const codes = told?.map(({ code }: { readonly code: string }) => code);
    t.same(codes, allowed.length === 0 ? undefined : allowed, 'what is allowed stands apart');
    for (const each of told ?? []) t.match(each, { file, resource: { name: 'orders' }, hint: /.+/ });
  });
}
