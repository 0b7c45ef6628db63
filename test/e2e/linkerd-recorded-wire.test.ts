/**
 * Decisions recorded from Linkerd, over real connections: status, what the app saw, and the counters with their labels. A
 * sample of them; SALLYPORT_RECORDED=all runs every one.
 */
import t, { type Test } from 'tap';
import { forAllCases, type Whose } from '../support/cases.ts';
import { type RecordedWorld, readRecordedWorlds } from '../support/linkerd-cases.ts';
import { wireCases } from '../support/linkerd-wire-cases.ts';
import { namespacesUnavailable } from '../support/namespace.ts';
import { runCasesOnTheWire } from '../support/wire-lanes.ts';

const all = process.env.SALLYPORT_RECORDED === 'all';
const unavailable = namespacesUnavailable();
if (unavailable !== null) {
  t.plan(0, unavailable);
} else {
  const timeout = all ? 1_800_000 : 280_000;
  t.setTimeout(timeout);
  await forAllCases(t, readRecordedWorlds(), onTheWire, { timeout });
}

async function onTheWire(t: Test, worlds: readonly RecordedWorld[], whose: Whose): Promise<void> {
  const generated = worlds.filter(({ id }) => /^R\d/.test(id));
  const named = worlds.filter(({ id }) => !/^R\d/.test(id));
  const whole = all || whose === 'own';
  const chosen = whole ? worlds : [...generated.filter((_, i) => i % 4 === 0), ...named.filter((_, i) => i % 2 === 0)];
  const cases = wireCases(chosen, whole ? Number.POSITIVE_INFINITY : 10);
  const checks = cases.cases.reduce((sum, one) => sum + one.checks.length, 0);
  const least = whose === 'own' ? 12 : all ? 1_500 : 150;
  t.ok(checks >= least, `${checks} checks in ${cases.cases.length} worlds`);
  await runCasesOnTheWire(t, cases);
}
