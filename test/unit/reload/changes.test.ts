import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readWorkload } from '../../../lib/config/config.ts';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import { type Changes, type Compared, changesBetween } from '../../../lib/reload/changes.ts';
import { loadPolicy } from '../../../lib/reload/load.ts';
import { temporaryFolder } from '../../support/files.ts';

const folder = temporaryFolder(t);
const host = { hostname: () => 'pod', addresses: () => ['10.1.0.9'] };
const env = { SALLYPORT_POD_NAMESPACE: 'shop', SALLYPORT_POD_LABELS: 'app=web', SALLYPORT_POD_PORTS: 'http=8080' };

function compared(text: string): Compared {
  const file = join(folder, 'policy.yaml');
  writeFileSync(file, text);
  const load = loadPolicy({ paths: [file], namespace: 'shop' });
  if (load === 'unchanged') throw new Error('nothing was given to compare with');
  const { documents, digests } = load;
  const workload = readWorkload(env, host as never);
  if (!workload.ok) throw new Error(JSON.stringify(workload.faults));
  return { documents, digests, index: compileNow(documents, workload.workload).index };
}

const server = (name: string, port: number, more = ''): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: ${name}}
spec: {podSelector: {matchLabels: {app: web}}, port: ${port}${more}}
`;
const policy = (name: string, kind: string, target: string, required: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}}
spec:
  targetRef: {group: policy.linkerd.io, kind: ${kind}, name: ${target}}
  requiredAuthenticationRefs: [${required}]
`;
const network = (name: string, cidr: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: ${name}, namespace: net}
spec: {networks: [{cidr: ${cidr}}]}
`;
const route = (path: string): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: orders}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {value: ${path}}}]}]
`;
const limit = (total: number): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: limit}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: ${total}}}
`;
const closes = (cidr: string): string => `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: ${cidr}}}]}]}
`;
const foreign = (port: number): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: foreign, namespace: elsewhere}
spec: {podSelector: {}, port: ${port}}
`;

const both = server('web', 8080) + server('admin', 9090);
const officeRef = '{group: policy.linkerd.io, kind: NetworkAuthentication, name: office, namespace: net}';
const office = policy('office', 'Server', 'admin', officeRef);
const web = 'port 8080 (policy.linkerd.io/server/web)';
const admin = 'port 9090 (policy.linkerd.io/server/admin)';
const nothing: Changes = { added: [], removed: [], changed: [], affects: [] };

interface Row {
  readonly what: string;
  readonly before: string;
  readonly after: string;
  readonly changes: Partial<Changes> | null;
}

const rows: readonly Row[] = [
  { what: 'nothing', before: both, after: both, changes: null },
  {
    what: 'comments, places and order',
    before: both,
    after: `# a\n\n${server('admin', 9090)}\n# b\n${server('web', 8080)}`,
    changes: null,
  },
  {
    what: 'a Server more',
    before: server('web', 8080),
    after: both,
    changes: {
      added: ['Server shop/admin'],
      affects: ['port 9090 (policy.linkerd.io/server/admin in place of /default/deny)'],
    },
  },
  {
    what: 'a Server less',
    before: both,
    after: server('web', 8080),
    changes: {
      removed: ['Server shop/admin'],
      affects: ['port 9090 (/default/deny in place of policy.linkerd.io/server/admin)'],
    },
  },
  {
    what: 'a Server that moves',
    before: server('web', 8080),
    after: server('web', 8081),
    changes: {
      changed: ['Server shop/web'],
      affects: [
        'port 8080 (/default/deny in place of policy.linkerd.io/server/web)',
        'port 8081 (policy.linkerd.io/server/web in place of /default/deny)',
      ],
    },
  },
  {
    what: 'its access policy',
    before: both,
    after: server('web', 8080, ', accessPolicy: all-unauthenticated') + server('admin', 9090),
    changes: { changed: ['Server shop/web'], affects: [web] },
  },
  {
    what: 'an authorization more',
    before: both + network('office', '10.0.0.0/8'),
    after: both + network('office', '10.0.0.0/8') + office,
    changes: { added: ['AuthorizationPolicy shop/office'], affects: [admin] },
  },
  {
    what: 'what an authorization refers to, in another namespace',
    before: both + office + network('office', '10.0.0.0/8'),
    after: both + office + network('office', '10.0.0.0/9'),
    changes: { changed: ['NetworkAuthentication net/office'], affects: [admin] },
  },
  {
    what: 'what an authorization refers to comes to be there',
    before: both + office,
    after: both + office + network('office', '10.0.0.0/9'),
    changes: { added: ['NetworkAuthentication net/office'], affects: [admin] },
  },
  {
    what: "a route's path",
    before: both + route('/orders'),
    after: both + route('/order'),
    changes: { changed: ['HTTPRoute shop/orders'], affects: [web] },
  },
  {
    what: "who may use a route, which is not what its Server's other requests are decided by",
    before: both + route('/orders') + network('office', '10.0.0.0/8') + policy('a', 'HTTPRoute', 'orders', officeRef),
    after: both + route('/orders') + network('office', '10.1.0.0/16') + policy('a', 'HTTPRoute', 'orders', officeRef),
    changes: { changed: ['NetworkAuthentication net/office'], affects: [web] },
  },
  {
    what: 'a rate limit',
    before: both + limit(10),
    after: both + limit(20),
    changes: { changed: ['HTTPLocalRateLimitPolicy shop/limit'], affects: [web] },
  },
  {
    what: 'NetworkPolicies',
    before: both + closes('10.0.0.0/8'),
    after: both + closes('10.1.0.0/16'),
    changes: {
      changed: ['NetworkPolicy shop/closed'],
      affects: ['connections (networking.k8s.io/NetworkPolicy/closed)'],
    },
  },
  {
    what: 'no NetworkPolicy any more',
    before: both + closes('10.0.0.0/8'),
    after: both,
    changes: {
      removed: ['NetworkPolicy shop/closed'],
      affects: ['connections (no NetworkPolicy closes the pod any more)'],
    },
  },
  {
    what: 'what is for others',
    before: both + foreign(1),
    after: both + foreign(2),
    changes: { changed: ['Server elsewhere/foreign'], affects: [] },
  },
];

t.test('what is different, and for whom', async (t) => {
  for (const { what, before, after, changes } of rows) {
    const found = await changesBetween(compared(before), compared(after), 'shop');
    t.same(found, changes === null ? null : { ...nothing, ...changes }, what);
  }
});

t.test('long lists end in a number', async (t) => {
  const many = (count: number): string => Array.from({ length: count }, (_, i) => server(`s${i}`, 1000 + i)).join('');
  const found = await changesBetween(compared(many(1)), compared(many(501)), 'shop');
  t.equal(found?.added.length, 11);
  t.equal(found?.added.at(-1), 'and 490 more');
  t.equal(found?.affects.at(-1), 'and 490 more');
});
