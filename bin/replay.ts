import { portNumber } from '../lib/config/values.ts';
import { usageExit } from '../lib/errors/exits.ts';
import { portsOfServer, type Workload } from '../lib/policy/workload.ts';
import { jsonText } from '../lib/printable.ts';
import { type Against, Comparison } from '../lib/replay/differences.ts';
import { WantedValues } from '../lib/replay/hashed.ts';
import { type CommandLine, type FlagOf, type Io, type Main, UsageError } from './arguments.ts';
import { policyOf } from './explain-policy.ts';
import { readLogs } from './log-files.ts';
import { policyPathsOf, workloadOf } from './pod.ts';
import { exampleCommand, replayJson, replayText } from './replay-text.ts';

type Flag = FlagOf<'replay'>;

export const main: Main<'replay'> = async (line, io) => {
  const paths = policyPathsOf(line.values('policy'), io);
  refuseInput([...paths, ...line.values('against')]);
  const workload = workloadOf(line, io);
  const after = await against(paths, workload, line, io);
  const before = line.has('against') ? await against(line.values('against'), workload, line, io) : null;
  if (after === null || (line.has('against') && before === null)) return usageExit;
  const comparison = new Comparison(after, before);
  const read = await readLogs(line, io, (record, occurrence) => comparison.add(record, occurrence));
  const command = exampleCommand(paths, line);
  if (line.has('json')) io.stdout.write(`${jsonText(replayJson(comparison, read, command))}\n`);
  else io.stdout.write(replayText(comparison, read, command, io.stdout));
  if (comparison.decidesOtherwise) return 1;
  return read.bad > 0 ? usageExit : 0;
};

function refuseInput(paths: readonly string[]): void {
  if (!paths.includes('-')) return;
  throw new UsageError('flags-conflict', 'standard input is for the log', 'put the policy into a file');
}

/** Null, with the problems printed, when it cannot be read. */
async function against(
  paths: readonly string[],
  workload: Workload,
  line: CommandLine<Flag>,
  io: Io,
): Promise<Against | null> {
  // Each decision comes an hour after the last, so that no rate limit is ever spent: when the log's were, it does not tell.
  let nowMs = 0;
  const policy = await policyOf(paths, workload, io, () => (nowMs += 3_600_000));
  if (policy === null) return null;
  const fallback = line.value('port');
  const { authorizer, documents } = policy;
  const wanted = new WantedValues(documents);
  return { authorizer, wanted, portOf: (given) => portOf(given ?? fallback, workload) };
}

export function portOf(given: number | string | null, workload: Workload): number | null {
  if (typeof given === 'number') return given;
  if (given === null) return null;
  const [named, ...others] = portsOfServer(workload, given);
  return portNumber(given) ?? (others.length === 0 ? (named ?? null) : null);
}
