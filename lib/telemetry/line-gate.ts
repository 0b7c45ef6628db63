import type { LineMessage } from './line-rules.ts';

/** What a line is about, beside its message. */
export interface LineCause {
  /** Made of names of documents and words of ours: clients cannot make as many as they like. */
  readonly cause: string;
  /** Who has caused it, as `clientKey` has it, or what else is told apart; empty where nothing is. */
  readonly client: string;
}

/** Holds the lines of several threads to the rules that hold for one. Asked before a line that one thread alone would write. */
export interface LineGate {
  /** `told`: another thread has just written about the same; `full`: all together have written enough for this minute. */
  pass(message: LineMessage, about: LineCause): 'pass' | 'told' | 'full';
}

/** For a thread that writes alone. */
export const openGate: LineGate = { pass: () => 'pass' };
