import t from 'tap';
import { noKeeper } from '../../../lib/proxy/kept.ts';
import { isLent, lendData } from '../../../lib/proxy/lent-data.ts';
import { letRead } from '../../../lib/proxy/node-handles.ts';
import { DataReader } from '../../../lib/proxy/tcp/lent-reads.ts';
import '../../support/spoilt-loans.ts';
import { endOfTurn } from '../../support/connection.ts';
import { connectedPair } from '../../support/lane-stage.ts';
import { type SecuredPair, securedPair } from '../../support/secured-pair.ts';
import { until } from '../../support/until.ts';

/** As many records of TLS, which are all there when the first is read. */
async function sendTogether({ client, raw }: SecuredPair, records: readonly string[]): Promise<void> {
  // A stream that was told to read begins in a turn of its own.
  for (let i = 0; i < 5; i++) await endOfTurn();
  letRead(raw, false);
  // Written at once, they would be one record.
  for (const text of records) await new Promise((resolve) => client.write(text, resolve));
  letRead(raw, true);
}

t.test('records that are read at once are lent one after the other, and a pause between them holds', async (t) => {
  const pair = await securedPair(t);
  const { client, secure } = pair;
  const came: string[] = [];
  const kept: [Buffer, string][] = [];
  secure.on('data', (bytes: Buffer) => {
    t.notOk(isLent(bytes), '`data` is nobody else`s');
    kept.push([bytes, bytes.toString()]);
    came.push(`data ${bytes}`);
  });
  secure.on('end', () => came.push('end'));
  t.ok(
    lendData(secure, (bytes) => {
      came.push(`lent ${bytes}`);
      if (bytes.toString() === 'b') secure.pause();
      return true;
    }),
  );
  secure.resume();
  await sendTogether(pair, ['a', 'b', 'c', 'd']);
  await until('the pause', () => came.length >= 2);
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
  t.same(came, ['lent a', 'lent b'], 'what was read behind the pause waits');
  came.push('resumed');
  secure.resume();
  await until('the rest', () => came.length >= 4);
  client.write('e');
  await until('what comes later', () => came.join('').endsWith('e'));
  client.end();
  await until('the end', () => came.at(-1) === 'end');
  t.equal(came.join(' ').replaceAll('data ', ''), 'lent a lent b resumed c d lent e end');
  for (const [bytes, text] of kept) t.equal(bytes.toString(), text, 'and stays as it was');
});

t.test('more than a record, and more than the buffer that is lent', async (t) => {
  const pair = await securedPair(t);
  let received = '';
  t.ok(
    lendData(pair.secure, (bytes) => {
      received += bytes.toString('latin1');
      return true;
    }),
  );
  pair.secure.resume();
  const sent = Array.from({ length: 40_000 }, (_, i) => i.toString(36).padStart(5, '.')).join('');
  pair.client.write(sent);
  await until('all of it', () => received.length >= sent.length);
  t.equal(received === sent, true, 'byte for byte');
});

t.test('lent again, it keeps no second buffer', async (t) => {
  const [inside, plain] = [await securedPair(t), await connectedPair(t)];
  for (const [client, socket] of [
    [inside.client, inside.secure],
    [plain.client.socket, plain.socket],
  ] as const) {
    const { _handle: handle } = socket as unknown as { readonly _handle: { useUserBuffer(buffer: Buffer): void } };
    const { useUserBuffer } = handle;
    let told = 0;
    handle.useUserBuffer = (buffer) => {
      told++;
      useUserBuffer.call(handle, buffer);
    };
    const came: string[] = [];
    for (const turn of ['first', 'second', 'third']) {
      lendData(socket, (bytes) => {
        came.push(`${turn} ${bytes}`);
        return true;
      });
      socket.resume();
      const before = came.length;
      client.write('a');
      await until('it', () => came.length > before);
    }
    t.same(came, ['first a', 'second a', 'third a'], 'who asked last gets it');
    t.equal(told, 1);
  }
});

t.test('a tunnel takes no loans of TLS: records come on where its ring is full', async (t) => {
  const { secure, client } = await securedPair(t);
  secure.resume();
  t.notOk(new DataReader(secure, client, noKeeper).lend());
});
