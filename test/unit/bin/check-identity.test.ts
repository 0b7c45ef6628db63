import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { runSallyport } from '../../support/sallyport.ts';

t.test('check looks at the identity that the environment names', async (t) => {
  const folder = t.testdir({ ca: {}, 'policy.yaml': '' });
  await writeFile(
    join(folder, 'policy.yaml'),
    'apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web}\nspec: {podSelector: {matchLabels: {}}, port: 80}\n',
  );
  const certs = (...more: string[]) =>
    runSallyport(t, ['certs', ...more, '--out', join(folder, 'ca')], { SALLYPORT_POD_NAMESPACE: 'shop' });
  const made = await certs('init');
  t.match(made.stdout, /certs issue .*--namespace shop$/m, 'the next command is for the namespace of the pod');
  await certs('issue', '--service-account', 'web', '--namespace', 'shop');
  const file = (name: string): string => join(folder, 'ca', name);
  const identity = {
    SALLYPORT_IDENTITY_CERT: file('web.crt'),
    SALLYPORT_IDENTITY_KEY: file('web.key'),
    SALLYPORT_IDENTITY_TRUST_ANCHORS: file('ca.crt'),
  };
  const rows: readonly (readonly [name: string, more: Record<string, string>, codes: readonly string[]])[] = [
    ['sound', {}, []],
    ['a key of another certificate', { SALLYPORT_IDENTITY_KEY: file('ca.key') }, ['foreign-key']],
    ['a file that is not there', { SALLYPORT_IDENTITY_CERT: file('none.crt') }, ['identity-unreadable']],
    ['no certificate', { SALLYPORT_IDENTITY_TRUST_ANCHORS: file('ca.key') }, ['no-certificate']],
  ];
  for (const [name, more, codes] of rows) {
    const run = await runSallyport(t, ['check', '--json', join(folder, 'policy.yaml')], { ...identity, ...more });
    const { ok, problems } = JSON.parse(run.stdout) as {
      ok: boolean;
      problems: { code: string; severity: string; file: string }[];
    };
    const found = problems.filter(({ file: of }) => of.startsWith(join(folder, 'ca')));
    t.same(
      found.map(({ code }) => code),
      codes,
      name,
    );
    t.equal(ok, codes.length === 0, `${name}: ok`);
    t.equal(run.code, codes.length === 0 ? 0 : 1, `${name}: status`);
  }
});
