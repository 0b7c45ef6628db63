import { authorizerOf } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { type ExplainJson, explain } from '../../lib/policy/explain.ts';
import type { ResourceRef } from '../../lib/resource-ref.ts';
import { queryOf, readAll, workloadOf } from './case-world.ts';
import type { RecordedCheck, RecordedDecision, RecordedWorld } from './linkerd-cases.ts';
import type { PolicyDocument } from './policy-cases.ts';

const nameOf = ({ kind, metadata }: PolicyDocument): string => `${kind}/${metadata.name}`;

/**
 * The documents of a world, in force. Those that the API server or the webhook refused never came to be; `unrefused` are
 * those of them that are let pass here.
 */
export function load(world: RecordedWorld): { ask(check: RecordedCheck): ExplainJson; unrefused: readonly string[] } {
  const workload = workloadOf(world.id, world.pod, world.settings);
  const never = world.refused.map(({ doc }) => doc);
  const errors = readAll(world.resources, workload).problems.filter(({ severity }) => severity === 'error');
  const refused = errors.map(({ resource }) => `${resource?.kind}/${resource?.name}`);
  const inForce = world.resources.filter((document) => !never.includes(nameOf(document)));
  const { documents } = readAll(inForce, workload);
  const authorizer = authorizerOf(compileNow(documents, workload).index);
  return {
    ask: (check) => explain(authorizer, queryOf(check.client, check.request)),
    unrefused: never.filter((doc) => !refused.includes(doc)),
  };
}

export function name(ref: ResourceRef | null): string | null {
  return ref === null ? null : `${ref.group}/${ref.kind}/${ref.name}`;
}

export function passes(verdict: string): boolean {
  return verdict === 'permit' || verdict === 'redirect';
}

export function isWider({ verdict }: RecordedDecision, answer: ExplainJson): boolean {
  return passes(answer.verdict) && !passes(verdict);
}

/** Whether ours is Linkerd's decision, as far as a recording tells it. */
export function isSame(wanted: RecordedDecision, answer: ExplainJson): boolean {
  // Linkerd names nothing where it never came to a decision: it closes, resets the stream, or answers 400.
  if (wanted.verdict === 'closed') {
    return answer.tcp === 'close' || (answer.verdict === 'invalid' && answer.httpStatus === null);
  }
  if (wanted.verdict === 'invalid') return answer.verdict === 'invalid';
  // Linkerd credits any one of the authorizations that cover the client, in no fixed order.
  const granting = answer.candidates.filter(({ granted }) => granted).map(({ authz }) => name(authz));
  const credited = name(answer.authz) === wanted.authz || (answer.authz !== null && granting.includes(wanted.authz));
  return (
    verdictOf(answer) === wanted.verdict &&
    (answer.tcp === null ? 'http' : 'tcp') === wanted.wire &&
    name(answer.server) === wanted.server &&
    name(answer.route) === wanted.route &&
    credited
  );
}

function verdictOf({ verdict, httpStatus }: ExplainJson): string {
  return verdict === 'redirect' && httpStatus === 500 ? 'redirect-failed' : verdict;
}
