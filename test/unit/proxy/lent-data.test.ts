import type { Socket } from 'node:net';
import t from 'tap';
import { putBack } from '../../../lib/proxy/detect/peek.ts';
import { isLent, lendData } from '../../../lib/proxy/lent-data.ts';
import { lendReads } from '../../../lib/proxy/node-streams.ts';
import { connectedPair } from '../../support/lane-stage.ts';
import type { RawClient } from '../../support/raw-http.ts';
import { spoiltReads } from '../../support/spoilt-loans.ts';
import { until } from '../../support/until.ts';

interface Told {
  readonly client: RawClient;
  readonly socket: Socket;
  /** What came, in order: lent, or as `data`. */
  readonly came: string[];
  /** Nobody takes what is lent any more. */
  leave(): void;
}

interface Row {
  readonly name: string;
  readonly run: (told: Told) => void | Promise<void>;
  readonly came: readonly string[];
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Sends it, and waits until the kernel has been asked for it, or has had the time to be. */
async function sent({ client }: Told, text: string): Promise<void> {
  client.send(Buffer.from(text));
  for (let i = 0; i < 20; i++) await turn();
}

const rows: readonly Row[] = [
  { name: 'what is read is lent', run: (told) => sent(told, 'a'), came: ['lent a'] },
  {
    name: 'what comes after `pause` waits',
    run: async (told) => {
      told.socket.pause();
      await sent(told, 'a');
      told.came.push('resumed');
      told.socket.resume();
    },
    came: ['resumed', 'lent a'],
  },
  {
    name: 'also where `resume` came just before',
    run: async (told) => {
      told.socket.pause();
      told.socket.resume();
      told.socket.pause();
      await sent(told, 'a');
      told.came.push('resumed');
      told.socket.resume();
    },
    came: ['resumed', 'lent a'],
  },
  {
    name: 'what was put back comes first, and what comes while that waits is no loan',
    run: async (told) => {
      putBack(told.socket, Buffer.from('a'));
      for (let i = 0; i < 5; i++) await turn();
      await sent(told, 'b');
      told.came.push('resumed');
      told.socket.resume();
      await until('both', () => told.came.join('').endsWith('b'));
      await sent(told, 'c');
    },
    came: ['resumed', 'data a', 'data b', 'lent c'],
  },
  {
    name: 'what nobody takes is `data`',
    run: async (told) => {
      told.leave();
      await sent(told, 'a');
      told.socket.pause();
      await sent(told, 'b');
      told.socket.resume();
    },
    came: ['data a', 'data b'],
  },
  {
    name: 'the end is told behind it',
    run: async (told) => {
      told.socket.pause();
      told.client.send(Buffer.from('a'));
      told.client.halfClose();
      for (let i = 0; i < 20; i++) await turn();
      told.socket.resume();
    },
    came: ['lent a', 'end'],
  },
];

for (const { name, run, came } of rows) {
  t.test(name, async (t) => {
    const { client, socket } = await connectedPair(t);
    let isTaken = true;
    const kept: [Buffer, string][] = [];
    const told: Told = {
      client,
      socket,
      came: [],
      leave: () => {
        isTaken = false;
      },
    };
    socket.on('data', (bytes: Buffer) => {
      t.notOk(isLent(bytes), '`data` is nobody else`s');
      kept.push([bytes, bytes.toString()]);
      told.came.push(`data ${bytes}`);
    });
    socket.on('end', () => told.came.push('end'));
    const before = spoiltReads;
    const lends = lendData(socket, (bytes) => {
      t.ok(isLent(bytes));
      if (isTaken) told.came.push(`lent ${bytes}`);
      return isTaken;
    });
    t.ok(lends);
    await run(told);
    await until(came.join(), () => told.came.length >= came.length);
    // A read that came while the stream was paused may have gone either way: which, is no matter.
    const plain = (list: readonly string[]): string[] => list.map((line) => line.replace(/^(?:lent|data) /, ''));
    t.same(plain(told.came), plain(came));
    for (const [bytes, text] of kept) t.equal(bytes.toString(), text, 'it stays as it was');
    t.ok(spoiltReads > before, 'while what was lent does not');
  });
}

for (const isAsked of [true, false]) {
  const where = isAsked ? 'by a function that is asked after each read' : 'once for all';
  t.test(`who takes over within a read has the next ones in buffers of its own, first lent ${where}`, async (t) => {
    const { client, socket } = await connectedPair(t);
    const came: string[] = [];
    const earlier = Buffer.alloc(100);
    const own = Buffer.alloc(100);
    const later = {
      buffer: () => own,
      callback: (length: number) => {
        came.push(`later ${own.subarray(0, length)}`);
        return true;
      },
    };
    lendReads(socket, {
      buffer: isAsked ? () => earlier : earlier,
      callback: (length) => {
        came.push(`earlier ${earlier.subarray(0, length)}`);
        lendReads(socket, later);
        return true;
      },
    });
    socket.resume();
    for (const [index, text] of ['a', 'b', 'c'].entries()) {
      client.send(Buffer.from(text));
      await until('the read', () => came.length > index);
    }
    t.same(came, ['earlier a', 'later b', 'later c']);
  });
}
