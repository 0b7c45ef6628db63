/** Prints a MicroResult: what one decision costs, by the size and the shape of the policy. */
import { authorizerOf } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { threadCpuMs } from '../process-usage.ts';
import { median } from '../statistics.ts';
import {
  manyAuthorizations,
  manyNetworks,
  manyRoutes,
  manyServers,
  type PolicySet,
  seededRandom,
  workload,
} from './documents.ts';
import type { MicroResult } from './micro.ts';

const quick = process.argv.includes('--quick');
const repetitions = quick ? 3 : 9;
const repetitionMs = quick ? 20 : 100;
/** Enough that neither the caches nor the branch predictor know the answer beforehand. */
const questionCount = 4096;

/** Median, over the repetitions, of the mean CPU time of one decision. @throws when any verdict is not the known one. */
function decisionNanos(set: PolicySet): number {
  const read = readDocuments(set.documents.map((value) => ({ value, file: 'bench.yaml', position: () => at })));
  const compiled = compileNow(read.documents, workload);
  const errors = [...read.problems, ...compiled.problems].filter(({ severity }) => severity === 'error');
  if (errors.length > 0) throw new Error(`the policy is faulty: ${errors[0]?.message}`);
  const authorizer = authorizerOf(compiled.index, () => performance.now());

  const random = seededRandom();
  const questions = Array.from({ length: questionCount }, () => set.question(random));
  const once = (): void => {
    for (const { port, client, request, verdict } of questions) {
      const decision = authorizer.request(authorizer.port(port), client, request);
      if (decision.kind !== verdict) {
        throw new Error(`${request.path} on port ${port} from ${client.ip.text}: ${decision.kind}, not ${verdict}`);
      }
    }
  };
  const nanos: number[] = [];
  // The first is for the compiler and is not counted.
  for (let repetition = 0; repetition <= repetitions; repetition++) {
    const started = threadCpuMs();
    let passes = 0;
    do {
      once();
      passes += 1;
    } while (threadCpuMs() - started < repetitionMs);
    if (repetition > 0) nanos.push(((threadCpuMs() - started) * 1e6) / (passes * questionCount));
  }
  return median(nanos);
}
const at = { line: 1, column: 1 };

const sizes = quick ? [10, 1000] : [10, 1000, 10_000];
const shapes = { servers: manyServers, routes: manyRoutes, authorizations: manyAuthorizations } as const;
const rows: [string, number, number][] = [];
for (const [shape, make] of Object.entries(shapes)) {
  for (const size of sizes) rows.push([shape, size, Math.round(decisionNanos(make(size)))]);
}
for (const size of quick ? [1000] : [100, 10_000, 100_000]) {
  rows.push(['networks', size, Math.round(decisionNanos(manyNetworks(size)))]);
}
const result: MicroResult = { columns: ['policy of', 'how many', 'ns per decision'], rows };
process.stdout.write(JSON.stringify(result));
