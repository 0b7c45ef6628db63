import { isDeepStrictEqual } from 'node:util';
import { readWorkload } from '../config/config.ts';
import type { Host } from '../config/host.ts';
import { type ConfigFault, type Environment, faultText, VariableReader } from '../config/variables.ts';
import type { CodedLog } from '../errors/complaint.ts';
import { areSamePorts, type PortSet, type Workload } from '../policy/workload.ts';
import { systemAnswer } from '../system-answer.ts';
import { type Judgement, Reloader } from './reloader.ts';
import type { Times } from './settling.ts';
import { filesOnDisk } from './world.ts';

export interface PodFactsOptions {
  readonly env: Environment;
  /** What `readConfig` made of the same environment. */
  readonly initial: Workload;
  /** What was warned of at the start. */
  readonly warned?: readonly ConfigFault[];
  /** The pod's labels, addresses or annotations, or its node's addresses, have changed; `current()` says the same from now on. */
  onChange(workload: Workload): void;
  /** The files of the pod's facts cannot be believed, or can again: then there are no faults. */
  onRefused?(faults: readonly string[]): void;
  /** A reading has not ended for 15 s, and what for it waits; null when it has ended at last. */
  onOverdue?(waitingFor: string | null): void;
  readonly log: CodedLog;
  readonly host: Host;
  /** How often to compare the host's addresses, of whose change nothing tells us. */
  readonly pollMs?: number;
  /** For tests. */
  readonly times?: Times;
}

export interface PodFactsSource {
  start(): void;
  current(): Workload;
  /** Reads the facts again, as soon as the files may be believed; keeps the last good ones where they may not. */
  refresh(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * What is true of the pod and may change while it runs: labels in the downward API's file, the Pod manifest, and the
 * host's own addresses where none are given. Policy written for `podClusterIp` or a label then follows the pod.
 * The manifest's annotations are in force as soon as the manifest is read, as in Linkerd.
 *
 * A label that is lost may take a whole policy away, so that the files are believed as policy is: not while they are being
 * written, not when they are emptied, and a label, named port or annotation that is gone only when that has settled.
 */
export function createPodFacts(options: PodFactsOptions): PodFactsSource {
  return new FollowedPod(options);
}

type Facts = ReturnType<typeof readWorkload>;

class FollowedPod implements PodFactsSource {
  readonly #options: PodFactsOptions;
  readonly #files: readonly string[];
  readonly #reloader: Reloader<Facts>;
  #current: Workload;
  #addresses: string;
  /** The faults last reported: files that stay bad are one failure, however often they are read. */
  #told = '';
  #warned: string;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PodFactsOptions) {
    const { env, host, log, times } = options;
    this.#options = options;
    // As those read them who read the files.
    const variables = new VariableReader(env);
    this.#files = [variables.get('SALLYPORT_POD_LABELS_FILE'), variables.get('SALLYPORT_POD_MANIFEST')].filter(
      (file) => file !== null,
    );
    this.#current = options.initial;
    this.#warned = ofManifest(options.warned ?? [])
      .map(faultText)
      .join('; ');
    this.#addresses = host.addresses().join();
    const onWatchError = (error: Error): void =>
      log.warn({ code: 'not-watched', err: error }, 'Watching the facts of the pod failed; polling goes on');
    this.#reloader = new Reloader<Facts>({
      world: filesOnDisk({ paths: this.#files, onWatchError }),
      // Those of the start are in force.
      first: 'settled',
      read: async () => ({ kind: 'read', value: readWorkload(env, host), look: null }),
      judge: (facts, _now, meant) => this.#judge(facts, meant),
      onOverdue: (waitingFor) => {
        options.onOverdue?.(waitingFor);
        if (waitingFor !== null)
          log.error({ code: 'load-overdue', waitingFor }, 'Reading the facts of the pod has not ended for 15 s');
        else log.info({}, 'The facts of the pod have been read after all');
      },
      onError: (error) =>
        log.error({ code: 'load-failed', err: error }, 'Reading the facts of the pod failed; it is tried again'),
      times,
    });
  }

  start(): void {
    const { host, pollMs = 2_000 } = this.#options;
    this.#timer = setInterval(() => {
      const now = systemAnswer(() => host.addresses().join());
      if (now === null || now === this.#addresses) return;
      this.#addresses = now;
      void this.refresh();
    }, pollMs).unref();
    this.#reloader.watch();
  }

  current(): Workload {
    return this.#current;
  }

  refresh(): Promise<void> {
    return this.#reloader.reload();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#reloader.stop();
  }

  #judge(facts: Facts, meant: (file: string) => boolean): Judgement {
    const faults = facts.ok ? this.#emptied(facts.workload) : facts.faults;
    if (!facts.ok || faults.length > 0) return { missing: null, conclude: () => this.#tell(faults) };
    const { workload, warnings } = facts;
    const lost = this.#files.every(meant) ? [] : this.#lost(workload);
    return {
      missing: lost.length === 0 ? null : { what: lost.join(), from: this.#files.join(', ') },
      conclude: () => {
        this.#tell([]);
        this.#warn(warnings);
        this.#take(workload);
      },
    };
  }

  /** Nobody takes all labels away, least of all by emptying a file. */
  #emptied({ labels }: Workload): readonly ConfigFault[] {
    if (this.#files.length === 0 || labels.size > 0 || this.#current.labels.size === 0) return [];
    const fromFile = new VariableReader(this.#options.env).isSet('SALLYPORT_POD_LABELS_FILE');
    const variable = fromFile ? 'SALLYPORT_POD_LABELS_FILE' : 'SALLYPORT_POD_MANIFEST';
    const hint = 'write them again, to a new file that is then renamed over it; restart to do without any';
    const message = `${this.#files.join(', ')}: held labels and holds none any more`;
    return [{ variable, code: 'labels-emptied', message, hint }];
  }

  /** Labels, named ports and annotations that there are no more. */
  #lost({ labels, namedPorts, annotated = [] }: Workload): string[] {
    return [
      ...(this.#current.annotated ?? []).filter((name) => !annotated.includes(name)),
      ...[...this.#current.labels.keys()].filter((key) => !labels.has(key)),
      ...[...this.#current.namedPorts.keys()].filter((name) => !namedPorts.has(name)),
    ];
  }

  #take(workload: Workload): void {
    const { labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes } = workload;
    const changed = {
      ...this.#current,
      ...{ labels, ips, ipsStated, nodeIps, namedPorts, containerPorts, probes },
      ...this.#annotated(workload),
    };
    if (isDeepStrictEqual(changed, this.#current)) return;
    this.#current = Object.freeze(changed);
    this.#options.log.info(
      {
        ips: changed.ips.map((ip) => ip.text),
        labels: Object.fromEntries(changed.labels),
        defaultPolicy: changed.defaultPolicy,
      },
      'Pod changed',
    );
    this.#options.onChange(this.#current);
  }

  /** Of an annotation that cannot be read, say, and is not in force: as at the start, and once for each set of them. */
  #warn(warnings: readonly ConfigFault[]): void {
    const told = ofManifest(warnings).map(faultText).join('; ');
    if (told === this.#warned) return;
    this.#warned = told;
    for (const { message, ...about } of ofManifest(warnings))
      this.#options.log.warn(about, `${about.variable}: ${message}`);
  }

  /** What annotations say; sets of ports that hold the same stay the same. */
  #annotated({ defaultPolicy, opaquePorts, requireIdentityPorts, annotated }: Workload): Partial<Workload> {
    const kept = (now: PortSet, before: PortSet): PortSet => (areSamePorts(now, before) ? before : now);
    return {
      defaultPolicy,
      opaquePorts: kept(opaquePorts, this.#current.opaquePorts),
      requireIdentityPorts: kept(requireIdentityPorts, this.#current.requireIdentityPorts),
      ...(annotated === undefined ? {} : { annotated }),
    };
  }

  /** Once for each set of faults, not once a poll. */
  #tell(faults: readonly ConfigFault[]): void {
    const told = faults.map(faultText).join('; ');
    if (told === this.#told) return;
    this.#told = told;
    this.#options.onRefused?.(faults.map(faultText));
    if (told !== '') {
      this.#options.log.error(
        { code: 'pod-facts-kept', faults },
        'The facts of the pod cannot be read; keeping the previous ones',
      );
    }
  }
}

function ofManifest(warnings: readonly ConfigFault[]): readonly ConfigFault[] {
  return warnings.filter(({ variable }) => variable === 'SALLYPORT_POD_MANIFEST');
}
