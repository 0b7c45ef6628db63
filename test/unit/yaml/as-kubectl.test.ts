import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readYaml } from '../../../lib/yaml.ts';
import { checkout } from '../../support/sallyport.ts';

/*
 * Texts at random out of merge keys, aliases, tags, words and numbers, with what kubectl's reader (k8s.io/apimachinery 0.36.3)
 * made of them: its documents, or null where it refused them.
 */

interface Row {
  readonly text: string;
  readonly kubectl: readonly unknown[] | null;
  readonly here: 'read' | 'refused';
}

const lines = readFileSync(join(checkout, 'test/fixtures/yaml-as-kubectl.jsonl'), 'utf8').trimEnd().split('\n');
const rows = lines.map((line) => JSON.parse(line) as Row);

t.test('what is read is what kubectl reads', async (t) => {
  for (const { text, kubectl, here } of rows) {
    const { documents, problems } = readYaml(text, 'f.yaml');
    const values = documents.map(({ value }) => value);
    if (here === 'read') t.strictSame({ values, problems }, { values: kubectl, problems: [] }, text);
    else t.not(problems.length, 0, text);
  }
});

t.test('there are some of each kind', async (t) => {
  const count = (here: Row['here'], refusedThere: boolean): number =>
    rows.filter((row) => row.here === here && (row.kubectl === null) === refusedThere).length;
  t.ok(count('read', false) >= 100);
  t.ok(count('refused', false) >= 30);
  t.ok(count('refused', true) >= 30);
  t.equal(count('read', true), 0);
});
