/**
 * Decisions recorded from Linkerd, over real connections: status, what the app saw, and the counters with their labels. A
 * sample of them; SALLYPORT_RECORDED=all runs every one.
 */
import t from 'tap';
import { readRecordedWorlds } from '../support/linkerd-cases.ts';
import { wireCases } from '../support/linkerd-wire-cases.ts';
import { namespacesUnavailable } from '../support/namespace.ts';
import { runCasesOnTheWire } from '../support/wire-lanes.ts';

const all = process.env.SALLYPORT_RECORDED === 'all';
const shared = readRecordedWorlds();
const unavailable = shared.found ? namespacesUnavailable() : shared.reason;
if (unavailable !== null || !shared.found) {
  t.plan(0, unavailable ?? '');
} else {
  t.setTimeout(all ? 1_800_000 : 280_000);
  const generated = shared.cases.filter(({ id }) => /^R\d/.test(id));
  const named = shared.cases.filter(({ id }) => !/^R\d/.test(id));
  const worlds = all
    ? shared.cases
    : [...generated.filter((_, i) => i % 4 === 0), ...named.filter((_, i) => i % 2 === 0)];
  const cases = wireCases(worlds, all ? Number.POSITIVE_INFINITY : 10);
  const checks = cases.cases.reduce((sum, one) => sum + one.checks.length, 0);
  t.ok(checks >= (all ? 1_500 : 150), `${checks} checks in ${cases.cases.length} worlds`);
  await runCasesOnTheWire(t, cases);
}
