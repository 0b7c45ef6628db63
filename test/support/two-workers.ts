import type { Test } from 'tap';
import { temporaryFolder } from './files.ts';
import { openServer, policyEnvironment } from './open-policy.ts';
import { freePort } from './ports.ts';
import { latin1, RawClient } from './raw-http.ts';
import { type Sallyport, startSallyport } from './sallyport.ts';
import { startSniffingApp } from './sniffing-app.ts';
import { until } from './until.ts';
import { threadsOf, workerFaults } from './worker-faults.ts';

export interface TwoWorkers {
  readonly sallyport: Sallyport;
  readonly port: number;
  /** The thread that is worker 1 now, for `order`; empty where there is none. */
  thread(): string;
}

export interface TwoWorkersOptions {
  readonly env?: Record<string, string>;
  /** More documents, beside the Server `web` of that port. */
  readonly documents?: (port: number) => string;
  /** Delays the app's response. */
  readonly hold?: (url: string) => Promise<void>;
}

/** A proxy of two workers before an app, with a port that anybody may use. Worker 1 takes orders. */
export async function startTwoWorkers(t: Test, options: TwoWorkersOptions = {}): Promise<TwoWorkers> {
  const app = await startSniffingApp(t, {}, options.hold);
  const port = await freePort();
  const threads = temporaryFolder(t);
  const documents = openServer('web', port) + (options.documents?.(port) ?? '');
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), documents),
      SALLYPORT_INBOUND_PORTS: `127.0.0.1:${port}=127.0.0.1:${app.port}`,
      SALLYPORT_WORKERS: '2',
      ...workerFaults(threads),
      ...options.env,
    },
  });
  const thread = (): string => threadsOf(threads, 1).at(-1) ?? '';
  await until('worker 1 to take orders', () => thread() !== '');
  return { sallyport, port, thread };
}

/** A connection on which a request has been answered 200. */
export async function served(port: number, path = '/'): Promise<RawClient> {
  const client = await RawClient.open({ port });
  client.send(latin1(`GET ${path} HTTP/1.1\r\nHost: web\r\n\r\n`));
  const [response] = await client.responses(['GET']);
  if (response?.status !== 200) throw new Error(`no 200 but ${response?.status}`);
  return client;
}
