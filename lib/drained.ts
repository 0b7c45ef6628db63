/** How the connections of a stop have ended. */
export type Drained =
  | { readonly kind: 'by themselves' }
  /** The grace period was over. `connections`: how many were cut, as far as anybody can tell. */
  | { readonly kind: 'cut'; readonly connections: number };

export const byThemselves: Drained = { kind: 'by themselves' };

/** Of several threads. Null: one that does not answer, whose connections end with it and cannot be counted. */
export function drainedTogether(all: readonly (Drained | null)[]): Drained {
  let connections = 0;
  let wereCut = false;
  for (const each of all) {
    if (each?.kind === 'by themselves') continue;
    wereCut = true;
    connections += each?.connections ?? 0;
  }
  return wereCut ? { kind: 'cut', connections } : byThemselves;
}
