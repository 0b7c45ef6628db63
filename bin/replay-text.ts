import { styleText } from 'node:util';
import { oneLine } from '../lib/printable.ts';
import type { ReadTally } from '../lib/records/read.ts';
import type { DecisionRecord } from '../lib/records/record.ts';
import {
  type Comparison,
  type Difference,
  type DifferenceKind,
  differenceKinds,
  isRefused,
  type Ruling,
} from '../lib/replay/differences.ts';
import { refText } from '../lib/resource-ref.ts';
import type { CommandLine, FlagOf } from './arguments.ts';
import { explainCommandLine } from './explain-command.ts';

/** The command that shows why one decision is as it is. */
export type ExampleCommand = (record: DecisionRecord) => string;

/** With the policy and the facts of the pod that the replay was given. */
export function exampleCommand(paths: readonly string[], line: CommandLine<FlagOf<'replay'>>): ExampleCommand {
  return ({ question }) => {
    const { port = line.value('port'), protocol, headers = {} } = question;
    return explainCommandLine(paths, line, {
      ...question,
      port,
      protocol: protocol === 'accept' ? 'tcp' : protocol,
      headers: Object.entries(headers).flatMap(([name, values]) => values.map((value) => [name, value] as const)),
    });
  };
}

const titles: Readonly<Record<DifferenceKind, string>> = {
  allowed: 'refused → allowed',
  refused: 'allowed → refused',
  otherwise: 'answered otherwise',
  moved: 'the same, by another document',
};

const colors = { allowed: 'red', refused: 'yellow', otherwise: 'cyan', moved: 'dim' } as const;

/** Differences of one kind that are shown, and clients of one. */
const most = { differences: 20, clients: 3 } as const;

export function replayText(
  comparison: Comparison,
  read: ReadTally,
  command: ExampleCommand,
  stream: NodeJS.WriteStream,
): string {
  const paint = (format: Parameters<typeof styleText>[0], text: string): string => styleText(format, text, { stream });
  const differences = comparison.differences();
  const rows: string[] = [];
  for (const change of differenceKinds) {
    const alike = differences.filter((difference) => difference.change === change);
    if (alike.length === 0) continue;
    rows.push(paint(['bold', colors[change]], `${titles[change]}: ${decisions(total(alike))}`));
    for (const difference of alike.slice(0, most.differences)) rows.push(...differenceRows(difference, command, paint));
    if (alike.length > most.differences) rows.push(`  … and ${alike.length - most.differences} more kinds`);
    rows.push('');
  }
  return `${[...rows, ...sums(comparison, read, differences)].join('\n')}\n`;
}

function differenceRows(
  difference: Difference,
  command: ExampleCommand,
  paint: (format: Parameters<typeof styleText>[0], text: string) => string,
): string[] {
  const { port, before, after, failed, count, first, last, examples } = difference;
  const rows = [oneLine(`  port ${port ?? '?'}: ${rulingText(before)}`), `    → ${paint('bold', rulingText(after))}`];
  if (failed !== '') rows.push(`    fails: ${oneLine(failed)}`);
  rows.push(`    ${decisions(count)} by ${clientsText(difference)}`);
  if (first !== null) rows.push(paint('dim', oneLine(`    ${first}${last === first ? '' : ` to ${last}`}`)));
  for (const { record, reason } of examples)
    rows.push(`    ${command(record)}`, ...(reason === '' ? [] : [paint('dim', `      ${oneLine(reason)}`)]));
  return rows;
}

function rulingText(ruling: Ruling): string {
  const { verdict, audit, server, route, authz } = ruling;
  const by = isRefused(ruling) ? [server, route] : [authz, route, server];
  const names = by.flatMap((ref) => (ref === null ? [] : [refText(ref)]));
  return oneLine(`${verdict}${audit ? ' (audit)' : ''}${names.length === 0 ? '' : ` ${names.join(', ')}`}`);
}

function clientsText({ clients }: Difference): string {
  const named = [...clients].flatMap(([client, count]) => (client === null ? [] : [[client, count] as const]));
  const shown = named.sort(([, a], [, b]) => b - a).slice(0, most.clients);
  const more = named.length > shown.length || clients.has(null);
  const others = clients.has(null) ? `more than ${named.length}` : `${named.length - shown.length}`;
  const text = shown.map(([client, count]) => `${client} (${count})`).join(', ');
  return oneLine(more ? `${text} and ${others} ${others === '1' ? 'other' : 'others'}` : text);
}

function sums(comparison: Comparison, read: ReadTally, differences: readonly Difference[]): string[] {
  const { same, overLimit, notDecided, uncounted, unknown } = comparison.tally;
  const rows = [`${decisions(read.decisions)} read: ${same} the same, ${total(differences)} different`];
  if (overLimit > 0) rows.push(`  ${overLimit} were over a rate limit; limits are not replayed`);
  if (uncounted > 0) rows.push(`  ${uncounted} differ in more ways than are kept apart`);
  for (const [lacks, count] of unknown) rows.push(`  ${count} not decided: the line does not hold ${lacks}`);
  if (notDecided > 0) rows.push(`  ${notDecided} not compared: the line does not say what was decided; give --against`);
  if (read.lost > 0) rows.push(`  ${read.lost} more were made, and are not in the log: its writer has dropped them`);
  if (read.bad > 0) rows.push(`  ${lines(read.bad)} could not be read`);
  if (read.others > 0) rows.push(`  ${lines(read.others)} ${read.others === 1 ? 'is' : 'are'} about something else`);
  return rows.map(oneLine);
}

function total(differences: readonly Difference[]): number {
  return differences.reduce((sum, { count }) => sum + count, 0);
}

function decisions(count: number): string {
  return count === 1 ? '1 decision' : `${count} decisions`;
}

function lines(count: number): string {
  return count === 1 ? '1 line' : `${count} lines`;
}

export function replayJson(comparison: Comparison, read: ReadTally, command: ExampleCommand): object {
  const { same, overLimit, notDecided, uncounted, unknown } = comparison.tally;
  const differences = comparison.differences();
  return {
    ...read,
    same,
    different: total(differences),
    overLimit,
    notDecided,
    uncounted,
    unknown: [...unknown].map(([lacks, count]) => ({ lacks, count })),
    differences: differences.map(({ clients, examples, ...difference }) => ({
      ...difference,
      clients: [...clients].flatMap(([client, count]) => (client === null ? [] : [{ client, count }])),
      otherClients: clients.get(null) ?? 0,
      examples: examples.map(({ record, ...example }) => ({
        question: record.question,
        ...example,
        command: command(record),
      })),
    })),
  };
}
