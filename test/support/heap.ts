import { get } from 'node:http';
import { WebSocket } from 'ws';
import type { Teardown } from './children.ts';
import { freePort } from './ports.ts';
import type { Sallyport } from './sallyport.ts';
import { until, within } from './until.ts';

/** Reads the heap of a running Node process after a full collection: what is left then is held by somebody. */
export interface HeapProbe {
  usedAfterCollection(): Promise<number>;
  /** A process that is being inspected does not exit; call before it is stopped. */
  detach(): void;
}

/** What a process must be started with, to be found on that port later. */
export function inspectable(port: number): { readonly NODE_OPTIONS: string } {
  return { NODE_OPTIONS: `--inspect-port=127.0.0.1:${port}` };
}

/** The same on a port of its own. */
export async function inspectorEnvironment(): Promise<{
  readonly port: number;
  readonly env: { NODE_OPTIONS: string };
}> {
  const port = await freePort();
  return { port, env: inspectable(port) };
}

/** Detached with the test. */
export async function probeHeap(t: Teardown, sallyport: Sallyport, port: number): Promise<HeapProbe> {
  const probe = await attachHeapProbe(sallyport.child.process.pid as number, port);
  t.teardown(() => probe.detach());
  return probe;
}

/** Node opens its inspector on SIGUSR1; the program itself needs no door for this. */
export async function attachHeapProbe(pid: number, port: number): Promise<HeapProbe> {
  process.kill(pid, 'SIGUSR1');
  const url = await until('the inspector', () => inspectorUrl(port));
  const socket = new WebSocket(url);
  await within(
    'the inspector',
    5_000,
    new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject)),
  ).catch((error: unknown) => {
    socket.terminate();
    throw error;
  });
  let nextId = 1;
  const call = (method: string): Promise<Record<string, unknown>> => {
    const id = nextId++;
    const answer = new Promise<Record<string, unknown>>((resolve) => {
      const read = (data: Buffer): void => {
        const message = JSON.parse(data.toString('utf8')) as { id?: number; result?: Record<string, unknown> };
        if (message.id !== id) return;
        socket.off('message', read);
        resolve(message.result ?? {});
      };
      socket.on('message', read);
    });
    socket.send(JSON.stringify({ id, method }));
    return within(method, 10_000, answer);
  };
  return {
    usedAfterCollection: async () => {
      // Twice: what finalizers release in the first collection is only collected in the next.
      await call('HeapProfiler.collectGarbage');
      await call('HeapProfiler.collectGarbage');
      const { usedSize } = await call('Runtime.getHeapUsage');
      if (typeof usedSize !== 'number') throw new Error('the inspector told no heap size');
      return usedSize;
    },
    detach: () => socket.terminate(),
  };
}

function inspectorUrl(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    get({ host: '127.0.0.1', port, path: '/json/list', agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => {
        const targets = JSON.parse(text) as { webSocketDebuggerUrl?: string }[];
        resolve(targets[0]?.webSocketDebuggerUrl);
      });
    }).on('error', () => resolve(undefined));
  });
}
