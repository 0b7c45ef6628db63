/**
 * Whose a connection should be that a worker has accepted. All poll the same listening sockets, and who is awake first
 * accepts: of a burst of connections one worker may get nearly all, and keep them.
 *
 * @param counts connections of each worker, those on their way to it included, but not the one that has come.
 * @param isOpen whether a worker takes connections.
 * @param surplus how many more than another that has so many a worker may have.
 * @returns null: they are even enough, and it stays where it is.
 */
export function fairerOwner(
  counts: readonly number[],
  self: number,
  isOpen: (worker: number) => boolean,
  surplus: (fewest: number) => number = surplusOfStaying,
): number | null {
  let fewest = counts[self] ?? 0;
  const own = fewest;
  let owner = self;
  for (let worker = 0; worker < counts.length; worker++) {
    const count = counts[worker] ?? 0;
    if (count >= fewest || worker === self || !isOpen(worker)) continue;
    fewest = count;
    owner = worker;
  }
  return own - fewest > surplus(fewest) ? owner : null;
}

/**
 * Where connections stay. To hand one over takes 20 us, which is a third of a connection with one request; so that among many a
 * small difference is let be. Among a few, every one counts.
 */
function surplusOfStaying(fewest: number): number {
  return fewest < 2 ? 0 : 1 + (fewest >> 3);
}

/** Where they come and go within milliseconds: the next ones even out what these do not, unless some of them stay. */
export function surplusOfPassing(fewest: number): number {
  return 8 + (fewest >> 1);
}
