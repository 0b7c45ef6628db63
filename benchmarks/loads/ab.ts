import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers } from '../rule.ts';
import { graceMs, type Load, WrongAnswers } from './load.ts';

export interface AbOptions {
  readonly connections: number;
  readonly keepAlive: boolean;
  readonly method: 'GET' | 'HEAD';
}

/** More than are asked in any time: it would stop at 50,000. */
const endless = 100_000_000;

/** HTTP/1.0 from one thread, by Apache's ab. It compares the length of each body with the first, and counts statuses. */
export function ab({ connections, keepAlive, method }: AbOptions): Load {
  return async ({ bench, port, host, seconds }) => {
    const percentiles = join(bench.folder, 'ab.csv');
    const args = [
      ...['-q', '-t', String(seconds), '-n', String(endless), '-c', String(connections), '-e', percentiles],
      ...(keepAlive ? ['-k'] : []),
      ...(method === 'HEAD' ? ['-i'] : []),
      ...['-H', `Host: ${host}`, `http://127.0.0.1:${port}/`],
    ];
    const { stdout } = await bench.run('load', { command: 'ab', args }, seconds * 1000 + graceMs);
    const read = (pattern: RegExp): number | undefined => {
      const found = pattern.exec(stdout)?.[1];
      return found === undefined ? undefined : Number(found);
    };
    const due = (pattern: RegExp): number => {
      const number = read(pattern);
      if (number === undefined) throw new Error(`ab printed no ${pattern.source}:\n${stdout}`);
      return number;
    };
    const units = due(/^Complete requests: +(\d+)/m);
    const failed = due(/^Failed requests: +(\d+)/m);
    const statuses = read(/^Non-2xx responses: +(\d+)/m) ?? 0;
    if (units === 0) throw new WrongAnswers('none at all came');
    if (failed > 0 || statuses > 0)
      throw new WrongAnswers(`${failed} of ${units} failed, ${statuses} had no status 2xx`);
    if (keepAlive && due(/^Keep-Alive requests: +(\d+)/m) < units) {
      throw new WrongAnswers(`not all of ${units} answers left their connection open`);
    }
    const body = method === 'HEAD' ? 0 : answers.http.length;
    const transferred = due(/^HTML transferred: +(\d+)/m);
    // Of the answers under way when time is up, some have sent their body.
    if (transferred < units * body || transferred > (units + connections) * body) {
      throw new WrongAnswers(`${units} bodies of ${body} bytes were due, ${transferred} bytes came`);
    }
    const took = due(/^Time taken for tests: +([\d.]+)/m);
    const [p50Micros = 0, p99Micros = 0] = percentilesOf(readFileSync(percentiles, 'utf8'), [50, 99]);
    return { units, seconds: took, p50Micros, p99Micros };
  };
}

/** Microseconds, of lines like `99,1.234` in milliseconds. */
function percentilesOf(csv: string, wanted: readonly number[]): number[] {
  const rows = new Map(csv.split('\n').map((line) => line.split(',').map(Number) as [number, number]));
  return wanted.map((percent) => (rows.get(percent) ?? 0) * 1000);
}
