// Loaded into every thread of a proxy under test (NODE_OPTIONS=--import). In a further worker it listens for orders on a
// socket of its own, so that a test can end or hold the thread from inside, for which the proxy itself has no way.
import { createServer } from 'node:net';
import { join } from 'node:path';
import { isMainThread, workerData } from 'node:worker_threads';

const folder = process.env.WORKER_FAULTS;
if (!isMainThread && folder !== undefined && typeof workerData?.worker === 'number') {
  const orders = {
    sockets: () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length,
    exit: () => process.exit(7),
    throw: () => {
      setImmediate(() => {
        throw new Error('thrown by a test');
      });
    },
    exhaust: () => {
      const kept = [];
      for (;;) kept.push(new Array(1_000_000).fill(kept));
    },
    hang: () => {
      for (;;);
    },
  };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (order) => {
      const answer = orders[String(order).trim()]();
      socket.end(`${answer ?? 'done'}\n`);
    });
  });
  server.listen(join(folder, `${workerData.worker}.${process.pid}.${Date.now()}.sock`)).unref();
}
