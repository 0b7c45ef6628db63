import type { Authorizer } from '../policy/decision.ts';
import type { DecisionRecord } from '../records/record.ts';
import { type Answer, answerTo, type PortOf } from '../replay/answer.ts';
import { type Draft, type DraftFacts, draft, takenBy, takenFrom } from './draft.ts';
import type { ClientUse, Evidence } from './evidence.ts';
import { type Faults, headOf } from './head.ts';
import type { Constraints, Unwritten } from './matches.ts';
import { type Existing, missingIn, type PolicyAnswers } from './merge.ts';
import { policyText, type WriteFacts, Writer } from './write.ts';

export type SuggestFacts = DraftFacts & WriteFacts;

/** How a policy is read, from its text, and put in force to be asked. */
export type Load = (text: string) => Authorizer;

export interface SuggestOptions {
  /** Each path and each address as it was seen. */
  readonly exact: boolean;
  /** A policy to which only what is missing is added; null: there is none. */
  readonly existing: Existing | null;
  readonly load: Load;
  readonly portOf: PortOf;
}

export interface Suggestion {
  /** Of a whole policy; or, beside one that exists, of what is to be added. */
  readonly text: string;
  /** What was allowed and would be refused, because no document can name it. */
  readonly refused: readonly Unwritten[];
  /** What was refused and would be allowed, since it differs from what was allowed in nothing that a document can name. */
  readonly allowed: readonly DecisionRecord[];
}

/**
 * The least policy that lets in what was seen: a draft by the rules, which is then held against all that the log has, and
 * made narrower where a rule has let in what was refused, or has moved what was allowed.
 */
export function suggest(evidence: Evidence, facts: SuggestFacts, options: SuggestOptions): Suggestion {
  const { exact, existing, load, portOf } = options;
  const answers = (text: string): PolicyAnswers => {
    const authorizer = load(existing === null ? text : existing.with(text));
    return (record) => answerTo(authorizer, record, portOf);
  };
  const before = existing === null ? null : answers('');
  const wanted = before === null ? null : missingIn(evidence, before);
  const unwanted = [...evidence.refused].filter(([record]) => before === null || !lets(before(record), 'permit'));
  let constraints: Constraints = {
    exactPaths: exact ? 'all' : new Set(),
    exactNetworks: exact,
    telling: new Set(),
    misread: new Set(),
  };
  for (;;) {
    const drafted = draft(evidence, wanted, facts, constraints);
    const taken = existing === null ? [] : takenFrom(existing, drafted);
    const apart = pathByPath(constraints, taken);
    if (apart !== null) {
      constraints = apart;
      continue;
    }
    const text = textOf(drafted, evidence, facts, existing, { refused: [], allowed: [] });
    const wrong = held(evidence, unwanted, answers(text));
    const narrower = narrowed(constraints, drafted, wrong);
    if (narrower === null) return settled(drafted, evidence, facts, existing, wrong);
    constraints = narrower;
  }
}

/** What comes out other than it should. */
interface Wrong {
  /** `misread`: servers may read its path in ways that are decided otherwise. */
  readonly refused: readonly {
    readonly what: string;
    readonly port: number;
    readonly use: ClientUse;
    readonly misread: boolean;
  }[];
  readonly allowed: readonly { readonly record: DecisionRecord; readonly port: number }[];
}

type Unwanted = readonly (readonly [record: DecisionRecord, port: number])[];

/** Whether it is let in; what cannot be told counts as neither let in nor refused. */
function lets(answer: Answer, verdict: 'permit' | 'refusal'): boolean {
  return answer.kind === 'decided' && (answer.verdict === 'permit') === (verdict === 'permit');
}

/** Beside no routes the pod's probes pass without a document: the proxy knows them, even where nobody has named them here. */
function isLeftToProbes({ caller }: ClientUse, answer: Answer): boolean {
  return caller.kind === 'probe' && answer.kind === 'decided' && answer.route?.kind === 'default';
}

/** @param unwanted what was refused and is not let in by a policy that exists. */
function held(evidence: Evidence, unwanted: Unwanted, now: PolicyAnswers): Wrong {
  const refused: Wrong['refused'][number][] = [];
  for (const { port, carried, method, paths } of evidence.groups.values()) {
    for (const [path, uses] of paths) {
      for (const use of uses.values()) {
        const what = carried === 'bytes' ? `bytes on port ${port}` : `${method} ${path}`;
        const answer = now(use.record);
        if (lets(answer, 'refusal') && !isLeftToProbes(use, answer)) {
          const misread = answer.kind === 'decided' && answer.verdict === 'invalid';
          refused.push({ what, port, use, misread });
        }
      }
    }
  }
  const allowed = unwanted
    .filter(([record]) => lets(now(record), 'permit'))
    .map(([record, port]) => ({ record, port }));
  return { refused, allowed };
}

/** Null where they all are written so already. */
function pathByPath(constraints: Constraints, groups: readonly string[]): Constraints | null {
  const { exactPaths } = constraints;
  if (exactPaths === 'all' || groups.every((key) => exactPaths.has(key))) return null;
  return { ...constraints, exactPaths: new Set([...exactPaths, ...groups]) };
}

/** Null where nothing more can be made narrower. */
function narrowed(constraints: Constraints, drafted: Draft, { refused, allowed }: Wrong): Constraints | null {
  const { exactNetworks, telling } = constraints;
  const admitted = allowed.map(({ port, record }) => ({ port, record }));
  const moved = refused.map(({ port, use }) => ({ port, record: use.record }));
  const wide = takenBy(drafted, [...admitted, ...moved], 'wider');
  const apart = pathByPath(constraints, wide);
  if (apart !== null) return apart;
  const odd = refused.filter(({ what, misread }) => misread && !constraints.misread.has(what));
  if (odd.length > 0)
    return { ...constraints, misread: new Set([...constraints.misread, ...odd.map(({ what }) => what)]) };
  if (allowed.length === 0) return null;
  if (!exactNetworks) return { ...constraints, exactNetworks: true };
  const taken = takenBy(drafted, admitted, 'any');
  if (taken.every((key) => telling.has(key))) return null;
  return { ...constraints, telling: new Set([...telling, ...taken]) };
}

/** What is wrong and cannot be mended is said in the policy itself. */
function settled(
  drafted: Draft,
  evidence: Evidence,
  facts: SuggestFacts,
  existing: Existing | null,
  wrong: Wrong,
): Suggestion {
  const known = new Set(drafted.unwritten.map(({ what }) => what));
  const others = new Map<string, Unwritten>();
  for (const { what, use } of wrong.refused) {
    const why =
      use.caller.kind === 'probe'
        ? 'it is a probe, and its route is for what others do as well; give it one of its own, or set SALLYPORT_PROBES_WITH_ROUTES'
        : 'servers read its path in more ways than a route can name, or another document takes it or shuts it out';
    if (!known.has(what) && !others.has(what)) others.set(what, { what, why, seen: use });
  }
  const refused = [...drafted.unwritten, ...others.values()];
  const allowed = wrong.allowed.map(({ record }) => record);
  return { text: textOf(drafted, evidence, facts, existing, { refused, allowed }), refused, allowed };
}

function textOf(
  drafted: Draft,
  evidence: Evidence,
  facts: SuggestFacts,
  existing: Existing | null,
  faults: Faults,
): string {
  const writer = new Writer(facts, existing);
  for (const port of drafted.ports) writer.port(port);
  for (const addition of drafted.additions) writer.addition(addition);
  if (existing !== null && writer.documents.length === 0) return '';
  return policyText(headOf(drafted, evidence, existing !== null, faults), writer.documents);
}
