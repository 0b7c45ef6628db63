import { parseArgs } from 'node:util';
import { type AnyCode, type Complaint, complaintText } from '../lib/errors/complaint.ts';
import type { ExitStatus } from '../lib/errors/exits.ts';
import { nearestName } from '../lib/policy/nearest.ts';
import { oneLine } from '../lib/printable.ts';
import type { CommandRow, FlagRow, Words } from './table/row.ts';
import { commandTable } from './table/table.ts';

/** What a command may use of the process. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: NodeJS.ReadableStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

export type CommandName = keyof typeof commandTable;
export type FlagOf<Name extends CommandName> = keyof (typeof commandTable)[Name]['flags'] & string;

/** What a file of bin/ exports as `main`. Resolves to the exit status; throws `UsageError` for what the user got wrong. */
export type Main<Name extends CommandName> = (line: CommandLine<FlagOf<Name>>, io: Io) => Promise<ExitStatus>;

/** The command line or the environment is wrong; the message, one line a fault, is for the person who typed it. */
export class UsageError extends Error {
  constructor(code: AnyCode, message: string, hint?: string);
  constructor(faults: readonly string[]);
  constructor(code: AnyCode | readonly string[], message = '', hint = '') {
    super(typeof code === 'string' ? oneLine(complaintText({ code, message, hint })) : code.map(oneLine).join('\n'));
  }
}

/** What a command says on standard error of what is wrong: one line, with its code. */
export function complain(
  io: { readonly stderr: { write(text: string): unknown } },
  from: string,
  complaint: Complaint,
): void {
  io.stderr.write(`${oneLine(`${from}: ${complaintText(complaint)}`)}\n`);
}

export interface CommandLine<Flag extends string> {
  has(flag: Flag): boolean;
  value(flag: Flag): string | null;
  values(flag: Flag): readonly string[];
  /** What belongs to no flag: none where the command takes none. */
  readonly words: readonly string[];
}

/**
 * The one reader of command lines. What the command's row of the table does not take throws `UsageError`: an unknown flag,
 * a missing or superfluous value, a repetition, a word too many. Flags are long ones only.
 */
export function parseCommandLine<Name extends CommandName>(
  name: Name,
  args: readonly string[],
): CommandLine<FlagOf<Name>> {
  const row: CommandRow = commandTable[name];
  const { flags } = row;
  const options = Object.fromEntries(
    Object.entries(flags).map(([flag, { takes }]) => [
      flag,
      { type: takes === 'switch' ? 'boolean' : 'string' } as const,
    ]),
  );
  // Not strict, so that the messages are ours; the tokens then say all there is to judge.
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true });
  const given = new Map<string, readonly string[]>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const spec = token.rawName.startsWith('--') && Object.hasOwn(flags, token.name) ? flags[token.name] : undefined;
    if (spec === undefined) {
      // `-port` is read as four short flags in one.
      const typed = token.rawName.startsWith('--') ? token.rawName : (args[token.index] ?? token.rawName);
      throw unknownFlag(typed, name);
    }
    given.set(token.name, [...(given.get(token.name) ?? []), ...valueGiven(token, spec, given.has(token.name))]);
  }
  refuseSurplus(row.words, words);
  return {
    has: (flag) => given.has(flag),
    value: (flag) => given.get(flag)?.[0] ?? null,
    values: (flag) => given.get(flag) ?? [],
    words,
  };
}

interface OptionToken {
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function valueGiven(
  { rawName, value, inlineValue }: OptionToken,
  { takes, value: named }: FlagRow,
  again: boolean,
): string[] {
  if (takes === 'switch') {
    if (value !== undefined) throw new UsageError('flag-value', `${rawName} takes no value`, `write ${rawName} alone`);
    return [];
  }
  // `--policy --json`: the value was forgotten, and the next flag must not be swallowed as one.
  if (value === undefined || (inlineValue !== true && /^-./.test(value))) {
    throw new UsageError(
      'flag-value',
      `${rawName} needs a value`,
      `a value that begins with "-" is written ${rawName}=…`,
    );
  }
  if (value === '' && /^(?:PATH|FILE|FOLDER|DIR)/.test(named ?? '')) throw emptyPath(`the path of ${rawName}`);
  if (takes === 'value' && again)
    throw new UsageError('flag-repeated', `${rawName} is given twice`, 'keep one of them');
  return [value];
}

/** `sallyport check "$POLICY"`, and no POLICY. */
function emptyPath(what: string): UsageError {
  return new UsageError('missing-argument', `${what} is empty`, 'is a variable in it unset?');
}

function refuseSurplus(takes: Words, words: readonly string[]): void {
  const [first, second] = words;
  switch (takes.kind) {
    case 'paths':
      if (words.includes('')) throw emptyPath('a path');
      return;
    case 'none':
      if (first !== undefined)
        throw new UsageError('unexpected-argument', `unexpected argument ${quoted(first)}`, takes.instead(first));
      return;
    case 'action':
    case 'topic':
      if (takes.kind === 'action') requireAction(takes.among, first);
      if (second !== undefined)
        throw new UsageError('unexpected-argument', `unexpected argument ${quoted(second)}`, 'one word is taken');
  }
}

function requireAction(among: readonly string[], given: string | undefined): void {
  const list = among.join(' or ');
  if (given === undefined) throw new UsageError('missing-argument', `${list} is missing`, `write one of them first`);
  if (!among.includes(given))
    throw new UsageError('unexpected-argument', `unknown action ${quoted(given)}`, didYouMean(given, among) || list);
}

function quoted(word: string): string {
  return JSON.stringify(word);
}

/** In every command; the table has them as commands. */
const everywhere = ['help', 'version'] as const;

function unknownFlag(typed: string, name: CommandName): UsageError {
  const bare = typed.replace(/^-+/, '').replace(/=.*$/s, '');
  const row: CommandRow = commandTable[name];
  const own = Object.keys(row.flags);
  const nearest = nearestName(bare, [...own, ...everywhere]);
  if (nearest !== undefined)
    return new UsageError('unknown-flag', `unknown flag ${typed}`, `did you mean --${nearest}?`);
  const instead = row.insteadOfFlag(bare);
  if (instead !== '') return new UsageError('unknown-flag', `unknown flag ${typed}`, instead);
  const others = Object.entries(commandTable).filter(([, row]) => Object.hasOwn(row.flags, bare));
  const owners = others.map(([other]) => `sallyport ${other}`).join(', ');
  const none = own.length === 0 ? `${name} takes no flags` : '';
  return new UsageError(
    'unknown-flag',
    `unknown flag ${typed}`,
    owners === '' ? none : `--${bare} is a flag of ${owners}`,
  );
}

/** `sallyport --json check`, `sallyport -x`: no flag but those of help and version stands before the command. */
export function flagBeforeCommand(flag: string): UsageError {
  const nearest = nearestName(flag.replace(/^-+/, ''), everywhere);
  const hint = nearest === undefined ? 'write sallyport <command> [flags]' : `did you mean --${nearest}?`;
  return new UsageError('unexpected-argument', `${flag} stands before any command`, hint);
}

/** The command of that name. @throws UsageError */
/** @param also other words that may stand there, for the hint. */
export function commandNamed(word: string, also: readonly string[] = []): CommandName {
  const found = (Object.keys(commandTable) as CommandName[]).find((name) => name === word);
  if (found !== undefined) return found;
  throw new UsageError('unknown-command', `unknown command ${word === '' ? '""' : word}`, commandHint(word, also));
}

/** `did you mean check?`, also where a file or a flag's value stands in the command's place. */
function commandHint(word: string, also: readonly string[]): string {
  const near = didYouMean(word, [...Object.keys(commandTable), ...also]);
  if (near !== '') return near;
  return /[./]/.test(word) ? `to look at a file: sallyport check ${word}` : 'sallyport help lists the commands';
}

function didYouMean(word: string, among: Iterable<string>): string {
  const nearest = nearestName(word, among);
  return nearest === undefined ? '' : `did you mean ${nearest}?`;
}
