import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Program } from '../programs.ts';
import { aligned } from '../report.ts';

/** A table as the program printed it: the first column names, the others are figures in the unit of their heading. */
export interface MicroResult {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

export interface MicroBenchmark {
  readonly name: string;
  readonly about: string;
  readonly main: string;
  /** What must be installed. */
  readonly needs: readonly Program[];
}

const proxyAndApp = ['nginx', 'taskset', 'setpriv'] as const;

export const microBenchmarks: readonly MicroBenchmark[] = [
  {
    name: 'decision',
    about: 'one request decided, by the number of documents and of CIDRs',
    main: 'decision-main.ts',
    needs: [],
  },
  {
    name: 'decision-hostile',
    about:
      'the dearest request that a search finds to decide and to explain, for a policy of 12 routes and 1,000 authorizations',
    main: 'decision-hostile-main.ts',
    needs: [],
  },
  {
    name: 'replay',
    about: 'recorded decisions read and decided again in a second of one core, by how many of them are different',
    main: 'replay-main.ts',
    needs: [],
  },
  {
    name: 'reload',
    about: 'reading, compiling and swapping policy, and how long that holds the event loop',
    main: 'reload-main.ts',
    needs: [],
  },
  {
    name: 'analysis',
    about: 'two policies of 10,000 documents compared, and one asked who can reach a port',
    main: 'analysis-main.ts',
    needs: [],
  },
  {
    name: 'reload-under-load',
    about: 'latency of HTTP/1.1 at half of saturation, with and without a reload of 10,000 documents',
    main: 'reload-under-load-main.ts',
    needs: [...proxyAndApp, 'wrk', 'h2load'],
  },
  {
    name: 'first-requests',
    about: 'the first thousand requests of a new process, on 16 connections',
    main: 'first-requests-main.ts',
    needs: proxyAndApp,
  },
  {
    name: 'idle-connections',
    about: 'resident memory of idle connections, plain and TLS',
    main: 'idle-connections-main.ts',
    needs: proxyAndApp,
  },
  {
    name: 'workers',
    about: 'one worker and two, on all cores, which they share with load and app',
    main: 'workers-main.ts',
    needs: [...proxyAndApp, 'wrk'],
  },
  {
    name: 'growth',
    about: 'memory over a million requests: kept alive, a connection each, HTTP/2',
    main: 'growth-main.ts',
    needs: [...proxyAndApp, 'h2load'],
  },
];

export interface MicroOptions {
  readonly quick: boolean;
  /** How many `growth` asks; its own number where null. */
  readonly requests: number | null;
  readonly progress: (line: string) => void;
}

/** For the programs: what they are at, for the person who runs them. */
export function progress(doing: string): void {
  process.send?.(doing);
}

/** Each in a process of its own: a heap that another has filled is slower. @throws with what it printed when it fails. */
export function runMicro({ name, main }: MicroBenchmark, options: MicroOptions): Promise<MicroResult> {
  const path = fileURLToPath(new URL(main, import.meta.url));
  const args = [
    ...['--expose-gc', path],
    ...(options.quick ? ['--quick'] : []),
    ...(options.requests === null ? [] : [`--requests=${options.requests}`]),
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  child.on('message', (doing) => options.progress(`${name}: ${doing}`));
  const kill = (): boolean => child.kill('SIGTERM');
  process.once('exit', kill);
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      process.off('exit', kill);
      if (code === 0) resolve(JSON.parse(stdout) as MicroResult);
      else reject(new Error(`${name} failed (${code ?? signal}): ${stderr.trim()}`));
    });
  });
}

export function microTable({ name, about }: MicroBenchmark, { columns, rows }: MicroResult): string {
  return `${name}: ${about}\n${aligned([[...columns], ...rows.map((row) => row.map(String))])}`;
}
