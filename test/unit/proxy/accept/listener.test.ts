import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { loadDescriptors } from '../../../../lib/proxy/accept/descriptors.ts';
import { listen } from '../../../../lib/proxy/accept/listener.ts';
import type { Incoming } from '../../../../lib/proxy/incoming.ts';
import { loadSocketCalls, peerOf } from '../../../../lib/proxy/socket-calls.ts';
import { until, within } from '../../../support/until.ts';

const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');

const skipCalls = process.platform === 'linux' ? false : 'the calls are those of Linux';
if (!skipCalls) loadSocketCalls();

const options = [
  { name: 'TCP_NODELAY', level: 6, option: 1, value: 1 },
  { name: 'SO_KEEPALIVE', level: 1, option: 9, value: 1 },
  { name: 'TCP_KEEPIDLE', level: 6, option: 4, value: 10 },
];

t.test(
  'accepted connections have the options of their listener',
  { skip: process.platform === 'linux' ? false : 'the numbers are those of Linux' },
  async (t) => {
    const getsockopt = koffi
      .load('libc.so.6')
      .func('int getsockopt(int fd, int level, int name, _Out_ int *value, _Inout_ uint32_t *length)');
    for (const host of ['127.0.0.1', undefined]) {
      let accept: (socket: net.Socket) => void = () => {};
      const accepted = new Promise<net.Socket>((resolve) => {
        accept = resolve;
      });
      const listener = await listen({
        at: { host, port: 0 },
        isAlone: true,
        onConnection: ({ socket }) => accept(socket),
        onError: (error) => t.fail(error.message),
      });
      const client = net.connect(listener.address.port, '127.0.0.1');
      const socket = await accepted;
      const { fd } = (socket as unknown as { readonly _handle: { readonly fd: number } })._handle;
      for (const { name, level, option, value } of options) {
        const found = [0];
        t.equal(getsockopt(fd, level, option, found, [4]), 0);
        t.equal(found[0], value, `${name}, listening on ${host ?? 'every address'}`);
      }
      t.equal(socket.allowHalfOpen, true);
      client.destroy();
      socket.destroy();
      await listener.close();
    }
  },
);

t.test(
  'those that have come are accepted in one turn, as far as none of them takes long',
  { skip: skipCalls },
  async (t) => {
    const rows: readonly (readonly [
      name: string,
      isAlone: boolean,
      take: (incoming: Incoming) => void,
      turns: number[],
    ])[] = [
      ['bare', true, () => {}, [16, 16, 8]],
      ['closed at once', true, (incoming) => incoming.destroy(), [16, 16, 8]],
      ['streams', true, ({ socket }) => void socket.resume(), Array(40).fill(1)],
      ['shared with others', false, () => {}, Array(40).fill(1)],
    ];
    for (const [name, isAlone, take, turns] of rows) {
      const accepted: Incoming[] = [];
      const byTurn: number[] = [];
      let isCalled = false;
      const listener = await listen({
        at: { host: '127.0.0.1', port: 0 },
        isAlone,
        onConnection: (incoming) => {
          accepted.push(incoming);
          take(incoming);
          if (isCalled) byTurn.push((byTurn.pop() ?? 0) + 1);
          else byTurn.push(1);
          if (!isCalled) setImmediate(() => (isCalled = false));
          isCalled = true;
        },
        onError: (error) => t.fail(error.message),
      });
      const clients = Array.from({ length: 40 }, () => net.connect(listener.address.port, '127.0.0.1'));
      for (const client of clients) client.on('error', () => {});
      const ports = new Set<number | undefined>();
      await until('all of them', () => accepted.length === 40);
      t.same(byTurn, turns, name);
      if (name === 'bare') {
        for (const incoming of accepted) ports.add(peerOf(incoming)?.port);
        t.same(ports, new Set(clients.map(({ localPort }) => localPort)), 'each is who it is');
      }
      for (const incoming of accepted) incoming.destroy();
      for (const client of clients) client.destroy();
      await listener.close();
    }
  },
);

t.test(
  'a listener that is closed by what it has accepted accepts who has come, and nobody later',
  { skip: skipCalls },
  async (t) => {
    const accepted: Incoming[] = [];
    const listener = await listen({
      at: { host: '127.0.0.1', port: 0 },
      isAlone: true,
      onConnection: (incoming) => {
        accepted.push(incoming);
        if (accepted.length === 3) closed = listener.close();
      },
      onError: (error) => t.fail(error.message),
    });
    let closed: Promise<void> | null = null;
    const clients = Array.from({ length: 9 }, () =>
      net.connect(listener.address.port, '127.0.0.1').on('error', () => {}),
    );
    await until('the end of the listener', () => closed !== null);
    await closed;
    t.equal(accepted.length, clients.length);
    const [error] = await once(net.connect(listener.address.port, '127.0.0.1'), 'error');
    t.match(error, { code: 'ECONNREFUSED' });
    for (const incoming of accepted) incoming.destroy();
    for (const client of clients) client.destroy();
  },
);

/** More than wait at a listener by Node's default. */
const burst = 700;
const connectAll = `
  const net = require('node:net');
  let connected = 0;
  const end = () => { process.stdout.write(String(connected)); process.exit(); };
  for (let i = 0; i < ${burst}; i++) {
    net.connect(Number(process.argv[1]), '127.0.0.1').on('connect', () => { if (++connected === ${burst}) end(); });
  }
  setTimeout(end, 20_000);
`;

function skipBurst(): string | false {
  if (process.platform !== 'linux') return 'a second descriptor of a listener is made on Linux alone';
  const most = Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  return most < burst ? `this kernel lets ${most} connections wait at most (net.core.somaxconn)` : false;
}

t.test(
  'as many may wait at a socket that several threads share as at one of its own',
  { skip: skipBurst() },
  async (t) => {
    const descriptors = loadDescriptors();
    const onConnection = ({ socket }: { socket: net.Socket }): void => void socket.destroy();
    const serve = { isAlone: false, onConnection, onError: () => {} };
    const own = await listen({ at: { host: '127.0.0.1', port: 0 }, ...serve });
    const copy = descriptors.duplicate(own.descriptor() ?? -1);
    const shared = await listen({ at: { fd: copy ?? -1 }, ...serve });
    // Nobody accepts meanwhile: this thread waits.
    const connected = execFileSync(process.execPath, ['--eval', connectAll, String(own.address.port)], {
      encoding: 'utf8',
    });
    t.equal(Number(connected), burst);
    await shared.close();
    await own.close();
  },
);

/** Connects when it is told to, says so, and tells what has become of its connections. */
const waiting = 50;
const connectWhenTold = `
  const net = require('node:net');
  const { parentPort, workerData } = require('node:worker_threads');
  const { port, flags, waiting } = workerData;
  const ends = [];
  let connected = 0;
  Atomics.wait(flags, 0, 0);
  for (let i = 0; i < waiting; i++) {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.write('?');
      if (++connected === waiting) Atomics.store(flags, 1, 1), Atomics.notify(flags, 1);
    });
    let end = 'closed';
    socket.on('data', () => (end = 'answered')).on('error', ({ code }) => (end = code));
    socket.on('close', () => ends.push(end) === waiting && parentPort.postMessage(ends));
  }
`;

t.test(
  'who waits to be accepted when a listener closes is accepted however long all of them take, and then nobody',
  { skip: skipCalls },
  async (t) => {
    const busy = new Int32Array(new SharedArrayBuffer(4));
    const listener = await listen({
      at: { host: '127.0.0.1', port: 0 },
      isAlone: false,
      onConnection: ({ socket }) => {
        socket.end('!').resume();
        // All of them take longer than anybody who comes only then would be waited for.
        Atomics.wait(busy, 0, 0, 10);
      },
      onError: (error) => t.fail(error.message),
    });
    const { port } = listener.address;
    const flags = new Int32Array(new SharedArrayBuffer(8));
    const clients = new Worker(connectWhenTold, { eval: true, workerData: { port, flags, waiting } });
    const ended = once(clients, 'message');
    Atomics.store(flags, 0, 1);
    Atomics.notify(flags, 0);
    // Nobody accepts meanwhile: this thread waits.
    t.equal(Atomics.wait(flags, 1, 0, 60_000), 'ok');
    await within('the listener to close', 5_000, listener.close());
    const [ends] = (await within('the ends of all', 5_000, ended)) as [string[]];
    t.same(ends, Array(waiting).fill('answered'));
    const [error] = await once(net.connect(port, '127.0.0.1'), 'error');
    t.match(error, { code: 'ECONNREFUSED' });
    await clients.terminate();
  },
);
