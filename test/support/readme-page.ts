import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

/** README.md, for tests that hold what it says against the program. */
export const readme = readFileSync(resolve(import.meta.dirname, '../../README.md'), 'utf8');

/** The text below a heading of the second level; a heading that is gone fails here rather than yielding no rows. */
export function section(title: string): string {
  const [, text] = readme.split(`\n## ${title}\n`);
  if (text === undefined) throw new Error(`README.md has no section "${title}"`);
  return text.split('\n## ')[0] as string;
}

/** The rows of the table whose first header cell is `header`, each as its cells; `\|` inside a cell is a bar. */
export function table(title: string, header: string): string[][] {
  const lines = section(title).split('\n');
  const at = lines.findIndex((line) => line.startsWith(`| ${header} |`));
  if (at === -1) throw new Error(`section "${title}" has no table headed "${header}"`);
  const rows: string[][] = [];
  for (const line of lines.slice(at + 2)) {
    if (!line.startsWith('|')) break;
    const cells = line.slice(1, -1).split(/(?<!\\)\|/);
    rows.push(cells.map((cell) => cell.trim().replaceAll('\\|', '|')));
  }
  return rows;
}

export const bare = (cell: string | undefined): string => (cell ?? '').replaceAll('`', '');

/** `a_{b,c}_d` to `a_b_d` and `a_c_d`, as a shell would. */
export function expand(pattern: string): string[] {
  const [, before = '', inside = '', after = ''] = /^([^{]*)\{([^}]*)\}(.*)$/.exec(pattern) ?? [];
  return inside === '' ? [pattern] : inside.split(',').flatMap((item) => expand(`${before}${item}${after}`));
}
