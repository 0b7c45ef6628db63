import t from 'tap';
import { readLimits } from '../../lib/config/limits.ts';
import { VariableReader } from '../../lib/config/variables.ts';
import { connectionCosts, memoryPlan, requestCost } from '../../lib/memory-plan.ts';

const MiB = 2 ** 20;

t.test('all maxima together are within the memory, whatever it is', async (t) => {
  for (const memory of [128, 192, 256, 512, 1024, 24_000].map((mib) => mib * MiB)) {
    for (const heap of [64, 256, 4144].map((mib) => mib * MiB)) {
      for (const workers of [1, 2]) {
        const plan = memoryPlan(memory, heap, workers);
        const { program, connections, requests, waiting, heads, spare, kind } = plan;
        const name = `${memory / MiB} MiB, a heap of ${heap / MiB}, ${workers} workers`;
        t.equal(program, (44 + (workers - 1) * 36) * MiB, name);
        t.ok(program + connections + requests + waiting + heads + spare <= memory, `${name}: ${JSON.stringify(plan)}`);
        t.equal(kind, 'ample', name);
      }
    }
  }
});

t.test('what has no room is told as that', async (t) => {
  t.equal(memoryPlan(64 * MiB, 256 * MiB, 1).kind, 'short');
  t.equal(memoryPlan(120 * MiB, 256 * MiB, 2).kind, 'short');
  const machine = { memoryBytes: () => 48 * MiB, heapBytes: () => 256 * MiB, descriptors: () => 1024 };
  const { limits, warnings } = readLimits(new VariableReader({}), machine, 1);
  t.match(warnings, [{ code: 'short-memory' }]);
  t.ok(limits.maxConnections >= 8 && limits.maxInFlight >= 8 && limits.maxBufferedBytes >= MiB, 'a few are served');
});

/** The worst that each limit alone allows, with the defaults of such a container. */
const rows = [64, 128, 256, 512];

t.test('no mix of connections is beyond their part, and each limit alone is within its own', async (t) => {
  for (const mib of rows) {
    const machine = { memoryBytes: () => mib * MiB, heapBytes: () => 262 * MiB, descriptors: () => 1_000_000 };
    const plan = memoryPlan(mib * MiB, 262 * MiB, 1);
    const { limits, warnings } = readLimits(new VariableReader({}), machine, 1);
    t.same(
      warnings.map(({ code }) => code),
      mib < 92 ? ['short-memory'] : [],
    );
    t.equal(limits.maxConnectionBytes, plan.connections);
    t.ok(limits.maxConnections * connectionCosts.plain <= plan.connections, `${limits.maxConnections} plain ones`);
    t.ok(limits.maxHandshakes * connectionCosts.handshake <= plan.connections, `${limits.maxHandshakes} handshakes`);
    t.ok(limits.maxDetecting * connectionCosts.plain <= plan.connections, `${limits.maxDetecting} new ones`);
    t.ok(limits.maxInFlight * requestCost <= plan.requests, `${limits.maxInFlight} requests`);
    t.ok(limits.maxPendingConnects * requestCost <= plan.requests);
    t.equal(limits.maxBufferedBytes, plan.waiting);
  }
});

t.test('nine thousand eight hundred idle connections have room in 256 MiB', async (t) => {
  t.ok(memoryPlan(256 * MiB, 262 * MiB, 1).connections / connectionCosts.plain > 9800);
});

t.test('a machine without a limit has those that it always had', async (t) => {
  const machine = { memoryBytes: () => 24_000 * MiB, heapBytes: () => 4192 * MiB, descriptors: () => 1_000_000 };
  const { limits } = readLimits(new VariableReader({}), machine, 1);
  t.match(limits, {
    maxConnections: 499_968,
    maxDetecting: 10_000,
    maxHandshakes: 5000,
    maxPendingConnects: 10_000,
    maxInFlight: 100_000,
    maxBufferedBytes: 256 * MiB,
  });
});

t.test('what V8 may use bounds what is kept in its heap', async (t) => {
  const plan = memoryPlan(24_000 * MiB, 128 * MiB, 1);
  t.ok(plan.connections * (2 / 3) + plan.requests + plan.heads < 128 * MiB);
});
