import type { Host } from './host.ts';
import type { ConfigFault, VariableReader } from './variables.ts';

/**
 * How many threads serve. Without a word: the whole cores of the CPU limit, since a thread for a part of a core would have
 * all of them stopped in the middle of each period of the scheduler; and one where there is no limit, as Linkerd's proxy.
 */
export function readWorkers(
  reader: VariableReader,
  host: Pick<Host, 'cpuLimit' | 'parallelism'>,
): { readonly workers: number; readonly warnings: readonly ConfigFault[] } {
  const asked = reader.get('SALLYPORT_WORKERS');
  const most = Math.max(1, host.parallelism());
  if (asked === null) return { workers: Math.min(most, Math.max(1, Math.floor(host.cpuLimit() ?? 1))), warnings: [] };
  if (asked <= most) return { workers: asked, warnings: [] };
  const message = `${asked} workers are more than the ${most} that run at a time here; there are ${most}`;
  const hint = 'ask for no more than there are cores for this process';
  return { workers: most, warnings: [{ variable: 'SALLYPORT_WORKERS', code: 'too-many-workers', message, hint }] };
}
