import { readFileSync } from 'node:fs';

/** What the kernel gave the main thread of a process, in milliseconds. */
export interface Scheduled {
  /** On a processor. */
  readonly ranMs: number;
  /** Ready to run, while others had the processors. */
  readonly waitedMs: number;
}

/**
 * Since `from`, or in all. Without /proc/…/schedstat (no Linux, or a kernel without it) nothing is known to have waited.
 */
export function scheduled(pid: number, from: Scheduled = { ranMs: 0, waitedMs: 0 }): Scheduled {
  let text = '1 0';
  try {
    text = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const [ran = 0, waited = 0] = text.split(' ').map(Number);
  return { ranMs: ran / 1e6 - from.ranMs, waitedMs: waited / 1e6 - from.waitedMs };
}
