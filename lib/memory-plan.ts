/**
 * What the memory of a process is for: from what it may use to the most of each thing that clients make it keep, so that all
 * of these together are no more than there is. README.md of lib/ops has the table, which a test computes.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

/**
 * The most that a connection of each kind takes, in bytes, with what the kernel keeps of it (2 KiB) and without what is
 * counted where it waits: content, heads, requests. Measured (benchmarks/connection-memory.ts), and rounded up.
 */
export const connectionCosts = {
  /** A client without TLS, from its first moment on, with or without a request behind it. */
  plain: 6 * KiB,
  /** HTTP/2, with both tables of HPACK, beside `plain` or `tls`. */
  http2: 16 * KiB,
  /** Bytes both ways, with the connection to the app, beside `plain` or `tls`. */
  tunnel: 8 * KiB,
  /** A TLS session that has been agreed on. */
  tls: 48 * KiB,
  /** A TLS handshake under way, with a Certificate message of the largest size. */
  handshake: 136 * KiB,
} as const;

/** A request in flight, with its connection or stream to the app; its head and content are counted where they wait. */
export const requestCost = 8 * KiB;

/** What the program itself takes once it has served, and each further thread of it. */
const programBytes = 44 * MiB;
const workerBytes = 36 * MiB;

/** Of V8's own heap the program's part. */
const programHeap = 24 * MiB;

/** Parts of what the program leaves. What is left over is for garbage, and for what malloc cannot give back. */
const shares = { connections: 0.3, requests: 0.2, waiting: 0.175 } as const;

/** Beyond this nobody slow has a use for more. */
const mostWaiting = 256 * MiB;
const leastWaiting = 2 * MiB;
const leastConnections = 2 * MiB;
/** With less beside the program there is hardly room for what its start leaves behind, and for garbage. */
const leastRest = 48 * MiB;

/** What is left of the memory. `newest go`: even those who do something, since the kernel would end the whole process next. */
export type MemoryState = 'ample' | 'tight' | 'newest go';

export interface MemoryPlan {
  readonly program: number;
  /** All connections of clients, each by its kind. */
  readonly connections: number;
  readonly requests: number;
  /** What waits for somebody slow; and, as much again, heads of requests in flight. */
  readonly waiting: number;
  readonly heads: number;
  /** For garbage and for what cannot be given back. */
  readonly spare: number;
  /** `short`: the program alone takes most of it, and under load the kernel may end the process. */
  readonly kind: 'ample' | 'short';
}

/**
 * @param memoryBytes that the process may use.
 * @param heapBytes that V8 may use of it (`--max-old-space-size`): two thirds of a connection, and a request, are V8's.
 */
export function memoryPlan(memoryBytes: number, heapBytes: number, workers: number): MemoryPlan {
  const program = programBytes + workerBytes * (workers - 1);
  const rest = Math.max(0, memoryBytes - program);
  const heap = Math.max(0, heapBytes - programHeap);
  const connections = Math.max(leastConnections, Math.floor(Math.min(rest * shares.connections, heap * 0.75)));
  const requests = Math.floor(Math.max(requestCost * 64, Math.min(rest * shares.requests, heap * 0.2)));
  // Heads, which may be as much as what waits, are V8's.
  const part = Math.min(rest * shares.waiting, heap * 0.25, mostWaiting);
  const waiting = Math.max(leastWaiting, Math.floor(part));
  const kept = connections + requests + 2 * waiting;
  return {
    ...{ program, connections, requests, waiting, heads: waiting },
    spare: Math.max(0, memoryBytes - program - kept),
    kind: rest >= leastRest ? 'ample' : 'short',
  };
}
