import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { fileFault } from '../../../lib/config/file-fault.ts';
import { startChild } from '../../support/children.ts';
import { temporaryFolder } from '../../support/files.ts';
import { bareEnvironment, runSallyport, sallyportCommand } from '../../support/sallyport.ts';

/** What a command is given to read: standard input, paths that lead nowhere, variables, kinds. */

const server = (port: string, kind = 'Server'): string => `apiVersion: policy.linkerd.io/v1beta3
kind: ${kind}
metadata: { name: web, namespace: shop }
spec: { podSelector: {}, port: ${port} }
`;

t.test('standard input', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'web.yaml'), server('80'));
  writeFileSync(join(folder, 'requests.jsonl'), '{"port": 80, "client": "10.0.0.1"}\n');
  const file = join(folder, 'web.yaml');
  const asked = ['--port', '80', '--client', '10.0.0.1', '--namespace', 'shop'];
  const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec: { template: { spec: { containers: [{ name: web, image: web }] } } }
`;
  interface Row {
    readonly args: readonly string[];
    readonly input: string | Buffer;
    readonly code: number;
    readonly stdout?: string | RegExp;
    readonly stderr?: string | RegExp;
  }
  const rows: readonly Row[] = [
    { args: ['check', '-'], input: server('80'), code: 0, stdout: '1 document: 0 errors, 0 warnings\n' },
    { args: ['check', '-', '-'], input: server('80'), code: 0, stdout: '1 document: 0 errors, 0 warnings\n' },
    { args: ['check', '-'], input: server('0'), code: 1, stdout: /^stdin:4:26: error: Server shop\/web: / },
    { args: ['check', '-', '--json'], input: server('0'), code: 1, stdout: /"file": "stdin",\n +"line": 4,/ },
    { args: ['check', file, '-'], input: server('81'), code: 0, stdout: /^stdin:3:.*\[duplicate\]\n/ },
    { args: ['check', '-'], input: '', code: 0, stdout: /^stdin:1:1: warning: the file holds no document/ },
    { args: ['check', '-'], input: Buffer.from([0xff]), code: 1, stdout: /^stdin:1:1: error: .*is not UTF-8 text/ },
    { args: ['explain', '--policy', '-', ...asked], input: server('80'), code: 1, stdout: /server\/web\n/ },
    {
      args: ['explain', '--policy', '-', '--requests', join(folder, 'requests.jsonl'), '--namespace', 'shop'],
      input: server('80'),
      code: 0,
      stdout: /"name":"web"/,
    },
    { args: ['explain', '--policy', '-', ...asked], input: 'a: [', code: 64, stderr: /^stdin:1:.*\[yaml-syntax\]/ },
    {
      args: ['explain', '--policy', '-', '--requests', '-'],
      input: '',
      code: 64,
      stderr: /^sallyport explain: standard input cannot be both --policy and --requests \(.+\) \[flags-conflict\]\n/,
    },
    { args: ['inject', '-'], input: deployment, code: 0, stdout: /sallyport-init/, stderr: /^stdin:1: Deployment/ },
    { args: ['inject', '-'], input: Buffer.from([0xff]), code: 1, stderr: /^stdin:1:1: error: .*is not UTF-8 text/ },
  ];
  for (const { args, input, code, stdout = '', stderr = '' } of rows) {
    const child = await startChild(t, sallyportCommand, args, { env: bareEnvironment({}), stdin: 'pipe' });
    child.process.stdin?.end(input);
    const ended = await child.exited;
    const title = args.join(' ').replaceAll(folder, '');
    t.equal(ended.code, code, `${title}: ${child.stderr()}`);
    for (const [said, wanted] of [
      [child.stdout(), stdout],
      [child.stderr(), stderr],
    ] as const) {
      if (typeof wanted === 'string') t.equal(said, wanted, title);
      else t.match(said, wanted, title);
    }
  }
});

t.test('what cannot be written is said in words, too, with its remedy', async (t) => {
  const rows = [
    ['EROFS', 'the file system is read-only', 'Choose a place that can be written.'],
    ['ENOSPC', 'no space left', 'Make room there.'],
    ['EEXIST', 'something else is there already', 'Choose another place.'],
  ] as const;
  for (const [code, why, remedy] of rows) {
    t.same(fileFault('/x', Object.assign(new Error('raw'), { code })), { why, remedy });
  }
});

t.test('each path that leads nowhere has its own hint', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'policy'));
  writeFileSync(join(folder, 'policy', 'web.yaml'), server('80'));
  symlinkSync('loop', join(folder, 'loop'));
  const at = (path: string): string => join(folder, path);
  const generic = 'Check the path; a ConfigMap volume must be mounted before the start.';
  const rows: readonly (readonly [path: string, why: string, hint: string])[] = [
    [at('policy/wbe.yaml'), 'no such file or folder', `Did you mean "${at('policy/web.yaml')}"?`],
    [at('polcy/web.yml'), 'no such file or folder', `Did you mean "${at('policy/web.yaml')}"?`],
    [at('policy/quite-other.yaml'), 'no such file or folder', generic],
    [at('elsewhere/web.yaml'), 'no such file or folder', `There is no "${at('elsewhere')}". ${generic}`],
    [at('elsewhere/a/b.yaml'), 'no such file or folder', `There is no "${at('elsewhere')}". ${generic}`],
    [at('policy/web.yaml/x'), 'a part of the path is a file, not a folder', 'Correct the path.'],
    [at('loop'), 'symbolic links lead in a circle', 'Repair the link.'],
    [
      '/dev/null',
      'is no regular file but a pipe, a socket or a device',
      'Name a regular file; commands take - for standard input.',
    ],
  ];
  const paths = rows.map(([path]) => path);
  const checked = await runSallyport(t, ['check', ...paths]);
  const expected = rows.map(
    ([path, why, hint]) => `${path}:1:1: error: cannot be read: ${why} [unreadable]\n    hint: ${hint}\n`,
  );
  t.equal(checked.stdout, `${expected.join('')}0 documents: ${rows.length} errors, 0 warnings\n`);
  t.equal(checked.code, 1);
  // What reads other files says the same of them.
  const [missing = '', , hint = ''] = rows[0] ?? [];
  const said = `${missing} cannot be read: no such file or folder (${hint})`;
  const others: readonly (readonly [args: readonly string[], env: Record<string, string>, stderr: string])[] = [
    [
      ['explain', '--policy', at('policy'), '--requests', missing],
      // As the documents, or these would be warned of first.
      { SALLYPORT_POD_NAMESPACE: 'shop' },
      `sallyport explain: --requests: ${said} [requests-unreadable]`,
    ],
    [
      ['check', at('policy')],
      { SALLYPORT_POD_MANIFEST: missing },
      `sallyport check: SALLYPORT_POD_MANIFEST: ${said} [setting-unreadable]`,
    ],
    [
      ['run'],
      { SALLYPORT_POD_LABELS_FILE: missing },
      `sallyport: SALLYPORT_POD_LABELS_FILE: ${said} [setting-unreadable]`,
    ],
    [
      ['suggest', at('policy/quite-other.yaml')],
      {},
      `sallyport suggest: ${at('policy/quite-other.yaml')} cannot be read: no such file or folder (Check the path.) [requests-unreadable]`,
    ],
    [['inject', missing], {}, `${missing}:1:1: error: cannot be read: no such file or folder [unreadable]`],
  ];
  for (const [args, env, stderr] of others) {
    const run = await runSallyport(t, args, env);
    t.equal(run.stderr.split('\n')[0], stderr, args.join(' '));
    t.not(run.code, 0);
  }
  const workload = await runSallyport(t, ['inject', at('policy/quite-other.yaml')]);
  t.match(workload.stderr, /\n {4}hint: Check the path\.\n/, 'nothing that is mounted');
});

t.test('misspelt variables are named by every command that reads some', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'web.yaml'), server('80'));
  const rows: readonly (readonly [name: string, hint: string | null])[] = [
    ['SALLYPORT_POD_NAMESPCE', 'did you mean SALLYPORT_POD_NAMESPACE?'],
    ['SALYPORT_POD_NAMESPACE', 'did you mean SALLYPORT_POD_NAMESPACE?'],
    ['SALLY_PORT_LOG', 'did you mean SALLYPORT_LOG?'],
    ['SALLYPORT_PROBE', 'did you mean SALLYPORT_PROBES?'],
    ['sallyport_probes', 'did you mean SALLYPORT_PROBES?'],
    ['SALLYPORT_FOOBAR', 'remove it'],
    // A Service named sallyport makes these.
    ['SALLYPORT_SERVICE_HOST', null],
    ['SALLYPORT_PORT_80_TCP_ADDR', null],
    ['SALLYPORT_NODE', null],
    ['SLPORT_POLICY', 'did you mean SALLYPORT_POLICY?'],
    ['SALES_REPORT', null],
  ];
  const env = Object.fromEntries(rows.map(([name]) => [name, name === 'SALLYPORT_NODE' ? '' : 'x']));
  const wanted = rows.flatMap(([name, hint]) =>
    hint === null ? [] : [`${name}: is not a variable that Sallyport reads (${hint})`],
  );
  const commands: readonly (readonly [args: readonly string[], more: Record<string, string>])[] = [
    [['check', folder], {}],
    [['check', folder, '--json'], {}],
    [['explain', '--policy', folder, '--port', '80', '--client', '10.0.0.1'], {}],
    // A value that is missing may stand there under another name.
    [['run'], { SALLYPORT_LOG: 'loud' }],
    [['check', folder], { SALLYPORT_POD_IPS: 'me' }],
  ];
  for (const [args, more] of commands) {
    const { stderr } = await runSallyport(t, args, { ...env, ...more });
    const named = stderr.split('\n').filter((line) => line.includes('is not a variable'));
    const bare = named.map((line) =>
      line.replace(/^(warning: |sallyport( \w+)?: )/, '').replace(/ \[unknown-variable\]$/, ''),
    );
    t.same(bare.sort(), [...wanted].sort(), `${args[0]} ${Object.keys(more)}`);
  }
});

t.test('misspelt kinds', async (t) => {
  const folder = temporaryFolder(t);
  const rows: readonly (readonly [written: string, meant: string | null])[] = [
    ['Sever', 'Server'],
    ['server', 'Server'],
    ['Servers', 'Server'],
    ['ServerAuthorisation', 'ServerAuthorization'],
    ['AuthorisationPolicy', 'AuthorizationPolicy'],
    ['AuthorizationPolcy', 'AuthorizationPolicy'],
    ['MeshTlsAuthentication', 'MeshTLSAuthentication'],
    ['NetworkAuthentification', 'NetworkAuthentication'],
    ['HttpRoute', 'HTTPRoute'],
  ];
  for (const [written, meant] of rows) {
    writeFileSync(join(folder, 'p.yaml'), server('80', written));
    const { code, stdout } = await runSallyport(t, ['check', folder]);
    t.equal(code, 1, written);
    t.match(stdout, new RegExp(`hint: Did you mean .*\\b${meant}\\b.*\\?`), written);
  }
});
