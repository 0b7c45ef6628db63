import { readdirSync, readFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';

/** Of this thread as it was started: it stays the measure, however often it is asked for. */
const ownPriority = getPriority();

/** Ten steps of niceness leave a tenth of the weight: traffic goes first, and what is behind it still ends on a busy core. */
const behindSteps = 10;

/**
 * Five steps leave a quarter. Traffic waits for what is compiled as well: at full load, with a tenth, a new process takes two to
 * four seconds to come to its full rate, with a quarter 1.2 to 1.5, and clients wait no longer (benchmarks/README.md,
 * "Cold").
 */
const helperSteps = 5;

/**
 * Lets a thread have what traffic leaves of a processor. The kernel of Linux keeps a niceness for each thread; elsewhere the
 * whole process would be slowed down, and nothing is done. It stays, since raising it again takes a privilege. Where a sandbox
 * forbids the call, the thread competes with the traffic as an equal.
 *
 * @param thread by its number in the kernel; 0 is the calling one.
 * @param steps of niceness.
 */
export function goBehindTraffic(thread = 0, steps = behindSteps): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(thread, Math.min(constants.priority.PRIORITY_LOW, ownPriority + steps));
  } catch {
    // Not allowed here, or the thread has ended.
  }
}

/**
 * The same for V8's helper threads, which compile what runs often. A process that meets its first load has a fifth of a second
 * of that to do, and a sidecar seldom has a second core: its clients would wait for as long again. A Node that does not name
 * these threads keeps them as they are.
 */
export function helpersGoBehindTraffic(): void {
  if (process.platform !== 'linux') return;
  for (const thread of namedThreads('V8Worker')) goBehindTraffic(thread, helperSteps);
}

function namedThreads(part: string): number[] {
  const folder = '/proc/self/task';
  try {
    return readdirSync(folder).flatMap((id) =>
      readFileSync(`${folder}/${id}/comm`, 'utf8').includes(part) ? Number(id) : [],
    );
  } catch {
    // Without /proc, or where a thread ended meanwhile.
    return [];
  }
}
