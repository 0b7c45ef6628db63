import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { missing } from '../support/children.ts';
import { faults, provoked } from '../support/faults/table.ts';
import { provokedTable, table } from '../support/readme-tables.ts';
import { checkout } from '../support/sallyport.ts';
import { mapBounded } from '../support/until.ts';

/*
 * Common faults, each brought about on a real proxy: what it prints is what lib/errors/README.md says.
 * `npm run readme:faults` writes the table.
 */
t.setTimeout(1_800_000);

const skip =
  process.platform === 'linux' ? await missing(t, 'bash', 'setpriv', 'openssl') : 'clients call from 127.0.0.2: Linux';

t.test('the table of common faults', { skip }, async (t) => {
  const [, text = ''] =
    /<!-- table: provoked -->\n(.*?)<!-- end -->/s.exec(readFileSync(join(checkout, provokedTable.page), 'utf8')) ?? [];
  const shown = text
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2);
  const printed = await mapBounded(faults, 2, (fault) =>
    provoked(fault).catch((error: Error) => [[fault.title, 'silent', error.message]]),
  );
  let at = 0;
  for (const rows of printed) {
    const lines = table([], rows).split('\n').slice(2);
    t.same(shown.slice(at, at + lines.length), lines, rows[0]?.[0] ?? '');
    at += lines.length;
  }
  t.equal(shown.length, at, 'and nothing else');
});
