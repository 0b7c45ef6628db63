import { createRequire } from 'node:module';
import net from 'node:net';
import t from 'tap';
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
