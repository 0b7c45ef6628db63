import { until } from '../../test/support/until.ts';

/** Reads the heap of a running Node process after a full collection: what is left then is held by somebody. */
export interface HeapProbe {
  usedAfterCollection(): Promise<number>;
  detach(): void;
}

/** What the process must be started with, to be found on that port later. */
export function inspectable(port: number): { readonly NODE_OPTIONS: string } {
  return { NODE_OPTIONS: `--inspect-port=127.0.0.1:${port}` };
}

/** Node opens its inspector on SIGUSR1; the program itself needs no door for this. */
export async function probeHeap(pid: number, port: number): Promise<HeapProbe> {
  process.kill(pid, 'SIGUSR1');
  const socket = new WebSocket(await until('the inspector', () => inspectorUrl(port)));
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', () => reject(new Error('the inspector refused')));
  });
  const waiting = new Map<number, PromiseWithResolvers<Answer>>();
  socket.addEventListener('message', ({ data }) => {
    const answer = JSON.parse(String(data)) as Answer;
    waiting.get(answer.id)?.resolve(answer);
    waiting.delete(answer.id);
  });
  socket.addEventListener('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the process ended before it told of its heap'));
  });
  let calls = 0;
  const call = (method: string): Promise<Answer> => {
    calls += 1;
    socket.send(JSON.stringify({ id: calls, method }));
    const answer = Promise.withResolvers<Answer>();
    waiting.set(calls, answer);
    return answer.promise;
  };
  return {
    usedAfterCollection: async () => {
      // Twice: what finalizers release in the first collection is only collected in the next.
      await call('HeapProfiler.collectGarbage');
      await call('HeapProfiler.collectGarbage');
      const { result } = await call('Runtime.getHeapUsage');
      if (result?.usedSize === undefined) throw new Error('the inspector told no heap size');
      return result.usedSize;
    },
    detach: () => socket.close(),
  };
}

interface Answer {
  readonly id: number;
  readonly result?: { readonly usedSize?: number };
}

async function inspectorUrl(port: number): Promise<string | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/json/list`);
    const targets = (await response.json()) as { webSocketDebuggerUrl?: string }[];
    return targets[0]?.webSocketDebuggerUrl;
  } catch {
    return undefined;
  }
}
