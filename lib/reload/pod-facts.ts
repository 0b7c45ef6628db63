import { isDeepStrictEqual } from 'node:util';
import { readWorkload } from '../config/config.ts';
import type { Host } from '../config/host.ts';
import { type ConfigFault, type Environment, faultText } from '../config/variables.ts';
import type { Workload } from '../policy/workload.ts';
import { watchPaths } from './watch.ts';

export interface PodFactsOptions {
  readonly env: Environment;
  /** What `readConfig` made of the same environment. */
  readonly initial: Workload;
  /** The pod's labels or addresses, or its node's, have changed; `current()` says the same from now on. */
  onChange(workload: Workload): void;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
  readonly host: Host;
  /** How often to compare the host's addresses, of whose change nothing tells us. */
  readonly pollMs?: number;
}

export interface PodFacts {
  start(): void;
  current(): Workload;
  /** Reads the facts again now; keeps the last good ones where they cannot be read. */
  refresh(): void;
  stop(): Promise<void>;
}

/**
 * What is true of the pod and may change while it runs: labels in the downward API's file, the Pod manifest, and the
 * host's own addresses where none are given. Policy written for `podClusterIp` or a label then follows the pod.
 * The manifest's annotations are read at the start alone, as by Linkerd.
 */
export function createPodFacts(options: PodFactsOptions): PodFacts {
  const { env, host, log, pollMs = 2_000 } = options;
  const files = [env.SALLYPORT_POD_LABELS_FILE, env.SALLYPORT_POD_MANIFEST].filter(
    (file) => file !== undefined && file !== '',
  );
  let current = options.initial;
  let addresses = host.addresses().join();
  let faultsTold = '';
  let watcher: { close(): Promise<void> } | undefined;
  let timer: NodeJS.Timeout | undefined;

  function refresh(): void {
    const read = readWorkload(env, host);
    if (!read.ok) {
      tell(read.faults);
      return;
    }
    faultsTold = '';
    const { labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes } = read.workload;
    const changed = { ...current, labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes };
    if (isDeepStrictEqual(changed, current)) return;
    current = Object.freeze(changed);
    log.info({ ips: current.ips.map((ip) => ip.text), labels: Object.fromEntries(current.labels) }, 'Pod changed');
    options.onChange(current);
  }

  /** Once for each set of faults, not once a poll. */
  function tell(faults: readonly ConfigFault[]): void {
    const told = faults.map(faultText).join('; ');
    if (told !== faultsTold) log.warn({ faults }, 'The facts of the pod cannot be read; keeping those of before');
    faultsTold = told;
  }

  return {
    start() {
      timer = setInterval(() => {
        const now = host.addresses().join();
        if (now !== addresses) refresh();
        addresses = now;
      }, pollMs).unref();
      if (files.length === 0) return;
      watcher = watchPaths({
        paths: files as string[],
        onChange: refresh,
        onError: (error) => log.warn({ err: error }, 'Watching the facts of the pod failed; polling goes on'),
      });
    },
    current: () => current,
    refresh,
    async stop() {
      clearInterval(timer);
      await watcher?.close();
    },
  };
}
