import type * as z from 'zod';
import { didYouMean } from '../nearest.ts';
import type { DocumentKind } from './kinds.ts';
import { type Holder, isFields, withoutNulls } from './nulls.ts';
import { type AdmissionReport, type Path, pathText, withInput } from './report.ts';
import { fieldsAt } from './shape-fields.ts';
import { unattachedRouteShape } from './shapes.ts';
import { linkerdGroup } from './types.ts';

/*
 * Routes that attach to no Server. They are no inbound policy, and hold what is nobody's here; but that they do not must be
 * beyond doubt, since what a route would have guarded is served as if it were not there.
 */

export const topLevelFields = ['apiVersion', 'kind', 'metadata', 'spec', 'status'];

/** `spec`: as it is in `value`, without the null fields that are known and narrow nothing. */
export function judgeUnattached(
  value: Holder,
  spec: unknown,
  { type, shape }: { readonly type: DocumentKind; readonly shape: z.ZodType },
  report: AdmissionReport,
): void {
  const plain = withoutNulls(value.spec);
  // Linkerd's own routes are known whole; the Gateway API's may hold what is unknown here and concerns others.
  const isOurs = type.group === linkerdGroup;
  const faults = ((isOurs ? shape : unattachedRouteShape).safeParse(plain ?? {}, withInput).error?.issues ?? []).filter(
    ({ code }) => code !== 'unrecognized_keys',
  );
  report.issues(faults, ['spec'], 'refuse');
  refuseStrays(value, spec, shape, report);
  const empty = emptyAt(value);
  // Its CRDs require a spec, that of a GRPCRoute does not.
  const required = isOurs || (type.kind === 'HTTPRoute' && !isFields(value.spec));
  if (empty !== null && required) {
    report.refuse('null-field', empty, `${pathText(empty)} has no value: nobody knows what the route is attached to`);
  } else if (empty !== null) {
    report.warnOfNull(empty);
  } else if (required && value.spec === undefined && !report.refused) {
    report.refuse('missing-field', ['spec'], 'spec is required: nobody knows what the route is attached to');
  }
  if (!report.refused) warnOfMissingKind(plain, report);
}

/** What has no value of all that says where a route is attached. */
function emptyAt({ spec }: Holder): Path | null {
  if (spec === null) return ['spec'];
  return isFields(spec) && spec.parentRefs === null ? ['spec', 'parentRefs'] : null;
}

/** A route that names no parents, but has a field that nobody knows: who can say that those were not meant? */
function refuseStrays(value: Holder, spec: unknown, shape: z.ZodType, report: AdmissionReport): void {
  const [holder, at, known] = spec === undefined ? [value, [], topLevelFields] : [spec, ['spec'], fieldsAt(shape, [])];
  if (!isFields(holder) || holder.parentRefs !== undefined) return;
  for (const field of Object.keys(holder)) {
    if (known.includes(field)) continue;
    const message = `unknown field ${pathText([...at, field])}: nobody knows what the route is attached to`;
    report.refuse(
      'unknown-field',
      [...at, field],
      message,
      didYouMean(field, known, `Known here: ${known.join(', ')}.`),
    );
  }
}

function warnOfMissingKind(spec: unknown, report: AdmissionReport): void {
  const parents = isFields(spec) && Array.isArray(spec.parentRefs) ? spec.parentRefs : [];
  parents.forEach((ref: unknown, i) => {
    if (isFields(ref) && ref.kind === undefined) {
      report.warn(
        'parent-kind',
        ['spec', 'parentRefs', i],
        'a parentRef without kind means a Gateway, so the route is no inbound policy',
        'Write group: policy.linkerd.io and kind: Server.',
      );
    }
  });
}
