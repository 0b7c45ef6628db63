import type { exitMeanings } from '../../lib/errors/exits.ts';

/** One flag. `value` stands for its value in help; null where it takes none. */
export interface FlagRow {
  readonly takes: 'switch' | 'value' | 'values';
  readonly value: string | null;
  readonly says: string;
}

export function toggle(says: string): FlagRow & { readonly takes: 'switch' } {
  return { takes: 'switch', value: null, says };
}
/** Given once at most. */
export function once(value: string, says: string): FlagRow & { readonly takes: 'value' } {
  return { takes: 'value', value, says };
}
/** May be given again and again. */
export function repeated(value: string, says: string): FlagRow & { readonly takes: 'values' } {
  return { takes: 'values', value, says };
}

/** The words of a command line that belong to no flag. */
export type Words =
  /** `instead` is what to write in place of a word that was given. */
  | { readonly kind: 'none'; instead(word: string): string }
  | { readonly kind: 'action'; readonly among: readonly string[] }
  /** Files and folders; `-` is standard input. */
  | { readonly kind: 'paths' }
  | { readonly kind: 'topic' };

/** One command: what it takes, what its help says, and its row in README. */
export interface CommandRow {
  /** One line of README's table and of `sallyport --help`. */
  readonly does: string;
  /** As README's table shows it, without `sallyport`. */
  readonly brief: string;
  /** Each way of using it, without `sallyport`. */
  readonly usage: readonly string[];
  /** Paragraphs above the flags and below them. */
  readonly about: readonly string[];
  readonly notes: readonly string[];
  readonly words: Words;
  /** What to write in place of a flag that it does not take, where that is known; else empty. */
  insteadOfFlag(flag: string): string;
  readonly flags: Readonly<Record<string, FlagRow>>;
  /** Headings, each before the flag that it names; flags above the first have none. */
  readonly headings: Readonly<Record<string, string>>;
  readonly exits: keyof typeof exitMeanings;
  /** Traffic is its business, and what it prints is not: it goes on when nobody takes that, and waits for nobody. */
  readonly serves: boolean;
  /** A page that says more, from the checkout's root. */
  readonly page: readonly [title: string, path: string] | null;
}

type Given = Pick<CommandRow, 'does' | 'usage' | 'about' | 'words' | 'exits'> &
  Partial<Pick<CommandRow, 'brief' | 'notes' | 'insteadOfFlag' | 'headings' | 'serves' | 'page'>>;

/** A row with what most rows leave out. */
export function command<Flags extends Readonly<Record<string, FlagRow>>>(
  row: Given & { readonly flags: Flags },
): CommandRow & { readonly flags: Flags } {
  const [brief = ''] = row.usage;
  return { brief, notes: [], insteadOfFlag: () => '', headings: {}, serves: false, page: null, ...row };
}

/** Nothing but flags is taken. */
export const flagsOnly: Words = { kind: 'none', instead: () => 'it takes flags alone' };
