import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { lineMemory, SharedLineGate } from '../../../lib/shared/line-gate.ts';
import { ClientLines } from '../../../lib/telemetry/client-lines.ts';
import { type LineBatch, LineChannel, takeLines } from '../../../lib/telemetry/line-channel.ts';
import { type LineGate, openGate } from '../../../lib/telemetry/line-gate.ts';
import { type LineMessage, LineRules } from '../../../lib/telemetry/line-rules.ts';
import { until, within } from '../../support/until.ts';
import type { Writing } from './writing-thread.ts';

const key = { hi: 5, lo: 6 };

const rules = new LineRules();

interface Writer {
  /** The fields of the line, or null where there is none. */
  tell(client: string, message?: LineMessage): object | null;
}

function writer(gate: LineGate, nowMs: () => number): Writer {
  const written: object[] = [];
  const take = (fields: object): void => void written.push(fields);
  const log = { info: take, warn: take, error: take, isLevelEnabled: (level: string) => level !== 'debug' };
  const lines = new ClientLines({ log: log as never, nowMs, gate, rules });
  return {
    tell(client, message = 'Request malformed') {
      lines.tell(message, { cause: 'web', client }, () => ({ code: 'limit-reached' }));
      const [fields] = written.splice(0);
      if (fields === undefined) return null;
      const { code: _, ...counts } = fields as { code?: string };
      return counts;
    },
  };
}

t.test('lines of two threads keep the rules of one', async (t) => {
  let nowMs = 1000;
  const clock = () => nowMs;
  const memory = lineMemory(key);
  const threads = [0, 1].map(() => writer(new SharedLineGate(memory, rules, clock), clock));
  const [a, b] = threads as [Writer, Writer];
  t.same(a.tell('10.1.2.3'), {});
  t.equal(b.tell('10.1.2.3'), null, 'the other has just told of it');
  t.equal(a.tell('10.1.2.3'), null);
  t.same(b.tell('10.1.2.4'), { omitted: 1 }, 'nobody has told of this one');
  nowMs += 30_000;
  t.equal(b.tell('10.1.2.3'), null);
  nowMs += 30_000;
  t.same(b.tell('10.1.2.3'), { omitted: 1 }, 'a minute later it may be the other');
  t.equal(a.tell('10.1.2.3'), null, 'and then not this one');
  nowMs += 60_000;
  t.same(a.tell('10.1.2.3'), { times: 3 }, 'each says what it has not told');

  nowMs += 60_000;
  let told = 0;
  for (let i = 0; i < 1000; i++) if (threads[i % 2]?.tell(`10.2.0.${i}`) !== null) told++;
  t.equal(told, 60, 'in a minute');
  nowMs += 59_000;
  t.equal(a.tell('10.3.0.1'), null);
  nowMs += 1000;
  t.ok(a.tell('10.3.0.2'));
});

t.test('with and without a gate one thread tells the same of forty clients', async (t) => {
  for (const message of ['Not the HTTP that the Server declares', 'Request denied', 'Limit reached'] as const) {
    let nowMs = 1;
    const clock = () => nowMs;
    const shared: LineGate = new SharedLineGate(lineMemory(key), rules, clock);
    const [alone, gated] = [openGate, shared].map((gate) => writer(gate, clock));
    for (let i = 0; i < 5000; i++) {
      nowMs += (i * 7919) % 997;
      const who = `10.0.0.${(i * 31) % 40}`;
      const [wanted, seen] = [alone?.tell(who, message), gated?.tell(who, message)];
      if ((wanted === null) !== (seen === null)) t.same(seen, wanted, `${message}, event ${i}`);
    }
    t.pass(`in 5,000 events: ${message}`);
  }
});

t.test('every line of four threads arrives whole, in its order, and once', async (t) => {
  const lines: string[] = [];
  const sink = { write: (text: string) => void lines.push(...text.split('\n').slice(0, -1)) };
  const each = 3000;
  const workers = Array.from({ length: 4 }, (_, thread) => {
    const underway = new Int32Array(new SharedArrayBuffer(4));
    const workerData: Writing = { thread, lines: each, underway };
    const worker = new Worker(new URL('./writing-thread.ts', import.meta.url), { workerData });
    worker.on('message', (batch: LineBatch) => takeLines(batch, sink, underway));
    return { worker, underway };
  });
  await within('the threads', 20_000, Promise.all(workers.map(({ worker }) => once(worker, 'exit'))));
  await until('the last lines are there', () => lines.length === 4 * each);
  for (let thread = 0; thread < 4; thread++) {
    const own = lines.filter((line) => line.startsWith(`${thread} `));
    t.same(
      own.map((line) => Number(line.split(' ')[1])),
      Array.from({ length: each }, (_, i) => i),
      `of thread ${thread}`,
    );
    t.ok(own.every((line) => line.endsWith(' end')));
  }
  for (const { underway } of workers) t.equal(underway[0], 0, 'nothing is under way');
});

t.test('lines that nobody takes are dropped and counted, not kept without bound', async (t) => {
  const underway = new Int32Array(new SharedArrayBuffer(4));
  const sent: LineBatch[] = [];
  const channel = new LineChannel((batch) => void sent.push(batch), underway);
  const line = `${'x'.repeat(1023)}\n`;
  for (let i = 0; i < 5000; i++) channel.write(line);
  channel.flush();
  const written = sent.reduce((sum, { lines }) => sum + lines, 0);
  t.equal(written, 1024, 'a mebibyte of them');
  t.equal(channel.dropped, 5000 - written);
  const taken: number[] = [];
  for (const batch of sent) takeLines(batch, { write: (_, lines = 1) => void taken.push(lines) }, underway);
  t.equal(
    taken.reduce((sum, lines) => sum + lines, 0),
    written,
    'the sink is told how many lines it is given',
  );
  channel.write(line);
  channel.flush();
  t.equal(channel.dropped, 5000 - written, 'once they are taken there is room again');
});
