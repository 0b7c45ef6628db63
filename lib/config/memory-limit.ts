import { type Cgroup, cgroupsOf, type ReadText } from './cgroups.ts';

/** What the kernel lets this process use, and how much of that is used. */
export interface MemoryBound {
  readonly limitBytes: number;
  /** Without what the kernel can take back, pages of files; null where it cannot be read. */
  usedBytes(): number | null;
}

/**
 * What the cgroup of this process and those above it allow: the least of all; null where nothing limits it. Over
 * `memory.high` the kernel ends nobody and slows everybody down, which is no way to serve either.
 */
export function memoryBound(read?: ReadText): MemoryBound | null {
  const groups = cgroupsOf('memory', read);
  let least: { readonly limitBytes: number; readonly group: Cgroup } | null = null;
  for (const group of groups) {
    const limitBytes = Math.min(...limitsOf(group));
    // Of two that allow as much the nearer one is meant: others may be below the one above.
    if (limitBytes < (least?.limitBytes ?? Number.POSITIVE_INFINITY)) least = { limitBytes, group };
  }
  if (least === null) return null;
  const { limitBytes, group } = least;
  // In a group above there may be others, who would not use less if we did.
  const isOwn = group === groups.find((each) => each.text(usageOf[each.version]) !== null);
  return { limitBytes, usedBytes: () => (isOwn ? usedIn(group) : null) };
}

/** Without a limit version 2 says `max`, which is no number, and version 1 a number that no machine has. */
const mostBytes = 2 ** 60;

const usageOf = { 1: 'memory.usage_in_bytes', 2: 'memory.current' } as const;

function limitsOf(group: Cgroup): number[] {
  if (group.version === 2) return [bytesOf(group.text('memory.max')), bytesOf(group.text('memory.high'))];
  // What those above allow stands there as well, and they may be out of sight.
  const inherited = /^hierarchical_memory_limit (\d+)$/m.exec(group.text('memory.stat') ?? '')?.[1] ?? null;
  return [bytesOf(group.text('memory.limit_in_bytes')), bytesOf(inherited)];
}

function bytesOf(text: string | null): number {
  const bytes = /^\d+$/.test(text?.trim() ?? '') ? Number(text) : 0;
  return bytes > 0 && bytes < mostBytes ? bytes : Number.POSITIVE_INFINITY;
}

function usedIn(group: Cgroup): number | null {
  const usage = group.text(usageOf[group.version]);
  const stat = group.text('memory.stat');
  if (usage === null || stat === null) return null;
  const part = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
  const of = group.version === 1 ? 'total_' : '';
  return Number(usage) - part(`${of}active_file`) - part(`${of}inactive_file`);
}
