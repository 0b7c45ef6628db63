import type { SourceDocument } from '../policy/documents/read.ts';
import type { Problem } from '../problem.ts';

export interface ReadYaml {
  readonly documents: readonly SourceDocument[];
  /** Anything here means that the file is not YAML, and none of its documents is to be believed. */
  readonly problems: readonly Problem[];
}

/** Values of one text, counted with what aliases multiply them to, and how deep they may lie: whatever reads them recurses. */
export const mostValues = 2_000_000;
export const mostDepth = 100;

/** Why a value is more than may be handed on, or null; takes what it holds off the budget. */
export function excessOf(root: unknown, budget: { values: number }): string | null {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > mostDepth) return `values lie more than ${mostDepth} levels deep`;
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      for (const inner of Object.values(value)) next.push(inner);
      if (next.length > budget.values) return `there are more than ${mostValues} values, with what aliases stand for`;
    }
    budget.values -= next.length;
    level = next;
  }
  return null;
}
