import type { AskedPolicy } from '../lib/analysis/blocks.ts';
import { type ChangeKind, changesOf, type PolicyChange } from '../lib/analysis/compare.ts';
import { partition } from '../lib/analysis/partition.ts';
import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { jsonText } from '../lib/printable.ts';
import { type CommandLine, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';
import { changeJson, changesText } from './diff-text.ts';
import { policyOf } from './explain-policy.ts';
import { workloadOf } from './pod.ts';
import { Progress } from './progress.ts';

const gates = {
  widened: ['allowed'],
  narrowed: ['refused'],
  any: ['allowed', 'refused', 'otherwise', 'moved'],
} as const;

export const main: Main<'diff'> = async (line, io) => {
  const [before = '', after = ''] = policies(line);
  const gate: readonly ChangeKind[] = gateOf(line);
  const workload = workloadOf(line, io);
  const sides = [await sideOf(before, workload, io), await sideOf(after, workload, io)].flatMap((side) => side ?? []);
  if (sides.length < 2) return usageExit;
  const { changes, unexamined } = compared(sides, workload, io);
  const equal = changes.length === 0 && unexamined.length === 0;
  if (line.has('json')) {
    const shown = changes.map((change) => changeJson(change, [before], [after], line));
    io.stdout.write(`${jsonText({ equal, unexamined, changes: shown }, 2)}\n`);
  } else if (!equal) io.stdout.write(changesText(changes, unexamined, [before, after], line, io.stdout));
  const status: ExitStatus = changes.some(({ kind }) => gate.includes(kind)) || unexamined.length > 0 ? 1 : 0;
  return status;
};

function policies({ words }: CommandLine<FlagOf<'diff'>>): readonly string[] {
  const missing = words.length === 0 ? 'OLD and NEW are' : 'NEW is';
  if (words.length < 2) throw new UsageError('missing-argument', `${missing} missing`, 'name two files or folders');
  if (words.length > 2) {
    const hint = 'put the files of one policy into a folder';
    throw new UsageError('unexpected-argument', `unexpected argument ${JSON.stringify(words[2])}`, hint);
  }
  if (words[0] === '-' && words[1] === '-') {
    throw new UsageError('flags-conflict', 'standard input cannot be both policies', 'put one of them into a file');
  }
  return words;
}

function gateOf(line: CommandLine<FlagOf<'diff'>>): readonly ChangeKind[] {
  const given = line.value('fail-on') ?? 'any';
  if (given === 'widened' || given === 'narrowed' || given === 'any') return gates[given];
  throw new UsageError(
    'bad-question',
    `--fail-on: ${JSON.stringify(given)} is none of ${Object.keys(gates).join(', ')}`,
  );
}

/** Null, with the problems printed, when it cannot be read. */
async function sideOf(path: string, workload: Workload, io: Io): Promise<AskedPolicy | null> {
  // Each question comes an hour after the last, so that no rate limit is ever spent.
  let nowMs = 0;
  return policyOf([path], workload, io, () => {
    nowMs += 3_600_000;
    return nowMs;
  });
}

function compared(
  sides: readonly AskedPolicy[],
  workload: Workload,
  io: Io,
): { readonly changes: readonly PolicyChange[]; readonly unexamined: readonly string[] } {
  const progress = new Progress(io.stderr);
  const blocks = partition({
    sides,
    workload,
    progress: (done, of) => progress.say(() => `compared ${done} of ${of} ports and groups of ports`),
  });
  let unexamined: readonly string[] = [];
  const changes = changesOf(
    (function* () {
      ({ unexamined } = yield* blocks);
    })(),
  );
  progress.end();
  return { changes, unexamined };
}
