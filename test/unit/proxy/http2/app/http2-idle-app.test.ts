import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { dataFrame, headersFrame, requestFields } from '../../../../support/http2-frames.ts';
import { openClient } from '../../../../support/http2-peers.ts';
import { startLane } from '../../../../support/lanes.ts';

/*
 * An app that ends idle connections, and says so to nobody: its end may be here before the request that would have left
 * on that connection, and be looked at after it, when this process is busy. A POST must not be lost for that, and cannot
 * be repeated (RFC 9110 9.2.2).
 */

/** On a thread of its own, so that it can end a connection while this one is busy. */
const program = `
const { createServer } = require('node:net');
const { parentPort, workerData: { idleMs, ended } } = require('node:worker_threads');
const server = createServer((socket) => {
  socket.on('error', () => {});
  let timer;
  socket.on('data', (chunk) => {
    clearTimeout(timer);
    if (!chunk.toString('latin1').includes('hello') && !chunk.toString('latin1').startsWith('GET')) return;
    socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n');
    timer = setTimeout(() => socket.end(() => Atomics.add(ended, 0, 1)), idleMs);
  });
});
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

/** @param ended counts the connections that it has ended. */
async function startApp(t: Test, idleMs: number, ended: Int32Array): Promise<number> {
  const worker = new Worker(program, { eval: true, workerData: { idleMs, ended } });
  t.teardown(() => worker.terminate());
  return new Promise((resolve, reject) => worker.once('error', reject).once('message', resolve));
}

/** Nothing else happens on this thread until then, for a minute at most. */
function busyUntil(holds: () => boolean): void {
  for (const until = performance.now() + 60_000; !holds() && performance.now() < until; );
}

t.test('a POST on a connection that the app has just ended', async (t) => {
  const idleMs = 300;
  const ended = new Int32Array(new SharedArrayBuffer(4));
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: await startApp(t, idleMs, ended) });
  const client = await openClient(t, lane.port);
  const marker = [['l5d-orig-proto', 'HTTP/1.1']] as const;
  for (let id = 1; id < 20; id += 4) {
    const before = Atomics.load(ended, 0);
    client.send(headersFrame(id, requestFields('/', marker)));
    t.equal(await client.over(id), '200');
    await new Promise((resolve) => setTimeout(resolve, idleMs / 2));
    client.send(
      headersFrame(id + 2, requestFields('/', [...marker, ['content-length', '5']], 'POST'), false),
      dataFrame(id + 2, 'hello', true),
    );
    busyUntil(() => Atomics.load(ended, 0) > before);
    t.equal(await client.over(id + 2), '200', 'the POST is answered');
  }
  t.same(lane.counts.errors, []);
});
