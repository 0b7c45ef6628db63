/** A thread that writes lines and ends, for lines.test.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { LineChannel } from '../../../lib/telemetry/line-channel.ts';

export interface Writing {
  readonly thread: number;
  readonly lines: number;
  readonly underway: Int32Array;
}

const { thread, lines, underway } = workerData as Writing;
const channel = new LineChannel((batch) => parentPort?.postMessage(batch), underway);
process.on('exit', channel.flush);

let next = 0;
function some(): void {
  for (const until = Math.min(lines, next + 50); next < until; next++) {
    channel.write(`${thread} ${next} ${'.'.repeat(next % 200)} end\n`);
  }
  if (next < lines) setTimeout(some, next % 3);
}
some();
