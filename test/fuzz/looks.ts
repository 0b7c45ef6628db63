let looking: Promise<unknown> = Promise.resolve();

/** One look at a time: a search that is over may leave its last one behind. */
export function inTurn<T>(look: () => Promise<T>): Promise<T> {
  const turn = looking.then(look);
  looking = turn.catch(() => {});
  return turn;
}

/** When the last look, which nobody may be waiting for, is over. */
export function lastLook(): Promise<unknown> {
  return looking;
}

/** What was only slow is the same at the second, patient look; so a difference must be seen at each. */
export async function patiently(
  quietMs: readonly number[],
  look: (quietMs: number) => Promise<string | null>,
): Promise<string | null> {
  let said: string | null = null;
  for (const quiet of quietMs) {
    said = await look(quiet);
    if (said === null) return null;
  }
  return said;
}
