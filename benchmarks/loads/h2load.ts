import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { percentile } from '../statistics.ts';
import { graceMs, type Load, WrongAnswers } from './load.ts';

export interface H2loadOptions {
  readonly protocol: 'http1' | 'http2';
  readonly connections: number;
  /** At a time on each connection; 1 for HTTP/1.1. */
  readonly streams: number;
  /** This many in all, however long they take; as many as go in the time where absent. */
  readonly requests?: number;
  /** Of all connections together, a second; as many as they get where absent. */
  readonly rate?: number;
  readonly headers: readonly string[];
  readonly path: string;
  /** Sent with POST; a GET where absent. */
  readonly body?: Buffer;
  readonly answerLength: number;
}

/** HTTP/2 with prior knowledge, or HTTP/1.1, from one thread. The log of single requests gives the percentiles that it does not print. */
export function h2load(options: H2loadOptions): Load {
  const { protocol, connections, streams, requests, rate, headers, path, body, answerLength } = options;
  return async ({ bench, port, seconds }) => {
    const log = join(bench.folder, 'h2load.log');
    bench.write('h2load.log', '');
    const args = [
      ...['--threads=1', `--clients=${connections}`, `--max-concurrent-streams=${streams}`, `--log-file=${log}`],
      requests === undefined ? `--duration=${seconds}` : `--requests=${requests}`,
      ...(rate === undefined ? [] : [`--rps=${rate / connections}`]),
      ...(protocol === 'http1' ? ['--h1'] : []),
      ...headers.map((header) => `--header=${header}`),
      ...(body === undefined ? [] : [`--data=${bench.write('h2load.body', body)}`]),
      `http://127.0.0.1:${port}${path}`,
    ];
    const { stdout } = await bench.run('load', { command: 'h2load', args }, seconds * 1000 + graceMs);
    const count = (pattern: RegExp): number => {
      const found = pattern.exec(stdout)?.[1];
      if (found === undefined) throw new Error(`h2load printed no ${pattern.source}:\n${stdout}`);
      return Number(found);
    };
    const done = count(/(\d+) done/);
    const good = count(/(\d+) 2xx/);
    const bad = count(/(\d+) 3xx/) + count(/(\d+) 4xx/) + count(/(\d+) 5xx/);
    const lost = count(/(\d+) failed/) + count(/(\d+) errored/) + count(/(\d+) timeout/);
    const data = count(/\((\d+)\) data/);
    if (done === 0) throw new WrongAnswers('none at all came');
    if (requests !== undefined && done !== requests) throw new WrongAnswers(`${done} of ${requests} came`);
    // Of the streams under way when time is up, some have their status already.
    if (bad > 0 || lost > 0 || good < done) {
      throw new WrongAnswers(`${good} of ${done} had status 2xx, ${bad} another, ${lost} failed or timed out`);
    }
    // The streams under way when time is up have sent some of their bytes.
    if (data < done * answerLength || data > (done + connections * streams) * answerLength) {
      throw new WrongAnswers(`${done} bodies of ${answerLength} bytes were due, ${data} bytes came`);
    }
    const micros = latencies(readFileSync(log));
    return { units: done, seconds, p50Micros: percentile(micros, 0.5), p99Micros: percentile(micros, 0.99) };
  };
}

/** The third of the log's columns (start, status, microseconds), ascending. */
function latencies(log: Buffer): Float64Array {
  const rows = log.toString('latin1').trimEnd().split('\n');
  return Float64Array.from(rows, (row) => Number(row.slice(row.lastIndexOf('\t') + 1))).sort();
}
