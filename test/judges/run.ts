/**
 * Other people's test programs against a running Sallyport: `node test/judges/run.ts [NAME…]`. One line each, and exit
 * status 1 when any of them finds anything. Where a program cannot be had, that is said, and is no failure here; CI makes
 * it one by `--all`.
 */
import { conformance } from './conformance.ts';
import { grpcInterop } from './grpc-interop.ts';
import { h2spec } from './h2spec.ts';
import { slowClients } from './slow-clients.ts';
import { type Judge, Stage, type Verdict } from './stage.ts';
import { testssl } from './tls.ts';

const judges: readonly Judge[] = [h2spec, grpcInterop, conformance, slowClients, testssl];

const args = process.argv.slice(2);
const names = args.filter((arg) => !arg.startsWith('--'));
let passed = 0;
let failed = 0;
for (const judge of judges) {
  if (names.length > 0 && !names.includes(judge.name)) continue;
  const began = performance.now();
  const absent = await judge.prepare();
  if (absent !== null) {
    console.log(`${judge.name}: cannot be had: ${absent}`);
    if (args.includes('--all')) failed++;
    continue;
  }
  const verdict = await judged(judge);
  const { cases, note } = verdict;
  const seconds = Math.round((performance.now() - began) / 1000);
  const more = note === undefined ? '' : `, ${note}`;
  console.log(`${judge.name}: ${verdict.passed} of ${cases}, ${verdict.failed.length} failed${more} (${seconds} s)`);
  for (const line of verdict.failed) console.log(`  ${line}`);
  if (verdict.failed.length === 0) passed++;
  else failed++;
}
console.log(`judges: ${passed} satisfied, ${failed} not`);
process.exitCode = failed === 0 ? 0 : 1;

async function judged(judge: Judge): Promise<Verdict> {
  const stage = new Stage();
  try {
    return await judge.judge(stage);
  } catch (error) {
    return { cases: 0, passed: 0, failed: [String(error)] };
  } finally {
    await stage.clear();
  }
}
