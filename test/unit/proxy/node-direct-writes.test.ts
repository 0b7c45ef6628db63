import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import t from 'tap';
import { writeJoined } from '../../../lib/proxy/http1/joined-write.ts';
import { outletOf, writeWaiting } from '../../../lib/proxy/node-writes.ts';
import { type SecuredPair, securedPair } from '../../support/secured-pair.ts';
import { until } from '../../support/until.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** All that the peer reads, and its end. */
function reading(socket: Socket): { text(): string; ended(): boolean } {
  const pieces: Buffer[] = [];
  let ended = false;
  socket.on('data', (bytes: Buffer) => pieces.push(bytes));
  socket.on('end', () => {
    ended = true;
  });
  return { text: () => Buffer.concat(pieces).toString('latin1'), ended: () => ended };
}

/** How often Node's own way is taken, of a stream whose outlet is there already. */
function streamWrites({ secure }: SecuredPair): () => number {
  const { _write } = TLSSocket.prototype;
  let count = 0;
  TLSSocket.prototype._write = function (chunk, encoding, done) {
    if (this === secure) count++;
    _write.call(this, chunk, encoding, done);
  };
  return () => {
    TLSSocket.prototype._write = _write;
    return count;
  };
}

t.test('a response over TLS leaves past the stream, which knows nothing of it', async (t) => {
  const pair = await securedPair(t);
  const { client, secure } = pair;
  const read = reading(client);
  const outlet = outletOf(secure);
  const count = streamWrites(pair);
  let expected = '';
  for (let i = 0; i < 300; i++) {
    const text = `response ${i} ${'x'.repeat(i)}\n`;
    expected += text;
    const length = text.length >> 1;
    if (i % 2 === 0) t.ok(outlet.text(text));
    else t.equal(outlet.copy(text.slice(0, length), Buffer.from(text.slice(length)), text.length - length), true);
    await until('the peer to have it', () => read.text().length === expected.length);
  }
  t.equal(read.text(), expected);
  t.equal(count(), 0);
  t.equal(secure.writableLength, 0);
});

t.test('what one turn has for a peer is one record of TLS, its own alone', async (t) => {
  const rows: readonly (readonly [string, (secure: Socket, lent: Buffer) => void, records: readonly string[]])[] = [
    ['a head and its content', (secure, lent) => writeJoined(secure, 'head ', lent, true), ['head lent']],
    [
      'two responses',
      (secure, lent) => {
        writeJoined(secure, 'one ', lent, true);
        writeJoined(secure, ' two ', lent, true);
      },
      ['one lent two lent'],
    ],
    [
      'a head that goes before, and a response',
      (secure, lent) => {
        outletOf(secure).text('early ');
        writeJoined(secure, 'head ', lent, true);
      },
      ['early head lent'],
    ],
    [
      'more than one record holds',
      (secure) => {
        writeJoined(secure, '', Buffer.alloc(10_000, 'a'), false);
        writeJoined(secure, '', Buffer.alloc(10_000, 'b'), false);
      },
      ['a'.repeat(10_000), 'b'.repeat(10_000)],
    ],
  ];
  for (const [name, run, records] of rows) {
    const [one, other] = [await securedPair(t), await securedPair(t)];
    const came: [string[], string[]] = [[], []];
    for (const [at, { client }] of [one, other].entries()) {
      client.on('data', (bytes: Buffer) => came[at]?.push(bytes.toString('latin1')));
    }
    for (const { secure } of [one, other]) {
      const lent = Buffer.from('lent');
      run(secure, lent);
      lent.fill('!');
    }
    await until(`${name} to arrive`, () => came.every((texts) => texts.join('').length >= records.join('').length));
    t.same(came, [records, records], name);
  }
  const [one, other] = [await securedPair(t), await securedPair(t)];
  const texts = [reading(one.client), reading(other.client)];
  for (const each of ['1', '2', '3']) {
    for (const [at, { secure }] of [one, other].entries()) writeJoined(secure, `${at}:`, Buffer.from(each), true);
  }
  await until('all that was written in turns', () => texts.every(({ text }) => text().length >= 9));
  t.same(
    texts.map(({ text }) => text()),
    ['0:10:20:3', '1:11:21:3'],
    'what is between them is of another',
  );
});

t.test('order, whatever is written by which way, and when', async (t) => {
  /** The same numbers for the same seed. */
  const numbers = (seed: number): (() => number) => {
    let n = 0;
    return () => createHash('sha256').update(`${seed} ${n++}`).digest().readUInt32LE() / 2 ** 32;
  };
  for (let seed = 0; seed < 12; seed++) {
    const { client, secure } = await securedPair(t);
    const random = numbers(seed);
    const read = reading(client);
    const outlet = outletOf(secure);
    let expected = '';
    for (let i = 0; i < 120; i++) {
      const size = Math.floor(random() ** 4 * 40_000);
      const text = `${i}:${String.fromCharCode(97 + (i % 26)).repeat(size)};`;
      const way = random();
      if (way < 0.35) {
        outlet.text(text);
      } else if (way < 0.6) {
        const bytes = Buffer.from(text);
        if (outlet.copy('', bytes, bytes.length) === null) secure.write(Buffer.from(text));
        bytes.fill('!');
      } else if (way < 0.68) {
        const bytes = Buffer.from(text);
        const at = Math.floor(random() * Math.min(bytes.length, 900));
        writeJoined(secure, text.slice(0, at), bytes.subarray(at), true);
        bytes.fill('!');
      } else if (way < 0.75) {
        secure.write(text, 'latin1');
      } else {
        outlet.text(text);
        writeWaiting(secure);
      }
      expected += text;
      const then = random();
      if (then < 0.2) await nextTurn();
      else if (then < 0.25) await new Promise((resolve) => setTimeout(resolve, 1));
      else if (then < 0.28) client.pause();
      else if (then < 0.4) client.resume();
    }
    client.resume();
    if (seed % 2 === 0) secure.end('end');
    else {
      outlet.text('end');
      secure.destroySoon();
    }
    await until('the end', () => read.ended());
    t.equal(read.text(), `${expected}end`, `seed ${seed}`);
    client.destroy();
  }
});

t.test('a peer that does not read is seen by what the stream holds', async (t) => {
  const { client, secure } = await securedPair(t);
  client.pause();
  const outlet = outletOf(secure);
  const text = 'x'.repeat(16 * 1024);
  let written = 0;
  while (secure.writableLength === 0 && written < 64 * 2 ** 20) {
    outlet.text(text);
    written += text.length;
    await nextTurn();
    await nextTurn();
  }
  t.ok(secure.writableLength > 0);
  let mayGoOn = true;
  for (let i = 0; i < 4; i++) {
    mayGoOn = outlet.text(text);
    written += text.length;
  }
  t.notOk(mayGoOn);
  const drained = new Promise((resolve) => secure.once('drain', resolve));
  const read = reading(client);
  client.resume();
  await drained;
  outlet.text('end');
  await until('all of it', () => read.text().length === written + 3);
  await until('the stream to be empty', () => secure.writableLength === 0);
});

/** As if Node did not keep what TLS writes to, for the outlet of this one. */
function byStream({ secure }: SecuredPair): void {
  const handle = (secure as unknown as { readonly _handle: { _parent: unknown } })._handle;
  const { _parent: parent } = handle;
  handle._parent = null;
  outletOf(secure);
  handle._parent = parent;
}

t.test('a connection that ends with a write in flight ends as one of Node`s own writes does', async (t) => {
  const rows: readonly (readonly [string, (pair: SecuredPair) => unknown, string])[] = [
    ['destroyed', ({ secure }) => secure.destroy(), 'one'],
    ['ended', ({ secure }) => secure.end(), 'one'],
    ['ended behind another', ({ secure }) => outletOf(secure).text('two') && secure.end('three'), 'onetwothree'],
    ['destroyed soon', ({ secure }) => secure.destroySoon(), 'one'],
    ['destroyed soon behind another', ({ secure }) => outletOf(secure).text('two') && secure.destroySoon(), 'onetwo'],
    ['its socket destroyed', ({ raw }) => raw.destroy(), 'one'],
  ];
  for (const [name, end, expected] of rows) {
    const outcomes: unknown[] = [];
    for (const way of ['direct', 'by the stream'] as const) {
      const pair = await securedPair(t);
      // What the handshake has to say is said.
      pair.client.write('x');
      await once(pair.secure, 'data');
      if (way === 'by the stream') byStream(pair);
      const read = reading(pair.client);
      const errors: unknown[] = [];
      let closed = 0;
      pair.secure.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code)).on('close', () => closed++);
      const outlet = outletOf(pair.secure);
      outlet.text('one');
      writeWaiting(pair.secure);
      end(pair);
      pair.client.on('end', () => pair.client.end());
      await until(`the close, ${name}, ${way}`, () => closed === 1 && pair.client.destroyed);
      t.equal(read.text(), expected, `${name}, ${way}`);
      outcomes.push(errors);
      outlet.text('late');
      writeWaiting(pair.secure);
      await nextTurn();
    }
    t.same(outcomes[0], outcomes[1], `errors, ${name}`);
  }
});

t.test('a peer that has reset the connection is an error, once', async (t) => {
  for (const count of [1, 3]) {
    const { client, secure } = await securedPair(t);
    const errors: (string | undefined)[] = [];
    let closed = false;
    secure.on('error', ({ code }: NodeJS.ErrnoException) => errors.push(code));
    secure.on('close', () => {
      closed = true;
    });
    const outlet = outletOf(secure);
    // What it has not read makes a reset of its end.
    client.pause();
    for (let i = 0; i < 40; i++) secure.write('x'.repeat(16 * 1024));
    await until('the peer to have some of it', () => client.bytesRead > 0);
    client.destroy();
    while (!closed) {
      for (let i = 0; i < count; i++) {
        outlet.text('x');
        writeWaiting(secure);
      }
      await nextTurn();
    }
    t.equal(errors.length, 1);
    t.match(errors[0], /^E(PIPE|CONNRESET)$/);
  }
});

t.test('without what TLS writes to each write is the stream`s', async (t) => {
  const pair = await securedPair(t);
  byStream(pair);
  const outlet = outletOf(pair.secure);
  const count = streamWrites(pair);
  const read = reading(pair.client);
  outlet.text('one');
  outlet.text('two');
  await until('both', () => read.text() === 'onetwo');
  t.equal(count(), 2);
});
