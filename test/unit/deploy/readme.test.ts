import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import t from 'tap';
import { bareEnvironment, checkout } from '../../support/sallyport.ts';

const page = readFileSync(join(checkout, 'lib/deploy/README.md'), 'utf8');

t.test('the session of the page: what the commands print is what is shown', async (t) => {
  const [workload = '', policy = ''] = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text);
  const [, session = ''] = /```console\n(.*?)```/s.exec(page) ?? [];
  const folder = t.testdir({ 'web.yaml': workload, policy: { 'web.yaml': policy } });
  const path = `${join(checkout, 'bin')}${delimiter}${process.env.PATH ?? ''}`;
  const env: NodeJS.ProcessEnv = { ...bareEnvironment({}), PATH: path, NO_COLOR: '1' };
  const steps = session.split(/^\$ /m).slice(1);
  t.ok(steps.length > 6, 'commands are found at all');
  for (const step of steps) {
    const [command = '', ...shown] = step.trimEnd().split('\n');
    if (command.startsWith('export ')) {
      for (const [, name = '', value] of command.matchAll(/(\w+)=(\S+)/g)) env[name] = value;
      continue;
    }
    // As on a terminal: both streams.
    const { stdout } = spawnSync('sh', ['-c', `{ ${command}; } 2>&1`], { cwd: folder, env, encoding: 'utf8' });
    t.equal(stdout.trimEnd(), shown.join('\n'), command);
  }
  t.match(readFileSync(join(folder, 'policy.yaml'), 'utf8'), 'kind: ConfigMap');
});

t.test('the grant for the scraper', async (t) => {
  const [, , grant = ''] = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text);
  const folder = t.testdir({ 'metrics.yaml': grant });
  const env = { ...bareEnvironment({}), SALLYPORT_POD_NAMESPACE: 'shop' };
  const sallyport = (...args: readonly string[]) =>
    spawnSync(join(checkout, 'bin/sallyport'), args, { env, encoding: 'utf8' });
  t.match(sallyport('check', folder), { status: 0, stdout: '3 documents: 0 errors, 0 warnings\n' });
  const scrape = (client: string) =>
    sallyport('explain', '--policy', folder, '--port', '4191', '--client', client, '--path', '/metrics');
  t.match(scrape('10.1.2.3'), { status: 0, stdout: /^permit\n {2}server {3}policy.linkerd.io\/server\/metrics/ });
  t.match(scrape('10.2.2.3'), { status: 1, stdout: /^deny/ }, 'and nobody else');
});

t.test('every flag that the page names is one', async (t) => {
  const help = spawnSync(join(checkout, 'bin/sallyport'), ['inject', '--help'], { encoding: 'utf8' }).stdout;
  const lines = page.split('\n').filter((line) => line.includes('sallyport inject') || /^\| `--/.test(line));
  const flags = lines.flatMap((line) => line.match(/--(?!help)[a-z][-a-z]+/g) ?? []);
  t.ok(flags.length > 8, 'flags are found at all');
  for (const flag of flags) t.ok(help.includes(flag), flag);
});
