import { everyone } from './everyone.ts';
import type { Located, TestPath } from './shape.ts';
import { type Axis, type CaseClient, type CaseVariant, mostQuestions, type SuiteCase } from './suite.ts';

/** One question of a case, in the words of `explain`, and where its fields stand. */
export interface CaseQuestion {
  readonly variant: CaseVariant;
  readonly given: Readonly<Record<string, unknown>>;
  readonly places: ReadonlyMap<string, TestPath>;
  /** Which of `everyone`, or the client's name; null where the question says it all. */
  readonly who: string | null;
}

type Strangers = Parameters<typeof everyone>[0];

/** Every question that a case stands for, in the order in which it is written: the first list changes slowest. */
export function* questionsOf({ variants }: SuiteCase, workload: Strangers): Generator<CaseQuestion> {
  for (const variant of variants) {
    for (const { who, axes } of clientsOf(variant.from, workload)) {
      yield* combined(variant, who, axes);
    }
  }
}

/** How many those are; `mostQuestions` and one more stand for any number above. */
export function questionCount({ variants }: SuiteCase, workload: Strangers): number {
  let sum = 0;
  for (const variant of variants) {
    for (const { axes } of clientsOf(variant.from, workload)) {
      const all = merged(variant.axes, axes);
      sum += all.reduce((product, { values }) => product * values.length, 1);
    }
  }
  return Math.min(sum, mostQuestions + 1);
}

interface Asking {
  readonly who: string | null;
  readonly axes: readonly Axis[];
}

function clientsOf(from: readonly Located<CaseClient>[] | null, workload: Strangers): readonly Asking[] {
  if (from === null) return [{ who: null, axes: [] }];
  return from.flatMap(({ value, path }): Asking[] => {
    if (value.kind === 'client') return [{ who: value.name, axes: value.axes }];
    return everyone(workload).map(({ who, asks }) => ({
      who: `everyone: ${who}`,
      axes: Object.entries(asks).map(([name, each]) => ({
        name: name as Axis['name'],
        values: [{ value: each, path }],
      })),
    }));
  });
}

/** A client's own fields win: the others are of the defaults, which name one address for all. */
function merged(axes: readonly Axis[], own: readonly Axis[]): readonly Axis[] {
  return [...axes.filter(({ name }) => !own.some((axis) => axis.name === name)), ...own];
}

function* combined(variant: CaseVariant, who: string | null, own: readonly Axis[]): Generator<CaseQuestion> {
  const axes = merged(variant.axes, own);
  const chosen = axes.map(() => 0);
  for (;;) {
    const given: Record<string, unknown> = {};
    const places = new Map<string, TestPath>();
    for (const [i, { name, values }] of axes.entries()) {
      const { value, path } = values[chosen[i] as number] as Located<unknown>;
      given[name] = value;
      places.set(name, path);
    }
    if (variant.headers !== null) {
      given.headers = variant.headers.value;
      places.set('headers', variant.headers.path);
    }
    yield { variant, given, places, who };
    if (!advance(chosen, axes)) return;
  }
}

/** The next combination; false behind the last. */
function advance(chosen: number[], axes: readonly Axis[]): boolean {
  for (let i = axes.length - 1; i >= 0; i--) {
    const next = (chosen[i] as number) + 1;
    chosen[i] = next;
    if (next < (axes[i] as Axis).values.length) return true;
    chosen[i] = 0;
  }
  return false;
}
