/** The process as Linkerd shows it (`process_*`), and Node's own health (`nodejs_*`, from prom-client). */

import { readdir, readFile } from 'node:fs/promises';
import { systemAnswer } from '../system-answer.ts';
import { measureNode, Registry } from './registry.ts';
import { gaugeSample, registerCollected, type Sample } from './series.ts';

interface ProcessReading {
  readonly virtualBytes: number | null;
  readonly residentBytes: number | null;
  readonly threads: number | null;
  readonly openFds: number | null;
  readonly maxFds: number | null;
}

const unknown: ProcessReading = { virtualBytes: null, residentBytes: null, threads: null, openFds: null, maxFds: null };

/** prom-client's gauges that end in `_total` are no counters; promtool objects to them, and nothing here needs them. */
const nodeMetrics = [
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_mean_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p99_seconds',
  'nodejs_eventloop_lag_max_seconds',
  'nodejs_heap_size_total_bytes',
  'nodejs_heap_size_used_bytes',
  'nodejs_external_memory_bytes',
  'nodejs_gc_duration_seconds',
  'nodejs_version_info',
];

export class ProcessMetrics {
  #reading = unknown;

  /** `startSeconds`: Unix time. */
  constructor(registry: Registry, startSeconds: number, nowMs: () => number) {
    const startedMs = nowMs();
    const add = (name: string, help: string, type: 'counter' | 'gauge', value: () => number | null) =>
      registerCollected(registry, { name, help, type }, (): Sample[] => {
        const now = value();
        return now === null ? [] : [gaugeSample(now)];
      });
    add('process_start_time_seconds', 'When the process started, in Unix time.', 'gauge', () => startSeconds);
    add('process_uptime_seconds_total', 'How long the process has run.', 'counter', () => (nowMs() - startedMs) / 1000);
    add('process_cpu_seconds_total', 'Processor time spent, user and system.', 'counter', () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    });
    add('process_virtual_memory_bytes', 'Virtual memory.', 'gauge', () => this.#reading.virtualBytes);
    add('process_resident_memory_bytes', 'Resident memory.', 'gauge', () => this.#reading.residentBytes);
    add('process_threads', 'Threads of the process.', 'gauge', () => this.#reading.threads);
    add('process_open_fds', 'Open file descriptors.', 'gauge', () => this.#reading.openFds);
    add('process_max_fds', 'How many file descriptors may be open.', 'gauge', () => this.#reading.maxFds);

    const defaults = new Registry();
    measureNode(defaults);
    for (const name of nodeMetrics) {
      const metric = defaults.getSingleMetric(name);
      if (metric !== undefined) registry.registerMetric(metric);
    }
  }

  /** Called before each exposition. What cannot be read (no Linux, no /proc) is left out of it. */
  async read(): Promise<void> {
    const [status, descriptors, limits] = await Promise.all([
      readFile('/proc/self/status', 'utf8').catch(() => ''),
      // The listing itself holds one descriptor open.
      readdir('/proc/self/fd').then(
        (entries) => entries.length - 1,
        () => null,
      ),
      readFile('/proc/self/limits', 'utf8').catch(() => ''),
    ]);
    const kilobytes = (field: string): number | null => {
      const value = numberAfter(status, field);
      return value === null ? null : value * 1024;
    };
    this.#reading = {
      virtualBytes: kilobytes('VmSize:'),
      residentBytes: kilobytes('VmRSS:') ?? systemAnswer(() => process.memoryUsage.rss()),
      threads: numberAfter(status, 'Threads:'),
      openFds: descriptors,
      maxFds: numberAfter(limits, 'Max open files'),
    };
  }
}

/** The number that follows a field's name at the beginning of a line (proc(5)); null where there is none. */
function numberAfter(text: string, field: string): number | null {
  for (const line of text.split('\n')) {
    if (!line.startsWith(field)) continue;
    const digits = /\d+/.exec(line.slice(field.length));
    return digits === null ? null : Number(digits[0]);
  }
  return null;
}
