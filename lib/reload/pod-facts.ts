import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { readWorkload } from '../config/config.ts';
import type { Host } from '../config/host.ts';
import { type ConfigFault, type Environment, faultText } from '../config/variables.ts';
import type { Workload } from '../policy/workload.ts';
import { type Look, look } from './look.ts';
import { arrivedWhole } from './policy-disk.ts';
import { Settling, type Times, usualTimes } from './settling.ts';
import { type Watch, watchPaths } from './watch.ts';

export interface PodFactsOptions {
  readonly env: Environment;
  /** What `readConfig` made of the same environment. */
  readonly initial: Workload;
  /** The pod's labels or addresses, or its node's, have changed; `current()` says the same from now on. */
  onChange(workload: Workload): void;
  /** The files of the pod's facts cannot be believed, or can again. */
  onRefused?(refused: boolean): void;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
    error(fields: object, message: string): void;
  };
  readonly host: Host;
  /** How often to compare the host's addresses, of whose change nothing tells us. */
  readonly pollMs?: number;
  /** For tests. */
  readonly times?: Times;
}

export interface PodFacts {
  start(): void;
  current(): Workload;
  /** Reads the facts again, as soon as the files may be believed; keeps the last good ones where they may not. */
  refresh(): Promise<void>;
  stop(): Promise<void>;
}

const lookEveryMs = 200;

/**
 * What is true of the pod and may change while it runs: labels in the downward API's file, the Pod manifest, and the
 * host's own addresses where none are given. Policy written for `podClusterIp` or a label then follows the pod.
 * The manifest's annotations are read at the start alone, as by Linkerd.
 *
 * A label that is lost may take a whole policy away, so that the files are believed as policy is: not while they are being
 * written, not when they are emptied, and a label or named port that is gone only when that has settled.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the loop is to be shared by all sources.
export function createPodFacts(options: PodFactsOptions): PodFacts {
  const { env, host, log, pollMs = 2_000, times = usualTimes } = options;
  const files = [env.SALLYPORT_POD_LABELS_FILE, env.SALLYPORT_POD_MANIFEST].filter(
    (file): file is string => file !== undefined && file !== '',
  );
  const settling = new Settling(times);
  const stopping = new AbortController();
  const { signal } = stopping;
  let current = options.initial;
  let believed: Look | null = null;
  let addresses = host.addresses().join();
  let faultsTold = '';
  let watch: Watch | undefined;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | null = null;
  let again = false;

  /** One reading at a time; what changes meanwhile leads to one more. */
  function refresh(): Promise<void> {
    again = true;
    running ??= (async () => {
      while (again && !signal.aborted) {
        again = false;
        await readWhenSettled();
      }
    })().finally(() => {
      running = null;
    });
    return running;
  }

  async function readWhenSettled(): Promise<void> {
    const beganMs = performance.now();
    for (;;) {
      const seen = await lookAt(files);
      const nowMs = performance.now();
      settling.see(seen, nowMs);
      const swapped = seen.generation !== '' && seen.generation !== believed?.generation;
      const whole = (file: string): boolean => swapped || (watch !== undefined && arrivedWhole(watch, file, seen));
      const tired = nowMs - beganMs >= times.patienceMs;
      let wait = tired ? 0 : settling.unsettledMs(seen, nowMs, whole);
      if (wait <= 0) {
        const read = readWorkload(env, host);
        const faults = read.ok ? emptied(read.workload) : read.faults;
        if (faults.length > 0 || !read.ok) return conclude(seen, faults, null);
        const meant = files.every((file) => settling.knows(file, seen) || whole(file));
        if (meant || !loses(read.workload)) return conclude(seen, [], read.workload);
        wait = nowMs - beganMs >= 3 * times.quietMs ? 0 : settling.untilQuietMs(nowMs);
        if (wait <= 0) return conclude(seen, [], read.workload);
      }
      // Rejects when it is stopped.
      await delay(Math.min(wait, lookEveryMs), undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
    }
  }

  /** Nobody takes all labels away, least of all by emptying a file. */
  function emptied({ labels }: Workload): readonly ConfigFault[] {
    if (files.length === 0 || labels.size > 0 || current.labels.size === 0) return [];
    const fromFile = (env.SALLYPORT_POD_LABELS_FILE ?? '') !== '';
    const variable = fromFile ? 'SALLYPORT_POD_LABELS_FILE' : 'SALLYPORT_POD_MANIFEST';
    const hint = 'write them again, to a new file that is then renamed over it; restart to do without any';
    return [{ variable, message: `${files.join(', ')}: held labels and holds none any more`, hint }];
  }

  function loses({ labels, namedPorts }: Workload): boolean {
    return (
      [...current.labels.keys()].some((key) => !labels.has(key)) ||
      [...current.namedPorts.keys()].some((name) => !namedPorts.has(name))
    );
  }

  function conclude(seen: Look, faults: readonly ConfigFault[], workload: Workload | null): void {
    settling.believe(seen);
    believed = seen;
    tell(faults);
    if (workload === null) return;
    const { labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes } = workload;
    const changed = { ...current, labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes };
    if (isDeepStrictEqual(changed, current)) return;
    current = Object.freeze(changed);
    log.info({ ips: current.ips.map((ip) => ip.text), labels: Object.fromEntries(current.labels) }, 'Pod changed');
    options.onChange(current);
  }

  /** Once for each set of faults, not once a poll. */
  function tell(faults: readonly ConfigFault[]): void {
    const told = faults.map(faultText).join('; ');
    if (told === faultsTold) return;
    faultsTold = told;
    options.onRefused?.(told !== '');
    if (told !== '') log.error({ faults }, 'The facts of the pod cannot be read; keeping those of before');
  }

  return {
    start() {
      timer = setInterval(() => {
        const now = host.addresses().join();
        if (now !== addresses) void refresh();
        addresses = now;
      }, pollMs).unref();
      if (files.length === 0) return;
      watch = watchPaths({
        paths: files,
        onChange: () => {
          settling.stir(performance.now());
          void refresh();
        },
        onError: (error) => log.warn({ err: error }, 'Watching the facts of the pod failed; polling goes on'),
      });
    },
    current: () => current,
    refresh,
    async stop() {
      stopping.abort();
      clearInterval(timer);
      await watch?.close();
      await running;
    },
  };
}

/** Several files as one. */
async function lookAt(files: readonly string[]): Promise<Look> {
  const looks = await Promise.all(files.map(look));
  return {
    files: new Map(looks.flatMap(({ files: found }) => [...found])),
    generation: looks.map(({ generation }) => generation).join(''),
    stamp: looks.map(({ stamp }) => stamp).join('\n'),
    takenMs: Math.min(...looks.map(({ takenMs }) => takenMs)),
  };
}
