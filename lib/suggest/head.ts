import type { DecisionRecord } from '../records/record.ts';
import { counted, number, period, printable, times } from './comments.ts';
import type { Draft } from './draft.ts';
import type { EvidenceTally, Seen } from './evidence.ts';
import { namesRule, type Unwritten } from './matches.ts';

/** What a suggestion does not do as it should. */
export interface Faults {
  /** Allowed then, and refused by it. */
  readonly refused: readonly Unwritten[];
  /** Refused then, and allowed by it. */
  readonly allowed: readonly DecisionRecord[];
}

/** Of one kind of fault that are told one by one. */
const mostTold = 20;

/**
 * What the head of a suggestion says.
 *
 * @param isAdded to a policy that exists.
 */
export function headOf(
  draft: Draft,
  evidence: { readonly seen: Seen; readonly tally: EvidenceTally },
  isAdded: boolean,
  { refused, allowed }: Faults,
): string[] {
  const { seen, tally } = evidence;
  const routes = [...draft.ports, ...draft.additions].flatMap((each) => ('routes' in each ? each.routes : []));
  const rules: string[] = [];
  if (routes.some(({ matches }) => matches.some(({ why }) => why !== null))) {
    rules.push(
      `Wider than what was seen, where a comment says so: a segment of a path stands for all of its kind where two values of one kind (numbers, UUIDs, long hexadecimal digits or tokens) or ${namesRule} names were seen in its place.`,
    );
  }
  const unseen = isAdded
    ? 'Nothing else is added to the policy before it, but where a comment says so.'
    : 'What was not seen is refused.';
  return [
    `Suggested by sallyport suggest from ${counted(seen.count, 'decision')}${period(seen)}. ${unseen} Read it before you apply it.`,
    ...rules,
    ...told(
      refused.map(({ what, why, seen: { count } }) => `Not allowed: ${printable(what)} (${times(count)}): ${why}.`),
    ),
    ...told(allowed.map((record) => `Allowed, and was refused then: ${printable(recordText(record))}.`)),
    ...(tally.beyond > 0 ? [`Not allowed: ${counted(tally.beyond, 'decision')}, of too many different ones.`] : []),
    ...(tally.untold > 0
      ? [`Not allowed: ${counted(tally.untold, 'decision')}, of which the log does not say enough.`]
      : []),
    ...(tally.unheld > 0
      ? [
          `It may allow what was refused: ${counted(tally.unheld, 'refusal')} of too many different ones are not held against it.`,
        ]
      : []),
  ];
}

function told(texts: readonly string[]): string[] {
  const more = texts.length - mostTold;
  return more > 0 ? [...texts.slice(0, mostTold), `And ${number(more)} more.`] : [...texts];
}

function recordText({ question: { method = '', path = '', client, identity } }: DecisionRecord): string {
  return `${method} ${path} by ${identity ?? client}`.trimStart();
}
