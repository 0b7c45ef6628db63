/** Prints a MicroResult: recorded decisions that are replayed in a second of one core, by how many of them are different. */
import { authorizerOf } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { readRecords } from '../../lib/records/read.ts';
import { Comparison } from '../../lib/replay/differences.ts';
import { WantedValues } from '../../lib/replay/hashed.ts';
import { threadCpuMs } from '../process-usage.ts';
import { median } from '../statistics.ts';
import { manyRoutes, seededRandom, workload } from './documents.ts';
import type { MicroResult } from './micro.ts';

const quick = process.argv.includes('--quick');
const lines = quick ? 50_000 : 500_000;
const repetitions = quick ? 2 : 3;
const columns = ['different decisions', 'decisions a second', 'MB a second'];

const at = { line: 1, column: 1 };
const set = manyRoutes(100);
const read = readDocuments(set.documents.map((value) => ({ value, file: 'bench.yaml', position: () => at })));

const { index } = compileNow(read.documents, workload);

/** As the proxy records them, `kinds` different ones in a random order; as many as there are lines: none comes again. */
function logOf(kinds: number): Buffer {
  const random = seededRandom();
  const tails = Array.from({ length: kinds }, (_, i) => {
    const { port, client, request, verdict } = set.question(random);
    const asked = {
      port,
      client: client.ip.text,
      protocol: 'http1',
      method: request.method,
      path: `${request.path}?${i}`,
    };
    const answered = { host: 'web', verdict, server: { group: 'policy.linkerd.io', kind: 'server', name: 'web' } };
    return JSON.stringify({ ...asked, ...answered }).slice(1);
  });
  const text: string[] = [];
  for (let i = 0; i < lines; i++) {
    const time = new Date(Date.UTC(2026, 10, 20) + i).toISOString();
    text.push(`{"decision":1,"time":"${time}",${tails[kinds === lines ? i : Math.floor(random() * kinds)]}\n`);
  }
  return Buffer.from(text.join(''), 'latin1');
}

async function replay(log: Buffer): Promise<void> {
  let nowMs = 0;
  const authorizer = authorizerOf(index, () => (nowMs += 3_600_000));
  const portOf = (port: number | string | null | undefined): number | null => (typeof port === 'number' ? port : null);
  const comparison = new Comparison({ authorizer, portOf, wanted: new WantedValues(read.documents) }, null);
  async function* bytes(): AsyncGenerator<Uint8Array> {
    for (let from = 0; from < log.length; from += 512 * 1024) yield log.subarray(from, from + 512 * 1024);
  }
  const tally = await readRecords([{ name: 'log', bytes: bytes() }], {
    record: (record, occurrence) => comparison.add(record, occurrence),
    bad: ({ message }) => {
      throw new Error(message);
    },
  });
  if (tally.decisions !== lines) throw new Error(`${tally.decisions} decisions instead of ${lines}`);
}

const rows: (string | number)[][] = [];
for (const kinds of [100, 10_000, lines]) {
  const log = logOf(kinds);
  const times: number[] = [];
  // The first is for the compiler and is not counted.
  for (let repetition = 0; repetition <= repetitions; repetition++) {
    const started = threadCpuMs();
    await replay(log);
    if (repetition > 0) times.push(threadCpuMs() - started);
  }
  const seconds = median(times) / 1000;
  rows.push([kinds, Math.round(lines / seconds), Math.round(log.length / 1e6 / seconds)]);
}
const result: MicroResult = { columns, rows };
process.stdout.write(`${JSON.stringify(result)}\n`);
