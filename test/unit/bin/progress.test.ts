import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { missing, runToEnd, startChild } from '../../support/children.ts';
import { temporaryFolder } from '../../support/files.ts';
import { bareEnvironment, checkout, runSallyport, sallyportCommand } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

const noTerminal = await missing(t, 'script', 'mkfifo');

const question = '{"port":80,"client":"10.1.2.3"}\n';

t.test('long work shows at a terminal how far it is, and takes that away again', { skip: noTerminal }, async (t) => {
  const folder = temporaryFolder(t);
  const [fifo, answers] = ['requests', 'answers'].map((name) => join(folder, name)) as [string, string];
  await runToEnd(t, 'mkfifo', [fifo]);
  const shell = `${sallyportCommand} explain --policy ${folder} --requests ${fifo} > ${answers}`;
  const child = await startChild(t, 'script', ['-qec', shell, '/dev/null'], {
    cwd: checkout,
    env: bareEnvironment({}),
  });
  const requests = openSync(fifo, 'r+');
  let written = 0;
  await until('a line that says how far it is', () => {
    writeSync(requests, question);
    written++;
    return /\d lines read/.test(child.stdout());
  });
  child.process.kill('SIGTERM');
  await child.exited;
  closeSync(requests);
  t.ok(written > 1);
});

t.test('nothing of it where nobody waits', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'requests');
  writeFileSync(file, question.repeat(20_000));
  const { code, stdout, stderr } = await runSallyport(t, ['explain', '--policy', folder, '--requests', file]);
  t.equal(code, 0);
  t.equal(stdout.split('\n').length, readFileSync(file, 'utf8').split('\n').length);
  t.notMatch(stderr, 'lines read');
});

t.test('the line goes away before what comes next', { skip: noTerminal }, async (t) => {
  const program = `
    import { Progress } from ${JSON.stringify(join(checkout, 'bin/progress.ts'))};
    let nowMs = 0;
    performance.now = () => nowMs;
    const progress = new Progress(process.stderr);
    progress.say(() => 'too early');
    nowMs = 1000;
    progress.say(() => 'one');
    nowMs = 1100;
    progress.say(() => 'too soon');
    nowMs = 1200;
    progress.say(() => 'two');
    progress.clear();
    process.stderr.write('a result\\n');
    nowMs = 1400;
    progress.say(() => 'three');
    progress.end();
    progress.say(() => 'over');
    process.stderr.write('next\\n');`;
  const file = join(temporaryFolder(t), 'program.ts');
  writeFileSync(file, program);
  const run = await runToEnd(t, 'script', ['-qec', `${process.execPath} ${file}`, '/dev/null'], {
    env: bareEnvironment({}),
  });
  t.equal(run.stdout, '\r\u001b[Kone\r\u001b[Ktwo\r\u001b[Ka result\r\n\r\u001b[Kthree\r\u001b[Knext\r\n');
  const piped = await runToEnd(t, process.execPath, [file], { env: bareEnvironment({}) });
  t.equal(piped.stderr, 'a result\nnext\n');
});
