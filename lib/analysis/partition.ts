import type { Workload } from '../policy/workload.ts';
import type { AskedPolicy, QuestionBlock, QuestionScope } from './blocks.ts';
import { Judge } from './outcome.ts';
import { PortWork } from './port-work.ts';
import { type PortClass, portClasses } from './ports.ts';
import { Shapes } from './shapes.ts';

/*
 * Every question that one policy, or two, can be asked about one pod, in cells: the questions of a cell are decided alike by
 * each of the policies. Ports, clients and requests are divided by what the policies say of them and nothing else; for each
 * cell one question is put to the deciding function itself.
 */

/** States of automata that are looked at in all: seconds. */
const mostEffort = 60_000_000;

export interface PartitionOptions {
  /** One, or two to compare. */
  readonly sides: readonly AskedPolicy[];
  readonly workload: Workload;
  readonly scope?: QuestionScope;
  /** Called with the share of ports that are done, from 0 to 1. */
  readonly progress?: (done: number, of: number) => void;
}

/** What could not be followed to its end, so that questions which depend on it may be missing. */
export interface Partition {
  readonly unexamined: readonly string[];
  /** Questions put to the deciding function. */
  readonly asked: number;
}

/**
 * Hands over every block: of one policy all of them, of two those that they decide otherwise. The return value says what is
 * missing.
 */
export function* partition(options: PartitionOptions): Generator<QuestionBlock, Partition> {
  const { sides, workload, scope = {}, progress } = options;
  const shapes = new Shapes();
  const judges = sides.map(({ authorizer }) => new Judge(authorizer));
  const unexamined = new Set<string>();
  const effort = { left: mostEffort };
  const classes = portClasses(
    sides.map(({ index }) => index),
    workload,
  ).flatMap((cls) => withinScope(cls, scope.ports));
  let done = 0;
  for (const port of classes) {
    yield* new PortWork({
      port,
      sides,
      shapes,
      judges,
      scope,
      effort,
      unexamined: (what) => unexamined.add(what),
    }).blocks();
    done += 1;
    progress?.(done, classes.length);
  }
  return { unexamined: [...unexamined], asked: judges.reduce((sum, { asked }) => sum + asked, 0) };
}

function withinScope(cls: PortClass, ports: readonly number[] | undefined): PortClass[] {
  if (ports === undefined) return [cls];
  const wanted = ports.filter((port) => cls.ranges.some(({ first, last }) => first <= port && port <= last));
  const [sample] = wanted;
  return sample === undefined ? [] : [{ ranges: wanted.map((port) => ({ first: port, last: port })), sample }];
}
