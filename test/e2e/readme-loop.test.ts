import { delimiter, dirname, join } from 'node:path';
import t from 'tap';
import { missing, runToEnd, startChild } from '../support/children.ts';
import { patternOf, stepsOf } from '../support/console-session.ts';
import { section } from '../support/readme-page.ts';
import { bareEnvironment, checkout } from '../support/sallyport.ts';
import { until } from '../support/until.ts';

/*
 * The page's way from an open pod to a policy, as somebody types it: the demo, what its clients do, and the commands. Only the
 * folder and the ports are others.
 */
t.setTimeout(900_000);

const [session = ''] = [...section('From an open pod to a policy').matchAll(/```console\n(.*?)```/gs)].map(
  ([, text = '']) => text,
);

t.test('the loop', { skip: await missing(t, 'curl', 'sh', 'grep', 'tee', 'cp') }, async (t) => {
  const [start, enter, ...steps] = stepsOf(session);
  t.ok(start !== undefined && enter !== undefined && steps.length === 8, 'ten commands');
  const path = [join(checkout, 'bin'), dirname(process.execPath), process.env.PATH].join(delimiter);
  const outside = bareEnvironment({ PATH: path });
  const command = start?.command.replace(/ &$/, '') ?? '';
  const demo = await startChild(t, 'sh', ['-c', `exec ${command}`], { env: outside });
  await until('the demo to say what to try', () => demo.stdout().includes('Ctrl-C ends the demo.'), {
    timeoutMs: 60_000,
    lastSeen: () => demo.stdout() + demo.stderr(),
  });
  const [, folder = ''] = / cd '?([^' ]+)'? && \. \.\/pod\.env/.exec(demo.stdout()) ?? [];
  const known = { 8080: 8080, 4191: 4191 };
  for (const [, from = '', to = ''] of demo.stdout().matchAll(/^Port (\d+) is taken: the \w+ is on (\d+)\.$/gm)) {
    Object.assign(known, { [from]: Number(to) });
  }
  const own = (text: string): string =>
    text
      .replaceAll('/tmp/sallyport-demo', folder)
      .replace(/\b(8080|4191)\b/g, (port) => String(known[port as unknown as keyof typeof known]));
  const entered = own(enter?.command ?? '');
  t.equal(entered, `cd ${folder} && . ./pod.env`);

  const ask = (typed: string) =>
    runToEnd(t, 'sh', ['-c', `${entered} && ${typed}`], { env: outside, timeoutMs: 60_000 });
  const loads = (of: RegExp): number => [...demo.stdout().matchAll(of)].length;
  const inForce = / INFO Policy loaded .*generation=/g;
  const beside = / INFO Candidate policy loaded .*generation=/g;
  await until('both policies', () => loads(inForce) === 1 && loads(beside) === 1, { timeoutMs: 60_000 });
  for (const { command: typed, shown } of steps) {
    const run = async () => {
      const { stdout, stderr } = await ask(own(typed));
      return { stdout: stdout.replaceAll('\r', ''), stderr };
    };
    const wanted = patternOf(own(shown));
    // What is written a moment after the answer: nobody types as fast.
    const isWritten = typed.includes('decisions.jsonl') || typed.includes('/candidate');
    const { stdout, stderr } = isWritten
      ? await until(typed, async () => {
          const found = await run();
          return wanted.test(found.stdout) && found;
        })
      : await run();
    t.match(stdout, wanted, typed);
    t.equal(stderr, '', typed);
    if (typed === 'cp suggested.yaml candidate.yaml') {
      await until('the candidate', () => loads(beside) === 2, { timeoutMs: 60_000 });
    }
  }
  await until('the policy', () => loads(inForce) === 2, { timeoutMs: 60_000 });
  const refused = await ask(own("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/orders/1"));
  t.equal(refused.stdout, '403', 'it is in force');
  const clients = steps.find(({ command: typed }) => typed === 'sh clients.sh');
  t.match(
    (await ask('sh clients.sh')).stdout,
    patternOf(own(clients?.shown ?? '')),
    'and the clients are served as before',
  );
  await demo.end('SIGTERM', 15_000);
});
