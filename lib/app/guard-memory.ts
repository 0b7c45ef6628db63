import { totalmem } from 'node:os';
import { memoryBound } from '../config/memory-limit.ts';
import { type GuardedMemory, MemoryGuard, soonestMs } from '../ops/memory-guard.ts';
import { giveBackNow, ownBytes } from '../ops/returned-memory.ts';
import type { BufferBudget } from '../proxy/fairness/buffer-budget.ts';
import type { LiveConnections } from '../proxy/fairness/live-connections.ts';
import { guarded } from '../proxy/guard.ts';

/** Looks at the memory again and again, for one thread; the others have guards of their own, and each lets go of its part. */
export function guardMemory(workers: number, live: LiveConnections, budget: BufferBudget): { close(): void } {
  const guard = new MemoryGuard(memoryOf(workers, live, budget));
  let nextMs = soonestMs;
  const look = guarded('looking at the memory', null, () => {
    nextMs = guard.look();
  });
  let timer = setTimeout(again, nextMs).unref();
  function again(): void {
    look();
    timer = setTimeout(again, nextMs).unref();
  }
  return { close: () => clearTimeout(timer) };
}

function memoryOf(workers: number, live: LiveConnections, budget: BufferBudget): GuardedMemory {
  const bound = memoryBound();
  return {
    limitBytes: Math.min(bound?.limitBytes ?? Number.POSITIVE_INFINITY, totalmem()),
    nowMs: () => performance.now(),
    usedBytes: () => bound?.usedBytes() ?? ownBytes(),
    collect: giveBackNow,
    shed(state, bytes) {
      const part = Math.ceil(bytes / workers);
      // First what waits for those who stand still: it is most for the fewest.
      const waiting = Math.min(part, budget.bytes);
      budget.shed(waiting);
      live.memory(state, part - waiting);
    },
  };
}
