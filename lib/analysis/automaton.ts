import { type PatternInstruction, type PatternProgram, patternProgram } from '../policy/regex.ts';

/*
 * Sets of texts as automata, so that one text can be found that some of them hold and others do not, or that there is none.
 * Those of regular expressions are the very programs that decide on requests, so that nothing is translated.
 */

/** A deterministic automaton whose states are made when they are reached. */
export interface TextMachine {
  /** Characters from one of these to the next are alike to it; ascending. */
  readonly bounds: readonly number[];
  readonly start: number;
  /** `dead` once nothing that follows can make the text one of the set. */
  step(state: number, rune: number): number;
  holds(state: number): boolean;
}

export const dead = -1;

/** What a text must be in (`holds`), or must not be in. */
export interface Want {
  readonly machine: TextMachine;
  readonly holds: boolean;
}

/** The search became too large to say whether there is such a text. */
export class TooLarge extends Error {}

/** What searches may yet look at, several of them together: so many states, each of as many automata as are asked. */
export interface Effort {
  left: number;
}

const mostStates = 20_000;
const mostOfOneSearch = 10_000_000;

/** The shortest text that is as wanted, of the plainest characters; null where there is none. @throws {TooLarge} */
export function textOf(wants: readonly Want[], effort: Effort = { left: mostOfOneSearch }): string | null {
  const end = Math.max(0, effort.left - mostOfOneSearch);
  const runes = alphabet(wants.flatMap(({ machine }) => machine.bounds));
  const first = wants.map(({ machine }) => machine.start);
  const seen = new Set([first.join()]);
  const queue: { readonly states: readonly number[]; readonly text: string }[] = [{ states: first, text: '' }];
  for (const { states, text } of queue) {
    if (wants.every(({ machine, holds }, i) => isHeld(machine, states[i]) === holds)) return text;
    effort.left -= runes.length * wants.length;
    if (effort.left < end) throw new TooLarge();
    for (const rune of runes) {
      const next = states.map((state, i) => (state === dead ? dead : (wants[i] as Want).machine.step(state, rune)));
      if (next.some((state, i) => state === dead && (wants[i] as Want).holds)) continue;
      const key = next.join();
      if (seen.has(key)) continue;
      if (seen.size >= mostStates) throw new TooLarge();
      seen.add(key);
      queue.push({ states: next, text: text + String.fromCodePoint(rune) });
    }
  }
  return null;
}

function isHeld(machine: TextMachine, state: number | undefined): boolean {
  return state !== undefined && state !== dead && machine.holds(state);
}

const preferred = [...'xabcdefghijklmnopqrstuvwyz0123456789/-_.~ABCDEFGHIJKLMNOPQRSTUVWXYZ=:@,+'].map(
  (character) => character.codePointAt(0) as number,
);

/** One character of each class of those that are all alike. */
function alphabet(bounds: readonly number[]): number[] {
  const sorted = [...new Set([0, ...bounds, 0xd800, 0xe000])].sort((a, b) => a - b);
  const classOf = (rune: number): number => {
    let low = 0;
    for (let high = sorted.length - 1; low < high; ) {
      const middle = (low + high + 1) >>> 1;
      if ((sorted[middle] as number) <= rune) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const chosen = new Map<number, number>();
  for (const rune of [
    ...preferred,
    ...sorted.filter((rune) => rune <= 0x10ffff && (rune < 0xd800 || rune >= 0xe000)),
  ]) {
    const key = classOf(rune);
    if (!chosen.has(key)) chosen.set(key, rune);
  }
  return [...chosen.values()];
}

const op = { alt: 1, altMatch: 2, capture: 3, empty: 4, match: 6, nop: 7, rune: 8, rune1: 9, any: 10, anyNotNl: 11 };
/** Before the first character and behind the last. */
const none = -1;

function isWord(rune: number): boolean {
  return (rune >= 48 && rune <= 57) || (rune >= 65 && rune <= 90) || rune === 95 || (rune >= 97 && rune <= 122);
}

/** What holds between two characters: the flags of empty-width assertions (RE2). */
function contextOf(before: number, after: number): number {
  let flags = 0;
  if (before === none) flags |= 4 | 1;
  if (before === 10) flags |= 1;
  if (after === none) flags |= 8 | 2;
  if (after === 10) flags |= 2;
  return flags | (isWord(before) === isWord(after) ? 32 : 16);
}

/** The whole values that a program matches. */
class PatternMachine implements TextMachine {
  readonly bounds: readonly number[];
  readonly start: number;
  readonly #code: readonly PatternInstruction[];
  readonly #states: { readonly at: readonly number[]; readonly before: number }[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #steps = new Map<number, Map<number, number>>();

  /** What holds a character beyond ASCII is refused by whoever must tell. */
  readonly #asciiAlone: boolean;

  constructor({ start, instructions, bounds, asciiAlone }: PatternProgram) {
    this.#code = instructions;
    this.#asciiAlone = asciiAlone;
    this.bounds = bounds;
    this.start = this.#number([start], none);
  }

  step(state: number, rune: number): number {
    let steps = this.#steps.get(state);
    if (steps === undefined) {
      steps = new Map();
      this.#steps.set(state, steps);
    }
    let next = steps.get(rune);
    if (next === undefined) {
      next = this.#step(state, rune);
      steps.set(rune, next);
    }
    return next;
  }

  holds(state: number): boolean {
    return this.#closure(state, none).some((at) => this.#at(at).op === op.match);
  }

  #step(state: number, rune: number): number {
    if (this.#asciiAlone && rune > 0x7f) return dead;
    const next = new Set<number>();
    for (const at of this.#closure(state, rune)) {
      const instruction = this.#at(at);
      if (takes(instruction, rune)) next.add(instruction.out);
    }
    return next.size === 0
      ? dead
      : this.#number(
          [...next].sort((a, b) => a - b),
          rune,
        );
  }

  /** Where a state may be once the next character is known. */
  #closure(state: number, after: number): readonly number[] {
    const { at, before } = this.#states[state] as { at: readonly number[]; before: number };
    const context = contextOf(before, after);
    const reached = new Set<number>();
    const pending = [...at];
    for (let pc = pending.pop(); pc !== undefined; pc = pending.pop()) {
      if (reached.has(pc)) continue;
      reached.add(pc);
      const instruction = this.#at(pc);
      if (instruction.op === op.alt || instruction.op === op.altMatch) pending.push(instruction.out, instruction.arg);
      else if (instruction.op === op.capture || instruction.op === op.nop) pending.push(instruction.out);
      else if (instruction.op === op.empty && (instruction.arg & ~context) === 0) pending.push(instruction.out);
      else if (instruction.op > op.anyNotNl) throw new TooLarge();
    }
    return [...reached];
  }

  #at(pc: number): PatternInstruction {
    return this.#code[pc] as PatternInstruction;
  }

  #number(at: readonly number[], last: number): number {
    // Of the last character only its kind is remembered.
    const before = last === none || last === 10 ? last : isWord(last) ? 120 : 32;
    const key = `${before} ${at.join()}`;
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#states.push({ at, before }) - 1;
      this.#numbers.set(key, number);
    }
    return number;
  }
}

function takes(instruction: PatternInstruction, rune: number): boolean {
  switch (instruction.op) {
    case op.rune:
    case op.rune1:
      return instruction.matchRune(rune);
    case op.any:
      return true;
    case op.anyNotNl:
      return rune !== 10;
    default:
      return false;
  }
}

/** Nothing, for a pattern that is none: as it matches nothing. */
const nothing: TextMachine = { bounds: [], start: 0, step: () => dead, holds: () => false };

const machines = new Map<string, TextMachine>();
const mostMachines = 16_384;

/** The automaton of a regular expression that must match whole values. */
export function patternMachine(source: string, ignoreCase = false): TextMachine {
  const key = `${ignoreCase ? 'i' : ''}/${source}`;
  let machine = machines.get(key);
  if (machine === undefined) {
    const program = patternProgram(source, ignoreCase);
    machine = program === null ? nothing : new PatternMachine(program);
    if (machines.size >= mostMachines) machines.clear();
    machines.set(key, machine);
  }
  return machine;
}
