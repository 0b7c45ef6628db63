import { constants, getPriority, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import type { LoadRequest } from './load.ts';
import type { LoadAnswer } from './load-thread.ts';

/** Documents a message: small enough that the main thread receives one in a millisecond. */
const batchSize = 50;

/** Ten steps of niceness leave a tenth of the weight: traffic goes first, and a load still ends on a busy core. */
const lowPriority = Math.min(constants.priority.PRIORITY_LOW, getPriority() + 10);

/**
 * The thread that reads, parses and validates policy for the running proxy. Answers go through a port of their own,
 * from which the main thread takes one message at a time, so that ten thousand documents never arrive in one turn.
 */
parentPort?.on('message', async ({ request, knownDigest, port }: LoadMessage) => {
  if (knownDigest !== undefined) letTrafficGoFirst();
  // Only now: what reads YAML takes a tenth of a second to load, which is to be spent at low priority, too.
  const { loadPolicy } = await import('./load.ts');
  const load = loadPolicy(request, knownDigest);
  if (load === 'unchanged') {
    port.postMessage({ kind: 'unchanged' } satisfies LoadAnswer);
  } else {
    const { documents, ...loaded } = load;
    for (let start = 0; start < documents.length; start += batchSize) {
      const batch = documents.slice(start, start + batchSize);
      port.postMessage({ kind: 'documents', documents: batch } satisfies LoadAnswer);
    }
    port.postMessage({ kind: 'loaded', ...loaded } satisfies LoadAnswer);
  }
  parentPort?.postMessage('answered');
});

/**
 * The kernel of Linux keeps a niceness for each thread, and this one's is set when none is named; elsewhere the whole
 * process would be slowed down. It stays, since raising it again takes a privilege. Where a sandbox forbids the call,
 * loads disturb the traffic more, and that is all.
 */
function letTrafficGoFirst(): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(lowPriority);
  } catch {
    // Not allowed here; loads then compete with the traffic as equals.
  }
}

interface LoadMessage {
  readonly request: LoadRequest;
  readonly knownDigest: string | undefined;
  readonly port: import('node:worker_threads').MessagePort;
}
