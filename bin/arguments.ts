import { parseArgs } from 'node:util';
import type { ExitStatus } from '../lib/errors/exits.ts';
import { nearestName } from '../lib/policy/nearest.ts';
import { oneLine } from '../lib/printable.ts';

/** What a command may use of the process. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: NodeJS.ReadableStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** A file of bin/ that can be named on the command line. */
export interface Command {
  readonly help: string;
  /** Resolves to the exit status. Throws `UsageError` for what the user got wrong. */
  main(args: readonly string[], io: Io): Promise<ExitStatus>;
}

/** The command line or the environment is wrong. `message` and `hint` are for the person who typed it. */
export class UsageError extends Error {
  readonly hint: string;
  /** `message`: a line, or several. */
  constructor(message: string | readonly string[], hint = '') {
    super([message].flat().map(oneLine).join('\n'));
    this.hint = oneLine(hint);
  }
}

export interface FlagSpec {
  /** `switch` takes no value, `value` one, `values` one each time it is given. */
  readonly takes: 'switch' | 'value' | 'values';
}

export interface CommandLine<Name extends string> {
  has(flag: Name): boolean;
  value(flag: Name): string | null;
  values(flag: Name): readonly string[];
  readonly positionals: readonly string[];
}

/** Long flags only. An unknown flag, a missing or superfluous value and a repetition throw `UsageError`. */
export function parseCommandLine<Name extends string>(
  args: readonly string[],
  flags: Readonly<Record<Name, FlagSpec>>,
): CommandLine<Name> {
  const names = Object.keys(flags) as Name[];
  const options = Object.fromEntries(
    names.map((name) => [name, { type: flags[name].takes === 'switch' ? 'boolean' : 'string' }] as const),
  );
  // Not strict, so that the messages are ours; the tokens then say all there is to judge.
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true });
  const given = new Map<string, string[]>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const spec = token.rawName.startsWith('--') ? flags[token.name as Name] : undefined;
    if (spec === undefined || !Object.hasOwn(flags, token.name)) throw unknownFlag(token.rawName, names);
    if (spec.takes === 'switch') {
      if (token.value !== undefined) throw new UsageError(`${token.rawName} takes no value`);
      given.set(token.name, []);
      continue;
    }
    // `--policy --json`: the value was forgotten, and the next flag must not be swallowed as one.
    if (token.value === undefined || (!token.inlineValue && /^-./.test(token.value))) {
      throw new UsageError(
        `${token.rawName} needs a value`,
        `a value that begins with "-" is written ${token.rawName}=…`,
      );
    }
    const before = given.get(token.name) ?? [];
    if (spec.takes === 'value' && before.length > 0) throw new UsageError(`${token.rawName} is given twice`);
    given.set(token.name, [...before, token.value]);
  }
  return {
    has: (flag) => given.has(flag),
    value: (flag) => given.get(flag)?.[0] ?? null,
    values: (flag) => given.get(flag) ?? [],
    positionals,
  };
}

function unknownFlag(rawName: string, names: readonly string[]): UsageError {
  const nearest = nearestName(rawName.replace(/^-+/, ''), names);
  return new UsageError(`unknown flag ${rawName}`, nearest === undefined ? '' : `did you mean --${nearest}?`);
}
