import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { PolicyDocument } from '../policy/documents/types.ts';
import type { ComparableLoad, LoadRequest } from './load.ts';
import { Slices } from './slices.ts';

/** What the worker says, in this order: any number of `documents`, then `loaded`; or `unchanged` alone. */
export type LoadAnswer =
  | { readonly kind: 'documents'; readonly documents: readonly PolicyDocument[] }
  | ({ readonly kind: 'loaded' } & Omit<ComparableLoad, 'documents'>)
  | { readonly kind: 'unchanged' };

/** A thread that has had nothing to do for so long ends, and gives 20 MB back: long enough for a burst of saves. */
const idleMs = 1000;

/** Megabytes of objects. The largest policy that is parsed takes about half. */
const mostMemory = 1536;

/**
 * Loads policy in a worker thread, so that reading and parsing never hold the event loop. One load at a time.
 * The thread starts with the first load, keeps no process alive, and ends by itself when it is not needed.
 */
export class LoadThread {
  #worker: Worker | null = null;
  #idle: NodeJS.Timeout | undefined;

  /**
   * Rejects when the thread dies (out of memory, say), or is stopped, which is how a load is abandoned; the next load starts
   * another.
   */
  async load(request: LoadRequest, knownDigest?: string): Promise<ComparableLoad | 'unchanged'> {
    clearTimeout(this.#idle);
    this.#worker ??= this.#start();
    const worker = this.#worker;
    worker.ref();
    const { port1, port2 } = new MessageChannel();
    try {
      await this.#ask(worker, { request, knownDigest, port: port2 }, port2);
      return await collect(port1);
    } finally {
      port1.close();
      // Unless it is being stopped, which somebody waits for.
      if (this.#worker === worker) {
        worker.unref();
        this.#idle = setTimeout(() => void this.stop(), idleMs).unref();
      }
    }
  }

  async stop(): Promise<void> {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#worker = null;
    // Referenced again, or a process with nothing else to do would end before the thread has.
    worker?.ref();
    await worker?.terminate();
  }

  #start(): Worker {
    // The sources run as TypeScript; the published package holds the same file as JavaScript.
    const extension = extname(fileURLToPath(import.meta.url));
    const worker = new Worker(new URL(`./load-worker${extension}`, import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: mostMemory },
    });
    worker.once('exit', () => {
      if (this.#worker === worker) this.#worker = null;
    });
    return worker;
  }

  #ask(worker: Worker, message: object, port: MessagePort): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (how: () => void): void => {
        worker.off('message', answered).off('error', failed).off('exit', exited);
        how();
      };
      const answered = (): void => settle(resolve);
      const failed = (error: Error): void => settle(() => reject(error));
      const exited = (code: number): void => settle(() => reject(new Error(`the loading thread ended with ${code}`)));
      worker.on('message', answered).on('error', failed).on('exit', exited);
      worker.postMessage(message, [port]);
    });
  }
}

/** Takes the answers off the port in slices. */
async function collect(port: MessagePort): Promise<ComparableLoad | 'unchanged'> {
  const documents: PolicyDocument[] = [];
  const slices = new Slices();
  for (;;) {
    const received: { message: LoadAnswer } | undefined = receiveMessageOnPort(port);
    if (received === undefined) throw new Error('the loading thread gave no answer');
    const answer = received.message;
    if (answer.kind === 'unchanged') return 'unchanged';
    if (answer.kind === 'loaded') {
      const { kind: _kind, ...loaded } = answer;
      return { documents, ...loaded };
    }
    documents.push(...answer.documents);
    await slices.rest();
  }
}
