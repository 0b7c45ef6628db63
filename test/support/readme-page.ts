import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** The pages that say what the program does. Tests hold them to it; readme-claims.ts names what checks their prose. */
export const pages: readonly string[] = [
  'README.md',
  'lib/errors/README.md',
  'lib/suggest/README.md',
  'lib/policy-test/README.md',
  'lib/analysis/README.md',
  'lib/app/candidate/README.md',
  'lib/records/README.md',
  'lib/policy/README.md',
  'lib/telemetry/README.md',
  'lib/ops/README.md',
  'SECURITY.md',
  'lib/README.md',
  'CONTRIBUTING.md',
];

/** @param page from the checkout's root */
export const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

/** All pages, one behind the other. */
export const allPages = pages.map(textOf).join('\n');

/** Every page of the checkout, from its root. */
export function everyPage(): string[] {
  const entries = readdirSync(root, { withFileTypes: true }).filter(
    ({ name }) => !/^\.|^(node_modules|dist)$/.test(name),
  );
  return entries
    .flatMap((entry) =>
      entry.isDirectory()
        ? readdirSync(join(root, entry.name), { recursive: true, encoding: 'utf8' }).map((name) =>
            join(entry.name, name),
          )
        : [entry.name],
    )
    .filter((name) => name.endsWith('.md'))
    .sort();
}

/** The targets of a page's links, as they are written. */
export function linksOf(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
}

/** The pages that can be reached from a page by links, itself included. */
export function reachableFrom(page: string, known: readonly string[]): ReadonlySet<string> {
  const reached = new Set([page]);
  for (const from of reached) {
    for (const link of linksOf(textOf(from))) {
      const to = join(dirname(from), link.split('#')[0] ?? '');
      if (known.includes(to)) reached.add(to);
    }
  }
  return reached;
}

/**
 * The text below a heading of any page: of a page's title the whole page, of a heading of the second level what stands before
 * the next. A heading that is gone, or that two pages have, fails here rather than yielding no rows.
 */
export function section(title: string, among: readonly string[] = pages.map(textOf)): string {
  const found = among.flatMap((page) => sectionsOf(page, title));
  const [text] = found;
  if (text === undefined) throw new Error(`no page has a section "${title}"`);
  if (found.length > 1) throw new Error(`${found.length} sections are called "${title}"`);
  return text;
}

function sectionsOf(page: string, title: string): string[] {
  const whole = page.startsWith(`# ${title}\n`) ? [page.slice(page.indexOf('\n') + 1)] : [];
  const [, ...parts] = page.split(`\n## ${title}\n`);
  return [...whole, ...parts.map((text) => text.split('\n## ')[0] as string)];
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
