import { answerBytes } from '../probes.ts';
import { type Http1Request, requestText } from './http1-request.ts';
import { graceMs, type Load, WrongAnswers } from './load.ts';

export interface WrkOptions {
  readonly connections: number;
  /** A new connection for each request. */
  readonly close: boolean;
  /** A path for each request that none before it had: nothing that is decided holds for the next. */
  readonly otherPaths?: boolean;
  /** A GET where absent. */
  readonly request?: Omit<Http1Request, 'headers'>;
}

/** wrk keeps its report to itself; this hands it over as JSON, with a mark to find it by. */
const mark = 'wrk-summary ';
const sameRequest = 'return text';
const otherPath = 'count = count + 1; return (text:gsub(" / ", " /" .. count .. " ", 1))';
const script = (request: string, next: string): string => `
local text = ${JSON.stringify(request)}
local count = 0
request = function() ${next} end
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('${mark}{"requests":%d,"bytes":%d,"micros":%d,"p50":%d,"p99":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\\n',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
`;

type Summary = Record<'requests' | 'bytes' | 'micros' | 'p50' | 'p99' | (typeof errorKinds)[number], number>;
const errorKinds = ['connect', 'read', 'write', 'status', 'timeout'] as const;

/** HTTP/1.1 from one thread. wrk counts wrong statuses itself; wrong bodies show in the number of bytes. */
export function wrk({ connections, close, otherPaths = false, request = { method: 'GET' } }: WrkOptions): Load {
  return async ({ bench, port, host, seconds }) => {
    const asked = requestText({ ...request, headers: close ? ['Connection: close'] : [] }, host);
    const expected = await answerBytes(port, asked);
    const args = [
      ...['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`],
      ...['--script', bench.write(`wrk-${port}.lua`, script(asked, otherPaths ? otherPath : sameRequest))],
      `http://127.0.0.1:${port}/`,
    ];
    const { stdout } = await bench.run('load', { command: 'wrk', args }, seconds * 1000 + graceMs);
    const line = stdout.split('\n').find((text) => text.startsWith(mark));
    if (line === undefined) throw new Error(`wrk gave no summary:\n${stdout}`);
    const summary = JSON.parse(line.slice(mark.length)) as Summary;
    const errors = errorKinds.filter((kind) => summary[kind] > 0).map((kind) => `${summary[kind]} ${kind} errors`);
    if (errors.length > 0) throw new WrongAnswers(`${errors.join(', ')} among ${summary.requests} requests`);
    if (summary.requests === 0) throw new WrongAnswers('none at all came');
    // Answers under way at either end of the measurement are counted in one of the two numbers only.
    const difference = Math.abs(summary.bytes - summary.requests * expected);
    if (difference > 2 * connections * expected) {
      throw new WrongAnswers(`${summary.requests} of ${expected} bytes were due, ${summary.bytes} bytes came`);
    }
    return {
      units: summary.requests,
      seconds: summary.micros / 1e6,
      p50Micros: summary.p50,
      p99Micros: summary.p99,
    };
  };
}
