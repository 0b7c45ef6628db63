import { authorizerOf } from '../lib/policy/authorizer.ts';
import { compileNow, type PolicyIndex } from '../lib/policy/compile/compile.ts';
import { serverElsewhere } from '../lib/policy/compile/other-namespaces.ts';
import type { Authorizer } from '../lib/policy/decision.ts';
import type { PolicyDocument } from '../lib/policy/documents/types.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../lib/policy/explain.ts';
import type { Workload } from '../lib/policy/workload.ts';
import type { Io } from './arguments.ts';
import { problemText } from './problem-text.ts';
import { loadGiven } from './standard-input.ts';

/** What the questions are asked of. */
export interface ExplainedPolicy {
  readonly authorizer: Authorizer;
  /** What is in force there. */
  readonly index: PolicyIndex;
  readonly documents: readonly PolicyDocument[];
  readonly workload: Workload;
}

/**
 * The policy in force as `run` would have it on its first load; null, with the problems printed, when it cannot be read.
 *
 * @param nowMs the time for rate limits; left out, it stands still.
 */
export async function policyOf(
  paths: readonly string[],
  workload: Workload,
  io: Io,
  nowMs?: () => number,
): Promise<ExplainedPolicy | null> {
  const load = await loadGiven({ paths, namespace: workload.namespace }, io);
  const { index, problems } = compileNow(load.documents, workload);
  for (const problem of [...load.problems, ...problems]) io.stderr.write(`${problemText(problem, io.stderr)}\n`);
  if (load.broken) return null;
  return { authorizer: authorizerOf(index, nowMs), index, documents: load.documents, workload };
}

/** Where no Server has the port, it names the one that would if the pod were in that one's namespace. */
export function answerOf({ authorizer, documents, workload }: ExplainedPolicy, query: ExplainQuery): ExplainJson {
  const answer = explain(authorizer, query);
  if (answer.server.kind !== 'default') return answer;
  const elsewhere = serverElsewhere(documents, workload, query.port);
  if (elsewhere === null) return answer;
  const { namespace, name } = elsewhere;
  const remedy = `set SALLYPORT_POD_NAMESPACE or --namespace if the pod is in ${namespace}`;
  const reason = `${answer.reason}; Server ${namespace}/${name} is ignored, for the pod is in namespace ${workload.namespace} (${remedy})`;
  return { ...answer, reason };
}
