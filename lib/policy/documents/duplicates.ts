import type { Problem } from '../../problem.ts';
import { type ClusterDocument, locate, type PolicyDocument, resourceOf } from './types.ts';

/** Of two documents of one name. */
export function duplicate(later: PolicyDocument, earlier: PolicyDocument): Problem {
  const first = locate(earlier);
  return {
    severity: 'warning',
    code: 'duplicate',
    message: `${later.kind} ${later.namespace}/${later.name} replaces the one at ${first.file}:${first.line}`,
    ...locate(later, 'metadata', 'name'),
    resource: resourceOf(later),
    hint: 'Remove one of them.',
  };
}

/** One note for all of them: a dump of the cluster that was put there twice repeats thousands. */
export function duplicateListing(first: ClusterDocument, number: number): Problem {
  const more = number === 1 ? '' : `, and ${number - 1} more like it`;
  return {
    severity: 'warning',
    code: 'duplicate',
    message: `${first.kind} ${[first.namespace, first.name].join('/').replace(/^\//, '')} is listed twice${more}; the last one counts`,
    ...locate(first),
    resource: resourceOf(first),
    hint: 'Keep one listing of the cluster.',
  };
}
