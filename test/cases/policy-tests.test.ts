/**
 * Every policy that is shipped or shown has a test of its own, which passes, exercises all of it, and fails where any document
 * of the policy is taken away or opened.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parseCommandLine } from '../../bin/arguments.ts';
import { demoPolicy, demoPolicyTest } from '../../bin/demo-policy.ts';
import { main as testCommand } from '../../bin/policy-test.ts';
import { commandHere, type Printed } from '../support/command-here.ts';
import { temporaryFolder } from '../support/files.ts';
import { section, textOf } from '../support/readme-page.ts';
import { runSallyport } from '../support/sallyport.ts';

/** The blocks of YAML in a section. */
function blocksOf(text: string): string[] {
  return [...text.matchAll(/```yaml\n(.*?)```/gs)].map(([, block = '']) => block);
}

const own = (name: string): string => readFileSync(join(import.meta.dirname, 'policy-tests', name), 'utf8');
const [shown = ''] = blocksOf(section('First policy'));
const [shownTest = ''] = blocksOf(section('Testing a policy'));
const inKubernetes = blocksOf(section('The way', [textOf('lib/deploy/README.md')])).filter((block) =>
  block.includes('policy.linkerd.io'),
);

const rows: readonly (readonly [name: string, policy: string, test: string])[] = [
  ['the demo', demoPolicy, demoPolicyTest.replace('policy: policy.yaml', 'policy: policy')],
  // The page goes on to mend its mistake.
  ['README', shown.replace('name: order }', 'name: orders }'), shownTest],
  ['In Kubernetes', inKubernetes.join('---\n'), own('in-kubernetes.yaml')],
];

function stage(t: Test, test: string): (policy: string, flags?: readonly string[]) => Promise<Printed> {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'policy'));
  writeFileSync(join(folder, 'test.yaml'), test);
  return (policy, flags = []) => {
    writeFileSync(join(folder, 'policy/all.yaml'), policy);
    const line = parseCommandLine('test', [join(folder, 'test.yaml'), ...flags]);
    return commandHere((io) => testCommand(line, io));
  };
}

t.test('the folder of the demo is a folder of policy, its test included', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'policy.yaml'), demoPolicy);
  writeFileSync(join(folder, 'policy-test.yaml'), demoPolicyTest);
  const { code, stdout } = await runSallyport(t, ['check', folder]);
  t.equal(code, 0, stdout);
  t.match(stdout, /^8 documents: 0 errors, 0 warnings, 1 allowed$/m);
});

for (const [name, policy, test] of rows) {
  t.test(name, async (t) => {
    const run = stage(t, test);
    const whole = await run(policy, ['--require-coverage', '100']);
    t.equal(whole.code, 0, whole.stdout + whole.stderr);
    // The demo lets everybody read what is public, and is told so.
    t.notMatch(whole.stderr.replaceAll('[admits-everyone]', ''), /\[/, 'nothing else is doubtful');
    const documents = policy.split(/^---\n/m);
    t.ok(documents.length > 2, 'documents are found at all');
    for (const [i, document] of documents.entries()) {
      const [, kind] = /^kind: (\w+)$/m.exec(document) ?? [];
      const without = await run(documents.filter((_, at) => at !== i).join('---\n'));
      t.equal(without.code, 1, `without its ${kind} it fails`);
      if (kind !== 'AuthorizationPolicy') continue;
      const open = document.replace(/requiredAuthenticationRefs:[\s\S]*$/, 'requiredAuthenticationRefs: []\n');
      if (open === document || /requiredAuthenticationRefs: \[\]/.test(document)) continue;
      const opened = await run(documents.with(i, open).join('---\n'));
      t.equal(opened.code, 1, `with its ${kind} for everybody it fails`);
    }
  });
}
