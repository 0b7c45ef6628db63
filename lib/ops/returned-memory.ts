import { readFileSync, readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { getHeapStatistics } from 'node:v8';
import { cpuShareMeter } from '../cpu-share.ts';
import { systemAnswer } from '../system-answer.ts';
import { RestingMemory } from './resting-memory.ts';

/** How much a thread's own heap takes, and what gives it back. */
interface Holding {
  readonly residentBytes: () => number | null;
  readonly giveBack: () => 'all' | 'in-part';
}

/**
 * Looks at the process, from its main thread, for as long as it runs.
 *
 * @param warm called once code has been thrown away, which whoever comes next would wait for; it never rejects.
 */
export function restWhenQuiet(warm: () => Promise<unknown>): void {
  let isCollected = false;
  rest({
    residentBytes: () => systemAnswer(() => process.memoryUsage.rss()),
    giveBack: () => {
      if (!isCollected) {
        isCollected = true;
        collect();
        void warm();
        return 'in-part';
      }
      libc()?.trim(0);
      letGoOfProgram();
      return 'all';
    },
  });
}

/** The same for one of several threads, and its heap alone: the rest is the process's. */
export function restThreadWhenQuiet(warm: () => Promise<unknown>): void {
  let isCollected = false;
  rest({
    residentBytes: () => getHeapStatistics().total_heap_size,
    giveBack: () => {
      if (!isCollected) {
        isCollected = true;
        collect();
        void warm();
      }
      return 'all';
    },
  });
}

function rest(holding: Holding): void {
  const memory = new RestingMemory({
    ...holding,
    nowMs: () => performance.now(),
    busy: cpuShareMeter(),
  });
  setInterval(() => memory.look(), 1000).unref();
}

/**
 * `last-resort` is how V8 itself collects before it would give up: twice, and it hands back what it held in reserve, the
 * halves of the young generation above all (7 MB). The launcher has Node offer it. Once, behind the start: it also
 * throws compiled code away, and the next thousand connections cost four times as much.
 */
function collect(): void {
  const offered = globalThis.gc as ((how: { type: 'major'; flavor: 'last-resort' }) => void) | undefined;
  offered?.({ type: 'major', flavor: 'last-resort' });
}

/** What this process has resident and no file has, where /proc tells; null where it does not. */
export function ownBytes(): number | null {
  const told = systemAnswer(() => readFileSync('/proc/self/statm', 'latin1').split(' ').map(Number));
  if (told === null) return null;
  const [, resident = 0, ofFiles = 0] = told;
  return (resident - ofFiles) * pageBytes;
}

/** As most kernels have it; where it is larger, less is told than there is. */
const pageBytes = 4096;

/** Collects what is garbage, and gives back what malloc has free: at once, while it is needed. Compiled code stays. */
export function giveBackNow(): void {
  const offered = globalThis.gc as ((how: { type: 'major' }) => void) | undefined;
  offered?.({ type: 'major' });
  libc()?.trim(0);
}

/**
 * Lets go of the mapped pages of Node's program, and does nothing where there is no way to them. First of those that the start
 * alone has used, before the first clients come: a load that comes at once keeps the process from resting. What is used comes
 * back a page at a time.
 */
export function letGoOfProgram(): void {
  const calls = libc();
  if (calls === null) return;
  for (const { start, length } of unwrittenProgram()) calls.advise(start, length, MADV_DONTNEED);
}

const MADV_DONTNEED = 4;

let loaded: { readonly libc: ReturnType<typeof loadLibc> } | null = null;

function libc(): ReturnType<typeof loadLibc> {
  loaded ??= { libc: loadLibc() };
  return loaded.libc;
}

/** Null without glibc: Node runs on musl, and elsewhere, and keeps what it has. */
function loadLibc() {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
    const libc = koffi.load('libc.so.6');
    return {
      trim: libc.func('int malloc_trim(size_t pad)'),
      advise: libc.func('int madvise(uintptr_t address, size_t length, int advice)'),
    };
  } catch {
    // What it saves is no condition for anything.
    return null;
  }
}

interface Range {
  readonly start: bigint;
  readonly length: number;
}

/**
 * The mappings of Node's executable file that this process can only read, and has no page of its own in: to let go of those
 * loses nothing, since the system finds each page again in its file, or rather in the cache of it. They stay where they are
 * for the life of a process, unlike those of libraries. None where /proc does not tell: it may not be there, or no descriptor
 * may be left.
 */
function unwrittenProgram(): Range[] {
  const told = systemAnswer(() => [readlinkSync('/proc/self/exe'), readFileSync('/proc/self/smaps', 'utf8')] as const);
  if (told === null) return [];
  const [program, mappings] = told;
  const found: Range[] = [];
  let range: Range | null = null;
  for (const line of mappings.split('\n')) {
    const head = /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)$/.exec(line);
    if (head !== null) {
      const [, from, to, access = '', file] = head;
      const ours = file === program && /^r-.p$/.test(access);
      const start = BigInt(`0x${from}`);
      range = ours ? { start, length: Number(BigInt(`0x${to}`) - start) } : null;
    } else if (range !== null && /^Anonymous: +0 kB$/.test(line)) {
      found.push(range);
    }
  }
  return found;
}
