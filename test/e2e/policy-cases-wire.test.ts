import t from 'tap';
import { forAllCases } from '../support/cases.ts';
import { namespacesUnavailable } from '../support/namespace.ts';
import { readPolicyCases } from '../support/policy-cases.ts';
import { runCasesOnTheWire } from '../support/wire-lanes.ts';

const unavailable = namespacesUnavailable();
if (unavailable !== null) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await forAllCases(t, readPolicyCases(), runCasesOnTheWire, { timeout: 720_000 });
}
