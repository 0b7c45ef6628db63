import { exitText } from '../lib/errors/exits.ts';
import { allCodes, meaningsOf } from '../lib/errors/look-up.ts';
import { wrapped } from '../lib/printable.ts';
import { commandNamed, type Main } from './arguments.ts';
import type { CommandRow, FlagRow } from './table/row.ts';
import { commandTable } from './table/table.ts';

export const main: Main<'help'> = async ({ words: [topic] }, io) => {
  const width = widthOf(io.stdout);
  io.stdout.write(topic === undefined ? overview(width) : topicHelp(topic, width));
  return 0;
};

/** Of a command, or of a code as it stands in brackets behind a message or in a line of the log. */
function topicHelp(topic: string, width: number): string {
  const code = topic.replace(/^\[|\]$/g, '');
  const meanings = Object.hasOwn(commandTable, topic) ? [] : meaningsOf(code);
  if (meanings.length === 0) return commandHelp(commandTable[commandNamed(topic, allCodes)], width);
  return meanings
    .map(({ kind, meaning, remedy }) => {
      const lines = [wrapped(`${code}: ${kind}.`, width), wrapped(meaning, width, 2), wrapped(remedy, width, 2)];
      return `${lines.join('\n')}\n`;
    })
    .join('\n');
}

/** Columns where the reader is no terminal, and the most that anybody reads with ease. */
const columns = { plain: 80, least: 40, most: 120 } as const;

/** How wide a text for this stream is. */
export function widthOf(stream: { readonly isTTY?: boolean; readonly columns?: number }): number {
  if (stream.isTTY !== true || stream.columns === undefined || stream.columns === 0) return columns.plain;
  return Math.min(columns.most, Math.max(columns.least, stream.columns));
}

/** `sallyport --help` */
export function overview(width: number): string {
  return [
    wrapped('Usage: sallyport <command> [flags]', width, 18),
    '',
    wrapped("An inbound authorizing proxy: Linkerd's policy documents enforced in front of one application.", width),
    '',
    'Commands:',
    ...listed(
      Object.entries(commandTable).map(([name, { does }]) => [name, does]),
      width,
    ),
    '',
    wrapped('sallyport <command> --help says what a command takes.', width),
    '',
  ].join('\n');
}

/** `sallyport NAME --help` */
export function commandHelp(row: CommandRow, width: number): string {
  const [first = '', ...more] = row.usage.map((usage) => `sallyport ${usage}`);
  const lead = 'Usage: ';
  const lines = [wrapped(lead + first, width, lead.length + 4)];
  for (const usage of more) lines.push(wrapped(' '.repeat(lead.length) + usage, width, lead.length + 4));
  for (const paragraph of row.about) lines.push('', wrapped(paragraph, width));
  for (const [heading, flags] of sections(row)) {
    lines.push('');
    if (heading !== '') lines.push(wrapped(heading, width));
    lines.push(
      ...listed(
        flags.map(([name, flag]) => [flagText(name, flag), flag.says]),
        width,
      ),
    );
  }
  for (const paragraph of row.notes) lines.push('', wrapped(paragraph, width));
  lines.push('', wrapped(`Exit status: ${exitText(row.exits)}.`, width, 2), '');
  return lines.join('\n');
}

function flagText(name: string, { value }: FlagRow): string {
  return value === null ? `--${name}` : `--${name} ${value}`;
}

type Section = readonly [heading: string, flags: (readonly [name: string, flag: FlagRow])[]];

function sections({ flags, headings }: CommandRow): readonly Section[] {
  const found: Section[] = [];
  for (const [name, flag] of Object.entries(flags)) {
    const heading = headings[name];
    if (heading !== undefined || found.length === 0) found.push([heading ?? '', []]);
    found.at(-1)?.[1].push([name, flag]);
  }
  return found;
}

/** Two columns. A term that is too long for the first has a line of its own, or two. */
function listed(rows: readonly (readonly [term: string, meaning: string])[], width: number): string[] {
  const most = Math.min(32, Math.floor(width / 2) - 4);
  const longest = Math.max(...rows.map(([term]) => term.length).filter((length) => length <= most), 4);
  return rows.map(([term, meaning]) => {
    const indent = longest + 4;
    const text = wrapped(' '.repeat(indent) + meaning, width, indent);
    return term.length > longest
      ? `${wrapped(`  ${term}`, width, 6)}\n${text}`
      : `  ${term.padEnd(longest)}  ${text.slice(indent)}`;
  });
}
