import type { QuestionBlock } from './blocks.ts';
import { type Answered, outcomeKey } from './outcome.ts';
import { type QuestionSet, setsOf } from './sets.ts';

/** From the most that a reader must see to the least. */
export const changeKinds = ['allowed', 'refused', 'otherwise', 'moved'] as const;
export type ChangeKind = (typeof changeKinds)[number];

/** Questions that two policies decide otherwise, all in the same way. */
export interface PolicyChange extends Omit<QuestionSet, 'outcomes'> {
  readonly kind: ChangeKind;
  readonly before: Answered;
  readonly after: Answered;
}

/** What the blocks of a comparison say together, the gravest first. */
export function changesOf(blocks: Iterable<QuestionBlock>): PolicyChange[] {
  const changes = setsOf(blocks).flatMap(({ outcomes: [before, after], ...set }) =>
    before === undefined || after === undefined ? [] : [{ ...set, kind: kindOf(before, after), before, after }],
  );
  return changes.sort((a, b) => changeKinds.indexOf(a.kind) - changeKinds.indexOf(b.kind));
}

function kindOf(before: Answered, after: Answered): ChangeKind {
  const was = before.verdict === 'permit';
  const is = after.verdict === 'permit';
  if (was !== is) return is ? 'allowed' : 'refused';
  const alike = { authz: null };
  return outcomeKey({ ...before, ...alike }) === outcomeKey({ ...after, ...alike }) ? 'moved' : 'otherwise';
}
