import { createHash } from 'node:crypto';
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import t from 'tap';
import { writeJoined } from '../../../../lib/proxy/http1/joined-write.ts';
import { systemWrites } from '../../../support/system-writes.ts';
import { until } from '../../../support/until.ts';

/** A socket, and what its peer has got; the peer reads nothing before it is let. */
async function pair(): Promise<{ socket: net.Socket; peer: net.Socket; got: () => Buffer }> {
  const server = net.createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[peer]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [
    [net.Socket],
    unknown,
  ];
  const chunks: Buffer[] = [];
  peer.on('data', (chunk: Buffer) => chunks.push(chunk));
  t.teardown(() => {
    socket.destroy();
    peer.destroy();
    server.close();
  });
  return { socket, peer, got: () => Buffer.concat(chunks) };
}

const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const sizes = [0, 1, 1024, 1025, 8 * 1024 + 1, 32 * 1024, 32 * 1024 + 1, 100_000];

t.test('a head and its content arrive as they were, whatever becomes of the buffers', async (t) => {
  for (const corked of [false, true]) {
    const { socket, peer, got } = await pair();
    const expected: Buffer[] = [];
    const lent = Buffer.alloc(100_000);
    let written = 0;
    // Far more than the system takes at once: most of it waits in this process.
    for (let round = 0; written < 24 * 1024 * 1024; round++) {
      for (const size of sizes) {
        const head = `${'\xe9'.repeat(1 + (round % 300))}\r\n`;
        lent.fill(round % 251, 0, size);
        const content = lent.subarray(0, size);
        expected.push(Buffer.from(head, 'latin1'), Buffer.from(content));
        written += head.length + size;
        if (corked) socket.cork();
        writeJoined(socket, head, content, true);
        if (corked) process.nextTick(() => socket.uncork());
        lent.fill(0xff);
      }
    }
    const whole = Buffer.concat(expected);
    t.ok(socket.writableLength > 0, 'the peer is slow');
    peer.resume();
    await until('all to arrive', () => got().length === whole.length, { timeoutMs: 20_000, everyMs: 50 });
    t.equal(hash(got()), hash(whole), corked ? 'held back' : 'at once');
  }
});

t.test('what is small is one write', async (t) => {
  const { socket, peer, got } = await pair();
  const whole = systemWrites(socket);
  for (const size of [0, 5, 5000, 32 * 1024]) {
    writeJoined(socket, 'head', Buffer.alloc(size), false);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.same(whole, [4, 9, 5004, 32 * 1024 + 4]);
  peer.resume();
  await until('all to arrive', () => got().length === 4 + 9 + 5004 + 32 * 1024 + 4);
});
