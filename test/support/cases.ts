import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { parse } from 'yaml';
import { checkout } from './sallyport.ts';

/** One kind of cases: the repository's own, few of each sort, and those that lie beside the checkout where there are any. */
export interface CaseSets<T> {
  readonly own: T;
  readonly shared:
    | { readonly found: true; readonly cases: T }
    /** Given to tap's `skip`. */
    | { readonly found: false; readonly reason: string };
}

/** Which cases are run; what is asked of the number of the shared ones does not hold for the own. */
export type Whose = 'own' | 'shared';

/** Reads `test/cases/own/OWN` and `SHARED` of the shared folder, which SALLYPORT_SHARED names or lies beside the checkout. */
export function readCases<T>(own: string, shared: string): CaseSets<T> {
  const path = join(process.env.SALLYPORT_SHARED ?? join(checkout, '..', 'shared'), 'cases', shared);
  const reason = `${shared} is no part of this repository; SALLYPORT_SHARED names the folder whose cases/ holds it`;
  return {
    own: readFile<T>(join(checkout, 'test/cases/own', own)),
    shared: existsSync(path) ? { found: true, cases: readFile<T>(path) } : { found: false, reason },
  };
}

/** YAML, or JSON by the line. */
function readFile<T>(path: string): T {
  const text = readFileSync(path, 'utf8');
  if (!path.endsWith('.jsonl')) return parse(text) as T;
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line)) as T;
}

/** Runs it for the own cases, and for the shared ones, which are skipped where they are not there. */
export async function forAllCases<T>(
  t: Test,
  { own, shared }: CaseSets<T>,
  run: (t: Test, cases: T, whose: Whose) => Promise<void>,
  options: { readonly timeout?: number } = {},
): Promise<void> {
  await t.test('own cases', options, (t) => run(t, own, 'own'));
  if (shared.found) await t.test('shared cases', options, (t) => run(t, shared.cases, 'shared'));
  else await t.test('shared cases', { skip: shared.reason }, async () => {});
}

/** All there are. */
export function bothOf<T>({ own, shared }: CaseSets<T>): readonly T[] {
  return shared.found ? [own, shared.cases] : [own];
}
