import type { QuestionBlock, QuestionScope } from '../lib/analysis/blocks.ts';
import { partition } from '../lib/analysis/partition.ts';
import { type QuestionSet, setsOf } from '../lib/analysis/sets.ts';
import { type ExitStatus, usageExit } from '../lib/errors/exits.ts';
import type { ExplainQuery } from '../lib/policy/explain.ts';
import type { Workload } from '../lib/policy/workload.ts';
import { jsonText } from '../lib/printable.ts';
import { type CommandLine, complain, type Io } from './arguments.ts';
import { policyOf } from './explain-policy.ts';
import { type GivenQuestion, queryOfFlags } from './explain-query.ts';
import { policyPathsOf, workloadOf } from './pod.ts';
import { Progress } from './progress.ts';
import { grantJson, grantsText } from './reach-text.ts';
import type { PodFlag } from './table/pod.ts';

type ReachLine = CommandLine<PodFlag | 'policy' | 'json'>;

/** What is asked, of questions that are checked as those of `explain` are. */
export interface ReachQuestion {
  readonly given: GivenQuestion;
  readonly scopeOf: (query: ExplainQuery) => QuestionScope;
  /** For people, where there is nothing to show. */
  readonly none: string;
}

/** Prints all that a policy lets in of some questions. @throws UsageError */
export async function reach(line: ReachLine, io: Io, { given, scopeOf, none }: ReachQuestion): Promise<ExitStatus> {
  const paths = policyPathsOf(line.values('policy'), io);
  const workload = workloadOf(line, io);
  const scope = scopeOf(checked(given, workload, io));
  // Each question comes an hour after the last, so that no rate limit is ever spent.
  let nowMs = 0;
  const side = await policyOf(paths, workload, io, () => {
    nowMs += 3_600_000;
    return nowMs;
  });
  if (side === null) return usageExit;
  const progress = new Progress(io.stderr);
  const blocks = partition({
    sides: [side],
    workload,
    scope,
    progress: (done, of) => progress.say(() => `asked for ${done} of ${of} ports and groups of ports`),
  });
  let unexamined: readonly string[] = [];
  const grants = grantsOf(
    (function* () {
      ({ unexamined } = yield* blocks);
    })(),
  );
  progress.end();
  // What a document says comes before what holds by default.
  grants.sort((a, b) => Number(isDefault(a)) - Number(isDefault(b)));
  if (line.has('json')) {
    const shown = grants.map((set) => grantJson(set, paths, line, workload));
    io.stdout.write(`${jsonText({ reachable: grants.length > 0, unexamined, grants: shown }, 2)}\n`);
  } else io.stdout.write(grantsText({ grants, unexamined, paths, line, workload, none }, io.stdout));
  return grants.length > 0 ? 0 : 1;
}

function isDefault({ outcomes: [outcome] }: QuestionSet): boolean {
  return outcome?.authz?.kind === 'default';
}

/** Questions that are let in, or sent elsewhere by who would let them in. */
function grantsOf(blocks: Iterable<QuestionBlock>): QuestionSet[] {
  return setsOf(
    (function* () {
      for (const block of blocks) {
        const verdict = block.outcomes[0]?.verdict;
        if (verdict === 'permit' || verdict === 'redirect') yield block;
      }
    })(),
  );
}

/** What was not given has a value that changes nothing. */
function checked(given: GivenQuestion, workload: Workload, io: Io): ExplainQuery {
  const question = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
  const asked = { port: 1, client: '192.0.2.1', ...question };
  const { value, notes } = queryOfFlags(asked, { workload, listeners: null });
  for (const note of notes) complain(io, 'warning', note);
  return value;
}
