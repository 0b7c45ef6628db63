import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import t from 'tap';
import { type Finished, missing, runToEnd, startChild } from '../support/children.ts';
import { patternOf, stepsOf } from '../support/console-session.ts';
import { temporaryFolder } from '../support/files.ts';
import { freePorts } from '../support/ports.ts';
import { section } from '../support/readme-page.ts';
import { bareEnvironment, checkout } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/*
 * README's first policy before an app, as somebody types it who follows the page: a shell, a proxy, curl. Only the ports
 * are others, and the admin server is off.
 */
t.setTimeout(900_000);

const [port = 0, app = 0, health = 0] = await freePorts(3);
const walk = section('First policy');
const [policy = ''] = [...walk.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = '']) => text);
const [first = '', second = ''] = [...walk.matchAll(/```console\n(.*?)```/gs)].map(([, text = '']) => text);

const ownPorts = (text: string): string =>
  text.replace(/\b(8080|3000)\b/g, (known) => String(known === '8080' ? port : app));

t.test('what is shown, as a pattern', async (t) => {
  t.match('a (1)\nb', patternOf('a (1)\nb'));
  t.match('a 1 b\n', patternOf('a … b\n'));
  t.notMatch('a 1 bc\n', patternOf('a … b\n'));
  t.notMatch('xa\n', patternOf('a\n'));
});

t.test('the walk', { skip: await missing(t, 'curl', 'sh', 'grep') }, async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'policy'));
  writeFileSync(join(folder, 'policy', 'web.yaml'), ownPorts(policy));
  const path = [join(checkout, 'bin'), dirname(process.execPath), process.env.PATH].join(delimiter);
  const env: Record<string, string> = {
    PATH: path,
    SALLYPORT_ADMIN_LISTEN: 'off',
    SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${health}`,
  };
  // What the first session has set and mended holds for the second.
  const kept = stepsOf(first).filter(({ command }) => /^(export|sed) /.test(command));
  t.equal(kept.length, 2);
  const steps = stepsOf(second);
  t.ok(steps.length > 8, 'commands are found at all');
  for (const { command: typed, shown } of [...kept, ...steps]) {
    const command = ownPorts(typed);
    if (command.startsWith('export ')) {
      for (const [, name = '', value = ''] of command.matchAll(/(\w+)=(\S+)/g)) env[name] = value;
      continue;
    }
    const options = { cwd: folder, env: bareEnvironment(env) };
    if (command.endsWith(' &')) {
      await startChild(t, 'sh', ['-c', `exec ${command.slice(0, -2)}`], options);
      continue;
    }
    const run = (): Promise<Finished> => runToEnd(t, 'sh', ['-c', command], { ...options, timeoutMs: 60_000 });
    // The log is written a moment after the answer, and nobody types as fast.
    const looks = command.startsWith('grep ');
    const { stdout, stderr } = looks
      ? await until(typed, async () => {
          const found = await run();
          return found.code === 0 && found;
        })
      : await run();
    t.match(stdout.replaceAll('\r', ''), patternOf(ownPorts(shown)), typed);
    t.equal(stderr, '', typed);
  }
});

t.test('Start: what the demo prints, word for word', { skip: await missing(t, 'sh') }, async (t) => {
  const [step, ...more] = stepsOf(/```console\n(.*?)```/s.exec(section('Start'))?.[1] ?? '');
  t.same(more, []);
  t.equal(step?.command, 'npm start');
  // What npm runs when all is installed.
  const { scripts } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
  const env = bareEnvironment({ PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) });
  const demo = await startChild(t, 'sh', ['-c', scripts.start], { cwd: checkout, env });
  await until('the demo to say what to try', () => demo.stdout().includes('Ctrl-C ends the demo.\n'), {
    timeoutMs: 30_000,
    lastSeen: () => demo.stdout() + demo.stderr(),
  });
  let printed = demo.stdout();
  for (const [line, taken = '', given = ''] of printed.matchAll(/^Port (\d+) is taken: the \w+ is on (\d+)\.\n/gm)) {
    printed = printed.replace(line, '').replaceAll(`:${given}`, `:${taken}`);
  }
  const [said = ''] = /^Sallyport stands.*Ctrl-C ends the demo\.$/ms.exec(printed) ?? [];
  const [, folder = ''] = / --cacert (\S+)\/ca\.crt/.exec(said) ?? [];
  t.equal(said.replaceAll(folder, '/tmp/sallyport-demo'), step?.shown.trim());
  await demo.end('SIGTERM', 15_000);
});
