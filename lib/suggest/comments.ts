import { oneLine } from '../printable.ts';
import type { Seen } from './evidence.ts';

/** `, 2026-11-20T14:00:00Z to 2026-11-20T14:05:00Z`; empty where no line says when. */
export function period({ first, last }: Seen): string {
  if (first === null || last === null) return '';
  const [from, to] = [moment(first), moment(last)];
  return from === to ? `, ${from}` : `, ${from} to ${to}`;
}

/** To the second. */
function moment(time: string): string {
  return printable(time.replace(/\.\d+Z$/, 'Z'));
}

/** What a client sent stays inside one line, and a short one. */
export function printable(text: string): string {
  return oneLine(text.slice(0, 300)).slice(0, 300);
}

export function number(count: number): string {
  return count.toLocaleString('en-US');
}

export function counted(count: number, noun: string): string {
  return `${number(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function times(count: number): string {
  return count === 1 ? 'once' : `${number(count)} times`;
}

export function commented(line: string): string {
  return `# ${line}`;
}
