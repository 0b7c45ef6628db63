/** What documents, file names, requests and the environment say stays inside the line in which a command repeats it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { jsonText, oneLine } from '../../../lib/printable.ts';
import { runSallyport } from '../../support/sallyport.ts';

/** A line's end in every spelling, a cleared screen in both, and text turned round. */
const hostile =
  'x\n0 documents: forged\r\u0085\u2028\u2029\u001b[2J\u009b2J\u007f\u202e\u2066\u061c\u200b\u200f\u00ad\ufeff\u{e0041}';
const raw = /[^\P{Cc}\n]|[\u2028\u2029\u202e\u2066\u061c\u200b\u200f\u00ad\ufeff\u{e0041}]/u;

t.test('one line', async (t) => {
  t.equal(oneLine('as it is: é ✓ "quoted" \\n'), 'as it is: é ✓ "quoted" \\n');
  t.equal(oneLine('a\nb\tc\u001b\u009b\u2028'), 'a\\nb\\tc\\u001b\\u009b\\u2028');
  t.same(JSON.parse(jsonText({ [hostile]: [hostile] }, 2)), { [hostile]: [hostile] });
  t.notMatch(jsonText({ [hostile]: hostile }), raw);
});

t.test('every command', async (t) => {
  const folder = t.testdir();
  // A file's name may hold all but NUL and the slash.
  const policy = join(folder, hostile);
  mkdirSync(policy);
  const quoted = JSON.stringify(hostile);
  const document = (kind: string, spec: string, name = quoted): string =>
    `---\napiVersion: policy.linkerd.io/v1beta3\nkind: ${kind}\nmetadata: {name: ${name}, namespace: shop}\nspec: ${spec}\n`;
  writeFileSync(
    join(policy, `${hostile}.yaml`),
    document('Server', `{podSelector: {}, port: 80, accessPolicy: ${quoted}, ${quoted}: 1}`, 'web') +
      document('Server', '{}') +
      document(quoted, '{}') +
      document('HTTPRoute', `{parentRefs: [{kind: Server, name: ${quoted}}]}`, 'r') +
      document('HTTPRoute', `{parentRefs: [{group: policy.linkerd.io, kind: Server, name: ${quoted}}]}`, 'r2') +
      `---\n${quoted}: 1\n--- [\n`,
  );
  writeFileSync(join(policy, 'broken.yaml'), `a: &x [\n${hostile}`);
  const workload = `apiVersion: v1\nkind: Pod\nmetadata: {name: ${quoted}}\nspec: {containers: [{name: a, image: b, livenessProbe: {httpGet: {path: ${quoted}, port: 80}}}]}\n`;
  writeFileSync(join(folder, 'pod.yaml'), workload);
  writeFileSync(
    join(folder, 'requests.jsonl'),
    `{"port": ${quoted}}\n{${quoted}: 1, "port": 80, "client": "10.1.2.3"}\n`,
  );
  const asked = `port: 80, client: 10.1.2.3, path: ${JSON.stringify(`/${hostile}`)}, host: ${quoted}, headers: {a: ${quoted}}`;
  writeFileSync(
    join(folder, 'test.yaml'),
    `policy: pod.yaml\ncases: [{name: ${quoted}, ${asked}, expect: {verdict: permit, route: ${quoted}}}]\n`,
  );
  writeFileSync(
    join(folder, 'faulty.yaml'),
    `pod: {namespace: ${quoted}}\npolicy: ${quoted}\n${quoted}: ${quoted}\ncases: [{port: ${quoted}, from: ${quoted}, expect: ${quoted}}]\n`,
  );
  const question = ['--port', '80', '--client', '10.1.2.3'];
  const rows: readonly (readonly [args: readonly string[], env?: Record<string, string>])[] = [
    [['check', policy]],
    [['check', policy, '--json']],
    [['check', join(folder, `none ${hostile}`)]],
    [['check', policy, hostile]],
    [['check', `--${hostile}`]],
    [['check', policy], { SALLYPORT_POD_LABELS: hostile, SALLYPORT_POD_NAMESPACE: hostile }],
    [['explain', '--policy', policy, ...question, '--path', `/${hostile}`, '--host', hostile]],
    [['explain', '--policy', join(folder, 'pod.yaml'), ...question, '--identity', hostile, '--path', `/${hostile}`]],
    [['explain', '--policy', join(folder, 'pod.yaml'), ...question, '--header', `${hostile}: ${hostile}`]],
    [['explain', '--policy', join(folder, 'pod.yaml'), '--port', hostile, '--client', hostile]],
    [['explain', '--policy', join(folder, 'pod.yaml'), '--requests', join(folder, 'requests.jsonl')]],
    [['explain', '--policy', join(folder, 'pod.yaml'), '--requests', join(folder, hostile, hostile)]],
    [['test', join(folder, 'test.yaml')]],
    [['test', join(folder, 'test.yaml'), '--json']],
    [['test', join(folder, 'test.yaml'), '--tap']],
    [['test', join(folder, 'test.yaml'), '--junit', '-']],
    [['test', join(folder, 'faulty.yaml'), join(folder, hostile)]],
    [['inject', join(folder, 'pod.yaml'), '--json']],
    [['inject', join(folder, 'pod.yaml'), policy]],
    [['inject', join(folder, `${hostile}`, hostile)]],
    [['inject', '--print-policy-configmap', policy]],
    [['certs', 'init', '--out', join(folder, 'pod.yaml', hostile)]],
    [['certs', 'issue', '--out', policy, '--dns', hostile]],
    [['iptables', '--print', '--admin-port', hostile]],
    [['health', hostile]],
    [['run'], { SALLYPORT_POD_PORTS: hostile, SALLYPORT_POLICY: policy, SALLYPORT_LOG: hostile }],
    [[hostile]],
  ];
  for (const [args, env] of rows) {
    const title = `${args[0]} ${env === undefined ? '' : Object.keys(env)[0]}${args.length > 1 ? ` ${args.length}` : ''}`;
    const { stdout, stderr } = await runSallyport(t, args, env ?? {});
    // What inject prints is its input, for programs.
    const said = args[0] === 'inject' ? stderr : `${stdout}${stderr}`;
    const lines = said.split('\n');
    t.not(said, '', oneLine(`${title}: it says something`));
    t.notMatch(said, raw, oneLine(title));
    t.notOk(
      lines.some((line) => line.startsWith('0 documents: forged')),
      oneLine(`${title}: no line is forged`),
    );
  }
});
