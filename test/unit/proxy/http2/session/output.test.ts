import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { Output } from '../../../../../lib/proxy/http2/session/output.ts';
import { frameType, maxPayload } from '../../../../../lib/proxy/http2/session/protocol.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import { connection, endOfTurn } from '../../../../support/connection.ts';
import { securedPair } from '../../../../support/secured-pair.ts';
import { turns, until } from '../../../../support/until.ts';

/** Our end of a connection, and the peer's. */
type Ends = readonly [near: Socket, far: Socket];

const kinds: readonly [name: string, connect: (t: Test) => Promise<Ends>][] = [
  ['plain', connection],
  [
    'TLS',
    async (t) => {
      const { client, secure } = await securedPair(t);
      return [secure, client];
    },
  ],
];

interface Sent {
  readonly output: Output;
  readonly near: Socket;
  readonly far: Socket;
  /** One frame of DATA, of these bytes. */
  data(length: number): void;
  /** How often the socket has had room again. */
  drains(): number;
  /** The peer gets all that was sent, as it was sent. */
  arrives(): Promise<void>;
}

async function sending(t: Test, connect: (t: Test) => Promise<Ends>): Promise<Sent> {
  const [near, far] = await connect(t);
  let drained = 0;
  const output = new Output(near, near, noKeeper, () => drained++);
  const [sent, received] = [createHash('sha256'), createHash('sha256')];
  let [sentBytes, receivedBytes] = [0, 0];
  far.on('data', (bytes: Buffer) => {
    received.update(bytes);
    receivedBytes += bytes.length;
  });
  let fill = 0;
  return {
    output,
    near,
    far,
    data: (length) => {
      const at = output.frame(frameType.data, 0, 1, length);
      output.buffer.fill(++fill, at, at + length);
      sent.update(output.buffer.subarray(at - 9, at + length));
      sentBytes += 9 + length;
    },
    drains: () => drained,
    arrives: async () => {
      await until('all of it', () => receivedBytes === sentBytes, { timeoutMs: 20_000 });
      t.equal(received.digest('hex'), sent.digest('hex'), 'each byte once, in order');
    },
  };
}

for (const [name, connect] of kinds) {
  t.test(
    `${name}: what a turn has for a peer that reads leaves past the stream, which knows nothing of it`,
    async (t) => {
      const { output, near, data, arrives } = await sending(t, connect);
      let writes = 0;
      const write = near.write.bind(near) as (...args: unknown[]) => boolean;
      Object.assign(near, {
        write: (...args: unknown[]) => {
          writes++;
          return write(...args);
        },
      });
      for (let turn = 0; turn < 50; turn++) {
        for (const length of [5, turn, 100]) data(length);
        t.ok(output.pending > 105, 'it waits for the end of the turn');
        await endOfTurn();
        t.notOk(output.blocked);
        // TLS says a turn later that it is done with a write, and the stream waits for that.
        await endOfTurn();
        await endOfTurn();
      }
      await arrives();
      t.equal(writes, 0);
      t.equal(output.pending, 0);
    },
  );

  t.test(`${name}: a peer that does not read blocks, and what it has not taken is nobody else's`, async (t) => {
    const { output, far, data, drains, arrives } = await sending(t, connect);
    const other = await sending(t, connect);
    far.pause();
    let [most, blockedTurns] = [0, 0];
    // TLS is busy for a turn behind each write.
    for (let turn = 0; blockedTurns < 5; turn++) {
      // More than one write in a turn, and a second connection that writes from the same buffers.
      for (let frame = 0; frame < 5 && !output.blocked; frame++) data(maxPayload - (turn % 1000));
      if (turn < 100) other.data(turn);
      await endOfTurn();
      most = Math.max(most, output.pending);
      blockedTurns = output.blocked ? blockedTurns + 1 : 0;
    }
    t.ok(output.pending > 0);
    t.ok(most < 1024 * 1024, `${most} bytes waited`);
    const before = drains();
    far.resume();
    await until('room again', () => !output.blocked);
    t.equal(drains(), before + 1);
    data(10);
    await arrives();
    await other.arrives();
    t.equal(output.pending, 0);
  });
}

for (const [name, connect] of kinds) {
  t.test(`${name}: a few bytes a turn for a peer that reads nothing take a few bytes`, async (t) => {
    const { output, near, far, data, arrives } = await sending(t, connect);
    far.pause();
    await until('what the system takes', async () => {
      for (let frames = 0; frames < 8; frames++) data(16_384);
      await turns(1);
      return output.blocked;
    });
    const before = process.memoryUsage().arrayBuffers;
    for (let turn = 0; turn < 300; turn++) {
      data(8);
      await turns(1);
    }
    const more = process.memoryUsage().arrayBuffers - before;
    t.ok(near.writableLength >= 300 * 17, 'all of them wait');
    t.ok(more < 1 << 20, `${more} bytes more`);
    far.resume();
    await arrives();
  });
}
