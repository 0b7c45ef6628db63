import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { type CommandName, type Io, type Main, parseCommandLine, UsageError } from '../../../bin/arguments.ts';
import { main as can } from '../../../bin/can.ts';
import { main as diff } from '../../../bin/diff.ts';
import { main as explain } from '../../../bin/explain.ts';
import { main as who } from '../../../bin/who.ts';
import { workloadName } from '../../support/certificates.ts';

/** `diff`, `who` and `can`: what they say of a policy, for people and for programs, and how they end. */

const server = (more = ''): string => `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: 8080, proxyProtocol: HTTP/1${more} }
---
`;
const route = (rule: string, name = 'orders'): string => `apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: ${name}, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules: [${rule}]
---
`;
const opened = (target: string, required: string, name = 'checkout'): string => `apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: { name: ${name}, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: ${target} }
  requiredAuthenticationRefs: [${required}]
---
`;
const network = (list: string): string => `apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: { name: office, namespace: shop }
spec: { networks: [${list}] }
---
`;
const office = '{ group: policy.linkerd.io, kind: NetworkAuthentication, name: office }';
const account = (name: string): string => `{ kind: ServiceAccount, name: ${name} }`;
const limit = (rate: number): string => `apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: { name: web, namespace: shop }
spec:
  targetRef: { group: policy.linkerd.io, kind: Server, name: web }
  total: { requestsPerSecond: ${rate} }
---
`;
const override = (...names: string[]): string =>
  `{ requestsPerSecond: 5, clientRefs: [${names.map((name) => `{ kind: ServiceAccount, name: ${name} }`).join(', ')}] }`;
const overriding = (...entries: string[]): string =>
  limit(10).replace('---', `  overrides: [${entries.join(', ')}]\n---`);
const shared = overriding(override('checkout', 'other'));
const apart = overriding(override('checkout'), override('other'));
const turned = overriding(override('other'), override('checkout'));
const isolated = (cidr: string): string => `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: cut, namespace: shop }
spec: { podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: ${cidr} } }] }] }
---
`;
const orders = '{ matches: [{ path: { value: /orders } }] }';
const base = server() + route(orders) + opened('HTTPRoute, name: orders', account('checkout'));
const env = { SALLYPORT_POD_NAMESPACE: 'shop', SALLYPORT_AUTHORIZE_LOCALHOST: 'false', NO_COLOR: '1' };

const mains: { readonly [Name in CommandName]?: Main<Name> } = { can, diff, explain, who };

/** In this process: a start for each row would take minutes. */
interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

async function run([name = '', ...args]: readonly string[], input = ''): Promise<Ran> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const said = stderr.setEncoding('utf8').toArray();
  const io = { env, stdin: Readable.from([input]), stdout, stderr } as unknown as Io;
  try {
    const command = name as 'explain';
    const main = mains[command] as Main<'explain'>;
    const code = await main(parseCommandLine(command, args), io);
    stdout.end();
    stderr.end();
    return { stdout: (await stdout.setEncoding('utf8').toArray()).join(''), stderr: (await said).join(''), code };
  } catch (error) {
    if (error instanceof UsageError) return { stdout: '', stderr: '', code: 64 };
    throw error;
  }
}

interface ShownChange {
  readonly kind: string;
  readonly ports: readonly string[];
  readonly clients: readonly { readonly who: readonly string[] | null; readonly from: unknown }[];
  readonly requests: readonly { readonly paths: readonly string[] | null }[] | null;
  readonly before: { readonly verdict: string };
  readonly after: { readonly verdict: string };
  readonly example: { readonly explainBefore: string; readonly explainAfter: string };
}

/** The words of a command as it is printed, without the program's name. */
function wordsOf(command: string): string[] {
  return [...command.matchAll(/(?:'[^']*'|[^\s'])+/g)].slice(1).map(([word]) => word.replaceAll("'", ''));
}

t.test('diff: the kinds of change, and that explain confirms each', async (t) => {
  interface Row {
    readonly what: string;
    readonly before?: string;
    readonly after: string;
    readonly kinds: readonly string[];
  }
  const rows: readonly Row[] = [
    { what: 'the same', after: base, kinds: [] },
    {
      what: 'the same in another order',
      after: opened('HTTPRoute, name: orders', account('checkout')) + server() + route(orders),
      kinds: [],
    },
    {
      what: 'the same by another route',
      after: server() + route(orders, 'sales') + opened('HTTPRoute, name: sales', account('checkout')),
      kinds: [],
    },
    {
      what: 'one more account',
      after: base + opened('HTTPRoute, name: orders', account('web'), 'web'),
      kinds: ['allowed'],
    },
    {
      what: 'another account',
      after: base.replace('name: checkout }]', 'name: web }]'),
      kinds: ['allowed', 'refused'],
    },
    {
      what: 'another name',
      after: server() + route(orders) + opened('HTTPRoute, name: orders', account('checkout'), 'till'),
      kinds: ['moved'],
    },
    { what: 'no policy', after: server() + route(orders), kinds: ['refused'] },
    {
      what: 'a route more',
      after: base + route('{ matches: [{ path: { value: /other } }] }', 'other'),
      kinds: ['otherwise'],
    },
    {
      what: 'a narrower prefix',
      after: base.replace('value: /orders', 'value: /orders/new'),
      kinds: ['refused', 'otherwise'],
    },
    {
      what: 'exact in place of a prefix',
      after: base.replace('value: /orders', 'type: Exact, value: /orders'),
      kinds: ['refused', 'otherwise'],
    },
    {
      what: 'a regular expression',
      after: base.replace('value: /orders', 'type: RegularExpression, value: "/orders/[0-9]+"'),
      kinds: ['refused', 'otherwise'],
    },
    {
      what: 'an expression that says the same',
      after: base.replace('value: /orders', 'type: RegularExpression, value: "/orders(/.*)?"'),
      kinds: [],
    },
    { what: 'audit', after: base.replace('HTTP/1', 'HTTP/1, accessPolicy: audit'), kinds: ['allowed'] },
    { what: 'a limit', before: base + limit(10), after: base + limit(20), kinds: ['otherwise'] },
    { what: 'an override of two, and one of each', before: base + shared, after: base + apart, kinds: ['otherwise'] },
    { what: 'overrides in another order', before: base + apart, after: base + turned, kinds: [] },
    { what: 'isolation', after: base + isolated('10.0.0.0/8'), kinds: ['refused', 'otherwise'] },
    {
      what: 'a wider network',
      before: base + isolated('10.0.0.0/9'),
      after: base + isolated('10.0.0.0/8'),
      kinds: ['allowed', 'otherwise'],
    },
    {
      what: 'the same network in two halves',
      before: server() + opened('Server, name: web', office) + network('{ cidr: 10.0.0.0/8 }'),
      after: server() + opened('Server, name: web', office) + network('{ cidr: 10.0.0.0/9 }, { cidr: 10.128.0.0/9 }'),
      kinds: [],
    },
    {
      what: 'a redirect',
      after: base.replace(
        '[{ path: { value: /orders } }]',
        '[{ path: { value: /orders } }], filters: [{ type: RequestRedirect, requestRedirect: { hostname: a.example } }]',
      ),
      kinds: ['refused'],
    },
    {
      what: 'a header that another with a dash for its first letter may be taken for',
      after: base.replace('value: /orders }', 'value: /orders }, headers: [{ name: _till, value: a }]'),
      kinds: ['refused', 'otherwise'],
    },
    { what: 'another port', after: base.replace('8080', '9090'), kinds: ['allowed', 'refused', 'otherwise'] },
  ];
  for (const { what, before = base, after, kinds } of rows) {
    const folder = t.testdir({ 'old.yaml': before, 'new.yaml': after });
    const policies = [join(folder, 'old.yaml'), join(folder, 'new.yaml')];
    const { stdout, code } = await run(['diff', ...policies, '--json']);
    const { equal, changes, unexamined } = JSON.parse(stdout);
    t.same([...new Set((changes as ShownChange[]).map(({ kind }) => kind))], kinds, `${what}: kinds`);
    t.same(
      { equal, unexamined, code },
      { equal: kinds.length === 0, unexamined: [], code: kinds.length === 0 ? 0 : 1 },
      what,
    );
    for (const change of changes as ShownChange[]) {
      const { explainBefore, explainAfter } = change.example;
      for (const [command, { verdict }] of [
        [explainBefore, change.before],
        [explainAfter, change.after],
      ] as const) {
        const answer = await run([...wordsOf(command), '--json']);
        t.equal(JSON.parse(answer.stdout).verdict, verdict, `${what}: ${command}`);
      }
    }
    const text = await run(['diff', ...policies]);
    t.equal(text.stdout === '', kinds.length === 0, `${what}: equal policies print nothing`);
    const long = text.stdout
      .split('\n')
      .filter((line) => line.length > 80 && !line.includes('sallyport explain') && !/\S{60}/.test(line));
    t.same(long, [], `${what}: 80 columns`);
  }
});

t.test('diff: as a gate', async (t) => {
  const folder = t.testdir({
    'old.yaml': base,
    'new.yaml': base + opened('HTTPRoute, name: orders', account('web'), 'web'),
  });
  const [wider, narrower] = [
    ['old.yaml', 'new.yaml'],
    ['new.yaml', 'old.yaml'],
  ].map((names) => names.map((name) => join(folder, name)));
  const rows: readonly (readonly [args: readonly string[], code: number])[] = [
    [['diff', ...(wider ?? [])], 1],
    [['diff', ...(wider ?? []), '--fail-on', 'widened'], 1],
    [['diff', ...(wider ?? []), '--fail-on', 'narrowed'], 0],
    [['diff', ...(narrower ?? []), '--fail-on', 'widened'], 0],
    [['diff', ...(narrower ?? []), '--fail-on', 'narrowed'], 1],
    [['diff', ...(narrower ?? []), '--fail-on', 'wider'], 64],
    [['diff', ...(narrower ?? []), 'third.yaml'], 64],
    [['diff', join(folder, 'old.yaml')], 64],
    [['diff', '-', '-'], 64],
    [['diff', join(folder, 'old.yaml'), join(folder, 'none.yaml')], 64],
    [['who', '--policy', join(folder, 'old.yaml')], 64],
    [['who', '--policy', join(folder, 'old.yaml'), '--port', '8080', '--path', 'orders'], 64],
    [['can', '--policy', join(folder, 'old.yaml'), '--client', 'nowhere'], 64],
    [['can', '--policy', join(folder, 'old.yaml'), '--service-account', 'a.b/c'], 64],
    [['can', '--policy', join(folder, 'old.yaml'), '--service-account', 'c', '--identity', 'c'], 64],
  ];
  for (const [args, code] of rows)
    t.equal((await run(args)).code, code, args.slice(0, 1).concat(args.slice(3)).join(' '));
  const piped = await run(['diff', '-', join(folder, 'new.yaml'), '--json'], base);
  t.equal(JSON.parse(piped.stdout).changes.length, 1, 'standard input is a policy, too');
});

t.test('an identity that no certificate gives is said to be none', async (t) => {
  const folder = t.testdir({ 'policy.yaml': base });
  const { stderr } = await run(['can', '--policy', join(folder, 'policy.yaml'), '--identity', '*']);
  t.match(stderr, /no certificate gives the identity "\*".*\[no-identity-name\]/);
});

t.test('what a document allows is no warning', async (t) => {
  const policy = server() + route(orders) + opened('HTTPRoute, name: orders', '');
  const meant = policy.replace(
    'name: checkout,',
    'name: checkout, annotations: { sallyport.dev/allow: "admits-everyone: it is public" },',
  );
  const folder = t.testdir({ 'plain.yaml': policy, 'meant.yaml': meant });
  for (const name of ['plain', 'meant']) {
    const { stderr } = await run(['who', '--policy', join(folder, `${name}.yaml`), '--port', '8080']);
    t.equal(stderr.includes('admits-everyone'), name === 'plain', name);
  }
});

t.test('who can reach it, and what a client can do', async (t) => {
  const folder = t.testdir({
    'policy.yaml':
      base +
      route(
        '{ matches: [{ path: { value: /orders }, method: DELETE }, { path: { value: /admin }, headers: [{ name: x-role, value: admin }] }] }',
        'admin',
      ) +
      opened('HTTPRoute, name: admin', office, 'admin') +
      network('{ cidr: 10.1.0.0/16, except: [10.1.9.0/24] }'),
  });
  const checkout = workloadName('checkout', 'shop');
  const rows: readonly {
    readonly args: readonly string[];
    readonly by: readonly string[];
    readonly said: readonly RegExp[];
  }[] = [
    {
      args: ['who', '--port', '8080', '--path', '/orders/7', '--method', 'GET'],
      by: ['checkout'],
      said: [/ServiceAccount shop\/checkout/],
    },
    {
      args: ['who', '--port', '8080', '--path', '/orders/7', '--method', 'DELETE'],
      by: ['admin'],
      said: [/anybody|without TLS/, /10\.1\.0\.0\/21/],
    },
    {
      args: ['who', '--port', '8080', '--path', '/orders/7'],
      by: ['checkout', 'admin'],
      said: [/DELETE \/orders\/7/, /\/orders\/7 not DELETE/],
    },
    { args: ['who', '--port', '8080', '--path', '/admin'], by: ['admin'], said: [/\/admin with header x-role: admin/] },
    { args: ['who', '--port', '8080', '--path', '/admin', '--header', 'X-Role: user'], by: [], said: [/^nobody$/m] },
    { args: ['who', '--port', '8080', '--path', '/nothing'], by: [], said: [/^nobody$/m] },
    {
      args: ['can', '--identity', checkout, '--port', '8080', '--client', '192.0.2.7'],
      by: ['checkout'],
      said: [/\/orders\[\/…\] not DELETE/],
    },
    {
      args: ['can', '--service-account', 'shop/checkout', '--port', '8080', '--client', '192.0.2.7'],
      by: ['checkout'],
      said: [/\/orders\[\/…\] not DELETE/],
    },
    { args: ['can', '--service-account', 'other/checkout', '--port', '8080'], by: ['admin'], said: [/10\.1\./] },
    { args: ['can', '--port', '8080', '--client', '10.1.2.3'], by: ['admin'], said: [/DELETE \/orders\[\/…\]/] },
    { args: ['can', '--port', '8080', '--client', '10.1.9.3'], by: [], said: [/^nothing$/m] },
  ];
  for (const { args, by, said } of rows) {
    const all = [...args, '--policy', join(folder, 'policy.yaml')];
    const { stdout, code } = await run([...all, '--json']);
    const { grants } = JSON.parse(stdout) as { grants: { authz: { name: string }; example: { explain: string } }[] };
    t.same(new Set(grants.map(({ authz }) => authz.name)), new Set(by), args.join(' '));
    t.equal(code, by.length === 0 ? 1 : 0, `${args.join(' ')}: status`);
    for (const { authz, example } of grants) {
      const answer = await run([...wordsOf(example.explain), '--json']);
      const { verdict, authz: own } = JSON.parse(answer.stdout);
      t.same([verdict, own?.name], ['permit', authz.name], example.explain);
    }
    const text = (await run(all)).stdout;
    for (const each of said) t.match(text, each, args.join(' '));
  }
});

t.test('routes that many conditions tell apart', { timeout: 360_000 }, async (t) => {
  const users = (count: number): string =>
    server() +
    opened('Server, name: web', office) +
    network('{ cidr: 10.0.0.0/8 }') +
    Array.from({ length: count }, (_, i) =>
      route(`{ matches: [{ path: { value: /a }, headers: [{ name: x-user, value: u${i} }] }] }`, `r${i}`),
    ).join('');
  const reach = (policy: string): Promise<Ran> => run(['who', '--policy', '-', '--port', '8080'], policy);
  t.notMatch(await reach(users(300)), { stdout: /not examined/ });
  const { stdout, code } = await reach(users(1_300));
  // Rather than until memory ends.
  const said = 'not examined, so some may be missing: requests that more than 800,000 conditions of routes tell apart';
  t.equal(stdout.slice(stdout.indexOf('not examined')).trim().replaceAll(/\s+/g, ' '), said);
  t.equal(code, 0);
});
