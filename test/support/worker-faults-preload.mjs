// Loaded into every thread of a proxy under test (NODE_OPTIONS=--import). In a further worker it listens for orders on a
// socket of its own, so that a test can end or hold the thread from inside, for which the proxy itself has no way.

import { syncBuiltinESMExports } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import threads, { isMainThread, workerData } from 'node:worker_threads';

// As the system does where a limit on threads is reached (pids.max).
let refusals = isMainThread ? Number(process.env.WORKER_REFUSALS ?? 0) : 0;
if (refusals > 0) {
  threads.Worker = class extends threads.Worker {
    constructor(file, options) {
      // The thread that parses policy is none that serves.
      if (options?.workerData?.worker !== undefined && refusals-- > 0)
        throw new Error('Worker initialization failure: EAGAIN');
      super(file, options);
    }
  };
  syncBuiltinESMExports();
}

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
      // Numbers, in which a collector looks for nothing: else a busy machine takes longer than the watchdog waits.
      const kept = [];
      for (;;) kept.push(new Array(100_000).fill(1.5));
    },
    hang: (socket) => {
      // It leaves before this thread stands still: a write to a local socket goes at once.
      socket.write('stands still\n');
      for (;;);
    },
  };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (order) => {
      const answer = orders[String(order).trim()](socket);
      socket.end(`${answer ?? 'done'}\n`);
    });
  });
  server.listen(join(folder, `${workerData.worker}.${process.pid}.${Date.now()}.sock`)).unref();
}
