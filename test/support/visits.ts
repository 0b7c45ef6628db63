/**
 * Who calls whom in this process while something happens: by breakpoints whose condition looks at the stack and is never
 * true, so that nothing stops. lib/README.md, "How to read the walks", says what a visit is.
 */
import { readFileSync } from 'node:fs';
import type { Session } from 'node:inspector/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A call of a function of ours: itself, and behind it the functions of ours that have called it, outermost last. */
export type Call = readonly Frame[];

interface Frame {
  /** Relative to the root. */
  readonly file: string;
  /** As in a stack trace: `AppStream.write`, `new Relay`, `get closed`, `#read`; empty for one without a name. */
  readonly name: string;
}

const hook = Symbol.for('sallyport.test.visits');

/** The functions that ran while `act` did, and where V8 can stop in them. */
async function ranDuring(session: Session, root: string, act: () => Promise<unknown>) {
  await session.post('Profiler.takePreciseCoverage');
  await act();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const found: { scriptId: string; lineNumber: number; columnNumber: number }[] = [];
  for (const { url, scriptId, functions } of result) {
    if (!url.startsWith('file:') || !relative(root, fileURLToPath(url)).startsWith('lib/')) continue;
    const source = readFileSync(fileURLToPath(url), 'utf8');
    const placeOf = (offset: number) => {
      const lines = source.slice(0, offset).split('\n');
      return { scriptId, lineNumber: lines.length - 1, columnNumber: (lines.at(-1) ?? '').length };
    };
    for (const { ranges } of functions) {
      const [range] = ranges;
      // From 0: the module itself.
      if (range === undefined || range.count === 0 || range.startOffset === 0) continue;
      const bounds = { start: placeOf(range.startOffset), end: placeOf(range.endOffset), restrictToFunction: true };
      const { locations } = await session.post('Debugger.getPossibleBreakpoints', bounds);
      const [first] = locations;
      // Of initial values of fields there is none.
      if (first !== undefined) found.push({ ...first, columnNumber: first.columnNumber ?? 0 });
    }
  }
  return found;
}

function framesOf(stack: string, root: string): Call {
  const frames: Frame[] = [];
  for (const line of stack.split('\n')) {
    const [, name = '', url = ''] = /^ +at (?:(.*?) \()?(file:\/\/[^)]+?):\d+:\d+\)?$/.exec(line) ?? [];
    const file = url === '' ? '' : relative(root, fileURLToPath(url));
    if (file.startsWith('lib/')) frames.push({ file, name: name.replace(/ \[as .*/, '') });
  }
  return frames;
}

/** Every call of a function of lib while `act` runs, in their order. `act` is run twice, the same way. */
export async function callsDuring(session: Session, root: string, act: () => Promise<unknown>): Promise<Call[]> {
  await session.post('Debugger.enable');
  const places = await ranDuring(session, root, act);
  const calls: Call[] = [];
  const before = Error.stackTraceLimit;
  Object.assign(globalThis, {
    [hook]: (): false => {
      Error.stackTraceLimit = 100;
      calls.push(framesOf(new Error().stack ?? '', root));
      Error.stackTraceLimit = before;
      return false;
    },
  });
  const condition = "globalThis[Symbol.for('sallyport.test.visits')]()";
  for (const location of places) await session.post('Debugger.setBreakpoint', { location, condition });
  try {
    await act();
  } finally {
    await session.post('Debugger.disable');
    Reflect.deleteProperty(globalThis, hook);
  }
  return calls;
}

export interface Visits {
  /** How often control came to each of the steps. */
  readonly times: ReadonlyMap<string, number>;
  /** Files that are no steps, and went on from one step to another: `from → file → to`. */
  readonly links: ReadonlySet<string>;
}

/** What a walk says of its calls. */
export interface WalkRules {
  /** Files, each with the names of its classes that extend another: what they inherit belongs to the step. */
  readonly steps: ReadonlyMap<string, readonly string[]>;
  /** The function that begins anew within an event, as in a stack trace. */
  readonly anew: string;
  /** Files behind which is another walk. */
  isDoor(file: string): boolean;
}

export function classesOf(root: string, steps: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const extending = (file: string): string[] =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/\bclass (\w+) extends /g)].map(([, name = '']) => name);
  return new Map(steps.map((file) => [file, extending(file)]));
}

const isAccessor = ({ name }: Frame): boolean => /^[gs]et /.test(name);

/** How often each step was entered. */
export function visitsOf(calls: readonly Call[], { steps, anew, isDoor }: WalkRules): Visits {
  const ownerOf = new Map([...steps].flatMap(([file, classes]) => classes.map((name) => [name, file] as const)));
  const heirOf = ({ name }: Frame): string | undefined => ownerOf.get(name.split('.')[0] ?? '');
  const stepOf = (frame: Frame): string | null => {
    const file = heirOf(frame) ?? frame.file;
    return !isAccessor(frame) && steps.has(file) ? file : null;
  };
  const links = new Set<string>();
  /** The steps that led to a call, outermost first. */
  const pathOf = (call: Call): string[] => {
    const path: string[] = [];
    let between: string | null = null;
    for (const frame of call.toReversed()) {
      const step = stepOf(frame);
      if (step !== null && step !== path.at(-1)) {
        if (between !== null) links.add(`${path.at(-1)} → ${between} → ${step}`);
        path.push(step);
      }
      if (step !== null) between = null;
      else if (path.length > 0 && !isDoor(frame.file) && !isAccessor(frame)) between = frame.file;
    }
    return path;
  };
  const seen = new Set<string>();
  const times = new Map<string, number>();
  let [event, beginning] = [0, 0];
  for (const call of calls) {
    const [own] = call;
    if (own === undefined) continue;
    if (call.length === 1) event++;
    if (own.name === anew) beginning++;
    const step = stepOf(own);
    if (step === null) continue;
    const from = call.some(({ name }) => name === anew) ? `beginning ${beginning}` : `event ${event}`;
    const visit = `${from}: ${pathOf(call).join(' → ')}`;
    if (seen.has(visit)) continue;
    seen.add(visit);
    times.set(step, (times.get(step) ?? 0) + 1);
  }
  return { times, links };
}
