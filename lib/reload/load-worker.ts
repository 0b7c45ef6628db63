import { parentPort } from 'node:worker_threads';
import { goBehindTraffic } from '../behind-traffic.ts';
import type { LoadRequest } from './load.ts';
import type { LoadAnswer } from './load-thread.ts';

/** Documents a message: small enough that the main thread receives one in a millisecond. */
const batchSize = 50;

/**
 * The thread that reads, parses and validates policy for the running proxy. Answers go through a port of their own,
 * from which the main thread takes one message at a time, so that ten thousand documents never arrive in one turn.
 */
parentPort?.on('message', async ({ request, knownDigest, port }: LoadMessage) => {
  if (knownDigest !== undefined) goBehindTraffic();
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

interface LoadMessage {
  readonly request: LoadRequest;
  readonly knownDigest: string | undefined;
  readonly port: import('node:worker_threads').MessagePort;
}
