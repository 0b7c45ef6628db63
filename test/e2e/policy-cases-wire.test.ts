import t from 'tap';
import { namespacesUnavailable } from '../support/namespace.ts';
import { readPolicyCases } from '../support/policy-cases.ts';
import { runCasesOnTheWire } from '../support/wire-lanes.ts';

const shared = readPolicyCases();
const unavailable = shared.found ? namespacesUnavailable() : shared.reason;
if (unavailable !== null || !shared.found) {
  t.plan(0, unavailable ?? '');
} else {
  t.setTimeout(280_000);
  await runCasesOnTheWire(t, shared.cases);
}
