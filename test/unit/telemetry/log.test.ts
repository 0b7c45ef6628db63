import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { parseLevel } from '../../../lib/telemetry/log.ts';
import { tied } from '../../support/children.ts';
import { memoryLog } from './fixtures.ts';

t.test('levels', async (t) => {
  const rows: [string, string | undefined][] = [
    ['info', 'info'],
    ['WARN', 'warn'],
    [' debug ', 'debug'],
    ['off', 'off'],
    ['trace', 'trace'],
    ['error', 'error'],
    ['warn,linkerd=info', 'warn'],
    ['linkerd=info,debug', 'debug'],
    ['linkerd=info', undefined],
    ['linkerd=debug,loud,warn', undefined],
    ['silent', undefined],
    ['', undefined],
    ['30', undefined],
    ['constructor', undefined],
  ];
  for (const [input, want] of rows) t.equal(parseLevel(input), want, JSON.stringify(input));
});

t.test('the level changes while running, and a bad one changes nothing', async (t) => {
  const { log, lines } = memoryLog();
  log.logger.debug('unseen');
  t.equal(log.setLevel('debug'), true);
  log.logger.debug('seen');
  t.equal(log.setLevel('loud'), false);
  t.equal(log.level(), 'debug');
  t.equal(log.setLevel('off'), true);
  log.logger.error({ code: 'load-failed' }, 'unseen');
  t.equal(log.level(), 'off');
  t.same(
    lines.map((line) => JSON.parse(line).msg),
    ['seen'],
  );
});

t.test('JSON lines', async (t) => {
  const { log, lines } = memoryLog();
  log.logger.warn({ code: 'regex', file: 'policy.yaml', line: 3 }, 'policy not loaded');
  const { time, ...rest } = JSON.parse(lines[0] ?? '');
  t.same(rest, { level: 'warn', code: 'regex', file: 'policy.yaml', line: 3, msg: 'policy not loaded' });
  t.equal(new Date(time).toISOString(), time);
});

t.test('plain lines', async (t) => {
  const rows: [object, string, string][] = [
    [{}, 'ready', 'INFO ready'],
    [{ port: 8080, ok: false, n: 0, none: null }, 'listening', 'INFO listening port=8080 ok=false n=0'],
    [{ a: '', b: [], c: {}, d: { e: '', f: null, g: [] }, h: [''] }, 'empty', 'INFO empty h=[""]'],
    [{ server: { group: '', kind: '', name: '' } }, 'empty ref', 'INFO empty ref server=//'],
    [{ a: { b: { c: 'd' } } }, 'nested', 'INFO nested a.b.c=d'],
    [{ server: { group: '', kind: 'default', name: 'deny' } }, 'ref', 'INFO ref server=/default/deny'],
    [{ list: ['a b', 1] }, 'list', 'INFO list list=["a b",1]'],
    [{ text: 'two words', empty: '' }, 'quoted', 'INFO quoted text="two words"'],
    [{ 'odd name': 1 }, 'name', 'INFO name "odd name"=1'],
    [{}, 'message\nof two lines', 'INFO message\\nof two lines'],
  ];
  for (const [fields, message, want] of rows) {
    const { log, lines } = memoryLog('plain');
    log.logger.info(fields, message);
    t.match(lines[0], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /);
    t.equal(lines[0]?.slice(25), `${want}\n`, message);
  }
});

t.test('an error keeps its message and stack inside the line', async (t) => {
  for (const format of ['json', 'plain'] as const) {
    const { log, lines } = memoryLog(format);
    log.logger.error({ code: 'load-failed', err: new Error('broken\nhere') }, 'failed');
    t.equal(lines.length, 1);
    t.equal(lines[0]?.indexOf('\n'), (lines[0]?.length ?? 0) - 1, format);
    t.match(lines[0], 'broken\\nhere');
  }
});

/** Starts a program of some lines that may log to its standard output. */
function logging(program: string): ChildProcessByStdio<Writable, Readable, Readable> {
  const from = (name: string): string =>
    JSON.stringify(new URL(`../../../lib/telemetry/${name}.ts`, import.meta.url).href);
  const source = `import { createLog } from ${from('log')};\nimport { droppedLines } from ${from('output')};\n${program}`;
  return spawn(...tied(process.execPath, ['--input-type=module', '-e', source]), { stdio: ['pipe', 'pipe', 'pipe'] });
}

t.test('what is buffered is written at exit', async (t) => {
  const child = logging(
    `const { logger } = createLog({ level: 'info', format: 'json' });
     for (let i = 0; i < 1000; i++) logger.info({ i }, 'Request denied');
     process.exit(0);`,
  );
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  t.equal(child.exitCode, 0);
  t.equal(output.split('\n').filter((line) => line !== '').length, 1000);
});

t.test('a single line is written while the process goes on', async (t) => {
  const child = logging(
    `const { logger } = createLog({ level: 'info', format: 'plain' });
     logger.info('hello');
     setInterval(() => {}, 1000);`,
  );
  const [chunk] = await once(child.stdout, 'data');
  t.match(String(chunk), /INFO hello\n$/);
  child.kill('SIGKILL');
  await once(child, 'close');
});

t.test('a reader that went away does not end the process', async (t) => {
  const child = logging(
    `const { logger } = createLog({ level: 'info', format: 'json' });
     let left = 20;
     const log = () => {
       for (let i = 0; i < 100; i++) logger.info({ i }, 'Request denied');
       if (--left > 0) setTimeout(log, 10);
       else process.exitCode = 7;
     };
     process.stdin.resume().once('end', log);`,
  );
  child.stdout.destroy();
  child.stdin.end();
  const [errors] = await Promise.all([text(child.stderr), once(child, 'close')]);
  t.equal(
    errors,
    'sallyport: the log cannot be written to standard output (EPIPE): nobody reads it, and its lines are dropped [log-not-written]\n',
  );
  t.equal(child.exitCode, 7, 'it went on to its end');
});

t.test('a reader that does not read costs lines, not memory', async (t) => {
  const child = logging(
    `const log = createLog({ level: 'info', format: 'json' });
     const text = 'x'.repeat(1000);
     const timer = setInterval(() => {
       for (let i = 0; i < 5000; i++) log.logger.info({ text }, 'Request denied');
       if (droppedLines() < 50_000) return;
       process.stderr.write(String(process.memoryUsage().rss), () => process.kill(process.pid, 'SIGKILL'));
       clearInterval(timer);
     }, 1);`,
  );
  const errors = text(child.stderr);
  await once(child, 'exit');
  const rss = Number(await errors);
  t.ok(rss > 0 && rss < 250_000_000, `${rss} bytes resident after 50 MB that nobody took`);
  child.stdout.destroy();
});
