/**
 * The table of common faults. `npm run readme:faults` provokes each on a real proxy and writes what was printed, and
 * test/e2e/faults.test.ts does so, too, and fails where the table says otherwise. A word after the command chooses the faults that
 * have it in their title, and prints their rows alone.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Teardown } from '../children.ts';
import { provokedTable, table, withTable } from '../readme-tables.ts';
import { placeFaults } from './faults-of-place.ts';
import { policyFaults } from './faults-of-policy.ts';
import { tlsFaults } from './faults-of-tls.ts';
import type { Fault, Finding } from './stage.ts';

export const faults: readonly Fault[] = [...tlsFaults, ...policyFaults, ...placeFaults];

const header = ['fault', 'where', 'what is printed'];

/** The rows of one fault; its title stands in the first of them alone. */
export function rowsOf({ title }: Fault, findings: readonly Finding[]): string[][] {
  return findings.map(({ where, line }, at) => [at === 0 ? title : '', where, `\`${line}\``]);
}

/** What a fault prints, with all that was started for it ended again. */
export async function provoked(fault: Fault): Promise<string[][]> {
  const cleanups: (() => unknown)[] = [];
  const t: Teardown = { teardown: (clean) => void cleanups.push(clean) };
  try {
    return rowsOf(fault, await fault.provoke(t));
  } catch (error) {
    throw new Error(`${fault.title}: ${(error as Error).message}`, { cause: error });
  } finally {
    for (const clean of cleanups.reverse()) await clean();
  }
}

if (process.argv[1] === import.meta.filename) {
  const [, , word] = process.argv;
  const rows: string[][] = [];
  for (const fault of faults.filter(({ title }) => title.includes(word ?? ''))) {
    const made = await provoked(fault).catch((error: Error) => [
      [fault.title, 'SILENT', error.message.slice(0, 2_000)],
    ]);
    process.stdout.write(`${made.map((cells) => cells.join(' | ')).join('\n')}\n`);
    rows.push(...made);
  }
  const page = resolve(import.meta.dirname, '../../..', provokedTable.page);
  const isWhole = word === undefined && rows.every(([, where]) => where !== 'SILENT');
  if (isWhole) {
    writeFileSync(page, withTable(readFileSync(page, 'utf8'), provokedTable.name, table(header, rows)));
  }
}
