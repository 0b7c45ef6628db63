import t from 'tap';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { deployment, flagged, type Given, settings } from './fixtures.ts';

const app = `      containers:
        - name: app
          image: app:1
`;
const run = (text: string, more: Given = {}) => inject([{ file: 'web.yaml', text }], flagged(more));

t.test('pods that cannot be guarded', async (t) => {
  const port = (number: number, more = ''): string => `${app}          ports:
            - {containerPort: ${number}${more}}
`;
  const record = (text: string): string => `      annotations:
        sallyport.dev/record: '${text}'
`;
  const annotated = (annotation: string): string => `      annotations:
        ${annotation}
`;
  const rows: [name: string, text: string, code: string, line: number, message: RegExp][] = [
    ['the network of the node', deployment(`      hostNetwork: true\n${app}`), 'host-network', 9, /redirect rules/],
    ['no containers', deployment('      containers: []\n'), 'invalid-pod', 8, /no containers/],
    ['the inbound port', deployment(port(4143)), 'port-in-use', 13, /4143 is Sallyport's, for redirected/],
    ['the admin port', deployment(port(4191)), 'port-in-use', 13, /for the admin server/],
    ['the health port', deployment(port(4192)), 'port-in-use', 13, /for the health server/],
    ['its name', deployment(app.replace('app\n', 'sallyport\n')), 'name-in-use', 10, /named sallyport,/],
    [
      'a volume',
      deployment(`${app}      volumes: [{name: sallyport-run, emptyDir: {}}]\n`),
      'name-in-use',
      12,
      /volume/,
    ],
    ['its user', deployment(`      securityContext: {runAsUser: 2102}\n${app}`), 'uid-in-use', 9, /user 2102/],
    [
      'its user, in a container',
      deployment(`${app}          securityContext:\n            runAsUser: 2102\n`),
      'uid-in-use',
      13,
      /user 2102/,
    ],
    ["Linkerd's proxy", deployment(app, annotated('linkerd.io/inject: enabled')), 'linkerd-injects', 9, /same ports/],
    [
      'an unknown policy',
      deployment(app, annotated('config.linkerd.io/default-inbound-policy: all-authentcated')),
      'annotation',
      9,
      /"all-authentcated" is not known/,
    ],
    [
      'a list with an unknown name',
      deployment(app, annotated('config.linkerd.io/skip-inbound-ports: "25,mysql"')),
      'annotation',
      9,
      /"mysql" is neither/,
    ],
    ['a record that is none', deployment(app, record('{')), 'record', 9, /not JSON/],
    ['a record without its lists', deployment(app, record('{"volumes":[]}')), 'record', 9, /annotations/],
    ['a port out of range', deployment(port(70000)), 'invalid-pod', 13, /containerPort/],
    ['not YAML', `${deployment(app)}  x: [\n`, 'yaml-syntax', 13, /./],
    [
      'a template behind an alias',
      repeated('{template: *template}', '0'),
      'not-editable',
      5,
      /spec\.template is an alias/,
    ],
    [
      'a list behind an alias',
      repeated('{template: {metadata: {}, spec: {containers: [{name: app}], volumes: *volumes}}}', '0'),
      'not-editable',
      5,
      /spec\.template\.spec\.volumes is an alias/,
    ],
    [
      'a pod that is repeated',
      repeated('{template: &pod {metadata: {}, spec: {containers: [{name: app}]}}}', '*pod'),
      'not-editable',
      5,
      /also change something else/,
    ],
  ];
  for (const [name, text, code, line, message] of rows) {
    const { problems, texts, workloads } = run(text);
    const [first] = problems.filter(({ severity }) => severity === 'error');
    t.match(first, { code, line, message, file: 'web.yaml' }, name);
    t.same(texts, [text], `${name}: the text stays`);
    t.same(workloads, [], `${name}: nothing is said to be done`);
    if (code !== 'yaml-syntax' && code !== 'not-editable') t.ok(first?.resource ?? code === 'record', `${name}: whose`);
  }
  t.match(run(deployment(port(4143, ', protocol: UDP'))).problems, [{ severity: 'warning', line: 13 }], 'not our port');
  const empty = run(deployment(port(4143, ', protocol: ""')));
  t.match(empty.problems, [{ code: 'port-in-use' }], 'none is TCP');
  t.same(run(deployment(port(4191)), { 'admin-port': '14191' }).problems, [], 'a port can be moved');
  const second = `${deployment(app)}---\n${deployment(`      hostNetwork: true\n${app}`)}`;
  t.equal(run(second).texts[0], second, 'one that cannot be guarded keeps all from being written');
});

t.test('pods that are none', async (t) => {
  const nameless = 'spec: {containers: [{name: app, image: app:1}]}';
  const rows: [name: string, text: string, line: number, message: RegExp][] = [
    ['containers that are no list', deployment('      containers: {name: app}\n'), 9, /containers/],
    ['a container that is none', deployment('      containers: [null]\n'), 9, /containers/],
    ['init containers that are no list', deployment(`      initContainers: {}\n${app}`), 9, /initContainers/],
    ['ports that are no list', deployment(`${app}          ports: {}\n`), 12, /ports/],
    ['volumes that are no list', deployment(`      volumes: {}\n${app}`), 9, /^volumes is no list/],
    ['a volume that is none', deployment(`      volumes: [null]\n${app}`), 9, /^volumes is no list/],
    ['secrets that are none', deployment(`      imagePullSecrets: [a]\n${app}`), 9, /^imagePullSecrets is no list/],
    ['a Pod without metadata', `apiVersion: v1\nkind: Pod\n${nameless}\n`, 1, /has no metadata/],
    [
      'one in a List',
      `apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, ${nameless}}\n`,
      4,
      /no metadata/,
    ],
  ];
  for (const [name, text, line, message] of rows) {
    const { problems, texts } = run(text);
    const hint = 'Write it as kubectl get pod -o yaml does.';
    t.match(problems, [{ severity: 'error', code: 'invalid-pod', line, message, hint }], name);
    t.same(texts, [text], `${name}: the text stays`);
  }
});

t.test('a wish for or against Sallyport that cannot be read is an error', async (t) => {
  for (const [value, said] of [
    ['"false"', '"false" is not known'],
    ['Disabled', '"Disabled" is not known'],
    ['false', 'is no string'],
    ['""', 'is empty'],
  ] as const) {
    const wish = `sallyport.dev/inject: ${value}`;
    const namespace = `kind: Namespace\napiVersion: v1\nmetadata: {name: shop, annotations: {${wish}}}\n---\n`;
    const own = run(deployment(app, `      annotations:\n        ${wish}\n`));
    const message = `sallyport.dev/inject: ${said}`;
    t.match(own.problems, [{ severity: 'error', code: 'annotation', line: 9, message }], wish);
    t.match(
      run(namespace + deployment(app)).problems,
      [{ severity: 'error', code: 'annotation', message: `sallyport.dev/inject of the Namespace: ${said}` }],
      `${wish} on the Namespace`,
    );
  }
});

t.test('pods that are left as they are', async (t) => {
  const off = '      annotations: {sallyport.dev/inject: disabled}\n';
  const namespace =
    'kind: Namespace\napiVersion: v1\nmetadata: {name: shop, annotations: {sallyport.dev/inject: disabled}}\n';
  const rows: [name: string, text: string, detail: RegExp][] = [
    ['Windows, by its field', deployment(`      os: {name: windows}\n${app}`), /Windows/],
    ['Windows, by its nodes', deployment(`      nodeSelector: {kubernetes.io/os: windows}\n${app}`), /Windows/],
    ['by an annotation', deployment(app, off), /disabled/],
    ['by an annotation, on the network of the node', deployment(`      hostNetwork: true\n${app}`, off), /disabled/],
    ['by the Namespace', `${namespace}---\n${deployment(app)}`, /disabled/],
  ];
  for (const [name, text, detail] of rows) {
    const { problems, texts, workloads } = run(text);
    t.same(problems, [], name);
    t.same(texts, [text], `${name}: not a byte`);
    t.match(workloads, [{ kind: 'Deployment', namespace: 'shop', name: 'web', outcome: 'skipped', detail }], name);
  }
  const enabled = `${namespace}---\n${deployment(app, off.replace('disabled', 'enabled'))}`;
  t.match(run(enabled).workloads, [{ outcome: 'injected' }], 'the pod says otherwise than its Namespace');
  const [injected = ''] = run(deployment(app)).texts;
  const disabled = injected.replace('annotations:\n', 'annotations:\n        sallyport.dev/inject: disabled\n');
  const ofNamespace = `${namespace}---\n${injected}`;
  for (const text of [disabled, ofNamespace]) {
    const { texts, workloads, problems } = run(text);
    t.same(problems, []);
    t.notMatch(texts[0], 'sallyport-init', 'an injection of before is taken out');
    t.match(workloads, [{ outcome: 'uninjected', detail: 'sallyport.dev/inject is "disabled"' }], 'and said to be');
    t.match(run(texts[0] ?? '').workloads, [{ outcome: 'skipped' }], 'once');
  }
});

t.test('what is not a workload of Kubernetes passes through', async (t) => {
  const rows: [name: string, text: string, warnings: number][] = [
    ['nothing', '', 0],
    ['a comment', '# nothing\n', 0],
    ['another kind', 'kind:   Service\napiVersion: v1\n', 0],
    ['a list of values', '- a\n-   b\n', 0],
    [
      "another group's Job",
      deployment(app).replace('apps/v1\nkind: Deployment', 'batch.volcano.sh/v1alpha1\nkind: Job'),
      1,
    ],
    ["a kind of one's own", deployment(app).replace('kind: Deployment', 'kind: Rollout'), 1],
    ...['replicatedJobs: [{template: {spec: {template: POD}}}]', 'headGroupSpec: {template: POD}']
      .concat('leaderWorkerTemplate: {workerTemplate: POD}', 'tasks: [{template: POD}]')
      .concat('jobTemplate: {spec: {template: POD}}', 'containers: [{name: app}]')
      .map((spec): [string, string, number] => [spec, `kind: Own\napiVersion: a/v1\nspec: {${spec}}\n`, 1])
      .map(([name, text]): [string, string, number] => [name, text.replace('POD', '{spec: {containers: []}}'), 1]),
    ['a repetition', 'kind: Own\napiVersion: a/v1\nx: &x {spec: {containers: {}}}\nspec: [*x, *x]\n', 0],
    ['a workload without a template', 'kind: Deployment\napiVersion: apps/v1\nspec: {}\n', 0],
  ];
  for (const [name, text, warnings] of rows) {
    const { problems, texts, workloads } = run(text);
    t.same(texts, [text], name);
    t.same(workloads, []);
    t.equal(problems.length, warnings, `${name}: warnings`);
    for (const problem of problems) t.match(problem, { severity: 'error', code: 'unknown-workload' });
    const allowed = inject([{ file: 'web.yaml', text }], { ...settings, unknownPods: 'left unguarded' });
    t.same(allowed.texts, [text], `${name}: left as it is where that is allowed`);
    for (const problem of allowed.problems) t.match(problem, { severity: 'warning', code: 'unknown-workload' });
  }
});

t.test('lists', async (t) => {
  const item = `- metadata: {name: web, namespace: shop}
  spec: {template: {spec: {containers: [{name: app, image: app:1}]}}}
`;
  const typed = `apiVersion: apps/v1\nkind: DeploymentList\nitems:\n${item}`;
  const { texts, workloads, problems } = run(typed);
  t.same(problems, []);
  t.match(workloads, [{ kind: 'Deployment', name: 'web', outcome: 'injected', line: 4 }], 'kubectl knows their kind');
  t.match(run(texts[0] ?? '').workloads, [{ outcome: 'unchanged' }]);
  t.same(uninject([{ file: 'web.yaml', text: texts[0] ?? '' }], { namespace: 'default' }).texts, [typed]);
  const own = typed.replace('apps/v1', 'example.com/v1').replace('DeploymentList', 'RolloutList');
  t.match(run(own).problems, [{ code: 'unknown-workload', line: 4, message: /^Rollout describes pods/ }]);
  const off = `apiVersion: v1
kind: NamespaceList
items:
- metadata: {name: shop, annotations: {sallyport.dev/inject: disabled}}
---
`;
  t.match(run(off + typed).workloads, [{ outcome: 'skipped' }], 'a Namespace among its like');
});

t.test('doubts that do not keep a pod from being guarded', async (t) => {
  const rows: [name: string, text: string, code: string, line: number][] = [
    ['privileges', deployment(`${app}          securityContext: {privileged: true}\n`), 'may-unguard', 12],
    [
      'capabilities',
      deployment(`${app}          securityContext: {capabilities: {add: [NET_ADMIN]}}\n`),
      'may-unguard',
      12,
    ],
    [
      'a probe of an unknown port',
      deployment(`${app}          livenessProbe: {httpGet: {port: http}}\n`),
      'probe-port',
      12,
    ],
    [
      'a port over UDP',
      deployment(`${app}          ports: [{containerPort: 53, protocol: UDP}]\n`),
      'unguarded-port',
      12,
    ],
    ['over SCTP', deployment(`${app}          ports: [{containerPort: 9, protocol: SCTP}]\n`), 'unguarded-port', 12],
    ['a comma', deployment(`${app}          livenessProbe: {httpGet: {port: 80, path: '/a,b'}}\n`), 'probe-path', 8],
  ];
  for (const [name, text, code, line] of rows) {
    const { problems, workloads } = run(text);
    t.match(problems, [{ severity: 'warning', code, line }], name);
    t.match(workloads, [{ outcome: 'injected' }], name);
  }
});

t.test('what others have done to an injected pod stays', async (t) => {
  const text = deployment(`${app}      volumes: []\n`);
  const [injected = ''] = run(text).texts;
  const rows: [name: string, edit: (text: string) => string, kept: RegExp, gone: RegExp][] = [
    [
      'a container beside ours',
      (was) => was.replace('initContainers:\n', 'initContainers:\n        - {name: mine, image: mine:1}\n'),
      /initContainers:\n {8}- \{name: mine, image: mine:1\}\n {6}containers/,
      /sallyport/,
    ],
    [
      'an annotation',
      (was) => was.replace('annotations:\n', 'annotations:\n        a: b\n'),
      /annotations:\n {8}a: b\n/,
      /sallyport/,
    ],
    [
      'a volume',
      (was) => was.replace('volumes:\n', 'volumes:\n        - name: mine\n'),
      /volumes:\n {8}- name: mine\n/,
      /sallyport/,
    ],
    [
      'another image',
      (was) => was.replaceAll('registry.example.com/sallyport:1.2.3', 'x:1'),
      /volumes: \[\]\n/,
      /sallyport|x:1/,
    ],
  ];
  for (const [name, edit, kept, gone] of rows) {
    const edited = edit(injected);
    t.not(edited, injected, `${name}: done`);
    const { texts, problems } = uninject([{ file: 'web.yaml', text: edited }], { namespace: 'default' });
    t.same(problems, [], name);
    t.match(texts[0], kept, `${name}: kept`);
    t.notMatch(texts[0], gone, `${name}: ours is gone`);
    t.match(run(edited).workloads, [{ outcome: 'updated', detail: 'was 1.2.3' }], `${name}: noticed`);
  }
});

/** A template, and lines that repeat it or a part of it. */
function repeated(spec: string, more: string): string {
  return `apiVersion: apps/v1
kind: Deployment
x: &volumes [{name: v, emptyDir: {}}]
t: &template {spec: {containers: [{name: app, image: app}]}}
spec: ${spec}
z: ${more}
`;
}
