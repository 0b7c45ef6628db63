/**
 * Whose a connection should be that a worker has accepted. All poll the same listening sockets, and who is awake first
 * accepts: of a burst of connections one worker may get nearly all, and keep them.
 *
 * @param counts connections of each worker, those on their way to it included, but not the one that has come.
 * @param isOpen whether a worker takes connections.
 * @returns null: they are even enough, and it stays where it is.
 */
export function fairerOwner(
  counts: readonly number[],
  self: number,
  isOpen: (worker: number) => boolean,
): number | null {
  let fewest = counts[self] ?? 0;
  const own = fewest;
  let owner = self;
  for (const [worker, count] of counts.entries()) {
    if (count >= fewest || worker === self || !isOpen(worker)) continue;
    fewest = count;
    owner = worker;
  }
  return own - fewest > surplus(fewest) ? owner : null;
}

/**
 * How many more than another a worker may have. To hand a connection over takes 20 us, which is a third of a connection with
 * one request; so that among many a small difference is let be, and those come and go. Among a few, every one counts.
 */
function surplus(fewest: number): number {
  return fewest < 2 ? 0 : 1 + (fewest >> 3);
}
