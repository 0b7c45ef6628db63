import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { parse } from 'yaml';
import { tied } from '../../support/children.ts';
import { bareEnvironment, runSallyport, sallyportCommand } from '../../support/sallyport.ts';
import { deployment } from './fixtures.ts';

const web = deployment('      containers: [{name: web, image: web:1}]\n');
const refused = web.replace('    spec:\n', '    spec:\n      hostNetwork: true\n');
const service = 'apiVersion: v1\nkind: Service\nmetadata: {name: web}';

t.test('files', async (t) => {
  const folder = t.testdir({ 'web.yaml': web, 'service.yaml': service, 'refused.yaml': refused });
  const [file, other, bad] = ['web.yaml', 'service.yaml', 'refused.yaml'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const one = await runSallyport(t, ['inject', file, '--image', 'registry.example.com/s:1', '--identity-secret', 'id']);
  t.match(one, { code: 0, stderr: `${file}:1: Deployment shop/web: injected\n` });
  t.match(one.stdout, 'image: registry.example.com/s:1');
  t.match(one.stdout, 'secretName: id');

  const both = await runSallyport(t, ['inject', other, file]);
  t.match(both.stdout, `${service}\n---\n${web.slice(0, 40)}`, 'several files are one stream');

  const json = await runSallyport(t, ['inject', '--json', file, bad]);
  const report = JSON.parse(json.stderr);
  t.match(json, { code: 1, stdout: '' }, 'with an error nothing is printed');
  t.match(report, { ok: false, problems: [{ code: 'host-network', file: bad, line: 9 }] });

  const missing = await runSallyport(t, ['inject', join(folder, 'none.yaml'), folder]);
  t.match(missing, {
    code: 1,
    stdout: '',
    stderr: /none\.yaml.*no such file[\s\S]*is a folder[\s\S]*Name a file in it/,
  });

  const nothing = await runSallyport(t, ['inject', other]);
  t.match(nothing, { code: 0, stdout: service, stderr: /no workload was found/ });

  const free = await runSallyport(t, ['inject', '--uninject', file]);
  t.match(
    free,
    { code: 0, stdout: web, stderr: /^\S+:1: Deployment shop\/web: unchanged\n$/ },
    'there was nothing in it',
  );
});

t.test('a pipe, there and back', async (t) => {
  const pipe = async (args: readonly string[], input: string): Promise<string> => {
    const child = spawn(...tied(sallyportCommand, args), {
      env: bareEnvironment({}),
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    child.stdin.end(input);
    const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    return output;
  };
  const injected = await pipe(['inject', '-'], web);
  t.match(injected, 'sallyport-init');
  t.equal(await pipe(['inject', '-'], injected), injected);
  t.equal(await pipe(['inject', '-', '--uninject'], injected), web);
});

t.test('wrong usage', async (t) => {
  const rows: [args: string[], message: RegExp][] = [
    [[], /nothing to inject/],
    [['-', '--default-inbound-policy', 'allow'], /"allow" is not known/],
    [['-', '--opaque-ports', 'mysql'], /--opaque-ports: "mysql"/],
    [['-', '--skip-inbound-ports', '9-8'], /--skip-inbound-ports/],
    [['-', '--policy-configmap', 'A_B'], /"A_B" is not a DNS name/],
    [['-', '--image', 'a b'], /names no image/],
    [['-', '--admin-port', '0'], /is not a port/],
    [['-', '--admin-port', '4192'], /two listeners/],
    [['-', '--admin-port', '4143'], /two listeners/],
    [['-', '--inbound-ports', '4191=127.0.0.1:3000'], /two listeners/],
    [
      ['-', '--inbound-ports', '8080=127.0.0.1:1,8080=127.0.0.1:2'],
      /two listeners cannot share a port, as they would 8080/,
    ],
    [
      ['-', '--inbound-ports', '8080=127.0.0.1:8080'],
      /the app cannot listen on port 8080 of 127\.0\.0\.1, where the proxy does/,
    ],
    [['-', '--inbound-ports', '8080=[::1]:4191'], /the app cannot listen on port 4191 of ::1/],
    [['-', '--inbound-ports', '8080=localhost:8080'], /the app cannot listen on port 8080 of localhost/],
    [['-', '--proxy-memory-limit', '1Gb'], /--proxy-memory-limit: "1Gb" is not an amount/],
    [['-', '--identity-secret', '{namespace}'], /"\{namespace\}" is not a DNS name/],
    [['-', '--name', 'x'], /--name has no meaning here/],
    [['-', '--uninject', '--image', 'x'], /--image has no meaning with --uninject/],
    [['--print-pod-monitor', 'file'], /takes no files/],
    [['-', '--imgae', 'x'], /did you mean --image/],
  ];
  for (const [args, message] of rows) {
    t.match(await runSallyport(t, ['inject', ...args]), { code: 64, stdout: '', stderr: message }, args.join(' '));
  }
});

t.test('a policy folder as a ConfigMap', async (t) => {
  const server = `apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: { name: web }
spec: { podSelector: {}, port: 8080 }
`;
  const good = t.testdir({ policy: { 'web.yaml': server }, bad: { 'web.yaml': server.replace('8080', '0') } });
  const made = await runSallyport(t, [
    'inject',
    '--print-policy-configmap',
    join(good, 'policy'),
    '--namespace',
    'shop',
  ]);
  t.equal(made.code, 0, made.stderr);
  const { metadata, data } = parse(made.stdout);
  t.same([metadata, data], [{ name: 'sallyport-policy', namespace: 'shop' }, { 'web.yaml': server }]);
  const wrong = await runSallyport(t, ['inject', '--print-policy-configmap', join(good, 'bad')]);
  t.match(wrong, { code: 1, stdout: '', stderr: /web\.yaml:4:/ }, 'what check refuses is not printed');
  const monitor = await runSallyport(t, ['inject', '--print-pod-monitor', '--name', 'm']);
  t.match(parse(monitor.stdout), { kind: 'PodMonitor', metadata: { name: 'm' } });
});
