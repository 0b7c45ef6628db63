import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import t from 'tap';
import { loadDescriptors } from '../../../../lib/proxy/accept/descriptors.ts';
import { listen } from '../../../../lib/proxy/accept/listener.ts';

const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');

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
    const serve = { onConnection: ({ socket }: { socket: net.Socket }) => void socket.destroy(), onError: () => {} };
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
